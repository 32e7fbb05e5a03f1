"""How the asks of an application move from place to place, and what reports it.

:class:`AskMessages` makes the decisions about asks and the refusals of requests; :class:`AskMoves`
records each move as an action, in the order of the moves. Asks that are added in a row, as most
are, make one action together: the row ends with the next action. :class:`BindFailures` knows which
binds will fail, and which have failed in a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast, final

from muster_core.owners.app_messages import (
    AddAsks,
    AddPlaced,
    AllocationEnded,
    AppAction,
    AppFacts,
    AskParked,
    AsksPending,
    AskUnparked,
    AskWithdrawn,
    BindsWillFail,
    CommitApp,
    DecisionMade,
    FailureCount,
    MemberMoved,
)
from muster_core.owners.asks import (
    Allocation,
    AppIdentity,
    Ask,
    AskPlaces,
    FailedBinds,
    one_more,
    shared_shape,
)
from muster_core.structures.steps import PART, Steps
from muster_core.values.decisions import Decision, Kind, Reason, decision_on_ask
from muster_core.values.devices import DeviceNeeds, with_needs
from muster_core.values.errors import RefusedError
from muster_core.values.names import Guesses
from muster_core.values.resources import Resources
from muster_core.values.snapshots import AskPlace

_MOST_GUESSES: Final = 10
"""For how many refusals an application guesses which of its asks was meant."""


@final
class AskMessages:
    """The decisions and refusals of one application.

    Attributes:
        guesses: Guesses which ask a refused request meant.
    """

    __slots__ = ("_identity", "_places", "guesses")

    def __init__(self, identity: AppIdentity, places: AskPlaces) -> None:
        self._identity = identity
        self._places = places
        self.guesses = Guesses(_MOST_GUESSES)

    def about(
        self, kind: Kind, ask: Ask, node: str | None, reason: Reason | None = None
    ) -> Decision:
        """Return a decision about an ask."""
        app, path = self._identity.name, self._identity.path
        return decision_on_ask(kind, app, ask.name, node, path, ask.gang, reason=reason)

    # BACKOFF-11
    def released(
        self,
        ask: Ask,
        node: str | None,
        reason: Reason,
        order: tuple[int, int, int],
        message: str | None = None,
    ) -> DecisionMade:
        """Return the decision that an ask was released.

        Args:
            ask: The ask.
            node: The node that it held, or None.
            reason: Why it was released.
            order: The place of the decision among those of the batch.
            message: The message about the end of its work, or None.
        """
        decision = self.about(Kind.RELEASED, ask, node, reason)
        return DecisionMade(
            order, decision if message is None else decision._replace(message=message)
        )

    def bound(self, name: str, instead: str) -> Allocation:
        """Return the allocation of a bound ask.

        Args:
            name: The name of the ask.
            instead: The action if the ask is not bound.

        Raises:
            RefusedError: If the ask is not bound, or unknown.
        """
        allocation = self._places.bound.get(name)
        if allocation is None:
            raise RefusedError(self.not_there(name, "bound", instead))
        return allocation

    def not_there(self, ask: str, place: str, instead: str) -> str:
        """Return why a request about an ask is refused that is not in a place, or unknown."""
        app = self._identity.name
        if self._places.knows(ask):
            return f"ask: {ask!r} of application {app!r} is not {place}; {instead}"
        return self.unknown(ask)

    def unknown(self, ask: str) -> str:
        """Return why a request about an unknown ask is refused."""
        guess = self.guesses.about(ask, self._places.each_name())
        return f"ask: {ask!r} is no ask of application {self._identity.name!r}{guess}"


SPOILT_LIMIT: Final = 1_000_000
"""The largest number of future binds of one ask that can be made to fail."""


@final
class BindFailures:
    """The failed and failing binds of one application, of asks that exist."""

    __slots__ = ("in_a_row", "spoilt")

    def __init__(self) -> None:
        #: How many of the next binds of an ask will fail; no zeros.
        self.spoilt: dict[str, int] = {}
        #: The binds of an ask that have failed in a row.
        self.in_a_row: dict[str, FailedBinds] = {}

    # FEED-34, FEED-35
    def spoil(self, name: str, more: int) -> AppAction:
        """Let more of the next binds of an ask fail.

        Raises:
            RefusedError: If these would be too many.
        """
        times = self.spoilt.get(name, 0) + more
        if times > SPOILT_LIMIT:
            msg = f"times: {more} more would make more than {SPOILT_LIMIT} failing binds"
            raise RefusedError(msg)
        self.spoilt[name] = times
        return BindsWillFail(name, times)

    # BACKOFF-1
    def count(self, name: str, now_us: int) -> AppAction:
        """Count a bind of an ask that has failed, at an instant in microseconds."""
        failed = self.in_a_row[name] = one_more(self.in_a_row.get(name), now_us)
        return FailureCount(name, failed)

    # BACKOFF-4
    def end_row(self, name: str) -> AppAction | None:
        """Forget the binds of an ask that have failed in a row; None if there are none."""
        return None if self.in_a_row.pop(name, None) is None else FailureCount(name, None)

    def forget(self, name: str) -> AppAction | None:
        """Forget the binds of an ask that would have failed; None if there are none."""
        return BindsWillFail(name, 0) if self.spoilt.pop(name, 0) else None

    def commit(self, commit: CommitApp) -> None:
        """Apply what a batch has decided."""
        for name in commit.failed:
            left = self.spoilt[name] - 1
            if left:
                self.spoilt[name] = left
            else:
                del self.spoilt[name]
        for name, failed in commit.in_a_row:
            self.in_a_row.pop(name, None)
            if failed is not None:
                self.in_a_row[name] = failed

    # CHECKPOINT-5
    def load(self, facts: AppFacts) -> None:
        """Load the saved state."""
        self.spoilt, self.in_a_row = dict(facts.spoilt), dict(facts.in_a_row)

    def check(self, names: frozenset[str]) -> None:
        """Assert that only asks of these names have such binds; for tests."""
        assert self.spoilt.keys() <= names
        assert self.in_a_row.keys() <= names


@final
class AskMoves:
    """The moves of the asks of one application since its last report.

    Attributes:
        came: The latest asks, added in a row: pending, but not in the sums yet.
        actions: The actions since the last report, before those asks.
    """

    __slots__ = ("_messages", "_needs", "_places", "actions", "came")

    def __init__(self, places: AskPlaces, messages: AskMessages) -> None:
        self._places = places
        self._messages = messages
        self.came: list[Ask] = []
        self.actions: list[AppAction] = []
        #: How many asks with devices came since the last report, by what they need; None if none.
        self._needs: dict[tuple[DeviceNeeds, Resources], int] | None = None

    def add(self, asks: Mapping[str, Ask]) -> None:
        """Add new asks, which are pending, to the row."""
        self._places.pending.update(asks)
        self.came.extend(asks.values())
        if len(self.came) > PART:  # To count very many at once takes long.
            self.end_row()

    # DEVICE-18
    def count_needs(self, asks: Mapping[str, Ask]) -> None:
        """Count equal new asks that need devices."""
        first = next(iter(asks.values()))
        self._needs = {} if self._needs is None else self._needs
        key = (first.shape.devices, first.resources)
        self._needs[key] = self._needs.get(key, 0) + len(asks)

    def take_needs(self) -> tuple[tuple[DeviceNeeds, Resources, int], ...]:
        """Return the counts of :meth:`count_needs` since the last report, and clear them."""
        needs, self._needs = self._needs, None
        return () if needs is None else tuple((*key, count) for key, count in needs.items())

    def act(self, action: AppAction) -> None:
        """Record an action, after the asks that were added before."""
        if self.came:
            self.end_row()
        self.actions.append(action)

    def end_row(self) -> None:
        """Count the asks of the row, and record them in one action."""
        asks = tuple(self.came)
        self.came.clear()
        self._places.count_pending(asks)
        self.actions.append(AsksPending(asks))

    def act_if(self, action: AppAction | None) -> None:
        """Record an action if there is one."""
        if action is not None:
            self.act(action)

    def remove(
        self,
        name: str,
        reason: Reason,
        order: tuple[int, int, int],
        message: str | None = None,
        *,
        lost: bool = False,
    ) -> None:
        """Remove an ask from its place, and record the decision."""
        held = self._places.held(name)
        if held is not None:
            ask = held.ask
            self.act(self._leave_node(held))
        elif name in self._places.parked:
            ask = self._places.parked.pop(name)
            self.act(AskUnparked(ask))
        else:
            ask = self._places.pending[name]
            self.act(self._leave_pending(ask))
        node = None if held is None else held.node
        self.act(self._messages.released(ask, node, reason, order, message))
        self._moved(order, ask, None, lost=lost)

    # GANG-44, ORDER-20, FEED-32
    def put_back(
        self,
        ask: Ask,
        order: tuple[int, int, int],
        *,
        park: bool,
        lost: bool = False,
        was_bound: bool = False,
    ) -> None:
        """Make an ask that held a node pending again, or park it."""
        if park:
            self.park(ask, was_bound=was_bound)
        else:
            self._become_pending(ask, was_bound=was_bound)
        place = AskPlace.PARKED if park else AskPlace.PENDING
        self._moved(order, ask, place, lost=lost)

    def give_up(
        self,
        allocation: Allocation,
        reason: Reason,
        order: tuple[int, int, int],
        message: str | None = None,
    ) -> None:
        """Take an ask from its node, and record the decision."""
        self.act(self._leave_node(allocation))
        released = self._messages.released(allocation.ask, allocation.node, reason, order, message)
        self.act(released)

    # PRIORITY-18
    def park(self, ask: Ask, *, was_bound: bool = False) -> None:
        """Park an ask that is in no place now."""
        self._places.parked[ask.name] = ask
        self.act(AskParked(ask, was_bound))

    def set_aside(self, name: str, order: tuple[int, int, int]) -> None:
        """Park a member of a gang, if it is pending."""
        ask = self._places.pending.get(name)
        if ask is not None:
            self.act(self._leave_pending(ask))
            self.park(ask)
            self._moved(order, ask, AskPlace.PARKED)

    def take_up(self, name: str, order: tuple[int, int, int]) -> None:
        """Make a member of a gang pending, if it is parked."""
        ask = self._places.parked.pop(name, None)
        if ask is not None:
            self.act(AskUnparked(ask))
            self._become_pending(ask)
            self._moved(order, ask, AskPlace.PENDING)

    def _become_pending(self, ask: Ask, *, was_bound: bool = False) -> None:
        self._places.enter_pending(ask)
        self.act(AsksPending((ask,), was_bound))

    def _leave_pending(self, ask: Ask) -> AskWithdrawn:
        self._places.leave_pending(ask)
        return AskWithdrawn(ask)

    def _leave_node(self, allocation: Allocation) -> AllocationEnded:
        self._places.leave_node(allocation)
        return AllocationEnded(allocation)

    def _moved(
        self, order: tuple[int, int, int], ask: Ask, place: AskPlace | None, *, lost: bool = False
    ) -> None:
        if ask.gang is not None:
            self.act(MemberMoved(order, ask, place, lost))


def asks_of(request: AddAsks | AddPlaced, first: int = 0, end: int | None = None) -> dict[str, Ask]:
    """Create the asks of a request, from one number up to another; return them by name, in order."""
    event, origin, priority = request.event, request.origin, request.priority
    selector = tuple(sorted(event.selector.items())) if event.selector else ()
    if event.devices or event.tolerations or event.affinity is not None:
        devices = tuple(sorted(event.devices.items()))
        resources = with_needs(event.resources, devices) if devices else event.resources
        places = (event.tolerations, event.affinity)
        shape = shared_shape(resources, selector, event.node, devices, *places)
    else:
        shape = shared_shape(event.resources, selector, event.node)
    resources, gang, run_for_us = shape.resources, event.gang, event.run_for_us
    # ORDER-18
    place = (-priority, origin.creation, gang or "", origin.seq)
    # All asks of one shape share one object with their resources.
    more = (
        resources,
        shape,
        priority,
        gang,
        run_for_us,
        request.preempts,
        origin.at_us,
        event.retries,
        event.work,
        event.estimate_us,
        event.run_limit_us,
        event.start_by_us,
        event.once,
    )
    if event.count is None:
        return {event.ask: _make_ask(Ask, (*place, 0, event.ask, *more))}
    numbered = enumerate(event.names(first, end), first)
    return {name: _make_ask(Ask, (*place, number, name, *more)) for number, name in numbered}


def asks_in_steps(request: AddAsks) -> Steps[dict[str, Ask]]:
    """Create the asks of a request like :func:`asks_of`, in steps."""
    event = request.event
    asks: dict[str, Ask] = {}
    for first in range(0, event.count or 1, PART):
        yield
        asks.update(asks_of(request, first, first + PART))
    return asks


# The ``__new__`` of a NamedTuple is Python code and would double the time. That of a bare tuple has
# no type of items, so the type checkers need it here.
_make_ask: Final = cast("Callable[[type[Ask], tuple[object, ...]], Ask]", vars(tuple)["__new__"])
