"""The naive model's state: what is there, and nothing that can be computed from it.

No totals, no priorities, no orders are kept. Whoever wants one computes it from
the asks, so that nothing here can be stale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import attrs

from muster_core.config.model import Acl, Configuration, QueueConfig, Settings, Template
from muster_core.decisions import Decision, Kind, Reason
from muster_core.resources import Resources

ROOT = "root"

GONE_STATES = frozenset({"Completed"})
RUNNING_STATES = frozenset({"Starting", "Running"})

BUILT_IN_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_000_100}


@attrs.define(eq=False)
class Ask:
    """One ask; pending while ``node`` is None, else bound there."""

    app: App
    name: str
    resources: Resources
    priority: int
    creation: int
    number: int
    required: str | None
    selector: dict[str, str]
    run_for_us: int | None
    node: str | None = None
    bound_order: int = 0
    ends_at: int | None = None
    failures: int = 0
    wants: dict[str, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.wants = dict(self.resources)

    def say(self, kind: Kind, node: str | None, reason: Reason | None = None) -> Decision:
        """Make a decision about this ask."""
        return Decision(
            kind, app=self.app.name, ask=self.name, node=node, queue=self.app.queue, reason=reason
        )


@attrs.define(eq=False)
class App:
    """One application; a Completed one is only remembered, it is in no queue any more."""

    name: str
    queue: str
    creation: int
    skips_starting: bool
    state: str = "New"
    deadline: int | None = None
    asks: dict[str, Ask] = attrs.field(factory=dict[str, Ask])

    def pending(self) -> list[Ask]:
        """Give the asks that wait for a node."""
        return [ask for ask in self.asks.values() if ask.node is None]

    def bound(self) -> list[Ask]:
        """Give the asks that have one."""
        return [ask for ask in self.asks.values() if ask.node is not None]


@attrs.define(eq=False)
class Queue:
    """One queue, configured or made on the fly."""

    path: str
    is_parent: bool
    guaranteed: Resources
    limits: dict[str, int]
    max_applications: int
    settings: Settings
    template: Template | None = None
    acls: tuple[Acl, ...] = ()
    dynamic: bool = False
    draining: bool = False


@attrs.define(eq=False)
class Node:
    """One node; what is used on it is the sum of the asks bound there."""

    name: str
    capacity: Resources
    attributes: dict[str, str]
    schedulable: bool


def empty_configuration() -> Configuration:
    """Give what is in force before the first configuration."""
    return Configuration(
        partition="default", root=QueueConfig(name=ROOT, path=ROOT, is_parent=True)
    )


@attrs.define(eq=False)
class World:
    """Everything that there is, and the log of the batch that is being worked on."""

    config: Configuration = attrs.field(factory=empty_configuration)
    queues: dict[str, Queue] = attrs.field(factory=dict[str, Queue])
    apps: dict[str, App] = attrs.field(factory=dict[str, App])
    nodes: dict[str, Node] = attrs.field(factory=dict[str, Node])
    classes: dict[str, int] = attrs.field(factory=lambda: dict(BUILT_IN_CLASSES))
    log: list[Decision] = attrs.field(factory=list[Decision])
    positions: int = 0
    binds: int = 0

    def in_queues(self) -> list[App]:
        """Give the applications that are in a queue, the oldest first."""
        present = [app for app in self.apps.values() if app.state not in GONE_STATES]
        return sorted(present, key=lambda app: app.creation)

    def below(self, path: str) -> list[App]:
        """Give the applications in a queue or below it, the oldest first."""
        return [app for app in self.in_queues() if path in lineage(app.queue)]

    def bound(self) -> list[Ask]:
        """Give the bound asks in the order in which they were bound."""
        asks = [ask for app in self.apps.values() for ask in app.bound()]
        return sorted(asks, key=lambda ask: ask.bound_order)

    def pending(self) -> list[Ask]:
        """Give the pending asks."""
        return [ask for app in self.apps.values() for ask in app.pending()]

    def children(self, path: str) -> list[Queue]:
        """Give the queues directly below a queue."""
        return [queue for queue in self.queues.values() if parent_path(queue.path) == path]


def parent_path(path: str) -> str | None:
    """Give the path of the queue above, or None for the root."""
    above, dot, _ = path.rpartition(".")
    return above if dot else None


def lineage(path: str) -> Iterator[str]:
    """Give a path and the paths above it, up to the root."""
    here: str | None = path
    while here is not None:
        yield here
        here = parent_path(here)


def total_of(asks: Iterable[Ask]) -> dict[str, int]:
    """Add up what asks want, type by type."""
    return total(ask.wants for ask in asks)


def total(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up amounts, type by type."""
    result: dict[str, int] = {}
    for amount in amounts:
        for name, value in amount.items():
            result[name] = result.get(name, 0) + value
    return result
