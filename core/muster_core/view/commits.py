"""The decisions of a batch, as commits for the owners.

Owners get the difference to the beginning of a batch once, at its end: a commit does not mention an
ask that lost its node and got it back.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import final

import attrs

from muster_core.gangs import GangDefinition
from muster_core.owners.app_messages import CommitApp, Values
from muster_core.owners.asks import Allocation, Ask, FailedBinds
from muster_core.owners.gang import CommitGang, MemberKey
from muster_core.owners.queue import CommitQueue
from muster_core.structures.steps import SIZE, Steps, freed
from muster_core.values.application_states import AppState
from muster_core.values.decisions import Decision
from muster_core.values.records import LIST, MAP
from muster_core.values.snapshots import AskPlace
from muster_core.view.gangs import ViewGang
from muster_core.view.state.view_state import ViewState
from muster_core.view.tree.application import ViewApp


@final
@attrs.frozen(eq=False)
class Advance:
    """The effect of a bind on the state of an application.

    Attributes:
        state: The state before.
        stay: The number of the stay in that state.
        decision: The decision that logs the new state.
    """

    state: AppState
    stay: int
    decision: Decision


@final
@attrs.define(eq=False)
class _NewlyBound:
    """The asks of an application that were bound in this batch and still are."""

    bound: dict[str, Allocation] = attrs.field(factory=MAP)
    #: The effects of the first binds on the state; those after them do not change it any more.
    advances: list[Advance] = attrs.field(factory=LIST)


OwnerCommits = tuple[dict[int, CommitApp], dict[int, CommitQueue], dict[int, CommitGang | None]]
"""The commits of a batch by the keys of the owners; None for a gang that is gone."""


# ONCE-2
def _with_ended(commit: CommitApp, ended: Mapping[str, Ask]) -> CommitApp:
    """Return the commit of an application of which some asks are gone."""
    released = tuple(name for name in commit.released if name not in ended)
    return attrs.evolve(commit, released=released, ended=tuple(ended))


@final
class Commits:
    """Records decisions, and makes commits from them."""

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._fresh: dict[int, _NewlyBound] = {}
        self._failed: dict[int, list[str]] = {}
        #: The asks whose failed binds in a row have changed, by application.
        self._in_a_row: dict[int, dict[str, None]] = {}
        #: The asks that were bound when the batch began and were evicted, by application.
        self._evicted: dict[int, dict[str, Allocation]] = {}
        #: Gang members that were placed or released, by application, with their first allocation.
        self._members: dict[int, dict[str, Allocation | None]] = {}
        self._satisfied: set[str] = set()
        self._lost: set[str] = set()
        #: The asks that are gone since they lost their nodes, by application.
        self._ended: dict[int, dict[str, Ask]] = {}
        #: The gangs without members since then, and the keys of those that are gone with them.
        self._emptied: set[str] = set()
        self._gone: list[int] = []
        #: Decisions about states of applications that were undone.
        self._unsaid: set[int] = set()
        #: All of these records.
        self._by_app = self._fresh, self._failed, self._in_a_row, self._evicted, self._members
        self._others = self._satisfied, self._lost, self._unsaid

    def bound(self, app: int, allocation: Allocation) -> None:
        """Record that an ask of the application with this key was bound."""
        fresh = self._fresh.get(app)
        if fresh is None:
            fresh = self._fresh[app] = _NewlyBound()
        fresh.bound[allocation.ask.name] = allocation

    def advanced(self, app: int, advance: Advance) -> None:
        """Record that the last bind of an application has changed its state."""
        self._fresh[app].advances.append(advance)

    def failed(self, app: ViewApp, ask: Ask) -> None:
        """Record that the bind of an ask has failed."""
        self._failed.setdefault(app.identity.key, []).append(ask.name)

    # BACKOFF-1, BACKOFF-4
    def in_a_row(self, app: ViewApp, ask: Ask, failed: FailedBinds | None) -> None:
        """Record which binds of an ask have failed in a row; None ends the row, if there is one."""
        if failed is not None:
            app.in_a_row[ask.name] = failed
        elif app.in_a_row.pop(ask.name, None) is None:
            return
        self._in_a_row.setdefault(app.identity.key, {})[ask.name] = None

    def touch(self, app: ViewApp, ask: Ask, held: Allocation | None) -> None:
        """Record that a gang member that held this at first is placed or released."""
        self._members.setdefault(app.identity.key, {}).setdefault(ask.name, held)

    @contextmanager
    def trying(self) -> Generator[None]:
        """Forget at the end which members were placed and released meanwhile."""
        before, self._members = self._members, {}
        yield
        self._members = before

    def satisfied(self, gang: str) -> None:
        """Record that a gang is satisfied."""
        self._satisfied.add(gang)

    def lost(self, gang: str) -> None:
        """Record that a gang is not satisfied any more, or that all its binds have failed."""
        self._satisfied.discard(gang)
        self._lost.add(gang)

    # GANG-52
    def is_new(self, app: int, ask: str) -> bool:
        """Return whether an ask was bound in this batch, and still is."""
        fresh = self._fresh.get(app)
        return fresh is not None and ask in fresh.bound

    # EVICTION-43, GANG-52
    def unbound(self, app: int, ask: str) -> Advance | None:
        """Record that an ask was evicted that was bound in this batch: its bind does not count.

        Returns:
            The effect on the application's state that must be undone, or None.
        """
        fresh = self._fresh[app]
        del fresh.bound[ask]
        # Whichever asks remain, their binds have the effects of the first ones.
        if len(fresh.bound) >= len(fresh.advances):
            return None
        advance = fresh.advances.pop()
        self._unsaid.add(id(advance.decision))
        return advance

    def evicted(self, app: int, allocation: Allocation) -> None:
        """Record that an ask was evicted that was bound when the batch began."""
        self._evicted.setdefault(app, {})[allocation.ask.name] = allocation

    # ONCE-2
    def ended(self, app: int, ask: Ask) -> None:
        """Record that an ask that was evicted is gone."""
        self._ended.setdefault(app, {})[ask.name] = ask

    # ONCE-4
    def emptied(self, gang: ViewGang, *, gone: bool) -> None:
        """Record that the last member of a gang is gone, and perhaps the gang with it."""
        self._satisfied.discard(gang.name)
        self._lost.discard(gang.name)
        if gone:
            self._gone.append(gang.key)
        else:
            self._emptied.add(gang.name)

    @property
    def has_unsaid(self) -> bool:
        """Whether a decision about a state was undone in the same batch."""
        return bool(self._unsaid)

    def is_unsaid(self, decision: Decision) -> bool:
        """Return whether the effect of a decision was undone in the same batch."""
        return id(decision) in self._unsaid

    # For the owners

    @property
    def has_any(self) -> bool:
        """Whether anything is recorded, or gangs may have to get their waits and cycles."""
        recorded = any(self._by_app) or any(self._others) or bool(self._state.delays.unaged)
        return recorded or not self._state.gang_index.is_unused

    def commits(self, now_us: int, reported: dict[int, int]) -> Steps[OwnerCommits]:
        """Return the commit of the batch for each owner concerned."""
        moved = {*self._fresh, *self._members, *self._evicted}
        apps: dict[int, CommitApp] = {}
        leaves = reported.copy()
        reported.clear()
        for number, key in enumerate(sorted(moved.union(self._failed)), 1):
            apps[key] = self._commit_app(key)
            if key in moved:
                leaves[key] = self._state.apps[key].identity.leaf
            if not number % SIZE:
                yield
        unaged = self._take_unaged(leaves) if self._state.delays.unaged else set[int]()
        queues = (yield from self._commit_queues(leaves, unaged)) if leaves or unaged else {}
        gangs: dict[int, CommitGang | None] = {}
        if not self._state.gang_index.is_unused or self._gone:
            gangs |= self._commit_gangs(now_us)
        if self._ended:
            gangs |= dict.fromkeys(self._gone)
            for key, ended in self._ended.items():
                apps[key] = _with_ended(apps[key], ended)
            for records in (self._ended, self._emptied, self._gone):
                records.clear()
        if apps:
            yield from freed(*self._by_app)
        for names in self._others:
            names.clear()
        return apps, queues, gangs

    def _commit_app(self, key: int) -> CommitApp:
        app = self._state.apps[key]
        found = self._fresh.get(key)
        fresh = {} if found is None else found.bound
        evicted = self._evicted.get(key, {})
        released = list(evicted)
        waiting: list[Allocation] = []
        for name, before in self._members.get(key, {}).items():
            now = app.waiting[name][0] if name in app.waiting else None
            if now is not None and now == before:
                continue
            if before is not None and name not in evicted and name not in fresh:
                released.append(name)
            if now is not None:
                waiting.append(now)
        if app.since_us:
            for name in fresh:  # If it loses its node, its delay begins again.
                app.since_us.pop(name, None)
        if app.failed_on:
            for name in (*fresh, *app.waiting):
                app.failed_on.pop(name, None)
        return CommitApp(
            bound=tuple(sorted(fresh.values(), key=attrgetter("number"))),
            failed=tuple(self._failed.get(key, ())),
            released=tuple(released),
            waiting=tuple(sorted(waiting, key=attrgetter("number"))),
            parked=tuple(name for name in evicted if name in app.parked),
            in_a_row=tuple((name, app.in_a_row.get(name)) for name in self._in_a_row.get(key, ())),
        )

    # AGING-7
    def _take_unaged(self, leaves: dict[int, int]) -> set[int]:
        """Return the queues with priorities that had grown, where aging has ended.

        Args:
            leaves: Gets the applications that queues have to know of.
        """
        queues, ended = self._state.queues, self._state.delays.unaged
        for leaf in ended:
            if leaf.key in queues:
                leaves.update(dict.fromkeys(leaf.apps, leaf.key))
        unaged = {queue.key for leaf in ended for queue in leaf.line} & queues.keys()
        ended.clear()
        return unaged

    def _commit_queues(
        self, leaves: Mapping[int, int], unaged: set[int]
    ) -> Steps[dict[int, CommitQueue]]:
        children: dict[int, dict[int, Values | None]] = {}
        for number, key in enumerate(sorted(leaves), 1):
            app = self._state.apps.get(key)
            below = self._state.queues[leaves[key]]
            values = None if app is None else self._state.leaf_of(app).values_of(app)
            children.setdefault(below.key, {})[key] = values
            while below.parent is not None:
                siblings = children.setdefault(below.parent.key, {})
                if below.key in siblings:
                    break
                siblings[below.key] = below.values()
                below = below.parent
            if not number % SIZE:
                yield
        for key in sorted(unaged):
            children.setdefault(key, {})
        return {key: CommitQueue(values, key in unaged) for key, values in children.items()}

    def commit_cycles(self) -> dict[int, CommitGang]:
        """Return the cycles that owners do not know yet, between two batches."""
        gangs = self._state.gangs
        changed = sorted(self._state.gang_index.changed_cycles() & gangs.keys())
        return {
            gang.key: CommitGang(cycle_valid=gang.cycle_valid, since_us=gang.since_us)
            for gang in map(gangs.__getitem__, changed)
        }

    def _commit_gangs(self, now_us: int) -> dict[int, CommitGang]:
        state = self._state
        concerned = self._satisfied | self._lost | state.gang_index.set_waits(now_us)
        placements: dict[str, list[tuple[int, MemberKey, AskPlace | None]]] = {}
        for key, names in self._members.items():
            app, ended = state.apps[key], self._ended.get(key, {})
            for name, before in names.items():
                if name in ended:
                    member = MemberKey(key, app.identity.name, name)
                    placements.setdefault(ended[name].gang or "", []).append((0, member, None))
                    continue
                gang_name, number, place = _place_of(app, name)
                if place is AskPlace.PENDING and before is None:
                    continue
                if before is not None and before.number == number:
                    continue  # Its release was only tried.
                member = MemberKey(key, app.identity.name, name)
                placements.setdefault(gang_name, []).append((number, member, place))
        concerned |= placements.keys() | state.gang_index.changed_cycles()
        commits: dict[int, CommitGang] = {}
        for gang in (state.gangs[name] for name in sorted(concerned & state.gangs.keys())):
            moved = sorted(placements.get(gang.name, ()), key=lambda move: move[0])
            # GANG-60
            if gang.name in self._satisfied:
                gang.timeouts = 0
            commits[gang.key] = CommitGang(
                moves=tuple((member, place) for _, member, place in moved),
                satisfied=gang.name in self._satisfied,
                cycle_valid=gang.cycle_valid,
                since_us=gang.since_us,
                lost=gang.name in self._lost,
                emptied=_defined_as(gang) if gang.name in self._emptied else None,
            )
        return commits


def _defined_as(gang: ViewGang) -> tuple[GangDefinition, int]:
    """Return the definition of a gang that exists without members, and since when it does."""
    assert gang.definition is not None, "a gang that neither is defined nor has members"
    assert gang.creation is not None, "a gang that is defined was never created"
    return gang.definition, gang.creation


def _place_of(app: ViewApp, name: str) -> tuple[str, int, AskPlace]:
    """Return the gang of a member, its number and its place."""
    number = 0
    if name in app.pending or name in app.backing_off:
        ask, place = app.pending.get(name) or app.backing_off[name], AskPlace.PENDING
    elif name in app.parked:
        ask, place = app.parked[name], AskPlace.PARKED
    else:
        waits = name in app.waiting
        allocation, _ = app.waiting[name] if waits else app.bound[name]
        ask, number = allocation.ask, allocation.number
        place = AskPlace.WAITING if waits else AskPlace.BOUND
    assert ask.gang is not None, "what is no member of a gang was moved as one"
    return ask.gang, number, place
