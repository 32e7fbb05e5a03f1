"""The workloads with targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, final

import attrs

from muster_core.config.model import (
    Configuration,
    LimitEntry,
    Limits,
    QueueConfig,
    Settings,
    SortPolicy,
)
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Event
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources

NODES: Final = 1_000
NODE: Final = Resources({"vcore": 64_000, "memory": 256 * 2**30})
USERS: Final = 1_000
"""How many users have a limit each where limits are measured."""

FIFTH: Final = 0.09
"""The share of :data:`NODE` that has room for a fifth of the asks of :func:`mixed`."""


@final
@attrs.frozen
class Workload:
    """A workload.

    Attributes:
        name: Its name.
        about: Its description.
        config: The queues.
        events: Returns the events for a share of the full size; all come before the rounds.
        releases: The number of asks that are released at a time after the rounds; 0 for none.
    """

    name: str
    about: str
    config: Configuration
    events: Callable[[float], Iterator[Event]]
    releases: int = 0


def queue(path: str, settings: Settings, children: Sequence[QueueConfig] = ()) -> QueueConfig:
    """Create a queue without limits."""
    name = path.rpartition(".")[2]
    return QueueConfig(
        name=name, path=path, is_parent=bool(children), settings=settings, children=tuple(children)
    )


def partition(children: Sequence[QueueConfig]) -> Configuration:
    """Create a configuration from the queues below the root."""
    return Configuration(partition="default", root=queue("root", Settings(), children))


def tree(parents: int, leaves: int, policy: SortPolicy) -> Configuration:
    """Create a tree of two levels below the root."""
    leaf = Settings(sort_policy=policy)
    return partition(
        [
            queue(
                f"root.p{at}",
                Settings(),
                [queue(f"root.p{at}.l{leaf_at}", leaf) for leaf_at in range(leaves)],
            )
            for at in range(parents)
        ]
    )


def nodes(number: int = NODES, room: float = 1.0) -> Iterator[Event]:
    """Yield nodes, with a share of their usual capacity."""
    capacity = Resources({name: int(amount * room) for name, amount in NODE.items()})
    for at in range(number):
        yield AddNode(node=f"node-{at:05}", capacity=capacity)


def equal(scale: float) -> Iterator[Event]:
    """Yield two applications with equal asks, which all fit."""
    yield from nodes()
    for at in range(2):
        yield AddApp(app=f"app-{at}", queue=f"root.p{at}.l0")
        yield AddAsk(
            app=f"app-{at}",
            ask="ask",
            count=max(1, int(5_000 * scale)),
            resources=Resources({"vcore": 1_000, "memory": 2**30}),
        )


def limited(config: Configuration) -> Configuration:
    """Give each of :data:`USERS` users a limit of the whole partition, which is never reached."""
    most = Limits.of({"vcore": 64_000_000, "memory": 256 * 2**40})
    limits = tuple(LimitEntry(users=(f"user-{at}",), max=most) for at in range(USERS))
    return attrs.evolve(config, root=attrs.evolve(config.root, limits=limits))


def over_time(config: Configuration) -> Configuration:
    """Order the children of all queues by their past use."""

    def again(one: QueueConfig) -> QueueConfig:
        settings = attrs.evolve(one.settings, half_life_us=7 * 24 * 3_600_000_000)
        return attrs.evolve(one, settings=settings, children=tuple(map(again, one.children)))

    return attrs.evolve(config, root=again(config.root))


def mixed(room: float) -> Callable[[float], Iterator[Event]]:
    """Return events for a hundred leaves with many applications, ten priorities and sixteen shapes.

    Args:
        room: The share of their usual capacity that the nodes have. The number of nodes
            follows the scale, so that the same share of the asks fits at every scale.
    """

    def events(scale: float) -> Iterator[Event]:
        yield from nodes(max(1, int(NODES * scale)), room)
        for at in range(int(10_000 * scale)):
            name = f"app-{at:05}"
            user = f"user-{at % USERS}"
            yield AddApp(app=name, queue=f"root.p{at % 10}.l{at // 10 % 10}", user=user)
            for ask in range(10):
                shape = (at + ask) % 16
                yield AddAsk(
                    app=name,
                    ask=f"ask-{ask}",
                    priority=(at * 7 + ask * 3) % 10,
                    resources=Resources(
                        {"vcore": 100 + 25 * shape, "memory": (1 + shape % 4) * 2**28}
                    ),
                )

    return events


def gangs(room: float, mode: GangMode | None) -> Callable[[float], Iterator[Event]]:
    """Return events for a thousand gangs of 8 to 64 members, or without a mode for plain asks.

    Args:
        room: The share of the members that fit on the nodes.
        mode: The mode of the gangs, or None.
    """

    def events(scale: float) -> Iterator[Event]:
        sizes = [8 + at * 37 % 57 for at in range(max(1, int(1_000 * scale)))]
        number = max(1, int(NODES * scale))
        vcores = max(1, int(sum(sizes) * room / number))
        for at in range(number):
            yield AddNode(node=f"node-{at:05}", capacity=Resources({"vcore": vcores}))
        for at, size in enumerate(sizes):
            app, name = f"app-{at:04}", f"default/gang-{at:04}"
            yield AddApp(app=app, queue=f"root.p{at % 10}.l0")
            if mode is not None:
                yield AddGang(gang=name, says=GangFields(min_member=size, mode=mode))
            gang = None if mode is None else name
            one = Resources({"vcore": 1})
            yield AddAsk(app=app, ask="member", count=size, resources=one, gang=gang)

    return events


TWO: Final = tree(2, 1, SortPolicy.FIFO)
TEN: Final = tree(10, 1, SortPolicy.FIFO)
FIFO: Final = tree(10, 10, SortPolicy.FIFO)
FAIR: Final = tree(10, 10, SortPolicy.FAIR)

WORKLOADS: Final = {
    workload.name: workload
    for workload in (
        Workload("W1", "2 leaves, 10,000 equal asks", TWO, equal),
        Workload("W2", "100 leaves, 100,000 asks, 16 shapes, fifo", FIFO, mixed(1.0)),
        Workload("limits", "W2 with a limit for each of 1,000 users", limited(FIFO), mixed(1.0)),
        Workload("W3a", "W2, room for a fifth, releases one by one", FIFO, mixed(FIFTH), 1),
        Workload("W3b", "W2, room for a fifth, releases by 100", FIFO, mixed(FIFTH), 100),
        Workload("W4", "W2 with the policy fair", FAIR, mixed(1.0)),
        Workload("usage", "W4 with a half-life for all queues", over_time(FAIR), mixed(1.0)),
        Workload("W6a", "1,000 Strict gangs, all fit", TEN, gangs(1.1, GangMode.STRICT)),
        Workload("W6b", "Strict, room for 60 %", TEN, gangs(0.6, GangMode.STRICT)),
        Workload("W6c", "NonStrict, room for 60 %", TEN, gangs(0.6, GangMode.NON_STRICT)),
        Workload("asks-110", "the members of W6a as plain asks", TEN, gangs(1.1, None)),
        Workload("asks-60", "those of W6b and W6c as plain asks", TEN, gangs(0.6, None)),
    )
}
"""Every workload by its name."""
