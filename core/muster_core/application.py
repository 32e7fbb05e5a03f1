"""The machine that owns an application: its asks, its allocations, its state.

Each ask is in exactly one place: pending or bound. Whatever is asked of the
application is answered here, in the order of arrival, and a request that makes
no sense is refused and changes nothing. What happened is said in actions, which
the next report carries upward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never, final

import attrs

from muster_core.decisions import Decision, Kind, Reason
from muster_core.errors import RefusedError
from muster_core.lifecycle import AppState, Trigger, next_state
from muster_core.messages import (
    AddAsks,
    Allocation,
    AppAction,
    AppIdentity,
    AppReport,
    AppRequest,
    Ask,
    Close,
    CommitApp,
    Complete,
    Dismiss,
    Enlist,
    Entered,
    Freed,
    LoseNode,
    Origin,
    Pending,
    ReleaseAsk,
    Say,
    SpoilBinds,
    Spoilt,
    TimeUp,
    ToApplication,
    Values,
    WithdrawAsk,
    Withdrawn,
)
from muster_core.priority import PriorityTally
from muster_core.shapes import Shape
from muster_core.snapshots import AppSnapshot, AskPlace, AskSnapshot
from muster_core.totals import add_to, take_from

if TYPE_CHECKING:
    from collections.abc import Iterator

SPOILT_LIMIT: Final = 1_000_000
"""The largest number of binds of one ask that can be made to fail beforehand."""


@final
@attrs.define(eq=False)
class ApplicationMachine:
    """One application.

    Args:
        identity: What about it never changes.
    """

    identity: AppIdentity
    _state: AppState = attrs.field(default=AppState.NEW, init=False)
    #: All and only the asks that wait for a node, by name.
    _pending: dict[str, Ask] = attrs.field(factory=dict[str, Ask], init=False)
    #: All and only the asks that have a node, by name, in bind order.
    _bound: dict[str, Allocation] = attrs.field(factory=dict[str, Allocation], init=False)
    #: How many of the next binds of an ask will fail; no zeros, only asks that exist.
    _spoilt: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    #: The priorities of the pending asks.
    _tally: PriorityTally = attrs.field(factory=PriorityTally, init=False)
    #: The sum of the pending asks; no zeros.
    _pending_total: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    #: The sum of the bound asks; no zeros.
    _allocated_total: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    #: What was done since the last report.
    _actions: list[AppAction] = attrs.field(factory=list[AppAction], init=False)
    _credits: int = attrs.field(default=0, init=False)
    _gone: bool = attrs.field(default=False, init=False)

    def handle(self, message: ToApplication) -> AppReport | None:
        """Do what a message says.

        Args:
            message: The next message, in the order in which they were sent.

        Returns:
            A report, in answer to :class:`Close`; None otherwise.
        """
        match message:
            case Close():
                return self._report(message.epoch)
            case CommitApp():
                self._commit(message)
            case _:
                self._credits += 1
                try:
                    self._actions.extend(self._answer(message))
                except RefusedError as refusal:
                    self._actions.append(self._refused(message.origin, refusal))
        return None

    def _answer(self, request: AppRequest) -> Iterator[AppAction]:
        """Give the actions of a request; nothing is changed before it is known to make sense."""
        match request:
            case Enlist():
                return self._enter(AppState.NEW, request.origin)
            case AddAsks():
                return self._add(request)
            case WithdrawAsk():
                return self._withdraw(request)
            case ReleaseAsk():
                return self._release(request)
            case SpoilBinds():
                return self._spoil(request)
            case LoseNode():
                return self._lose_node(request)
            case Complete():
                return self._end(self._bound[request.ask], request.origin)
            case TimeUp():
                return self._time_up(request)
            case Dismiss():
                return self._dismiss(request)
            case _:
                assert_never(request)

    def _add(self, request: AddAsks) -> Iterator[AppAction]:
        event, origin = request.event, request.origin
        names = [event.ask]
        if event.count is not None:
            names = [f"{event.ask}-{number}" for number in range(event.count)]
        for name in names:
            if name in self._pending or name in self._bound:
                msg = f"ask: {name!r} is already an ask of application {self.identity.name!r}"
                raise RefusedError(msg)
        shape = Shape(event.resources, tuple(sorted(event.selector.items())), event.node)
        for number, name in enumerate(names):
            order = (-request.priority, origin.seq, "", origin.seq, number)
            ask = Ask(name, event.resources, request.priority, order, shape, event.run_for_us)
            yield self._becomes_pending(ask)
        yield from self._trigger(Trigger.ASK_ADDED, origin)

    def _withdraw(self, request: WithdrawAsk) -> Iterator[AppAction]:
        ask = self._pending.get(request.ask)
        if ask is None:
            raise RefusedError(self._not_there(request.ask, "pending", "release it"))
        self._leave_pending(ask)
        self._spoilt.pop(ask.name, None)
        yield Withdrawn(ask)
        yield self._say_released(ask, None, Reason.REMOVED, (request.origin.seq, 0, 0))
        yield from self._emptied(request.origin)

    def _release(self, request: ReleaseAsk) -> Iterator[AppAction]:
        allocation = self._bound.get(request.ask)
        if allocation is None:
            raise RefusedError(self._not_there(request.ask, "bound", "use remove_ask"))
        yield from self._end(allocation, request.origin)

    def _end(self, allocation: Allocation, origin: Origin) -> Iterator[AppAction]:
        """End an allocation that has completed."""
        self._leave_bound(allocation)
        yield Freed(allocation)
        if self._spoilt.pop(allocation.ask.name, 0):
            yield Spoilt(allocation.ask.name, 0)
        order = (origin.seq, 0, 0)
        yield self._say_released(allocation.ask, allocation.node, Reason.COMPLETED, order)
        yield from self._emptied(origin)

    def _spoil(self, request: SpoilBinds) -> Iterator[AppAction]:
        name = request.ask
        if name not in self._pending and name not in self._bound:
            msg = f"ask: {name!r} is no ask of application {self.identity.name!r}"
            raise RefusedError(msg)
        times = self._spoilt.get(name, 0) + request.times
        if times > SPOILT_LIMIT:
            msg = f"times: {request.times} more would make more than {SPOILT_LIMIT} failing binds"
            raise RefusedError(msg)
        self._spoilt[name] = times
        yield Spoilt(name, times)

    def _lose_node(self, request: LoseNode) -> Iterator[AppAction]:
        for allocation in [held for held in self._bound.values() if held.node == request.node]:
            self._leave_bound(allocation)
            yield Freed(allocation)
            order = (request.origin.seq, allocation.number, 0)
            yield self._say_released(allocation.ask, allocation.node, Reason.NODE_LOST, order)
            yield self._becomes_pending(allocation.ask)

    def _time_up(self, request: TimeUp) -> Iterator[AppAction]:
        # A completion of the same instant comes first, and may have ended the state.
        if self._state is request.state:
            yield from self._trigger(Trigger.TIME_UP, request.origin)
            self._gone = self._state is AppState.COMPLETED

    def _dismiss(self, request: Dismiss) -> Iterator[AppAction]:
        asks = [*self._pending.values(), *(held.ask for held in self._bound.values())]
        for number, ask in enumerate(sorted(asks, key=lambda ask: ask.order[3:])):
            held = self._bound.get(ask.name)
            if held is None:
                self._leave_pending(ask)
                yield Withdrawn(ask)
            else:
                self._leave_bound(held)
                yield Freed(held)
            order = (request.origin.seq, 0, number)
            node = None if held is None else held.node
            yield self._say_released(ask, node, Reason.REMOVED, order)
        self._gone = True

    def _commit(self, commit: CommitApp) -> None:
        for allocation in commit.bound:
            ask = allocation.ask
            self._leave_pending(ask)
            self._bound[ask.name] = allocation
            add_to(self._allocated_total, ask.resources)
            self._state = next_state(
                self._state, Trigger.ASK_BOUND, skip_starting=self.identity.skip_starting
            )
        for name in commit.failed:
            left = self._spoilt[name] - 1
            if left:
                self._spoilt[name] = left
            else:
                del self._spoilt[name]

    def _becomes_pending(self, ask: Ask) -> Pending:
        self._pending[ask.name] = ask
        self._tally.add(ask.priority)
        add_to(self._pending_total, ask.resources)
        return Pending(ask)

    def _leave_pending(self, ask: Ask) -> None:
        del self._pending[ask.name]
        self._tally.remove(ask.priority)
        take_from(self._pending_total, ask.resources)

    def _leave_bound(self, allocation: Allocation) -> None:
        del self._bound[allocation.ask.name]
        take_from(self._allocated_total, allocation.ask.resources)

    def _trigger(self, trigger: Trigger, origin: Origin) -> Iterator[AppAction]:
        after = next_state(self._state, trigger)
        if after is not self._state:
            yield from self._enter(after, origin)

    def _emptied(self, origin: Origin) -> Iterator[AppAction]:
        if not self._pending and not self._bound:
            yield from self._trigger(Trigger.EMPTIED, origin)

    def _enter(self, state: AppState, origin: Origin) -> Iterator[AppAction]:
        self._state = state
        yield Entered(state)
        decision = Decision(
            Kind.APP_STATE, app=self.identity.name, queue=self.identity.path, state=state.value
        )
        yield Say((origin.seq, 0, 1), decision)

    def _say_released(
        self, ask: Ask, node: str | None, reason: Reason, order: tuple[int, int, int]
    ) -> Say:
        app, path = self.identity.name, self.identity.path
        decision = Decision(
            Kind.RELEASED, app=app, ask=ask.name, node=node, queue=path, reason=reason
        )
        return Say(order, decision)

    def _not_there(self, ask: str, place: str, instead: str) -> str:
        app = self.identity.name
        if ask in self._pending or ask in self._bound:
            return f"ask: {ask!r} of application {app!r} is not {place}; {instead}"
        return f"ask: {ask!r} is no ask of application {app!r}"

    @staticmethod
    def _refused(origin: Origin, refusal: RefusedError) -> Say:
        decision = Decision(
            Kind.REJECTED, message=str(refusal), index=origin.index, line=origin.line
        )
        return Say((origin.seq, 0, 0), decision)

    def _report(self, epoch: int) -> AppReport:
        report = AppReport(
            identity=self.identity,
            epoch=epoch,
            credits=self._credits,
            actions=tuple(self._actions),
            values=self.values(),
            gone=self._gone,
        )
        self._actions.clear()
        self._credits = 0
        return report

    def values(self) -> Values:
        """Give what counts of the application in its queue."""
        return Values(self._tally.top(), dict(self._pending_total), dict(self._allocated_total))

    def snapshot(self) -> AppSnapshot:
        """Give the application as it is now."""
        pending = (
            AskSnapshot(ask.name, AskPlace.PENDING, ask.priority, ask.resources)
            for ask in self._pending.values()
        )
        bound = (
            AskSnapshot(
                held.ask.name, AskPlace.BOUND, held.ask.priority, held.ask.resources, held.node
            )
            for held in self._bound.values()
        )
        return AppSnapshot(
            name=self.identity.name,
            queue=self.identity.path,
            state=self._state,
            priority=self._tally.top(),
            asks=(*pending, *bound),
        )

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        assert not set(self._pending) & set(self._bound)
        # Only asks that exist can have binds that will fail.
        assert set(self._spoilt) <= set(self._pending) | set(self._bound)
        # The cached maximum and the sums are those that a fresh look gives.
        self._tally.check()
        assert self._tally.top() == max(
            (ask.priority for ask in self._pending.values()), default=None
        )
        pending: dict[str, int] = {}
        for ask in self._pending.values():
            add_to(pending, ask.resources)
        assert pending == self._pending_total
        allocated: dict[str, int] = {}
        for held in self._bound.values():
            add_to(allocated, held.ask.resources)
        assert allocated == self._allocated_total
