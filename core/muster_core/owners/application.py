"""The state machine of an application: its asks, its allocations and its state.

Each ask is in exactly one place: pending, parked, waiting or bound. The machine handles requests in
the order of arrival; it refuses an invalid request, which changes nothing. Its actions, most of
which are moves of asks, go to the coordinator, or to its leaf, with the next report. Its facts are
taken for a checkpoint, and its asks are loaded from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, assert_never, final

import attrs

from muster_core.owners.app_messages import (
    AddAsks,
    AddPlaced,
    AllocationAdded,
    AppAction,
    AppFacts,
    AppLoaded,
    AppReport,
    AppRequest,
    AskParked,
    AsksPending,
    BindsWillFail,
    Close,
    CommitApp,
    Complete,
    DecisionMade,
    Dismiss,
    Enlist,
    EnterState,
    FailAsk,
    FailureCount,
    FinishAsk,
    GroupChanged,
    LoadApp,
    LoseNode,
    ParkAsks,
    Regroup,
    ReleaseAsk,
    RollBack,
    SpoilBinds,
    StateEntered,
    ToApplication,
    UndoBind,
    UnparkAsks,
    Values,
    WaitingLoaded,
    WideRequest,
    WithdrawAsk,
    rejection,
)
from muster_core.owners.ask_moves import AskMessages, AskMoves, BindFailures, asks_in_steps, asks_of
from muster_core.owners.asks import (
    Allocation,
    AppIdentity,
    Ask,
    AskPlaces,
    run_limit_us,
    with_shared_shape,
)
from muster_core.structures.steps import PART, Steps, all_at_once, freed, in_pieces
from muster_core.values.application_states import (
    STATE_NAMES,
    TRANSITIONS,
    AppState,
    Trigger,
    next_state,
)
from muster_core.values.decisions import Kind, Reason, decision_on_app
from muster_core.values.errors import RefusedError
from muster_core.values.snapshots import AppSnapshot


# CHECKPOINT-5
def load_asks(facts: AppFacts, places: AskPlaces) -> Steps[list[AppAction]]:
    """Put the asks of an application where they were.

    Returns:
        The actions to report: the application and its asks come as if all were new.
    """
    actions: list[AppAction] = [AppLoaded(facts.state)]
    if facts.group is not None:
        actions.append(GroupChanged(facts.group))
    for some in in_pieces(facts.bound, PART):
        yield
        bound = [_with_shared_ask(allocation) for allocation in some]
        places.load_bound(bound)
        actions.extend(map(AllocationAdded, bound))
    for allocation in map(_with_shared_ask, facts.waiting):
        places.load_waiting(allocation)
        actions.append(WaitingLoaded(allocation))
    for ask in map(with_shared_shape, facts.parked):
        places.parked[ask.name] = ask
        actions.append(AskParked(ask))
    # Before the pending asks: these back off if they failed too recently.
    actions.extend(FailureCount(name, failed) for name, failed in facts.in_a_row)
    for piece in in_pieces(facts.pending, PART):
        yield
        asks = tuple(map(with_shared_shape, piece))
        places.pending.update([(ask.name, ask) for ask in asks])
        places.count_pending(asks)
        actions.append(AsksPending(asks))
    actions.extend(BindsWillFail(name, times) for name, times in facts.spoilt)
    return actions


def _with_shared_ask(allocation: Allocation) -> Allocation:
    ask = with_shared_shape(allocation.ask)
    return allocation if ask is allocation.ask else attrs.evolve(allocation, ask=ask)


_CAME: Final = -3
_BEFORE: Final = -2
"""Places in the log among the decisions of one event: the application is new; it has an ask that
is bound already. Both come before its gang is satisfied, which is -1."""

_STATES_THAT_ASKS_END: Final = frozenset(
    state for state, trigger in TRANSITIONS if trigger is Trigger.ASK_ADDED
)
"""The states that end when an ask is added."""


@final
class ApplicationMachine:
    """One application."""

    __slots__ = (
        "_credits",
        "_failures",
        "_gone",
        "_group",
        "_messages",
        "_moves",
        "_places",
        "_state",
        "identity",
    )

    def __init__(self, identity: AppIdentity) -> None:
        self.identity = identity
        self._state = AppState.NEW
        #: The group for which it counts in limits, or None.
        self._group: str | None = None
        self._places = AskPlaces()
        self._failures = BindFailures()
        self._messages = AskMessages(identity, self._places)
        self._moves = AskMoves(self._places, self._messages)
        self._credits = 0
        self._gone = False

    def handle(self, message: ToApplication) -> AppReport | None:
        """Handle a message.

        Returns:
            The report for a :class:`Close`, otherwise None.
        """
        if self._moves.came and not isinstance(message, AddAsks):
            self._moves.end_row()
        match message:
            case Close():
                return self._report(message)
            case LoadApp():
                all_at_once(self._load(message.facts))
            case EnterState():
                self._state = message.state
            case CommitApp():
                self._commit_moves(message)
                if message.bound:
                    self._places.bind(message.bound)
                    self._count_binds(len(message.bound))
            case _:
                self._credits += 1
                # FEED-16
                try:
                    self._answer(message)
                except RefusedError as refusal:
                    self._moves.act(rejection(message.origin, str(refusal)))
        return None

    def in_steps(self, message: ToApplication) -> Steps[None] | None:
        """Return the steps of a message that takes long; None for all others.

        The steps do the same as :meth:`handle`. The state must not be read before the last one.
        """
        match message:
            case AddAsks():
                is_long = (message.event.count or 1) > PART
            case CommitApp():
                is_long = len(message.bound) > PART
            case Dismiss():
                is_long = len(self._places) > PART
            case LoadApp():
                return self._load(message.facts)
            case _:
                return None
        return self._handle_in_steps(message) if is_long else None

    def _handle_in_steps(self, message: AddAsks | CommitApp | Dismiss) -> Steps[None]:
        if self._moves.came:
            self._moves.end_row()
        if isinstance(message, CommitApp):
            self._commit_moves(message)
            for first in range(0, len(message.bound), PART):
                yield
                self._places.bind(message.bound[first : first + PART])
            self._count_binds(len(message.bound))
            return
        self._credits += 1
        # FEED-16
        try:
            if isinstance(message, AddAsks):
                yield from self._add_many(message)
            else:
                yield from self._dismiss(message)
        except RefusedError as refusal:
            self._moves.act(rejection(message.origin, str(refusal)))

    # Requests: a request is checked before it changes anything

    def _answer(self, request: AppRequest) -> None:
        match request:
            case AddAsks():
                self._add(request)
            case ReleaseAsk() | FailAsk():
                self._release(request)
            case Complete():
                self._finish(request.ask, (request.origin.seq, 0, 0), Reason.COMPLETED)
            case AddPlaced():
                self._place(request)
            case FinishAsk():
                self._finish(request.ask, (request.origin.seq, 0, 0), request.reason)
            case WithdrawAsk():
                self._withdraw(request)
            case UndoBind():
                self._undo_bind(request)
            case SpoilBinds():
                self._spoil(request)
            case _:
                self._answer_of_all(request)

    def _answer_of_all(self, request: WideRequest) -> None:
        match request:
            case Enlist():
                # APP-1
                self._enter(AppState.NEW, (request.origin.seq, _CAME, 1))
                if request.group is not None:
                    self._regroup(request.group)
            case Regroup():
                self._regroup(request.group)
            case Dismiss():
                all_at_once(self._dismiss(request))
            case LoseNode():
                self._lose_node(request)
            case RollBack():
                self._roll_back(request)
            case ParkAsks():
                self._park(request)
            case UnparkAsks():
                self._unpark(request)
            case _:
                assert_never(request)

    # LIMIT-8
    def _regroup(self, group: str | None) -> None:
        self._group = group
        self._moves.act(GroupChanged(group))

    def _add(self, request: AddAsks) -> None:
        asks = asks_of(request)
        self._begin_to_add(asks, request)
        self._add_some(asks, request)

    def _add_many(self, request: AddAsks) -> Steps[None]:
        """Run :meth:`_add` in steps."""
        asks = yield from asks_in_steps(request)
        self._begin_to_add(asks, request)
        for piece in in_pieces(asks.items()):
            yield
            self._add_some(dict(piece), request)

    # FEED-25, FEED-26
    def _begin_to_add(self, asks: Mapping[str, Ask], request: AddAsks) -> None:
        """Check that asks are new, and begin to have asks."""
        places = self._places
        for place in (places.pending, places.bound, places.parked, places.waiting):
            if place and not place.keys().isdisjoint(asks):
                name = next(name for name in asks if places.knows(name))
                msg = f"ask: {name!r} is already an ask of application {self.identity.name!r}"
                raise RefusedError(msg)
        if request.event.devices:
            self._moves.count_needs(asks)
        if self._state in _STATES_THAT_ASKS_END:
            self._trigger(Trigger.ASK_ADDED, (request.origin.seq, 0, 1))

    def _add_some(self, asks: Mapping[str, Ask], request: AddAsks) -> None:
        if request.parked:
            for ask in asks.values():
                self._moves.park(ask)
            return
        self._moves.add(asks)

    def _place(self, request: AddPlaced) -> None:
        (ask,) = asks_of(request).values()
        allocation = Allocation(
            ask,
            request.node,
            request.number,
            bound_us=request.origin.at_us,
            limit_us=run_limit_us(ask, request.limit_us),
        )
        self._places.load_bound([allocation])
        self._moves.act(AllocationAdded(allocation))
        decision = self._messages.about(Kind.BOUND, ask, request.node)
        self._moves.act(DecisionMade((request.origin.seq, 0, 0), decision))
        # In the log, the application has an ask first, then its gang is satisfied, then it is bound.
        self._trigger(Trigger.ASK_ADDED, (request.origin.seq, _BEFORE, 1))
        self._trigger(Trigger.ASK_BOUND, (request.origin.seq, 0, 1))

    # FEED-30
    def _withdraw(self, request: WithdrawAsk) -> None:
        if request.ask in self._places.bound or not self._places.knows(request.ask):
            raise RefusedError(self._messages.not_there(request.ask, "pending", "release it"))
        self._finish(request.ask, (request.origin.seq, 0, 0), Reason.REMOVED)

    # FEED-31, BACKOFF-11, BACKOFF-12, BACKOFF-13, BACKOFF-14
    def _release(self, request: ReleaseAsk | FailAsk) -> None:
        allocation = self._messages.bound(request.ask, "use remove_ask")
        ask = allocation.ask
        reason = Reason.FAILED if isinstance(request, FailAsk) else request.reason
        if isinstance(request, FailAsk) and ask.retries:
            again = ask._replace(retries=ask.retries - 1)
            self._give_back(allocation, again, reason, request)
        else:
            self._finish(request.ask, (request.origin.seq, 0, 0), reason, request.message)

    # FEED-32, TIME-5, ONCE-2
    def _finish(
        self,
        name: str,
        order: tuple[int, int, int],
        reason: Reason,
        message: str | None = None,
        *,
        lost: bool = False,
    ) -> None:
        """End an ask, wherever it is."""
        self._moves.remove(name, reason, order, message, lost=lost)
        self._moves.act_if(self._failures.forget(name))
        self._moves.act_if(self._failures.end_row(name))
        # APP-9
        if self._places.is_empty():
            self._trigger(Trigger.EMPTIED, order)

    # FEED-34, FEED-35
    def _spoil(self, request: SpoilBinds) -> None:
        name = request.ask
        if not self._places.knows(name):
            raise RefusedError(self._messages.unknown(name))
        self._moves.act(self._failures.spoil(name, request.times))

    # GANG-40, FEED-22, ONCE-2
    def _lose_node(self, request: LoseNode) -> None:
        places = self._places
        held, bound = [*places.bound.values(), *places.waiting.values()], set(places.bound)
        for allocation in [one for one in held if one.node == request.node]:
            order = (request.origin.seq, allocation.number, 0)
            if allocation.ask.once and allocation.ask.name in bound:
                self._finish(allocation.ask.name, order, Reason.NODE_LOST, lost=True)
                continue
            self._moves.give_up(allocation, Reason.NODE_LOST, order)
            park = allocation.ask.gang in request.timed_out
            if was_bound := allocation.ask.name in bound:
                self._moves.act_if(self._failures.end_row(allocation.ask.name))
            self._moves.put_back(allocation.ask, order, park=park, lost=True, was_bound=was_bound)

    # APP-6, FEED-36, FEED-37, BACKOFF-15, ONCE-7
    def _undo_bind(self, request: UndoBind) -> None:
        instead = "use fail_bind to let its next bind fail"
        allocation = self._messages.bound(request.ask, instead)
        self._give_back(allocation, allocation.ask, Reason.BIND_FAILED, request)

    # BACKOFF-1
    def _give_back(
        self, allocation: Allocation, again: Ask, reason: Reason, request: UndoBind | FailAsk
    ) -> None:
        """Release a bound ask, which is tried again: its bind counts as failed."""
        name, order = again.name, (request.origin.seq, 0, 0)
        self._moves.give_up(allocation, reason, order, request.message)
        self._moves.act(self._failures.count(name, request.origin.at_us))
        park = again.gang is not None and again.gang == request.timed_out
        # GANG-48
        self._moves.put_back(again, order, park=park, lost=True, was_bound=True)

    def _roll_back(self, request: RollBack) -> None:
        for number, name in request.asks:
            allocation = self._places.waiting.get(name)
            if allocation is None:  # Another object of the same event has ended its wait.
                continue
            order = (request.origin.seq, 1, number)
            self._moves.give_up(allocation, request.reason, order)
            self._moves.put_back(allocation.ask, order, park=request.park)

    def _park(self, request: ParkAsks) -> None:
        for name in request.asks:
            self._moves.set_aside(name, (request.origin.seq, 1, 0))

    def _unpark(self, request: UnparkAsks) -> None:
        for name in request.asks:
            self._moves.take_up(name, (request.origin.seq, 1, 0))

    # FEED-24
    def _dismiss(self, request: Dismiss) -> Steps[None]:
        asks = yield from self._places.in_order_of_arrival()
        for piece in in_pieces(enumerate(asks)):
            yield
            for number, ask in piece:
                self._moves.remove(ask.name, Reason.REMOVED, (request.origin.seq, 0, number))
        self._gone = True

    def _commit_moves(self, commit: CommitApp) -> None:
        """Apply everything in a commit but the new binds."""
        places = self._places
        for name in commit.released:
            allocation = places.waiting.get(name) or places.bound[name]
            places.leave_node(allocation)
            if name in commit.parked:
                places.parked[name] = allocation.ask
            else:
                places.enter_pending(allocation.ask)
        for allocation in commit.waiting:
            places.enter_waiting(allocation)
        self._failures.commit(commit)
        if commit.ended:
            for name in commit.ended:
                self._end_silently(name)

    # ONCE-2
    def _end_silently(self, name: str) -> None:
        """End an ask that the rounds have ended; the log says so already."""
        held = self._places.held(name)
        if held is None:
            self._places.leave_pending(self._places.pending[name])
        else:
            self._places.leave_node(held)
        self._failures.forget(name)
        self._failures.end_row(name)
        # APP-9
        if self._places.is_empty():
            skip = self.identity.skip_starting
            self._state = next_state(self._state, Trigger.EMPTIED, skip_starting=skip)

    def _count_binds(self, times: int) -> None:
        """Apply a number of binds to the state."""
        skip = self.identity.skip_starting
        for _ in range(times):
            if self._state is AppState.RUNNING:
                break
            self._state = next_state(self._state, Trigger.ASK_BOUND, skip_starting=skip)

    # APP-8
    def _trigger(self, trigger: Trigger, order: tuple[int, int, int]) -> None:
        skip = self.identity.skip_starting
        after = next_state(self._state, trigger, skip_starting=skip)
        if after is not self._state:
            self._enter(after, order)

    def _enter(self, state: AppState, order: tuple[int, int, int]) -> None:
        self._state = state
        self._moves.act(StateEntered(state))
        decision = decision_on_app(self.identity.name, self.identity.path, STATE_NAMES[state])
        self._moves.act(DecisionMade((*order[:2], 1), decision))

    def _report(self, close: Close) -> AppReport:
        report = AppReport(
            identity=self.identity,
            epoch=close.epoch,
            credits=self._credits,
            actions=tuple(self._moves.actions),
            values=self.values(),
            gone=self._gone,
            came=self._moves.take_needs(),
            direct=close.direct,
        )
        self._moves.actions.clear()
        self._credits = 0
        return report

    # PRIORITY-9
    def values(self) -> Values:
        """Return the values that the application adds to its queue."""
        if self._moves.came:
            self._moves.end_row()
        places = self._places
        return Values(places.tally.top(), dict(places.pending_total), dict(places.allocated_total))

    def snapshot(self) -> AppSnapshot:
        """Return a snapshot of the application."""
        if self._moves.came:
            self._moves.end_row()
        return AppSnapshot(
            name=self.identity.name,
            queue=self.identity.path,
            state=self._state,
            priority=self._places.tally.top(),
            asks=tuple(self._places.snapshots(self._failures.in_a_row)),
            user=self.identity.user[0],
            group=self._group,
        )

    # CHECKPOINT-2
    def facts(self) -> AppFacts:
        """Return the facts that the application owns; no ask is copied. Between two batches."""
        places, failures = self._places, self._failures
        return AppFacts(
            identity=self.identity,
            state=self._state,
            group=self._group,
            pending=tuple(places.pending.values()),
            parked=tuple(places.parked.values()),
            waiting=tuple(places.waiting.values()),
            bound=tuple(places.bound.values()),
            spoilt=tuple(failures.spoilt.items()),
            in_a_row=tuple(failures.in_a_row.items()),
            guesses=self._messages.guesses.left,
        )

    # CHECKPOINT-5
    def _load(self, facts: AppFacts) -> Steps[None]:
        self._credits += 1
        self._state, self._group = facts.state, facts.group
        self._failures.load(facts)
        self._messages.guesses.left = facts.guesses
        self._moves.actions = yield from load_asks(facts, self._places)

    def free(self) -> Steps[None]:
        """Free the memory in steps, when the scheduler ends; nothing may follow."""
        places = self._places
        yield from freed(places.pending, places.parked, places.waiting, places.bound)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        if self._moves.came:
            self._moves.end_row()
        self._places.check()
        self._failures.check(frozenset(self._places.each_name()))
