"""The machine that owns a gang."""

from __future__ import annotations

from itertools import count, product

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from muster_core.decisions import Decision, Kind
from muster_core.gangs import GANG_TRANSITIONS, GangDefinition, GangState, GangTrigger
from muster_core.owners.app_messages import Close, DecisionMade
from muster_core.owners.gang import (
    CommitGang,
    DefineGang,
    GangMachine,
    GangReport,
    GangTimeout,
    JoinGang,
    MarkGang,
    MemberKey,
    MoveMember,
    RetryGang,
    ToGang,
    UndefineGang,
)
from muster_core.snapshots import AskPlace, GangSnapshot

NAME = "default/g"
DEFINITION = GangDefinition(min_member=2, total=3)

PENDING, PARKED = AskPlace.PENDING, AskPlace.PARKED
WAITING, BOUND = AskPlace.WAITING, AskPlace.BOUND


def member(name: str) -> MemberKey:
    return MemberKey(1, "app", name)


A, B, C = member("a"), member("b"), member("c")


def join(*members: MemberKey, place: AskPlace = PENDING) -> JoinGang:
    return JoinGang(members, place, (1, 0, 0))


def commit(
    *moves: tuple[MemberKey, AskPlace],
    satisfied: bool = False,
    cycle_valid: bool = True,
    since_us: int | None = None,
) -> CommitGang:
    return CommitGang(cycle_valid, since_us, moves, satisfied)


def machine(*messages: ToGang) -> GangMachine:
    gang = GangMachine(7, NAME)
    for message in messages:
        assert gang.handle(message) is None
    return gang


def report(gang: GangMachine, epoch: int = 1) -> GangReport:
    answer = gang.handle(Close(epoch))
    assert answer is not None
    gang.check()
    return answer


DEFINED = (DefineGang(DEFINITION, 5), join(A, B))
WAITS = (*DEFINED, commit((A, WAITING), since_us=3))
PLACES: dict[GangState, tuple[ToGang, ...]] = {
    GangState.PLACEHOLDER: (join(A, B),),
    GangState.GATHERING: DEFINED,
    GangState.WAITING: WAITS,
    GangState.SATISFIED: (*WAITS, commit((A, BOUND), satisfied=True)),
    GangState.TIMED_OUT: (
        *DEFINED,
        MarkGang((1, 1, 0)),
        MoveMember(A, PARKED),
        MoveMember(B, PARKED),
    ),
}
"""How a gang with the members A and B comes into each state."""

HAPPENINGS: dict[GangTrigger, tuple[ToGang, ...]] = {
    GangTrigger.DEFINED: (DefineGang(DEFINITION, 9),),
    GangTrigger.REMOVED: (UndefineGang(),),
    GangTrigger.FIRST_WAITS: (commit((B, WAITING)),),
    GangTrigger.NONE_WAITS: (MoveMember(A, PENDING),),
    GangTrigger.GROUP_BOUND: (join(C, place=BOUND),),
    GangTrigger.TIMED_OUT: (MarkGang((2, 1, 0)),),
    GangTrigger.ALL_LOST: (MoveMember(A, PENDING, lost=True),),
    GangTrigger.EMPTIED: (MoveMember(A, None), MoveMember(B, None)),
    GangTrigger.RETRIED: (RetryGang((2, 2, 0)),),
}
"""The messages that bring each trigger about, for a gang with the members A and B."""


@pytest.mark.parametrize(("state", "trigger"), list(product(GangState, GangTrigger)))
def test_what_happens_in_each_state_is_what_the_table_says(
    state: GangState, trigger: GangTrigger
) -> None:
    gang = machine(*PLACES[state])
    assert gang.state is state
    for message in HAPPENINGS[trigger]:
        gang.handle(message)

    # What waited does so no longer where it is lost, whatever else that means.
    also = GangTrigger.NONE_WAITS if trigger is GangTrigger.ALL_LOST else trigger
    expected = GANG_TRANSITIONS.get((state, trigger), GANG_TRANSITIONS.get((state, also), state))
    assert gang.state is expected


