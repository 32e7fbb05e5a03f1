"""The invariants, asserted over the whole state of a scheduler at rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from muster._runtime.requests import Examined
from muster_core.reasons import Code
from muster_core.snapshots import AppSnapshot, AskPlace, AskSnapshot, Snapshot
from muster_core.structures.totals import add_to
from muster_core.values.priority import current_priority

if TYPE_CHECKING:
    from muster_core.config.model import QueueConfig
    from muster_core.view.tree.application import ViewApp


_HOLDING: Final = frozenset({AskPlace.WAITING, AskPlace.BOUND})
_KEPT_OUT: Final = frozenset(list(Code)[: list(Code).index(Code.BIND_FAILED)])
"""The codes of asks that are not placed though a node may have room for them."""
"""The places in which an ask has a node."""


class Examinable(Protocol):
    """What can be examined: a :class:`muster.Simulation`."""

    async def examine(self, examiner: Callable[[Examined], None], /) -> None:
        """Have the state looked at."""


async def check(scheduler: Examinable, since: Snapshot | None = None) -> Snapshot:
    """Close the batch, and assert everything that must hold between two batches.

    Every total, priority and order that is kept is compared with one computed anew,
    the coordinator's view with what the owners say, and no pending ask may be one
    that could be placed. This takes as long as the state is large.

    Args:
        scheduler: The scheduler.
        since: What this function gave last. With it, what was placed since then is
            compared with the nodes' capacities and the queues' ``max``. Only one batch
            may have ended in between, since both may be lowered below what is in use.

    Returns:
        The snapshot that was checked.

    Raises:
        AssertionError: If something does not hold, which is a bug in Muster.
        ClosedSchedulerError: If the scheduler is closed before it answers.
    """
    snapshots: list[Snapshot] = []

    def examine(state: Examined) -> None:
        snapshots.append(state.snapshot)
        _check_owners(state)
        _check_names(state)
        _check_queues(state)
        _check_nodes(state)
        _check_view(state)
        _check_gangs(state)
        _check_nothing_fits(state)
        if since is not None:
            _check_placed(state, since)

    await scheduler.examine(examine)
    return snapshots[0]


def _check_owners(state: Examined) -> None:
    """Each machine by itself: its caches are what a fresh look gives."""
    for app in state.apps.values():
        app.check()
    for queue in state.queues.values():
        queue.check()
    for gang in state.gangs.values():
        gang.check()


def _check_names(state: Examined) -> None:
    """The directory knows all and only the owners that there are."""
    state.machine.admission.check()
    registry = state.machine.registry
    assert {entry.key: path for path, entry in registry.queues.items()} == {
        key: queue.path for key, queue in state.queues.items()
    }
    assert {app.identity.name: key for key, app in state.apps.items()} == {
        name: registry.locate(name) for name in state.snapshot.apps
    }
    # A name that has completed is free, and nobody's.
    assert not state.snapshot.completed & state.snapshot.apps.keys()
    for app in state.snapshot.apps.values():
        # Every ask is in exactly one place.
        names = [ask.name for ask in app.asks]
        assert len(names) == len(set(names))
        # All and only what waits or is bound has a node.
        assert all((ask.node is not None) == (ask.place in _HOLDING) for ask in app.asks)


def _check_queues(state: Examined) -> None:
    """The totals and priorities of queues are those of the asks below them."""
    entries = state.machine.registry.queues.values()
    configs = {entry.config.path: entry.config for entry in entries}
    for path, queue in state.snapshot.queues.items():
        asks = [ask for app in _below(state.snapshot, path) for ask in app.asks]
        assert queue.pending == _sum(ask for ask in asks if ask.place is AskPlace.PENDING)
        assert queue.allocated == _sum(ask for ask in asks if ask.place in _HOLDING)
        assert queue.priority == _priority(state.snapshot, path, configs)


def _check_nodes(state: Examined) -> None:
    """What is taken of a node is what the asks that are bound there have."""
    nodes = state.machine.view.nodes
    used: dict[str, list[AskSnapshot]] = {name: [] for name in nodes.nodes}
    for app in state.snapshot.apps.values():
        for ask in app.asks:
            if ask.node is not None:
                assert ask.node in used, "an ask holds a node that is gone"
                used[ask.node].append(ask)
    for name, node in nodes.nodes.items():
        assert node.used == _sum(used[name])
        assert len(node.held) == len(used[name])


def _check_view(state: Examined) -> None:
    """The view is what the owners say, and its own caches are right."""
    view = state.machine.view
    view.check()
    assert view.apps.keys() == state.apps.keys()
    assert view.queues.keys() == state.queues.keys()
    for key, app in view.apps.items():
        owner = state.apps[key].snapshot()
        assert app.state is owner.state
        assert app.values() == state.apps[key].values()
        assert {*_placed(owner)} == {*_placed_in_view(app)}
    for key, queue in view.queues.items():
        queue_owner = state.queues[key].snapshot()
        assert (queue.config.path, queue.priority) == (queue_owner.path, queue_owner.priority)
        assert (queue.pending, queue.allocated) == (queue_owner.pending, queue_owner.allocated)
        assert (None if queue.parent is None else queue.parent.key) == state.queues[key].parent


def _check_nothing_fits(state: Examined) -> None:
    """No pending ask could be placed as things are."""
    view = state.machine.view
    for app in view.apps.values():
        for ask in app.pending.values():
            explanation = state.machine.explain(app.identity.name, ask.name)
            assert explanation is not None
            leaf = view.queues[app.identity.leaf]
            if explanation.dominant.code in _KEPT_OUT or leaf.may_be_blocked_by_members():
                continue
            for node in view.nodes.in_order():
                may = node.schedulable and ask.shape.matches(node.name, node.attributes)
                assert not (may and not _over(_plus(node.used, ask.resources), node.capacity))


def _check_placed(state: Examined, since: Snapshot) -> None:
    """What was placed since then fitted: neither its node nor a queue above it has too much."""
    before = {(app.name, ask.name, ask.node) for app in since.apps.values() for ask in app.asks}
    snapshot = state.snapshot
    limits = {
        entry.config.path: dict(entry.config.max.amounts)
        for entry in state.machine.registry.queues.values()
    }
    for app in snapshot.apps.values():
        for ask in app.asks:
            if ask.node is None or (app.name, ask.name, ask.node) in before:
                continue
            types = {name for name, amount in ask.resources.items() if amount}
            node = snapshot.nodes[ask.node]
            assert not _over(node.used, node.capacity) & types
            for path in _upward(app.queue):
                named = limits[path]
                used = {kind: snapshot.queues[path].allocated.get(kind, 0) for kind in named}
                assert not _over(used, named) & types


def _check_gangs(state: Examined) -> None:
    """Gangs, the members that applications have, and what the view knows are the same."""
    view, snapshot = state.machine.view, state.snapshot
    assert view.gangs.keys() == snapshot.gangs.keys()
    members: dict[tuple[str, AskPlace], set[tuple[str, str]]] = {}
    for app in snapshot.apps.values():
        for ask in app.asks:
            if ask.gang is not None:
                members.setdefault((ask.gang, ask.place), set()).add((app.name, ask.name))
    for name, gang in snapshot.gangs.items():
        assert members.pop((name, AskPlace.PENDING), set()) == set(gang.pending)
        assert members.pop((name, AskPlace.PARKED), set()) == set(gang.parked)
        assert members.pop((name, AskPlace.WAITING), set()) == set(gang.waiting)
        assert members.pop((name, AskPlace.BOUND), set()) == set(gang.bound)
        seen = view.gangs[name]
        holds = sorted(seen.waiting.values(), key=lambda hold: hold.number)
        waits = [(hold.app.identity.name, hold.allocation.ask.name) for hold in holds]
        assert waits == list(gang.waiting)
        assert (len(seen.bound), len(seen.parked)) == (len(gang.bound), len(gang.parked))
        assert seen.definition == gang.definition
        assert (seen.cycle_valid, seen.since_us) == (gang.cycle_valid, gang.since_us)
        assert seen.state is state.gangs[seen.key].state
    assert not members, "members of a gang that there is not"


def _placed(app: AppSnapshot) -> Iterator[tuple[str, AskPlace, int, str | None]]:
    for ask in app.asks:
        yield ask.name, ask.place, ask.priority, ask.node


def _placed_in_view(app: ViewApp) -> Iterator[tuple[str, AskPlace, int, str | None]]:
    for ask in app.pending.values():
        yield ask.name, AskPlace.PENDING, ask.priority, None
    for ask in app.parked.values():
        yield ask.name, AskPlace.PARKED, ask.priority, None
    for place, held in ((AskPlace.WAITING, app.waiting), (AskPlace.BOUND, app.bound)):
        for allocation, node in held.values():
            assert allocation.node == node.name
            yield allocation.ask.name, place, allocation.ask.priority, node.name


def _below(snapshot: Snapshot, path: str) -> Iterator[AppSnapshot]:
    for app in snapshot.apps.values():
        if app.queue == path or app.queue.startswith(f"{path}."):
            yield app


def _priority(snapshot: Snapshot, path: str, configs: Mapping[str, QueueConfig]) -> int | None:
    """Compute the ``currentPriority`` of a queue from nothing but its settings and the asks."""
    found: list[int] = [
        ask.priority
        for app in snapshot.apps.values()
        if app.queue == path
        for ask in app.asks
        if ask.place is AskPlace.PENDING
    ]
    for child in snapshot.queues:
        if child.rpartition(".")[0] == path and snapshot.queues[child].pending:
            priority = _priority(snapshot, child, configs)
            assert priority is not None, "something is pending in a queue without a priority"
            found.append(priority)
    return current_priority(
        configs[path].settings, max(found, default=None), is_root=path == "root"
    )


def _upward(path: str) -> Iterator[str]:
    while path:
        yield path
        path = path.rpartition(".")[0]


def _sum(asks: Iterator[AskSnapshot] | list[AskSnapshot]) -> dict[str, int]:
    total: dict[str, int] = {}
    for ask in asks:
        add_to(total, ask.resources)
    return total


def _plus(used: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Give the sums over the types of ``more``."""
    return {name: used.get(name, 0) + amount for name, amount in more.items()}


def _over(used: Mapping[str, int], capacity: Mapping[str, int]) -> set[str]:
    """Give the types of which more is used than there is."""
    return {name for name, amount in used.items() if amount > capacity.get(name, 0)}
