"""Plain values: events, decisions, facts, snapshots, states of applications, names of gangs,
frozen objects.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Final, TypeGuard, Union, get_args, get_origin, get_type_hints

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core import events
from muster_core.decisions import Announced, Decision, Kind, Reason, seconds
from muster_core.errors import EventError, QuantityError
from muster_core.facts import Facts
from muster_core.gangs import GangFields, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.snapshots import (
    AppSnapshot,
    AskPlace,
    AskSnapshot,
    GangSnapshot,
    NodeSnapshot,
    QueueSnapshot,
    Snapshot,
    Statistics,
)
from muster_core.values.application_states import (
    RUNNING_STATES,
    TIMERS_US,
    TRANSITIONS,
    AppState,
    Trigger,
    next_state,
)
from muster_core.values.event_fields import Work
from muster_core.values.names import (
    LONGEST_COMPARED,
    MOST_COMPARED,
    Guesses,
    canonical_gang,
    did_you_mean,
    nearest_names,
)

ONE = Resources({"vcore": 1})
SAME = Topology(TopologyRule.SAME, "rack")


def ask(**fields: Any) -> events.AddAsk:  # noqa: ANN401 - that is what is tested
    keywords: dict[str, Any] = {"app": "a", "ask": "x", "resources": ONE, **fields}
    return events.AddAsk(**keywords)


def gang(**fields: Any) -> events.AddGang:  # noqa: ANN401 - that is what is tested
    return events.AddGang("default/g", GangFields(1, **fields))


def made_release(**fields: Any) -> Callable[[], object]:  # noqa: ANN401 - that is what is tested
    return lambda: events.Release("a", "x", **fields)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ask(app="a/b"), "app: 'a/b' is not without a '/'"),
        (lambda: ask(ask="x/y"), "ask: 'x/y' is not without a '/'"),
        (lambda: ask(ask=""), "ask: '' is not a text of at least one character"),
        (lambda: ask(ask=3), "ask: 3 is not a text of at least one character"),
        (lambda: ask(resources=Resources()), "one type above zero"),
        (lambda: ask(resources={"vcore": 1}), "is not of the type Resources"),
        (
            lambda: ask(priority=2**31),
            "priority: 2147483648 is not a whole number from -2147483648",
        ),
        (lambda: ask(priority=1.5), "priority: 1.5 is not a whole number"),
        (lambda: ask(count=0), "count: 0 is not a whole number of at least 1"),
        (lambda: ask(run_for_us=0), "run_for_us: 0 is not a whole number of at least 1"),
        (lambda: ask(run_for_us=1.5), "run_for_us: 1.5 is not a whole number of at least 1"),
        (lambda: ask(retries=-1), "retries: -1 is not a whole number of at least 0"),
        (lambda: ask(retries=True), "retries: True is not a whole number of at least 0"),
        (lambda: ask(work="date"), "work: 'date' is not of the type Work"),
        (lambda: events.Work(("",)), "command: '' is not a text of at least one character"),
        (lambda: events.Work(shell=""), "command: '' is not a text of at least one"),
        (lambda: events.Work(("a",), "a"), "there is one"),
        (lambda: events.Work(("a", "b\0")), "command: 'b\\x00' has a NUL character"),
        (lambda: events.Work(workdir="\0"), "workdir: '\\x00' has a NUL character"),
        (lambda: events.Work(env={"a=b": "c"}), "env: 'a=b' has a '='"),
        (lambda: events.Work(env={"": "c"}), "env: '' is not a text of at least one character"),
        (lambda: events.AddNode("n", ONE, lease_us=0), "lease_us: 0 is not a whole number"),
        (made_release(outcome="failed"), "outcome: 'failed' is not of the type Outcome"),
        (made_release(message=3), "message: 3 is not a text"),
        (lambda: gang(topology="rack"), "says.topology: 'rack' is not of the type Topology"),
        (
            lambda: gang(topology=Topology(TopologyRule.SAME, "")),
            "says.topology.attribute: '' is not a text of at least one character",
        ),
        (
            lambda: gang(topology=Topology(TopologyRule.PREFER, "rack", 2)),
            "says.topology.max: 2 is not allowed with prefer: it is for spread only",
        ),
        (
            lambda: gang(topology=Topology(TopologyRule.SPREAD, "rack", 0)),
            "says.topology.max: 0 is not a whole number between 1 and 2147483647",
        ),
        (
            lambda: ask(gang="default/g", says=GangFields(1, topology=SAME)),
            "is not said by members: add_gang says it",
        ),
        (lambda: events.AddNode("", ONE), "node: '' is not a text"),
        (
            lambda: events.AddPriorityClass("system-x", 1),
            "name: 'system-x' is not free of 'system-'",
        ),
        (
            lambda: events.AddPriorityClass("x", 10**9 + 1),
            "value: 1000000001 is not a whole number",
        ),
        (lambda: events.FailBind("a", "x", 0), "times: 0 is not a whole number of at least 1"),
        (lambda: events.AddApp("a", ""), "queue: '' is not a text of at least one character"),
    ],
)
def test_what_no_event_can_have(make: Callable[[], object], message: str) -> None:
    with pytest.raises(EventError) as caught:
        make()

    assert message in str(caught.value)


def test_what_an_event_can_have() -> None:
    made = ask(priority=-(2**31), count=1, run_for_us=1)

    assert (made.priority, made.count, made.run_for_us) == (-(2**31), 1, 1)
    assert events.UpdateNode("n", capacity=Resources()).capacity == Resources()


def test_an_amount_that_is_no_whole_number() -> None:
    with pytest.raises(QuantityError, match=r"vcore: 1\.5 is not a whole number"):
        Resources({"vcore": 1.5})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("at_us", "expected"),
    [
        (0, 0),
        (1, 0.000001),
        (1_500_000, 1.5),
        (2_000_000, 2),
        (86_400_000_000, 86_400),
        (123_456_789_012_345, 123_456_789.012345),
    ],
)
def test_instants_in_seconds(at_us: int, expected: float) -> None:
    assert seconds(at_us) == expected
    assert type(seconds(at_us)) is type(expected)


def test_a_line_has_only_what_it_concerns() -> None:
    decision = Decision(Kind.ASSIGNED, app="p", ask="x", node="n", queue="root.a")

    assert Announced(3, 500_000, decision).as_map() == {
        "seq": 3,
        "at": 0.5,
        "kind": "assigned",
        "app": "p",
        "ask": "x",
        "node": "n",
        "queue": "root.a",
    }


def test_a_line_has_its_fields_in_one_order() -> None:
    decision = Decision(
        Kind.RELEASED,
        app="p",
        ask="x",
        node="n",
        queue="root.a",
        reason=Reason.NODE_LOST,
        state="New",
        priority=0,
        message="m",
        index=0,
        line=1,
    )

    assert list(Announced(1, 0, decision).as_map()) == [
        *("seq", "at", "kind", "app", "ask", "node", "queue", "reason", "state", "priority"),
        *("message", "index", "line"),
    ]


# DEVICE-12
def test_devices_come_last_as_lists() -> None:
    decision = Decision(Kind.ASSIGNED, ask="x", line=1, devices={"gpu": (0, 2), "nic": (1,)})
    line = Announced(1, 0, decision).as_map()
    assert [*line.items()][-2:] == [("line", 1), ("devices", {"gpu": [0, 2], "nic": [1]})]
    assert "devices" not in Announced(1, 0, Decision(Kind.ASSIGNED, ask="x")).as_map()


def test_values_of_enumerations_are_plain_text() -> None:
    line = Announced(1, 0, Decision(Kind.RELEASED, reason=Reason.BIND_FAILED)).as_map()

    assert (line["kind"], line["reason"]) == ("released", "bind_failed")
    assert {type(line["kind"]), type(line["reason"])} == {str}


def test_a_queue_without_a_priority_says_so() -> None:
    line = Announced(1, 0, Decision(Kind.QUEUE_PRIORITY, queue="root")).as_map()

    assert line["priority"] is None


def test_every_other_line_leaves_an_unknown_priority_out() -> None:
    assert "priority" not in Announced(1, 0, Decision(Kind.CONFIG, message="m")).as_map()


def test_zeros_are_shown() -> None:
    decision = Decision(Kind.REJECTED, message="m", index=0)

    assert Announced(1, 0, decision).as_map()["index"] == 0


def test_the_start_of_a_reservation_is_always_written() -> None:
    # BACKFILL-30
    known = Decision(Kind.RESERVED, app="a", ask="k", node="n", start_us=1_500_000)
    unknown = Decision(Kind.RESERVED, app="a", ask="k", node="n")

    fields = {"seq": 1, "at": 0, "kind": "reserved", "app": "a", "ask": "k", "node": "n"}
    assert Announced(1, 0, known).as_map() == {**fields, "start": 1.5}
    assert Announced(1, 0, unknown).as_map() == {**fields, "start": None}
    assert "start" not in Announced(1, 0, Decision(Kind.BOUND, start_us=None)).as_map()


# Amounts and commands have maps in them, and a form of their own wherever they are written.
PLAIN: Final[set[object]] = {int, str, bool, float, NoneType, Resources, Work}


def is_class(kind: object) -> TypeGuard[type[object]]:
    return isinstance(kind, type)


def fields_of(kind: type[object]) -> list[object]:
    """Return the types of the fields of a class, as they are known while a program runs."""
    fields = list(get_type_hints(kind).values())
    assert fields, kind
    assert attrs.has(kind) or issubclass(kind, tuple), kind
    return fields


def test_all_their_types_are_known_and_immutable() -> None:
    seen, found = set[object](), list[object]([Facts])
    while found:
        kind = found.pop()
        if kind in seen or kind in PLAIN or kind is Ellipsis:
            continue
        seen.add(kind)
        origin = get_origin(kind)
        if origin in {Union, UnionType}:
            # At most one of them is not plain, or a reader could not tell which it is.
            assert len([one for one in get_args(kind) if one not in PLAIN]) <= 1, kind
        if origin is not None:
            assert origin in {tuple, frozenset, Union, UnionType}, kind
            found.extend(get_args(kind))
            continue
        assert is_class(kind), kind
        if issubclass(kind, Enum):
            continue
        found.extend(fields_of(kind))
    assert len(seen) > 40


KINDS = (AskSnapshot, AppSnapshot, QueueSnapshot, GangSnapshot, NodeSnapshot, Snapshot, Statistics)


def ask_snapshot() -> AskSnapshot:
    return AskSnapshot("x", AskPlace.PENDING, 1, Resources({"vcore": 1}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_cannot_be_altered(kind: type[attrs.AttrsInstance]) -> None:
    shown = kind(**{field.name: None for field in attrs.fields(kind)})
    name = attrs.fields(kind)[0].name

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(shown, name, 1)


def test_an_ask_that_is_pending_holds_no_node() -> None:
    assert ask_snapshot().node is None


def test_snapshots_of_the_same_are_equal() -> None:
    one, two = (AppSnapshot("p", "root.a", AppState.NEW, None, (ask_snapshot(),)) for _ in "ab")

    assert one == two
    assert one != attrs.evolve(two, priority=0)


def test_places_have_the_names_that_feeds_use() -> None:
    assert [place.value for place in AskPlace] == ["pending", "parked", "waiting", "bound"]


#: How far along an application is; Completing may go back to Running, for an ask that comes.
RANK = {state: rank for rank, state in enumerate(AppState)}


@pytest.mark.parametrize(
    ("triggers", "state"),
    [
        ([], AppState.NEW),
        ([Trigger.ASK_ADDED], AppState.ACCEPTED),
        ([Trigger.ASK_ADDED, Trigger.ASK_ADDED], AppState.ACCEPTED),
        ([Trigger.ASK_ADDED, Trigger.ASK_BOUND], AppState.STARTING),
        ([Trigger.ASK_ADDED, Trigger.ASK_BOUND, Trigger.ASK_BOUND], AppState.RUNNING),
        ([Trigger.ASK_ADDED, Trigger.ASK_BOUND, Trigger.TIME_UP], AppState.RUNNING),
        ([Trigger.ASK_ADDED, Trigger.EMPTIED], AppState.COMPLETING),
        ([Trigger.ASK_ADDED, Trigger.ASK_BOUND, Trigger.EMPTIED], AppState.COMPLETING),
        ([Trigger.ASK_ADDED, Trigger.EMPTIED, Trigger.TIME_UP], AppState.COMPLETED),
        ([Trigger.ASK_ADDED, Trigger.EMPTIED, Trigger.ASK_ADDED], AppState.RUNNING),
    ],
)
def test_the_way_of_an_application(triggers: list[Trigger], state: AppState) -> None:
    reached = AppState.NEW
    for trigger in triggers:
        reached = next_state(reached, trigger)

    assert reached is state


def test_skipping_starting() -> None:
    assert next_state(AppState.ACCEPTED, Trigger.ASK_BOUND, skip_starting=True) is AppState.RUNNING
    assert next_state(AppState.NEW, Trigger.ASK_ADDED, skip_starting=True) is AppState.ACCEPTED


@given(st.sampled_from(AppState), st.sampled_from(Trigger), st.booleans())
def test_what_is_not_in_the_table_changes_nothing(
    state: AppState,
    trigger: Trigger,
    skip: bool,
) -> None:
    after = next_state(state, trigger, skip_starting=skip)

    assert (after is not state) == ((state, trigger) in TRANSITIONS)


def test_states_never_go_back_but_for_an_ask_that_comes() -> None:
    back = {key for key, after in TRANSITIONS.items() if RANK[after] < RANK[key[0]]}

    assert back == {(AppState.COMPLETING, Trigger.ASK_ADDED)}


def test_nothing_leaves_completed() -> None:
    assert not any(state is AppState.COMPLETED for state, _ in TRANSITIONS)


def test_every_state_with_a_timer_has_an_end() -> None:
    assert {state for state, trigger in TRANSITIONS if trigger is Trigger.TIME_UP} == set(TIMERS_US)
    assert TIMERS_US == {AppState.STARTING: 300_000_000, AppState.COMPLETING: 30_000_000}


def test_who_counts_as_running() -> None:
    assert {AppState.STARTING, AppState.RUNNING} == RUNNING_STATES


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("g", "default/g"),
        ("ns/g", "ns/g"),
        ("a.b-c.0", "default/a.b-c.0"),
        ("0/0", "0/0"),
        ("g" * 253, f"default/{'g' * 253}"),
        (f"{'n' * 63}/g", f"{'n' * 63}/g"),
    ],
)
def test_names_that_an_object_can_have(written: str, expected: str) -> None:
    assert canonical_gang(written) == expected
    assert canonical_gang(expected) == expected


def test_another_namespace_is_for_names_that_give_none() -> None:
    assert canonical_gang("g", "there") == "there/g"
    assert canonical_gang("here/g", "there") == "here/g"


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "subdomain"),
        ("G", "subdomain"),
        ("g_h", "subdomain"),
        ("-g", "subdomain"),
        ("g-", "subdomain"),
        ("g..h", "subdomain"),
        (".g", "subdomain"),
        ("g\n", "subdomain"),
        ("\u0661", "subdomain"),
        ("ns/", "subdomain"),
        ("ns/g/h", "subdomain"),
        ("g" * 254, "subdomain"),
        ("/g", "label"),
        ("a.b/g", "label"),
        ("Ns/g", "label"),
        ("ns-/g", "label"),
        ("ns\n/g", "label"),
        (f"{'n' * 64}/g", "label"),
    ],
)
def test_names_that_no_object_can_have(written: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"RFC 1123 {why}"):
        canonical_gang(written)


def test_a_namespace_that_is_given_is_checked_too() -> None:
    with pytest.raises(ValueError, match="'No' is no RFC 1123 label"):
        canonical_gang("g", "No")


# GANG-1
@pytest.mark.parametrize(
    ("written", "message"),
    [
        (
            "job_5",
            (
                "'job_5': 'job_5' is no RFC 1123 subdomain: lower-case letters, digits, - and ., with a "
                "letter or digit at both ends"
            ),
        ),
        ("a" * 254, "at both ends, at most 253 of them"),
        (
            "A/b",
            (
                "'A/b': the namespace 'A' is no RFC 1123 label: lower-case letters, digits and -, with a "
                "letter or digit at both ends, at most 63"
            ),
        ),
    ],
)
def test_a_refusal_says_what_a_name_consists_of(written: str, message: str) -> None:
    with pytest.raises(ValueError, match="RFC 1123") as caught:
        canonical_gang(written)
    assert str(caught.value).endswith(message)


QUEUES = ["root.prod", "root.dev", "root.dev.team", "root.batch"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("root.prd", "root.prod"),
        ("root.porduction", "root.prod"),
        ("root.DEV.Taem", "root.dev.team"),
    ],
)
def test_the_nearest_name_comes_first(name: str, nearest: str) -> None:
    assert nearest_names(name, QUEUES)[0] == nearest


def test_a_name_that_is_like_none_has_no_nearest() -> None:
    assert nearest_names("zzz", QUEUES) == []
    assert did_you_mean("zzz", QUEUES) == ""


def test_names_are_given_as_they_are_known() -> None:
    assert nearest_names("ADD_APP", ["Add_App", "add_ask"], most=1) == ["Add_App"]


def test_no_more_names_than_asked_for() -> None:
    known = ["aaab", "aaac", "aaad", "aaae"]
    assert len(nearest_names("aaaa", known)) == 3
    assert len(nearest_names("aaaa", known, most=1)) == 1


def test_the_question_lists_the_names() -> None:
    assert did_you_mean("prod", ["prods"]) == "; did you mean prods?"
    assert did_you_mean("node", ["nodes", "mode"]) == "; did you mean nodes or mode?"
    assert did_you_mean("dve", ["dev", "prod"], before="root.") == "; did you mean root.dev?"
    assert did_you_mean("aaaa", ["aaaab", "aaabc", "aaab"]).count(", ") == 1


def test_of_very_many_names_only_some_are_compared() -> None:
    names = (f"other{number}" for number in range(10**12))
    nearest_names("name", names)
    assert next(names) == f"other{MOST_COMPARED}"


def test_a_very_long_name_is_like_none() -> None:
    name = "a" * LONGEST_COMPARED
    assert nearest_names(name, [name + "b"]) == [name + "b"]
    assert nearest_names(name + "a", [name]) == []


def test_only_the_first_guesses_are_made() -> None:
    guesses = Guesses(2)
    assert [guesses.about("prd", ["prod"]) for _ in range(4)] == ["; did you mean prod?"] * 2 + [
        ""
    ] * 2