# GANG-60
def test_timeouts_count_until_the_gang_is_satisfied_or_removed() -> None:
    def marked(gang: GangMachine, number: int) -> GangReport:
        gang.handle(MarkGang((1, 2, 0), GangTimeout(5, number)))
        gang.handle(MoveMember(A, PARKED))
        return report(gang)

    gang = machine(DefineGang(DEFINITION, 9), join(A))
    answer = marked(gang, 3)
    assert (answer.timeouts, answer.timeout) == (1, GangTimeout(5, 3))
    gang.handle(RetryGang((1, 2, 0)))
    gang.handle(MoveMember(A, PENDING))
    answer = report(gang)
    assert (answer.timeouts, answer.timeout) == (1, None)
    assert marked(gang, 2).timeouts == 2
    gang.handle(MarkGang((1, 2, 0)))  # A member says so as well, which changes nothing.
    assert report(gang).timeouts == 2
    gang.handle(UndefineGang())
    gang.handle(MoveMember(A, PENDING))
    assert report(gang).timeouts == 0

    gang = machine(DefineGang(DEFINITION, 9), join(A))
    marked(gang, 1)
    gang.handle(join(C, place=BOUND))
    gang.handle(MoveMember(A, PENDING))
    answer = report(gang)
    assert (answer.timeouts, answer.timeout) == (0, None)


# Places


def test_a_new_gang_is_a_placeholder_and_goes_as_it_came() -> None:
    assert report(machine()) == GangReport(
        key=7,
        name=NAME,
        epoch=1,
        decisions=(),
        definition=None,
        creation=None,
        state=GangState.PLACEHOLDER,
        gone=True,
        cycle_valid=True,
        since_us=None,
        timeouts=0,
        timeout=None,
    )


def test_a_report_says_what_defines_it() -> None:
    answer = report(machine(DefineGang(DEFINITION, 5)), epoch=4)

    assert (answer.epoch, answer.definition, answer.creation) == (4, DEFINITION, 5)
    assert (answer.state, answer.gone) == (GangState.GATHERING, False)


def test_a_report_has_the_cycle_and_the_wait_of_its_messages() -> None:
    answer = report(machine(*DEFINED, commit((A, WAITING), cycle_valid=False, since_us=8)))

    assert (answer.cycle_valid, answer.since_us) == (False, 8)


def test_it_stays_while_it_has_members_or_a_definition() -> None:
    gang = machine(*DEFINED, UndefineGang(), MoveMember(A, None))
    assert not report(gang).gone
    gang.handle(MoveMember(B, None))

    assert report(gang).gone


def test_the_snapshot_shows_every_member_in_its_place() -> None:
    gang = machine(
        *DEFINED, join(C), commit((B, WAITING), (A, WAITING), cycle_valid=False, since_us=8)
    )

    assert gang.snapshot() == GangSnapshot(
        name=NAME,
        definition=DEFINITION,
        cycle_valid=False,
        waiting=(("app", "b"), ("app", "a")),
        pending=(("app", "c"),),
        since_us=8,
    )


def test_members_of_the_same_name_differ_by_their_applications() -> None:
    gang = machine(join(A), join(MemberKey(2, "other", "a")), MoveMember(A, None))

    assert gang.snapshot().pending == (("other", "a"),)


def test_who_waits_anew_is_last() -> None:
    gang = machine(*DEFINED, commit((A, WAITING), (B, WAITING), since_us=1))
    gang.handle(commit((A, WAITING), since_us=1))

    assert gang.snapshot().waiting == (("app", "b"), ("app", "a"))


# Decisions


def test_a_member_that_comes_bound_satisfies_its_gang_once() -> None:
    gang = machine(join(A), JoinGang((B,), BOUND, (3, 0, 1)), JoinGang((C,), BOUND, (4, 0, 1)))

    decisions = (DecisionMade((3, 0, 1), Decision(Kind.GANG_SATISFIED, gang=NAME)),)
    assert report(gang).decisions == decisions
    assert report(gang, epoch=2).decisions == ()


