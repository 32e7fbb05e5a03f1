"""The state machine of a gang and its messages: members, definition, cycle and state.

A gang learns of its members only from the coordinator, which learns of them from their
applications. So the order of these messages does not depend on which application reports first.

Each member is in exactly one place, the same one as in its application. Messages inform the gang of
changes by events; one commit at the end of a batch has the decisions of the rounds. The state
follows the table in :mod:`muster_core.values.gangs`.
"""

from __future__ import annotations

from typing import assert_never, final

import attrs

from muster_core.gangs import GangDefinition, GangState, GangTrigger, next_gang_state
from muster_core.owners.app_messages import Close, DecisionMade
from muster_core.structures.steps import Steps, freed
from muster_core.values.decisions import Decision, Kind
from muster_core.values.records import LIST, MAP, record
from muster_core.values.snapshots import AskPlace, GangSnapshot


@final
@record
class MemberKey:
    """The key of a member of a gang."""

    key: int
    app: str = attrs.field(eq=False)
    ask: str


@final
@record
class DefineGang:
    """Define the gang, or change its definition."""

    definition: GangDefinition
    creation: int


@final
@record
class UndefineGang:
    """Remove the definition of the gang."""


@final
@record
class JoinGang:
    """Add members to the gang.

    Attributes:
        place: Their place: pending, parked or bound.
        order: The place in the log of the decision that they satisfy the gang.
    """

    members: tuple[MemberKey, ...]
    place: AskPlace
    order: tuple[int, int, int]


@final
@record
class MoveMember:
    """Change the place of a member; see :class:`Moved`."""

    member: MemberKey
    place: AskPlace | None
    lost: bool = False


@final
@record
class GangTimeout:
    """The timeout that has marked a gang.

    Attributes:
        at_us: When it was, in microseconds.
        number: Which one in a row it was for its group, from 1.
    """

    at_us: int
    number: int


@final
@record
class MarkGang:
    """Mark the gang as timed out.

    Attributes:
        order: The place of this decision in the log.
        timeout: The timeout of its group; None if a member says so.
    """

    order: tuple[int, int, int]
    timeout: GangTimeout | None = None


@final
@record
class RetryGang:
    """Take the mark from the gang; ``order`` is the place of this decision in the log."""

    order: tuple[int, int, int]


@final
@record
class CommitGang:
    """The result of the rounds for the gang.

    Attributes:
        moves: The members with a new place; waiting ones in the order in which they began to
            wait.
        lost: Whether it was unsatisfied again, or all binds of its members failed, before its
            group was bound again.
        satisfied: Whether its group was bound.
        emptied: What defines it, and since when, if its last member is gone; None otherwise.
    """

    cycle_valid: bool
    since_us: int | None
    moves: tuple[tuple[MemberKey, AskPlace | None], ...] = ()
    satisfied: bool = False
    lost: bool = False
    # ONCE-4
    emptied: tuple[GangDefinition, int] | None = None


@final
@record
class GangFacts:
    """What a gang owns and cannot compute, between two batches.

    Attributes:
        members: Its members with their places; waiting ones in the order of their waits.
        timeouts: How many timeouts in a row have marked it.
        timeout: The one that has marked it now, if one has.
    """

    key: int
    name: str
    state: GangState
    definition: GangDefinition | None
    creation: int | None
    members: tuple[tuple[MemberKey, AskPlace], ...]
    cycle_valid: bool
    since_us: int | None
    timeouts: int = 0
    timeout: GangTimeout | None = None


@final
@record
class LoadGang:
    """Be as these facts say; the first message to a gang that is loaded."""

    facts: GangFacts


ToGang = (
    DefineGang
    | UndefineGang
    | JoinGang
    | MoveMember
    | MarkGang
    | RetryGang
    | LoadGang
    | CommitGang
    | Close
)
"""All messages to a gang."""


@final
@record
class GangReport:
    """The state of a gang after an epoch; see :class:`GangFacts`."""

    key: int
    name: str
    epoch: int
    decisions: tuple[DecisionMade, ...]
    definition: GangDefinition | None
    creation: int | None
    state: GangState
    cycle_valid: bool
    since_us: int | None
    timeouts: int
    timeout: GangTimeout | None
    gone: bool


