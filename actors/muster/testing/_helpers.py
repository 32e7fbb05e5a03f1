"""Helpers for tests: journals and records in memory, a random order of tasks, and a check of the state.

:class:`Inputs` is a record that tests can replay. :func:`check` checks all invariants over the whole
state of a scheduler between two batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Final, Protocol, final

import attrs
import trio

from muster._runtime.requests import Examined
from muster._surface.simulation import open_simulation
from muster_core.config.model import Configuration, QueueConfig
from muster_core.decisions import Announced
from muster_core.events import Event
from muster_core.gangs import TopologyRule
from muster_core.nodes.node import Node
from muster_core.owners.asks import Ask
from muster_core.reasons import Code
from muster_core.snapshots import AppSnapshot, AskPlace, AskSnapshot, Snapshot
from muster_core.structures.amounts import add_to
from muster_core.values.priority import current_priority
from muster_core.view.gangs import topology_state_of
from muster_core.view.tree.application import ViewApp


@final
class Recording:
    """A journal in memory, for tests and for small feeds.

    Attributes:
        decisions: All decisions that were announced so far, in order.
    """

    def __init__(self) -> None:
        self.decisions: list[Announced] = []

    def write(self, batch: Sequence[Announced], /) -> None:
        """Keep the decisions of a batch."""
        self.decisions.extend(batch)


@final
class Inputs:
    """A :class:`muster.Record` in memory, for tests.

    Attributes:
        steps: Each event with its instant, in microseconds since the opening, in order. None
            instead of an event is the end of the batch of this instant.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[int, Event | None]] = []

    def enter(self, at_us: int, event: Event, /) -> None:
        """Keep an event."""
        self.steps.append((at_us, event))

    def close(self, at_us: int, /) -> None:
        """Keep the end of a batch."""
        self.steps.append((at_us, None))

    async def replay(self, configuration: Configuration | None = None) -> Sequence[Announced]:
        """Submit all events to a simulation, in the same batches.

        Args:
            configuration: The first configuration of the scheduler; default: only ``root``.

        Returns:
            The decisions up to the last closed batch, which are those of the scheduler. Later
            events were never decided.
        """
        log = Recording()
        async with open_simulation(configuration, journal=log) as simulation:
            for at_us, index, event in decided(self.steps):
                if event is None:
                    await simulation.settle(at_us)
                else:
                    await simulation.submit(event, at_us=at_us, index=index)
        return log.decisions


def decided(steps: Iterable[tuple[int, Event | None]]) -> Iterator[tuple[int, int, Event | None]]:
    """Yield the steps up to the last closed batch, with the indexes of their events.

    Args:
        steps: Steps as in :class:`Inputs`.

    Yields:
        For each event its instant, its index and the event. For each end of a batch its instant,
        the index of the next event, and None.
    """
    waiting: list[tuple[int, int, Event | None]] = []
    index = 0
    for at_us, event in steps:
        waiting.append((at_us, index, event))
        if event is None:
            yield from waiting
            waiting.clear()
        else:
            index += 1


@final
class Interleaving:
    """Lets other tasks run a random number of times whenever it is awaited.

    Pass it as ``interleave`` to :func:`muster.open_simulation` or :func:`muster.open_scheduler`:
    then every owner waits for random times before it reads its mailbox. No decision depends on
    this.

    Args:
        seed: The seed of the random numbers.
        longest: The largest number of checkpoints at one place.
    """

    def __init__(self, seed: int, longest: int = 3) -> None:
        self._random = Random(seed)
        self._longest = longest
        #: How many checkpoints there were.
        self.checkpoints = 0

    async def __call__(self) -> None:
        """Make a random number of checkpoints."""
        for _ in range(self._random.randint(0, self._longest)):
            self.checkpoints += 1
            await trio.lowlevel.checkpoint()


_HOLDING: Final = frozenset({AskPlace.WAITING, AskPlace.BOUND})
"""The places in which an ask holds a node."""

_KEPT_OUT: Final = frozenset(list(Code)[: list(Code).index(Code.BIND_FAILED)])
"""The codes of asks that are not placed although a node may have room for them."""


class Examinable(Protocol):
    """A scheduler to check: a :class:`muster.Scheduler` or a :class:`muster.Simulation`."""

    async def examine(self, examiner: Callable[[Examined], None], /) -> None:
        """Call a function with the whole state."""