def test_a_mark_is_announced_once() -> None:
    gang = machine(*PLACES[GangState.TIMED_OUT], MarkGang((2, 1, 0)))

    assert report(gang).decisions == (
        DecisionMade((1, 1, 0), Decision(Kind.GANG_TIMED_OUT, gang=NAME)),
    )


def test_a_satisfied_gang_takes_no_mark() -> None:
    gang = machine(*PLACES[GangState.SATISFIED], MarkGang((2, 1, 0)))

    assert report(gang).decisions == ()
    assert gang.state is GangState.SATISFIED


# The end of a gang's time


def test_satisfied_until_the_last_bound_member_is_lost() -> None:
    gang = machine(*DEFINED, commit((A, BOUND), (B, BOUND), satisfied=True))
    gang.handle(MoveMember(A, PENDING, lost=True))
    assert gang.snapshot().satisfied
    gang.handle(MoveMember(B, PENDING, lost=True))

    assert gang.state is GangState.GATHERING


def test_satisfied_when_those_that_are_left_are_too_few_to_begin_anew() -> None:
    gang = machine(*DEFINED, commit((A, BOUND), (B, BOUND), satisfied=True))
    gang.handle(MoveMember(A, None))
    gang.handle(MoveMember(B, PENDING, lost=True))

    assert gang.state is GangState.SATISFIED


def test_satisfied_without_a_definition_whichever_member_is_lost() -> None:
    gang = machine(join(A, place=BOUND), join(B, place=BOUND))
    gang.handle(MoveMember(A, PENDING, lost=True))
    gang.handle(MoveMember(B, PENDING, lost=True))

    assert gang.state is GangState.SATISFIED


def test_unsatisfied_while_members_wait_when_what_came_bound_is_lost() -> None:
    gang = machine(*PLACES[GangState.WAITING], join(C, place=BOUND))
    assert gang.snapshot().satisfied
    gang.handle(MoveMember(C, PENDING, lost=True))

    assert gang.state is GangState.WAITING
    assert gang.snapshot().since_us is None


def lost(*moves: tuple[MemberKey, AskPlace], satisfied: bool = False) -> CommitGang:
    return attrs.evolve(commit(*moves, satisfied=satisfied), lost=True)


def test_a_commit_says_that_all_bound_members_were_taken() -> None:
    gang = machine(*DEFINED, commit((A, BOUND), (B, BOUND), satisfied=True))
    gang.handle(commit((A, PENDING)))
    assert gang.snapshot().satisfied
    gang.handle(lost((B, PENDING)))

    assert gang.state is GangState.GATHERING
    assert [name for _, name in gang.snapshot().pending] == ["a", "b"]
    report(gang)


def test_a_gang_that_lost_all_and_was_bound_again_is_satisfied() -> None:
    gang = machine(*DEFINED, commit((A, BOUND), (B, BOUND), satisfied=True))
    gang.handle(lost((A, BOUND), (B, BOUND), satisfied=True))

    assert gang.state is GangState.SATISFIED
    report(gang)


def test_a_gang_that_lost_all_may_wait_again() -> None:
    gang = machine(*DEFINED, commit((A, BOUND), (B, BOUND), satisfied=True))
    gang.handle(attrs.evolve(lost((A, WAITING), (B, PENDING)), since_us=3))

    assert gang.state is GangState.WAITING
    assert [name for _, name in gang.snapshot().waiting] == ["a"]
    report(gang)


def test_satisfied_when_the_last_bound_member_has_finished() -> None:
    gang = machine(*PLACES[GangState.SATISFIED], MoveMember(A, None))

    assert gang.state is GangState.SATISFIED