@final
@attrs.define(eq=False)
class GangMachine:
    """One gang."""

    key: int
    name: str
    state: GangState = attrs.field(default=GangState.PLACEHOLDER, init=False)
    _definition: GangDefinition | None = attrs.field(default=None, init=False)
    #: The position of the event that defined it, or None.
    _creation: int | None = attrs.field(default=None, init=False)
    #: All and only its members with their places; waiting ones in the order of their waits.
    _members: dict[MemberKey, AskPlace] = attrs.field(factory=MAP, init=False)
    #: The number of members in each place.
    _counts: dict[AskPlace, int] = attrs.field(
        factory=lambda: dict.fromkeys(AskPlace, 0), init=False
    )
    _cycle_valid: bool = attrs.field(default=True, init=False)
    _since_us: int | None = attrs.field(default=None, init=False)
    #: How many timeouts in a row have marked it, and the one that has marked it now.
    _timeouts: int = attrs.field(default=0, init=False)
    _timeout: GangTimeout | None = attrs.field(default=None, init=False)
    #: The decisions of the present epoch.
    _decisions: list[DecisionMade] = attrs.field(factory=LIST, init=False)

    def handle(self, message: ToGang) -> GangReport | None:
        """Handle a message.

        Returns:
            The report for a :class:`Close`, otherwise None.
        """
        match message:
            case Close():
                return self._report(message.epoch)
            case DefineGang():
                self._definition, self._creation = message.definition, message.creation
                self._trigger(GangTrigger.DEFINED)
            case UndefineGang():
                self._definition = self._creation = None
                self._trigger(GangTrigger.REMOVED)
                # GANG-18, GANG-60
                self._since_us, self._timeouts = None, 0
            case JoinGang():
                self._join(message)
            case MoveMember():
                self._move(message)
            case MarkGang():
                self._mark(message)
            case RetryGang():
                self._trigger(GangTrigger.RETRIED)
                self._record(message.order, Kind.GANG_RETRY)
            case CommitGang():
                self._commit(message)
            case LoadGang():
                self._load(message.facts)
            case _:
                assert_never(message)
        return None

    # OBJECT-19
    def _join(self, join: JoinGang) -> None:
        for member in join.members:
            self._put(member, join.place)
        # GANG-37
        if join.place is AskPlace.BOUND and self.state is not GangState.SATISFIED:
            self._trigger(GangTrigger.GROUP_BOUND)
            self._record(join.order, Kind.GANG_SATISFIED)

    def _move(self, move: MoveMember) -> None:
        assert move.member in self._members, "what is no member of a gang has moved in it"
        self._put(move.member, move.place)
        if not self._counts[AskPlace.WAITING]:
            self._trigger(GangTrigger.NONE_WAITS)
        if move.lost:
            self._lose()
        if not self._members:
            self._empty()

    # GANG-50
    def _lose(self) -> None:
        """Become unsatisfied if no member is bound, and those that are left are enough."""
        definition, satisfied = self._definition, self.state is GangState.SATISFIED
        if not satisfied or definition is None or self._counts[AskPlace.BOUND]:
            return
        if len(self._members) >= definition.min_member:
            self._trigger(GangTrigger.ALL_LOST)
            self._since_us = None
            if self._counts[AskPlace.WAITING]:
                self._trigger(GangTrigger.FIRST_WAITS)

    def _mark(self, mark: MarkGang) -> None:
        before = self.state
        self._trigger(GangTrigger.TIMED_OUT)
        if self.state is not before:
            self._since_us, self._timeout = None, mark.timeout
            # GANG-60
            if mark.timeout is not None:
                self._timeouts += 1
            self._record(mark.order, Kind.GANG_TIMED_OUT)

    def _record(self, order: tuple[int, int, int], kind: Kind) -> None:
        self._decisions.append(DecisionMade(order, Decision(kind, gang=self.name)))

    def _commit(self, commit: CommitGang) -> None:
        for member, place in commit.moves:
            self._put(member, place)
        if commit.lost:
            self._trigger(GangTrigger.ALL_LOST)
        if commit.satisfied:
            self._trigger(GangTrigger.GROUP_BOUND)
        waits = self._counts[AskPlace.WAITING]
        self._trigger(GangTrigger.FIRST_WAITS if waits else GangTrigger.NONE_WAITS)
        self._cycle_valid, self._since_us = commit.cycle_valid, commit.since_us
        if commit.emptied is not None:
            self._definition, self._creation = commit.emptied
            self._empty()

    # GANG-16, GANG-60
    def _empty(self) -> None:
        """Be as new, since no member is left."""
        self._trigger(GangTrigger.EMPTIED)
        self._cycle_valid, self._since_us, self._timeouts = True, None, 0

    def _put(self, member: MemberKey, place: AskPlace | None) -> None:
        before = self._members.pop(member, None)
        if before is not None:
            self._counts[before] -= 1
        if place is not None:
            self._members[member] = place  # Added at the end: its place among the waiting ones.
            self._counts[place] += 1

    def _trigger(self, trigger: GangTrigger) -> None:
        self.state = next_gang_state(self.state, trigger, defined=self._definition is not None)
        if self.state is not GangState.TIMED_OUT:
            self._timeout = None
        # GANG-60
        if self.state is GangState.SATISFIED:
            self._timeouts = 0

    def _report(self, epoch: int) -> GangReport:
        report = GangReport(
            key=self.key,
            name=self.name,
            epoch=epoch,
            decisions=tuple(self._decisions),
            definition=self._definition,
            creation=self._creation,
            state=self.state,
            cycle_valid=self._cycle_valid,
            since_us=self._since_us,
            timeouts=self._timeouts,
            timeout=self._timeout,
            # GANG-17
            gone=self._definition is None and not self._members,
        )
        self._decisions.clear()
        return report

    # CHECKPOINT-2
    def facts(self) -> GangFacts:
        """Return the facts that the gang owns. Between two batches."""
        return GangFacts(
            key=self.key,
            name=self.name,
            state=self.state,
            definition=self._definition,
            creation=self._creation,
            members=tuple(self._members.items()),
            cycle_valid=self._cycle_valid,
            since_us=self._since_us,
            timeouts=self._timeouts,
            timeout=self._timeout,
        )

    # CHECKPOINT-5
    def _load(self, facts: GangFacts) -> None:
        self.state, self._definition = facts.state, facts.definition
        self._creation, self._cycle_valid = facts.creation, facts.cycle_valid
        self._since_us = facts.since_us
        self._timeouts, self._timeout = facts.timeouts, facts.timeout
        for member, place in facts.members:
            self._put(member, place)

    def snapshot(self) -> GangSnapshot:
        """Return a snapshot of the gang."""

        def those(place: AskPlace) -> tuple[tuple[str, str], ...]:
            return tuple(
                (member.app, member.ask) for member, at in self._members.items() if at is place
            )

        return GangSnapshot(
            name=self.name,
            definition=self._definition,
            satisfied=self.state is GangState.SATISFIED,
            timed_out=self.state is GangState.TIMED_OUT,
            cycle_valid=self._cycle_valid,
            waiting=those(AskPlace.WAITING),
            bound=those(AskPlace.BOUND),
            pending=those(AskPlace.PENDING),
            parked=those(AskPlace.PARKED),
            since_us=self._since_us,
        )

    def free(self) -> Steps[None]:
        """Free the memory in steps, when the scheduler ends; nothing may follow."""
        return freed(self._members)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        # The counts are the recomputed ones.
        places = list(self._members.values())
        assert self._counts == {place: places.count(place) for place in AskPlace}
        # Members wait only and always in the state Waiting. They are parked only, and pending
        # never, in the state TimedOut.
        waits = self._counts[AskPlace.WAITING] > 0
        assert waits == (self.state is GangState.WAITING)
        assert not self._counts[AskPlace.PARKED] or self.state is GangState.TIMED_OUT
        assert not (self._counts[AskPlace.PENDING] and self.state is GangState.TIMED_OUT)
        # A timeout has marked it only while it is marked.
        assert self._timeout is None or self.state is GangState.TIMED_OUT
        # The wait has a start time if and only if members wait.
        assert waits == (self._since_us is not None)
        # A gang that is Gathering is defined, and a Placeholder is not.
        assert self._definition is not None or self.state is not GangState.GATHERING
        assert self._definition is None or self.state is not GangState.PLACEHOLDER
