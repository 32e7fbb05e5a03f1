"""The machine that owns an application: its asks, its allocations, its state.

Each ask is in exactly one place: pending, parked, waiting or bound. Whatever is asked of the
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
    AddPlaced,
    Allocation,
    AppAction,
    AppIdentity,
    AppReport,
    AppRequest,
    Ask,
    AskRequest,
    Close,
    CommitApp,
    Complete,
    Dismiss,
    Enlist,
    Entered,
    FinishAsk,
    Freed,
    LoseNode,
    Moved,
    Origin,
    ParkAsks,
    Parked,
    Pending,
    Placed,
    ReleaseAsk,
    RollBack,
    Say,
    SpoilBinds,
    Spoilt,
    TimeUp,
    ToApplication,
    UndoBind,
    UnparkAsks,
    Unparked,
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

_CAME: Final = -3
_BEFORE: Final = -2
"""Where it stands in the log of an event that an application came with it, and that it has
an ask, if that ask is bound already: before the gang of that is satisfied, which is -1."""


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
    #: All and only the members of gangs that are not to be tried, by name.
    _parked: dict[str, Ask] = attrs.field(factory=dict[str, Ask], init=False)
    #: All and only the members of gangs that hold a node without being bound, by name.
    _waiting: dict[str, Allocation] = attrs.field(factory=dict[str, Allocation], init=False)
    #: All and only the bound asks, by name, in bind order.
    _bound: dict[str, Allocation] = attrs.field(factory=dict[str, Allocation], init=False)
    #: How many of the next binds of an ask will fail; no zeros, only asks that exist.
    _spoilt: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    #: The priorities of the pending asks.
    _tally: PriorityTally = attrs.field(factory=PriorityTally, init=False)
    #: The sum of the pending asks; no zeros.
    _pending_total: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    #: The sum of the bound and the waiting asks; no zeros.
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
                return self._enter(AppState.NEW, request.origin, _CAME)
            case TimeUp():
                return self._time_up(request)
            case Dismiss():
                return self._dismiss(request)
            case LoseNode():
                return self._lose_node(request)
            case RollBack():
                return self._roll_back(request)
            case ParkAsks():
                return self._park(request)
            case UnparkAsks():
                return self._unpark(request)
            case _:
                return self._answer_of_asks(request)

    def _answer_of_asks(self, request: AskRequest) -> Iterator[AppAction]:
        match request:
            case AddAsks():
                return self._add(request)
            case AddPlaced():
                return self._place(request)
            case FinishAsk():
                return self._finish(request.ask, request.origin, request.reason)
            case WithdrawAsk():
                return self._withdraw(request)
            case ReleaseAsk():
                return self._release(request)
            case UndoBind():
                return self._undo_bind(request)
            case SpoilBinds():
                return self._spoil(request)
            case Complete():
                return self._finish(request.ask, request.origin, Reason.COMPLETED)
            case _:
                assert_never(request)

    def _add(self, request: AddAsks) -> Iterator[AppAction]:
        event = request.event
        names = event.names()
        for name in names:
            if self._knows(name):
                msg = f"ask: {name!r} is already an ask of application {self.identity.name!r}"
                raise RefusedError(msg)
        for ask in self._asks(request):
            yield from self._park_one(ask) if request.parked else self._becomes_pending(ask)
        yield from self._trigger(Trigger.ASK_ADDED, request.origin)

    def _place(self, request: AddPlaced) -> Iterator[AppAction]:
        (ask,) = self._asks(request)
        allocation = Allocation(ask, request.node, request.number)
        self._enter_bound(allocation)
        yield Placed(allocation)
        decision = self._decision(Kind.BOUND, ask, request.node)
        yield Say((request.origin.seq, 0, 0), decision)
        # First it has an ask; then, once its gang is satisfied, a bound one.
        yield from self._trigger(Trigger.ASK_ADDED, request.origin, _BEFORE)
        yield from self._trigger(Trigger.ASK_BOUND, request.origin)

    @staticmethod
    def _asks(request: AddAsks | AddPlaced) -> list[Ask]:
        event, priority, origin = request.event, request.priority, request.origin
        shape = Shape(event.resources, tuple(sorted(event.selector.items())), event.node)
        gang = event.gang or ""
        return [
            Ask(
                name=name,
                resources=event.resources,
                priority=priority,
                order=(-priority, origin.creation, gang, origin.seq, number),
                shape=shape,
                run_for_us=event.run_for_us,
                gang=event.gang,
                preempts=request.preempts,
                came_us=origin.at_us,
            )
            for number, name in enumerate(event.names())
        ]

    def _knows(self, name: str) -> bool:
        places = (self._pending, self._parked, self._waiting, self._bound)
        return any(name in place for place in places)

    def _withdraw(self, request: WithdrawAsk) -> Iterator[AppAction]:
        if request.ask in self._bound or not self._knows(request.ask):
            raise RefusedError(self._not_there(request.ask, "pending", "release it"))
        return self._finish(request.ask, request.origin, Reason.REMOVED)

    def _release(self, request: ReleaseAsk) -> Iterator[AppAction]:
        if request.ask not in self._bound:
            raise RefusedError(self._not_there(request.ask, "bound", "use remove_ask"))
        return self._finish(request.ask, request.origin, Reason.COMPLETED)

    def _finish(self, name: str, origin: Origin, reason: Reason) -> Iterator[AppAction]:
        """End an ask, wherever it is."""
        yield from self._remove(name, reason, (origin.seq, 0, 0))
        if self._spoilt.pop(name, 0):
            yield Spoilt(name, 0)
        if not (self._pending or self._parked or self._waiting or self._bound):
            yield from self._trigger(Trigger.EMPTIED, origin)

    def _remove(
        self, name: str, reason: Reason, order: tuple[int, int, int]
    ) -> Iterator[AppAction]:
        """Take an ask out of its place, and say why."""
        held = self._bound.get(name) or self._waiting.get(name)
        if held is not None:
            ask = held.ask
            yield self._leave_node(held)
        elif name in self._parked:
            ask = self._parked.pop(name)
            yield Unparked(ask)
        else:
            ask = self._pending[name]
            yield self._leave_pending(ask)
        yield self._say_released(ask, None if held is None else held.node, reason, order)
        yield from self._moved(order, ask, None)

    def _spoil(self, request: SpoilBinds) -> Iterator[AppAction]:
        name = request.ask
        if not self._knows(name):
            msg = f"ask: {name!r} is no ask of application {self.identity.name!r}"
            raise RefusedError(msg)
        times = self._spoilt.get(name, 0) + request.times
        if times > SPOILT_LIMIT:
            msg = f"times: {request.times} more would make more than {SPOILT_LIMIT} failing binds"
            raise RefusedError(msg)
        self._spoilt[name] = times
        yield Spoilt(name, times)

    def _lose_node(self, request: LoseNode) -> Iterator[AppAction]:
        held, bound = [*self._bound.values(), *self._waiting.values()], set(self._bound)
        for allocation in [here for here in held if here.node == request.node]:
            order = (request.origin.seq, allocation.number, 0)
            yield from self._give_up(allocation, Reason.NODE_LOST, order)
            park = allocation.ask.gang in request.timed_out
            was_bound = allocation.ask.name in bound
            yield from self._put_back(
                allocation.ask, order, park=park, lost=True, was_bound=was_bound
            )

    def _undo_bind(self, request: UndoBind) -> Iterator[AppAction]:
        allocation = self._bound.get(request.ask)
        if allocation is None:
            instead = "use fail_bind to let its next bind fail"
            raise RefusedError(self._not_there(request.ask, "bound", instead))
        ask, order = allocation.ask, (request.origin.seq, 0, 0)
        park = ask.gang is not None and ask.gang == request.timed_out
        yield from self._give_up(allocation, Reason.BIND_FAILED, order)
        # Nobody has taken it from its gang, which therefore is what it was.
        yield from self._put_back(ask, order, park=park, was_bound=True)

    def _roll_back(self, request: RollBack) -> Iterator[AppAction]:
        for number, name in request.asks:
            allocation = self._waiting.get(name)
            if allocation is None:  # An object that came with this one has ended its wait.
                continue
            order = (request.origin.seq, 1, number)
            yield from self._give_up(allocation, request.reason, order)
            yield from self._put_back(allocation.ask, order, park=request.park)

    def _put_back(
        self,
        ask: Ask,
        order: tuple[int, int, int],
        *,
        park: bool,
        lost: bool = False,
        was_bound: bool = False,
    ) -> Iterator[AppAction]:
        """Let an ask that held a node be pending again, or parked."""
        if park:
            yield from self._park_one(ask, was_bound=was_bound)
        else:
            yield from self._becomes_pending(ask, was_bound=was_bound)
        place = AskPlace.PARKED if park else AskPlace.PENDING
        yield from self._moved(order, ask, place, lost=lost)

    def _give_up(
        self,
        allocation: Allocation,
        reason: Reason,
        order: tuple[int, int, int],
    ) -> Iterator[AppAction]:
        yield self._leave_node(allocation)
        yield self._say_released(allocation.ask, allocation.node, reason, order)

    def _park(self, request: ParkAsks) -> Iterator[AppAction]:
        for name in request.asks:
            ask = self._pending.get(name)
            if ask is None:
                continue
            yield self._leave_pending(ask)
            yield from self._park_one(ask)
            yield from self._moved((request.origin.seq, 1, 0), ask, AskPlace.PARKED)

    def _park_one(self, ask: Ask, *, was_bound: bool = False) -> Iterator[AppAction]:
        self._parked[ask.name] = ask
        yield Parked(ask, was_bound)

    def _unpark(self, request: UnparkAsks) -> Iterator[AppAction]:
        for name in request.asks:
            ask = self._parked.pop(name, None)
            if ask is None:
                continue
            yield Unparked(ask)
            yield from self._becomes_pending(ask)
            yield from self._moved((request.origin.seq, 1, 0), ask, AskPlace.PENDING)

    def _time_up(self, request: TimeUp) -> Iterator[AppAction]:
        # A completion of the same instant comes first, and may have ended the state.
        if self._state is request.state:
            yield from self._trigger(Trigger.TIME_UP, request.origin)
            self._gone = self._state is AppState.COMPLETED

    def _dismiss(self, request: Dismiss) -> Iterator[AppAction]:
        held = [*self._waiting.values(), *self._bound.values()]
        free = [*self._pending.values(), *self._parked.values()]
        asks = sorted([*free, *(one.ask for one in held)], key=lambda ask: ask.order[3:])
        for number, ask in enumerate(asks):
            yield from self._remove(ask.name, Reason.REMOVED, (request.origin.seq, 0, number))
        self._gone = True

    def _commit(self, commit: CommitApp) -> None:
        for name in commit.released:
            allocation = self._waiting.pop(name, None) or self._bound.pop(name)
            take_from(self._allocated_total, allocation.ask.resources)
            if name in commit.parked:
                self._parked[name] = allocation.ask
            else:
                self._enter_pending(allocation.ask)
        for allocation in commit.waiting:
            self._leave_pending(allocation.ask)
            self._waiting[allocation.ask.name] = allocation
            add_to(self._allocated_total, allocation.ask.resources)
        for allocation in commit.bound:
            if self._waiting.pop(allocation.ask.name, None) is not None:
                take_from(self._allocated_total, allocation.ask.resources)
            else:
                self._leave_pending(allocation.ask)
            self._enter_bound(allocation)
            self._state = next_state(
                self._state, Trigger.ASK_BOUND, skip_starting=self.identity.skip_starting
            )
        for name in commit.failed:
            left = self._spoilt[name] - 1
            if left:
                self._spoilt[name] = left
            else:
                del self._spoilt[name]

    def _becomes_pending(self, ask: Ask, *, was_bound: bool = False) -> Iterator[AppAction]:
        self._enter_pending(ask)
        yield Pending(ask, was_bound)

    def _enter_pending(self, ask: Ask) -> None:
        self._pending[ask.name] = ask
        self._tally.add(ask.priority)
        add_to(self._pending_total, ask.resources)

    def _leave_pending(self, ask: Ask) -> Withdrawn:
        del self._pending[ask.name]
        self._tally.remove(ask.priority)
        take_from(self._pending_total, ask.resources)
        return Withdrawn(ask)

    def _enter_bound(self, allocation: Allocation) -> None:
        self._bound[allocation.ask.name] = allocation
        add_to(self._allocated_total, allocation.ask.resources)

    def _leave_node(self, allocation: Allocation) -> Freed:
        place = self._bound if allocation.ask.name in self._bound else self._waiting
        del place[allocation.ask.name]
        take_from(self._allocated_total, allocation.ask.resources)
        return Freed(allocation)

    @staticmethod
    def _moved(
        order: tuple[int, int, int], ask: Ask, place: AskPlace | None, *, lost: bool = False
    ) -> Iterator[AppAction]:
        """Say where a member of a gang is now, for its gang."""
        if ask.gang is not None:
            yield Moved(order, ask, place, lost)

    def _trigger(self, trigger: Trigger, origin: Origin, order: int = 0) -> Iterator[AppAction]:
        skip = self.identity.skip_starting
        after = next_state(self._state, trigger, skip_starting=skip)
        if after is not self._state:
            yield from self._enter(after, origin, order)

    def _enter(self, state: AppState, origin: Origin, order: int = 0) -> Iterator[AppAction]:
        self._state = state
        yield Entered(state)
        decision = Decision(
            Kind.APP_STATE, app=self.identity.name, queue=self.identity.path, state=state.value
        )
        yield Say((origin.seq, order, 1), decision)

    def _say_released(
        self, ask: Ask, node: str | None, reason: Reason, order: tuple[int, int, int]
    ) -> Say:
        return Say(order, self._decision(Kind.RELEASED, ask, node, reason))

    def _decision(
        self, kind: Kind, ask: Ask, node: str | None, reason: Reason | None = None
    ) -> Decision:
        app, path = self.identity.name, self.identity.path
        return Decision(
            kind, app=app, ask=ask.name, node=node, queue=path, gang=ask.gang, reason=reason
        )

    def _not_there(self, ask: str, place: str, instead: str) -> str:
        app = self.identity.name
        if self._knows(ask):
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
        asks = [
            *((ask, AskPlace.PENDING, None) for ask in self._pending.values()),
            *((ask, AskPlace.PARKED, None) for ask in self._parked.values()),
            *((held.ask, AskPlace.WAITING, held.node) for held in self._waiting.values()),
            *((held.ask, AskPlace.BOUND, held.node) for held in self._bound.values()),
        ]
        return AppSnapshot(
            name=self.identity.name,
            queue=self.identity.path,
            state=self._state,
            priority=self._tally.top(),
            asks=tuple(
                AskSnapshot(ask.name, place, ask.priority, ask.resources, node, ask.gang)
                for ask, place, node in asks
            ),
        )

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # An ask is in exactly one place.
        places = (self._pending, self._parked, self._waiting, self._bound)
        names = [name for place in places for name in place]
        assert len(names) == len(set(names))
        # Only asks that exist can have binds that will fail.
        assert set(self._spoilt) <= set(names)
        # Only members of gangs are parked or wait.
        assert all(ask.gang is not None for ask in self._parked.values())
        assert all(held.ask.gang is not None for held in self._waiting.values())
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
        for held in (*self._waiting.values(), *self._bound.values()):
            add_to(allocated, held.ask.resources)
        assert allocated == self._allocated_total