@pytest.mark.parametrize("state", list(GangState))
def test_without_members_it_is_as_new(state: GangState) -> None:
    gang = machine(*PLACES[state], commit(cycle_valid=False, since_us=3))
    for one in (A, B):
        gang.handle(MoveMember(one, None))

    definition = None if state is GangState.PLACEHOLDER else DEFINITION
    assert gang.snapshot() == GangSnapshot(NAME, definition)


@attrs.define
class PlainGang:
    """A model of a gang without states."""

    members: dict[str, AskPlace] = attrs.field(factory=dict[str, AskPlace])
    defined: bool = False
    satisfied: bool = False
    timed_out: bool = False
    cycle_valid: bool = True
    since_us: int | None = None

    def at(self, place: AskPlace) -> list[str]:
        return [name for name, where in self.members.items() if where is place]

    def put(self, name: str, place: AskPlace | None) -> None:
        self.members.pop(name, None)
        if place is not None:
            self.members[name] = place


class Gangs(RuleBasedStateMachine):
    """A gang beside a plain one; each rule is a batch, as the coordinator has it."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = GangMachine(7, NAME)
        self.plain = PlainGang()
        self.epochs = count(1)
        self.names = count()
        self.now_us = 0

    def tell(self, *messages: ToGang) -> None:
        for message in messages:
            assert self.machine.handle(message) is None

    def move(self, name: str, place: AskPlace | None, *, lost: bool = False) -> None:
        self.tell(MoveMember(member(name), place, lost))
        self.plain.put(name, place)

    def end_batch(self, *kinds: Kind, moves: dict[str, AskPlace] | None = None) -> None:
        """Take the report of the gang, with these decisions; then commit what the rounds did."""
        plain = self.plain
        answer = report_unchecked(self.machine, next(self.epochs))
        assert [made.decision.kind for made in answer.decisions] == list(kinds)
        assert answer.gone == (not plain.defined and not plain.members)
        if answer.gone:
            self.machine, self.plain = GangMachine(7, NAME), PlainGang()
            return
        for name, place in (moves or {}).items():
            plain.put(name, place)
        if not plain.at(WAITING):
            plain.since_us = None
        elif plain.since_us is None:
            self.now_us += 1
            plain.since_us = self.now_us
        changes = [(member(name), place) for name, place in (moves or {}).items()]
        self.tell(
            commit(
                *changes,
                satisfied=plain.satisfied,
                cycle_valid=plain.cycle_valid,
                since_us=plain.since_us,
            )
        )
        self.machine.check()

    def draw_members(self, data: st.DataObject, *places: AskPlace) -> list[str]:
        names = [name for place in places for name in self.plain.at(place)]
        return data.draw(st.lists(st.sampled_from(names), unique=True)) if names else []

    @rule()
    def define(self) -> None:
        self.tell(DefineGang(DEFINITION, 1))
        self.plain.defined = True
        self.end_batch()

    @precondition(lambda self: self.plain.defined)
    @rule()
    def undefine(self) -> None:
        self.tell(UndefineGang())
        self.plain.defined = self.plain.satisfied = self.plain.timed_out = False
        for name in (*self.plain.at(WAITING), *self.plain.at(PARKED)):
            self.move(name, PENDING)
        self.end_batch()

    @rule(members=st.integers(1, 3))
    def members_come(self, members: int) -> None:
        names = [f"m{next(self.names)}" for _ in range(members)]
        place = PARKED if self.plain.timed_out else PENDING
        self.tell(JoinGang(tuple(map(member, names)), place, (1, 0, 0)))
        self.plain.members |= dict.fromkeys(names, place)
        self.end_batch()

    @rule()
    def a_member_comes_bound(self) -> None:
        name = f"m{next(self.names)}"
        self.tell(JoinGang((member(name),), BOUND, (1, 0, 1)))
        self.plain.members[name] = BOUND
        kinds = [] if self.plain.satisfied else [Kind.GANG_SATISFIED]
        self.plain.satisfied, self.plain.timed_out = True, False
        for other in self.plain.at(PARKED):
            self.move(other, PENDING)
        self.end_batch(*kinds, moves=dict.fromkeys(self.plain.at(WAITING), BOUND))

    @precondition(lambda self: self.plain.members)
    @rule(data=st.data())
    def members_go(self, data: st.DataObject) -> None:
        for name in self.draw_members(data, *AskPlace):
            self.move(name, None)
        if not self.plain.members:
            defined = self.plain.defined
            self.plain = PlainGang(defined=defined)
        self.end_batch()

    @rule(data=st.data())
    def a_node_is_lost(self, data: st.DataObject) -> None:
        lost = self.draw_members(data, BOUND, WAITING)
        for name in lost:
            self.move(name, PARKED if self.plain.timed_out else PENDING, lost=True)
        enough = self.plain.defined and len(self.plain.members) >= DEFINITION.min_member
        if lost and enough and not self.plain.at(BOUND):
            self.plain.satisfied = False
        self.end_batch()

    @precondition(lambda self: self.plain.members and not self.plain.satisfied)
    @rule()
    def the_time_is_over(self) -> None:
        kinds = [] if self.plain.timed_out else [Kind.GANG_TIMED_OUT]
        self.tell(MarkGang((1, 1, 0)))
        self.plain.timed_out = True
        for name in (*self.plain.at(WAITING), *self.plain.at(PENDING)):
            self.move(name, PARKED)
        self.end_batch(*kinds)

    # GANG-59
    @precondition(lambda self: self.plain.timed_out)
    @rule()
    def it_is_tried_again(self) -> None:
        self.tell(RetryGang((1, 2, 0)))
        self.plain.timed_out = False
        for name in self.plain.at(PARKED):
            self.move(name, PENDING)
        self.end_batch(Kind.GANG_RETRY)

    @precondition(lambda self: self.plain.defined and not self.plain.timed_out)
    @rule(data=st.data(), cycle_valid=st.booleans())
    def a_round_that_is_not_enough(self, data: st.DataObject, *, cycle_valid: bool) -> None:
        if self.plain.satisfied:
            moves = dict.fromkeys(self.draw_members(data, PENDING), BOUND)
        else:
            moves = dict.fromkeys(self.draw_members(data, PENDING), WAITING)
            moves |= dict.fromkeys(self.draw_members(data, WAITING), PENDING)
        self.plain.cycle_valid = cycle_valid
        self.end_batch(moves=moves)

    @precondition(lambda self: self.plain.defined and not self.plain.timed_out)
    @rule(data=st.data())
    def a_round_that_is_enough(self, data: st.DataObject) -> None:
        moves = dict.fromkeys((*self.plain.at(WAITING), *self.draw_members(data, PENDING)), BOUND)
        self.plain.satisfied = self.plain.satisfied or bool(moves or self.plain.at(BOUND))
        self.end_batch(moves=moves)

    @invariant()
    def agrees(self) -> None:
        plain = self.plain

        def those(place: AskPlace) -> tuple[tuple[str, str], ...]:
            return tuple(("app", name) for name in plain.at(place))

        assert self.machine.snapshot() == GangSnapshot(
            name=NAME,
            definition=DEFINITION if plain.defined else None,
            satisfied=plain.satisfied,
            timed_out=plain.timed_out,
            cycle_valid=plain.cycle_valid,
            waiting=those(WAITING),
            bound=those(BOUND),
            pending=those(PENDING),
            parked=those(PARKED),
            since_us=plain.since_us,
        )
        waits = GangState.WAITING if plain.at(WAITING) else None
        gathers = GangState.GATHERING if plain.defined else GangState.PLACEHOLDER
        marked = GangState.TIMED_OUT if plain.timed_out else None
        fits = GangState.SATISFIED if plain.satisfied else None
        assert self.machine.state is (fits or marked or waits or gathers)


def report_unchecked(gang: GangMachine, epoch: int) -> GangReport:
    """Take the report of a gang in the middle of a batch, while its wait has no beginning yet."""
    answer = gang.handle(Close(epoch))
    assert answer is not None
    return answer


TestGangs = Gangs.TestCase