async def check(scheduler: Examinable, since: Snapshot | None = None) -> Snapshot:
    """Close the batch, and assert everything that must hold between two batches.

    The check computes all totals, priorities and orders again and compares them with the stored
    ones. It compares the coordinator's view with the state of the owners, and asserts that no
    pending ask could be placed. The time grows with the size of the state.

    Args:
        scheduler: The scheduler.
        since: The snapshot of the previous check. With it, the allocations since then are
            checked against the nodes' capacities and the queues' ``max``. At most one batch
            may have ended in between, since a change may lower both below the usage.

    Returns:
        The snapshot that was checked.

    Raises:
        AssertionError: If an invariant does not hold, which is a bug in Muster.
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
    """Check each machine by itself: its caches equal a fresh computation."""
    for app in state.apps.values():
        app.check()
    for queue in state.queues.values():
        queue.check()
    for gang in state.gangs.values():
        gang.check()


def _check_names(state: Examined) -> None:
    """Check that the directory has all and only the existing owners."""
    state.machine.admission.check()
    registry = state.machine.registry
    assert {entry.key: path for path, entry in registry.queues.items()} == {
        key: queue.path for key, queue in state.queues.items()
    }
    assert {app.identity.name: key for key, app in state.apps.items()} == {
        name: registry.locate(name) for name in state.snapshot.apps
    }
    # The name of a completed application is free.
    assert not state.snapshot.completed & state.snapshot.apps.keys()
    for app in state.snapshot.apps.values():
        # Every ask is in exactly one place.
        names = [ask.name for ask in app.asks]
        assert len(names) == len(set(names))
        # All and only the waiting and bound asks have a node.
        assert all((ask.node is not None) == (ask.place in _HOLDING) for ask in app.asks)


def _check_queues(state: Examined) -> None:
    """Check that the totals and priorities of queues are those of the asks below them."""
    entries = state.machine.registry.queues.values()
    configs = {entry.config.path: entry.config for entry in entries}
    for path, queue in state.snapshot.queues.items():
        asks = [ask for app in _below(state.snapshot, path) for ask in app.asks]
        assert queue.pending == _sum(ask for ask in asks if ask.place is AskPlace.PENDING)
        assert queue.allocated == _sum(ask for ask in asks if ask.place in _HOLDING)
        assert queue.priority == _priority(state.snapshot, path, configs)


def _check_nodes(state: Examined) -> None:
    """Check that the usage of each node is that of the asks that hold it."""
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
    """Check that the view equals the state of the owners, and its caches a fresh computation."""
    view = state.machine.view
    view.check()
    assert view.apps.keys() == state.apps.keys()
    assert view.queues.keys() == state.queues.keys()
    for key, app in view.apps.items():
        owner = state.apps[key].snapshot()
        assert app.state is owner.state
        # Owners do not know how old asks are.
        own = max((ask.priority for ask in app.each_pending()), default=None)
        assert attrs.evolve(app.values(), priority=own) == state.apps[key].values()
        assert {*_placed(owner)} == {*_placed_in_view(app)}
        assert {*_failed(owner)} == {
            (name, failed.times, failed.last_us) for name, failed in app.in_a_row.items()
        }
    for key, queue in view.queues.items():
        queue_owner = state.queues[key].snapshot()
        assert queue.config.path == queue_owner.path
        assert view.has_aging or queue.priority == queue_owner.priority
        shown = queue.values()
        assert (shown.pending, shown.allocated) == (queue_owner.pending, queue_owner.allocated)
        assert (None if queue.parent is None else queue.parent.key) == state.queues[key].parent


def _failed(owner: AppSnapshot) -> Iterator[tuple[str, int, int | None]]:
    """Iterate over the asks whose binds have failed in a row: how many did, and the last instant."""
    return (
        (ask.name, ask.failed_binds, ask.last_failed_us) for ask in owner.asks if ask.failed_binds
    )


def _check_nothing_fits(state: Examined) -> None:
    """Check that no pending ask could be placed."""
    view = state.machine.view
    for app in view.apps.values():
        for ask in app.pending.values():
            explanation = state.machine.explain(app.identity.name, ask.name)
            assert explanation is not None
            leaf = view.queues[app.identity.leaf]
            if explanation.dominant.code in _KEPT_OUT or leaf.may_be_blocked_by_members():
                continue
            lets = _lets(state, ask)
            if lets is None:
                continue
            kept = _kept_from(state, ask, required=leaf.config.settings.required_node)
            for node in view.nodes.in_order():
                may = node.schedulable and node.may_take(ask.shape)
                may = may and not node.lack_of_devices(ask.shape)
                may = may and node.name not in kept and lets(node)
                assert not (may and not _over(_plus(node.used, ask.resources), node.room))


def _lets(state: Examined, ask: Ask) -> Callable[[Node], bool] | None:
    """Return on which nodes the topology of its gang lets an ask be.

    Args:
        state: The state.
        ask: A pending ask.

    Returns:
        The condition; None if it is not to be had without trying what the gang lacks besides.
    """
    view = state.machine.view
    gang = None if ask.gang is None else view.gangs[ask.gang]
    standing = None if gang is None else topology_state_of(gang, view.apps)
    if gang is None or standing is None:
        return lambda _: True
    is_tried = standing.must_choose and standing.topology.rule is TopologyRule.SAME
    return None if is_tried and gang.missing > 1 else standing.lets


def _kept_from(state: Examined, ask: Ask, *, required: bool) -> set[str]:
    """Return the names of the nodes that node services keep from an ask.

    Args:
        state: The state.
        ask: A pending ask.
        required: Whether asks of its leaf that require a node are node services.
    """
    view = state.machine.view
    plain = ask.gang is None or view.gangs[ask.gang].satisfied
    if required and plain and ask.shape.node is not None:
        return set()
    return {node.name for node in view.nodes.nodes.values() if node.kept}


def _check_placed(state: Examined, since: Snapshot) -> None:
    """Check that allocations since a snapshot fit their nodes and the ``max`` of their queues."""
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
            # RESERVED-2
            assert not _over(_plus(node.reserved, node.used), node.capacity) & types
            for path in _upward(app.queue):
                named = limits[path]
                used = {kind: snapshot.queues[path].allocated.get(kind, 0) for kind in named}
                assert not _over(used, named) & types


def _check_gangs(state: Examined) -> None:
    """Check that gangs, the members in applications, and the view agree."""
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
    for aside in (app.pending, app.backing_off):
        for ask in aside.values():
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
    """Compute the ``currentPriority`` of a queue from its settings and the asks only."""
    found: list[int] = [
        ask.priority if ask.aged is None else ask.aged
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
    """Return the sums for the types of ``more``."""
    return {name: used.get(name, 0) + amount for name, amount in more.items()}


def _over(used: Mapping[str, int], capacity: Mapping[str, int]) -> set[str]:
    """Return the types whose usage is above the capacity."""
    return {name for name, amount in used.items() if amount > capacity.get(name, 0)}
