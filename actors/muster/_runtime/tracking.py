"""Tracking of single asks and gangs, for the handles of a program.

After each batch, the coordinator's task looks up the asks and gangs of its decisions in the view,
and publishes their state. It tracks only asks and gangs that the program uses handles of, and
with a binder also all bound asks; each of them only as long as it exists. Which members of a gang
were bound in one step is read from the decisions of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final, final

import attrs

from muster._runtime.clock import slices
from muster._runtime.observers import Publications, Watched, is_below
from muster_core.decisions import Announced, Decision, Kind, Reason, ends_ask
from muster_core.errors import RefusedError
from muster_core.events import Work
from muster_core.gangs import GangState
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps, in_order, in_pieces
from muster_core.values.devices import TakenDevices

if TYPE_CHECKING:
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.owners.asks import Allocation, Ask
    from muster_core.view.tree.application import ViewApp


Name = tuple[str, str]
"""The names of an application and an ask."""


@final
@attrs.define
class BoundTogether:
    """Collects the members that were bound in the step that satisfied their gang.

    Such a step says ``gang_satisfied`` for its gangs, and then ``bound`` for their members. The
    step ends where the next node is chosen: an ask that is bound later is a plain ask.
    """

    _open: dict[str, dict[Name, None]] = attrs.field(factory=dict[str, "dict[Name, None]"])
    _steps: dict[str, dict[Name, None]] = attrs.field(factory=dict[str, "dict[Name, None]"])

    def observe(self, decision: Decision) -> None:
        """Take the next decision of the batch, if it names a gang or a chosen node."""
        kind, gang = decision.kind, decision.gang
        if kind is Kind.ASSIGNED:
            self._open.clear()
        elif gang is None:
            return
        elif kind is Kind.GANG_SATISFIED:
            self._open[gang] = self._steps[gang] = {}
        elif decision.app is not None and decision.ask is not None:
            name = (decision.app, decision.ask)
            if kind is Kind.BOUND and gang in self._open:
                self._open[gang][name] = None
            elif kind is Kind.RELEASED and gang in self._steps:
                self._steps[gang].pop(name, None)

    def steps(self) -> Iterator[tuple[Name, ...]]:
        """Yield the members that were bound together, and still are when the batch ends."""
        for step in self._steps.values():
            if step:
                yield tuple(step)


@final
class Closed(Enum):
    """The watched value when the scheduler is closed."""

    CLOSED = "closed"


CLOSED: Final = Closed.CLOSED


def _not_ended() -> Watched[Reason | Closed | None]:
    return Watched(None)


@final
@attrs.define(eq=False)
class AllocationStatus:
    """One allocation of an ask.

    Attributes:
        number: Its position in the order in which asks were bound.
        node: The name of its node.
        peers: How many members of its gang were bound in the same step, with this one.
        step: The lowest number of these members; 0 if the step was not followed.
        ended: The reason why it has ended; None while it lasts.
        about_to_end: Why its work is cancelled before the end of the allocation is published, or
            None.
        for_good: Whether the ask has gone with it; False if the ask was only removed after it.
        message: The message of the decision that has ended it, or None.
        error: The error of the binder when the work had failed, or None.
        devices: The devices that it holds.
    """

    number: int
    node: str
    peers: int = 1
    step: int = 0
    ended: Watched[Reason | Closed | None] = attrs.field(factory=_not_ended)
    about_to_end: Reason | Closed | None = None
    for_good: bool = False
    message: str | None = None
    error: Exception | None = None
    devices: TakenDevices = ()

    def why_ending(self) -> Reason | Closed | None:
        """Return why it has ended or is about to end, or None."""
        return self.ended.value if self.about_to_end is None else self.about_to_end

    def is_to_end(self, why: Reason | Closed) -> None:
        """Record why its work is cancelled, unless that is known already."""
        if self.why_ending() is None:
            self.about_to_end = why

    def note_end(self, message: str | None, *, for_good: bool) -> None:
        """Record how it has ended, for readers after :attr:`ended` was published.

        Args:
            message: The message of the decision.
            for_good: Whether the ask has gone with it.
        """
        self.for_good, self.message = for_good, message


@final
@attrs.frozen
class AskStatus:
    """The state of an ask.

    Attributes:
        place: Its place; None if it does not exist, :data:`CLOSED` if the scheduler is closed.
        held: Its allocation if it is bound, else its last allocation, or None.
        started: Whether the work of its allocation has started.
        failures: How often in a row its work could not be started.
        error: The last of these failures, or None.
        is_given_up: Whether it was removed because its work could not be started, too often.
    """

    place: AskPlace | Closed | None
    held: AllocationStatus | None = None
    started: bool = False
    failures: int = 0
    error: Exception | None = None
    is_given_up: bool = False


@final
@attrs.frozen(eq=False)
class TrackedAsk:
    """An ask that is tracked.

    Attributes:
        app: The name of its application.
        name: Its name.
        seq: The position of the event that added it, as a later ask may have its name.
        queue: The path of its queue.
        resources: The resources that it needs.
        gang: The full name of its gang, or None.
        status: Its state.
        work: Its work, or None.
        once: Whether it is gone after it was bound.
    """

    app: str
    name: str
    seq: int
    queue: str
    resources: Resources
    gang: str | None
    status: Watched[AskStatus]
    work: Work | None = None
    once: bool = False


@final
@attrs.frozen
class GangStatus:
    """The state of a gang.

    Attributes:
        defined: Whether it is defined.
        satisfied: Whether it is satisfied.
        times: How often it became satisfied since tracking began, even if only briefly.
        timed_out: Whether it has timed out.
        closed: Whether the scheduler is closed.
    """

    defined: bool = False
    satisfied: bool = False
    times: int = 0
    timed_out: bool = False
    closed: bool = False


def _asks_of(app: ViewApp, state: AskPlace | None) -> Iterator[Ask]:
    """Yield the asks of an application that are in a place, or all."""
    if state in {None, AskPlace.PENDING}:
        yield from app.each_pending()
    if state in {None, AskPlace.PARKED}:
        yield from app.parked.values()
    for place, held in ((AskPlace.WAITING, app.waiting), (AskPlace.BOUND, app.bound)):
        if state in {None, place}:
            yield from (allocation.ask for allocation, _ in held.values())


@final
class Tracker:
    """Tracks asks and gangs.

    Args:
        machine: The machine, whose view is read between two batches.
        publications: Takes the values for handles.
        all_bound: Whether to track every ask from when it is bound, as a binder needs it.
    """

    def __init__(
        self, machine: CoordinatorMachine, publications: Publications, *, all_bound: bool
    ) -> None:
        self._machine = machine
        self._publications = publications
        self._all_bound = all_bound
        self._asks: dict[Name, TrackedAsk] = {}
        #: The tracked members of each gang, because its time-out is one decision for all of them.
        self._members: dict[str, dict[Name, TrackedAsk]] = {}
        self._gangs: dict[str, Watched[GangStatus]] = {}

    # Beginning to track

    def track(self, app: str, ask: str) -> TrackedAsk:
        """Track an existing ask.

        Raises:
            RefusedError: If there is no such ask or application.
        """
        known = self._asks.get((app, ask))
        if known is not None:
            return known
        found, place, allocation = self._look(app, ask)
        if found is None:
            registry = self._machine.registry
            if not registry.has_app(app):
                raise RefusedError(registry.problem_of_app(app))
            msg = f"ask: {ask!r} is no ask of application {app!r}"
            raise RefusedError(msg)
        return self._add(app, found, self._status(place, allocation))

    def track_new(self, app: str, names: Sequence[str], seq: int) -> Steps[list[TrackedAsk]]:
        """Track the asks that an event of the last batch has added.

        Args:
            app: The name of their application.
            names: Their names.
            seq: The position of the event.
        """
        tracked: list[TrackedAsk] = []
        for piece in in_pieces(names):
            yield
            tracked.extend(self._track_new(app, name, seq) for name in piece)
        return tracked

    def _track_new(self, app: str, name: str, seq: int) -> TrackedAsk:
        found, place, allocation = self._look(app, name)
        if found is None or found.seq != seq:  # It was added and removed in the same batch.
            return TrackedAsk(app, name, seq, "", Resources(), None, Watched(AskStatus(None)))
        known = self._asks.get((app, name))
        if known is not None:
            return known
        return self._add(app, found, self._status(place, allocation))

    def _add(self, app: str, ask: Ask, status: AskStatus) -> TrackedAsk:
        seen = self._machine.app(app)
        assert seen is not None, "an ask without an application"
        queue = seen.identity.path
        fields = app, ask.name, ask.seq, queue, ask.resources, ask.gang
        tracked = TrackedAsk(*fields, Watched(status), ask.work, ask.once)
        self._asks[app, ask.name] = tracked
        if ask.gang is not None:
            self._members.setdefault(ask.gang, {})[app, ask.name] = tracked
        return tracked

    def adopt(self) -> Steps[list[tuple[TrackedAsk, AllocationStatus]]]:
        """Track all bound asks, when a store was loaded; return them in the order of their binds."""
        found: list[tuple[int, str, str]] = []
        for app in self._machine.view.apps.values():
            yield
            name = app.identity.name
            found.extend((held[0].number, name, ask) for ask, held in app.bound.items())
        found.sort()
        adopted: list[tuple[TrackedAsk, AllocationStatus]] = []
        for piece in in_pieces(found):
            yield
            for _, app_name, ask_name in piece:
                tracked = self.track(app_name, ask_name)
                held = tracked.status.decided.held
                assert held is not None, "an ask is bound to nothing"
                adopted.append((tracked, held))
        return adopted

    def select(
        self, state: AskPlace | None, queue: str | None, app: str | None
    ) -> Steps[list[TrackedAsk]]:
        """Track the asks in a place, and of a queue or an application.

        Args:
            state: The place, or None for all.
            queue: The path of a queue, in lower case; also asks below it count. None for all.
            app: The name of an application, or None for all.

        Returns:
            The asks, in the order in which they were added.
        """
        found: list[tuple[int, int, str, str]] = []
        for seen in self._machine.view.apps.values():
            yield
            identity = seen.identity
            if app not in {None, identity.name}:
                continue
            if queue is not None and not is_below(identity.path, queue):
                continue
            for piece in in_pieces(_asks_of(seen, state)):
                found.extend((ask.seq, ask.number, identity.name, ask.name) for ask in piece)
                yield
        selected: list[TrackedAsk] = []
        for names in in_pieces((yield from in_order(found, itemgetter(0, 1)))):
            yield
            selected.extend(self.track(name, ask) for _, _, name, ask in names)
        return selected

    def track_gang(self, gang: str) -> Watched[GangStatus]:
        """Track a gang, as long as it is defined."""
        watched = self._gangs.get(gang)
        if watched is None:
            watched = Watched(self._gang_status(gang))
            if watched.value.defined:
                self._gangs[gang] = watched
        return watched

    # Reading the view

    def _look(self, app: str, name: str) -> tuple[Ask | None, AskPlace | None, Allocation | None]:
        """Return an ask, its place and its allocation, as the view has them, or None for each."""
        seen = self._machine.app(app)
        found = None if seen is None else seen.find(name)
        if seen is None or found is None:
            return None, None, None
        return found, seen.place(name), seen.allocation(name)

    def has(self, ask: TrackedAsk) -> bool:
        """Return whether an ask still exists; also while a batch is open."""
        found, _, _ = self._look(ask.app, ask.name)
        return found is not None and found.seq == ask.seq

    def holds(self, ask: TrackedAsk, held: AllocationStatus) -> bool:
        """Return whether an ask still holds an allocation; also while a batch is open."""
        key = self._machine.registry.locate(ask.app)
        return key is not None and self._machine.view.is_bound(key, ask.name, held.number)

    def _gang_status(self, name: str) -> GangStatus:
        gang = self._machine.view.gangs.get(name)
        if gang is None:
            return GangStatus()
        return GangStatus(
            defined=gang.definition is not None,
            satisfied=gang.satisfied,
            timed_out=gang.state is GangState.TIMED_OUT,
        )

    # After a batch

    def update(
        self, announced: Sequence[Announced], gangs: Iterable[str]
    ) -> Steps[list[tuple[TrackedAsk, AllocationStatus]]]:
        """Look up what a batch has changed, and put it to be published.

        Asks come before gangs, so that the members of a satisfied gang are bound for all readers.

        Args:
            announced: The decisions of the batch.
            gangs: The names of the gangs that it may have changed.

        Returns:
            The asks that have a new allocation, with it, in the order of their decisions.
        """
        bound: list[tuple[TrackedAsk, AllocationStatus]] = []
        if not (self._asks or self._gangs or self._all_bound):
            return bound
        touched: dict[Name, Decision | None] = {}
        satisfied: set[str | None] = set()
        together = BoundTogether()
        for piece in slices(announced):
            yield
            self._look_through(piece, touched, satisfied, together)
        changed = sorted(gangs)
        for gang in changed:
            for name in self._members.get(gang, ()):
                touched.setdefault(name, None)
        for some in in_pieces(touched.items()):
            yield
            for name, end in some:
                fresh = self._publish(*name, end)
                if fresh is not None:
                    bound.append(fresh)
        yield from self._note_peers(bound, together)
        for gang in changed:
            self._publish_gang(gang, satisfied=gang in satisfied)
        return bound

    def _look_through(
        self,
        announced: Sequence[Announced],
        touched: dict[Name, Decision | None],
        satisfied: set[str | None],
        together: BoundTogether,
    ) -> None:
        """Collect the tracked asks, the satisfied gangs and their steps of some decisions."""
        asks = self._asks
        for one in announced:
            decision = one.decision
            kind, app, ask = decision.kind, decision.app, decision.ask
            if kind is Kind.GANG_SATISFIED:
                satisfied.add(decision.gang)
            if satisfied:
                together.observe(decision)
            if app is None or ask is None:
                continue
            name = (app, ask)
            if name in asks or (self._all_bound and kind is Kind.BOUND):
                # The first reason is the one that ended the allocation from before the batch.
                end = None if decision.reason is None else decision
                touched[name] = touched.get(name) or end

    def _note_peers(
        self, bound: Sequence[tuple[TrackedAsk, AllocationStatus]], together: BoundTogether
    ) -> Steps[None]:
        """Note in each new allocation how many were bound in the same step."""
        fresh: dict[Name, AllocationStatus] = {}
        for some in in_pieces(bound):
            yield
            for ask, held in some:
                held.peers, held.step = 1, held.number
                if ask.gang is not None:
                    fresh[ask.app, ask.name] = held
        for step in together.steps():
            yield
            found = [self._look(*name)[2] for name in step]
            numbers = [one.number for one in found if one is not None]
            for name in step:
                if name in fresh:
                    fresh[name].peers, fresh[name].step = len(numbers), min(numbers)

    def _publish_gang(self, gang: str, *, satisfied: bool) -> None:
        watched = self._gangs.get(gang)
        if watched is None:
            return
        before = watched.decided
        status = attrs.evolve(self._gang_status(gang), times=before.times + satisfied)
        if status != before:
            self._publications.put(watched, status)
        if not status.defined:
            del self._gangs[gang]
            self._publications.until_published(partial(_close_gang, watched))

    def _publish(
        self, app: str, name: str, end: Decision | None
    ) -> tuple[TrackedAsk, AllocationStatus] | None:
        """Publish the state of an ask; return the ask and its allocation if that is new."""
        tracked = self._asks.get((app, name))
        found, place, allocation = self._look(app, name)
        bound = allocation if place is AskPlace.BOUND else None
        if tracked is not None and (found is None or found.seq != tracked.seq):
            self._forget(tracked)
            self._change(tracked, None, None, end)
            self._publications.until_published(partial(_close_ask, tracked))
            tracked = None  # An ask that has this name now is another ask.
        if tracked is not None:
            fresh = self._change(tracked, place, bound, end)
            return None if fresh is None else (tracked, fresh)
        if found is not None and bound is not None and self._all_bound:
            status = self._status(place, allocation)
            assert status.held is not None, "an ask is bound to nothing"
            return self._add(app, found, status), status.held
        return None

    def _change(
        self,
        tracked: TrackedAsk,
        place: AskPlace | None,
        allocation: Allocation | None,
        end: Decision | None,
    ) -> AllocationStatus | None:
        """Publish the place and the allocation of an ask; return the allocation if it is new."""
        status = tracked.status.decided
        failures, error = status.failures, status.error
        lasting = status.held if status.place is AskPlace.BOUND else None
        if lasting is not None and allocation is not None and allocation.number == lasting.number:
            return None
        if lasting is not None:
            assert end is not None, "an allocation ended without a decision"
            assert end.reason is not None, "a decision ended an allocation without a reason"
            for_good = place is None and ends_ask(end.reason, 0, once=tracked.once)
            lasting.note_end(end.message, for_good=for_good)
            self._publications.put(lasting.ended, end.reason)
            if end.reason is not Reason.BIND_FAILED:
                failures, error = 0, None
        fresh = self._status(place, allocation)
        held = fresh.held or status.held
        after = AskStatus(place, held, fresh.started, failures, error, status.is_given_up)
        if after != status:
            self._publications.put(tracked.status, after)
        return fresh.held

    def _status(self, place: AskPlace | None, allocation: Allocation | None) -> AskStatus:
        """Return the state of an ask that was not bound before."""
        if allocation is None or place is not AskPlace.BOUND:
            return AskStatus(place)
        gang = self._machine.view.gangs.get(allocation.ask.gang or "")
        # The step in which it was bound was not followed; that is corrected after a batch.
        peers, step = (1, allocation.number) if gang is None else (len(gang.bound), 0)
        devices = allocation.devices
        held = AllocationStatus(allocation.number, allocation.node, peers, step, devices=devices)
        return AskStatus(place, held, started=not self._all_bound)

    def _forget(self, tracked: TrackedAsk) -> None:
        del self._asks[tracked.app, tracked.name]
        if tracked.gang is not None:
            members = self._members[tracked.gang]
            del members[tracked.app, tracked.name]
            if not members:
                del self._members[tracked.gang]

    # Binders

    def started(self, ask: TrackedAsk, held: AllocationStatus) -> None:
        """Record that the work of an allocation has started, unless the allocation has ended."""
        status = ask.status.decided
        if status.place is AskPlace.BOUND and status.held is held:
            self._publications.put(ask.status, attrs.evolve(status, started=True))

    def count_failed_bind(self, ask: TrackedAsk, error: Exception, attempts: int | None) -> bool:
        """Record that the bind of an ask has failed, because its work could not be started.

        Args:
            ask: The ask.
            error: The error of the work.
            attempts: How many such ends there may be in a row (``bind_attempts``), or None for no
                limit. An allocation that ends in another way, also as failed, ends the row.

        Returns:
            Whether it was the last attempt, so that the ask is to be removed.
        """
        status = ask.status.decided
        failures = status.failures + 1
        given_up = attempts is not None and failures >= attempts
        counted = attrs.evolve(status, failures=failures, error=error, is_given_up=given_up)
        self._publications.put(ask.status, counted)
        return given_up

    def close(self) -> None:
        """Publish that the scheduler is closed, for all tracked asks and gangs."""
        for tracked in self._asks.values():
            _close_ask(tracked)
        for watched in self._gangs.values():
            _close_gang(watched)
        self._publications.close()
        self._asks.clear()
        self._members.clear()
        self._gangs.clear()


def _close_ask(tracked: TrackedAsk) -> None:
    status = tracked.status.value
    if status.held is not None and status.held.ended.value is None:
        status.held.ended.publish(CLOSED)
    tracked.status.publish(attrs.evolve(status, place=CLOSED))


def _close_gang(watched: Watched[GangStatus]) -> None:
    watched.publish(attrs.evolve(watched.value, closed=True))
