"""Short ways to make what the tests of the core are about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

from muster_core.config import load_configuration
from muster_core.config.document import from_python
from muster_core.config.model import Configuration, Limits, QueueConfig, Settings
from muster_core.events import AddAsk
from muster_core.owners.asks import Allocation, AppIdentity, Ask
from muster_core.resources import Resources
from muster_core.structures.shapes import Shape

_positions = count(1)

Queue = dict[str, object]


MAY_CREATE: Final = {"queue.create": "enabled"}
"""The properties of a parent below which applications create queues."""


def queue(name: str, *children: Queue, **fields: object) -> Queue:
    """Give a queue as a file would have it."""
    built: Queue = {"name": name, **fields}
    if children:
        built["queues"] = list(children)
    return built


def configuration(
    *queues: Queue, props: Mapping[str, str] | None = None, **partition: object
) -> Configuration:
    """Load a configuration of one partition with these queues below root."""
    root: Queue = {"name": "root", "queues": list(queues), "properties": dict(props or {})}
    written = {"name": "default", "queues": [root], **partition}
    return load_configuration(from_python({"partitions": [written]}))


def queue_config(
    path: str = "root.a",
    *,
    is_parent: bool = False,
    guaranteed: Mapping[str, int] | None = None,
    max: Mapping[str, int] | None = None,  # noqa: A002
    fence: bool = False,
    offset: int = 0,
) -> QueueConfig:
    """Give the configuration of one queue, everything else as by default."""
    return QueueConfig(
        name=path.rpartition(".")[2],
        path=path,
        is_parent=is_parent,
        guaranteed=Resources(guaranteed),
        max=Limits.of(max or {}),
        settings=Settings(fence=fence, offset=offset),
    )


def shape(
    node: str | None = None, selector: Sequence[tuple[str, str]] = (), **amounts: int
) -> Shape:
    """Give a shape."""
    return Shape(Resources(amounts), tuple(selector), node)


def ask(
    name: str = "x",
    priority: int = 0,
    *,
    run_for_us: int | None = None,
    of: Shape | None = None,
    **amounts: int,
) -> Ask:
    """Give an ask, newer than all that were made before."""
    position = next(_positions)
    wanted = of if of is not None else Shape(Resources(amounts or {"vcore": 1}))
    return Ask(
        rank=-priority,
        creation=position,
        group="",
        seq=position,
        number=0,
        name=name,
        resources=wanted.resources,
        shape=wanted,
        priority=priority,
        run_for_us=run_for_us,
    )


def allocation(of: Ask, node: str = "n", number: int = 1) -> Allocation:
    """Give an allocation of an ask."""
    return Allocation(of, node, number)


def identity(key: int = 1, name: str = "app", *, skip_starting: bool = False) -> AppIdentity:
    """Give an application of the queue root.a."""
    return AppIdentity(key, name, 2, "root.a", skip_starting)


def wish(
    app: str = "app",
    name: str = "x",
    priority: int | None = None,
    *,
    count: int | None = None,
    node: str | None = None,
    selector: Mapping[str, str] | None = None,
    run_for_us: int | None = None,
    retries: int = 0,
    gang: str | None = None,
    **amounts: int,
) -> AddAsk:
    """Give the event of an ask, of one millicore if no amount is given."""
    return AddAsk(
        app=app,
        ask=name,
        resources=Resources(amounts or {"vcore": 1}),
        priority=priority,
        count=count,
        node=node,
        selector=selector or {},
        run_for_us=run_for_us,
        retries=retries,
        gang=gang,
    )
