"""Facts and decisions as bytes, and back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

import attrs
import msgpack
import pytest
from hypothesis import given, strategies as st

from muster.feeds import Expect, FeedError, Refused, Settle, read_feed
from muster.store._codec import decode, decode_events, encode, encode_events, tag_of
from muster.store._msgpack import CodecError, decode_decisions, encode_decisions
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.events import (
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    BindFailed,
    Configure,
    Delete,
    Event,
    Exit,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    Outcome,
    PodObject,
    QueueObject,
    Release,
    UpdateNode,
    Work,
)
from muster_core.gangs import NO_FIELDS, GangFields, GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.values.configuration import Limits
from tests.actors.store.program import anatomy
from tests.naive.back_off_strategies import back_offs
from tests.naive.device_strategies import devices, topologies
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Marker, Step
from tests.naive.operator_strategies import operations
from tests.naive.strategies import scenarios
from tests.share import every, share

FEEDS_FOLDER = Path(__file__).parents[2] / "feeds"
SUFFIXES = {".yaml", ".yml", ".jsonl", ".msgpack", ".gz"}
ONE_VCORE = Resources({"vcore": 1000})


def assert_exact(events: list[Event]) -> None:
    found = decode_events(encode_events(events))

    assert list(found) == events
    assert anatomy(found) == anatomy(tuple(events))


def events_of(steps: list[Step]) -> list[Event]:
    return [step.what for step in steps if not isinstance(step.what, str | Marker)]


@share(0.3)
@given(
    scenarios()
    | gang_scenarios()
    | operations()
    | evictions()
    | back_offs()
    | topologies()
    | devices()
)
def test_random_events_come_back_exactly(steps: list[Step]) -> None:
    # STORE-9
    assert_exact(events_of(steps))


@pytest.mark.parametrize(
    "folder", every(3, sorted(one.name for one in FEEDS_FOLDER.iterdir() if one.is_dir()))
)
def test_the_events_of_all_feeds_come_back_exactly(folder: str) -> None:
    # STORE-6
    feeds = [path for path in (FEEDS_FOLDER / folder).rglob("*") if path.suffix in SUFFIXES]
    feeds = [path for path in feeds if path.parent.name != "files"]
    assert feeds

    for feed in feeds:
        assert_exact(list(events_in(feed)))


def events_in(feed: Path) -> Iterator[Event]:
    """Yield the events of a feed, up to where it cannot be read."""
    with suppress(FeedError):
        for item in read_feed(str(feed)):
            if not isinstance(item.content, Refused | Expect | Settle):
                yield item.content


APPLIED = Apply(
    (
        Manifest(NodeObject("n", ONE_VCORE, {"zone": "x"}, schedulable=False), "manifest.items[0]"),
        Manifest(PodObject("a", "p", ask=AddAsk("a", "p", ONE_VCORE), groups=("g", "h"))),
        Manifest(QueueObject("q", max=Limits.of({"gpu": 0}), guaranteed=ONE_VCORE)),
        Manifest(AddPriorityClass("high", 7, preempts=True)),
        Manifest(AddGang("default/g", GangFields(min_member=2, mode=GangMode.NON_STRICT))),
    )
)


@pytest.mark.parametrize(
    "event",
    [
        APPLIED,
        Delete((Manifest(ObjectName(ObjectKind.POD, "p", "a")),)),
        AddGang("default/t", GangFields(1, topology=Topology(TopologyRule.SPREAD, "zone", 2))),
        AddAsk("a", "k", ONE_VCORE, says=GangFields(2, groups=("default/a",)), gang="default/g"),
        AddAsk("a", "k", ONE_VCORE, priority=-5, selector={"zone": "x"}, retries=3),
        Release("a", "k", Outcome.FAILED, "exit 1"),
        Release("a", "k", Outcome.CANCELLED, exited=Exit(3, cpu_us=0, memory=1)),
        UpdateNode("n", attributes={}, schedulable=False),
        UpdateNode("n", reserved=ONE_VCORE),
        UpdateNode("n", reserved=Resources()),
        AddAsk("a", "k", ONE_VCORE, once=True),
        AddAsk("a", "k", ONE_VCORE, run_for_us=2**70),
        Release("a", "k", message="file \udc80"),
        BindFailed("a", "k", "no such program"),
        AddAsk("a", "k", ONE_VCORE, work=Work(("date", "-u"), env={"A": ""}, workdir="/srv")),
        AddAsk("a", "k", ONE_VCORE, work=Work(shell="date")),
        AddNode("n", ONE_VCORE, lease_us=1),
    ],
)
def test_an_event_comes_back_exactly(event: Event) -> None:
    # STORE-9, STORE-13
    assert_exact([event])


def test_what_an_ask_does_not_say_stays_the_very_default() -> None:
    (found,) = decode_events(encode_events([AddAsk("a", "k", ONE_VCORE)]))

    assert isinstance(found, AddAsk)
    assert found.says is NO_FIELDS


def test_the_bytes_of_format_1_stay_as_they_are() -> None:
    # STORE-6, STORE-11: the files of users must stay readable.
    events: list[Event] = [
        AddAsk("a", "k", ONE_VCORE, priority=5),
        Release("a", "k", Outcome.FAILED),
        APPLIED,
        Delete((Manifest(ObjectName(ObjectKind.POD, "p", "a")),)),
    ]

    assert msgpack.unpackb(encode_events(events)) == [
        {"app": "a", "ask": "k", "resources": {"vcore": 1000}, "priority": 5, "op": "add_ask"},
        {"app": "a", "ask": "k", "outcome": "failed", "op": "release"},
        {
            "op": "apply",
            "objects": [
                {
                    "content": {
                        "op": "node_object",
                        "node": "n",
                        "capacity": {"vcore": 1000},
                        "attributes": {"zone": "x"},
                        "schedulable": False,
                    },
                    "field": "manifest.items[0]",
                },
                {
                    "content": {
                        "op": "pod_object",
                        "app": "a",
                        "name": "p",
                        "ask": {"app": "a", "ask": "p", "resources": {"vcore": 1000}},
                        "groups": ["g", "h"],
                    }
                },
                {
                    "content": {
                        "op": "queue_object",
                        "name": "q",
                        "max": {"amounts": [["gpu", 0]]},
                        "guaranteed": {"vcore": 1000},
                    }
                },
                {
                    "content": {
                        "op": "add_priority_class",
                        "name": "high",
                        "value": 7,
                        "preempts": True,
                    }
                },
                {
                    "content": {
                        "op": "add_gang",
                        "gang": "default/g",
                        "says": {"min_member": 2, "mode": "NonStrict"},
                    }
                },
            ],
        },
        {
            "op": "delete",
            "objects": [{"content": {"kind": "Pod", "name": "p", "app": "a"}}],
        },
    ]


def test_the_tags_of_events_are_the_operations_of_feeds() -> None:
    assert [tag_of(member) for member in (AddAsk, UpdateNode, Configure, AddPriorityClass)] == [
        "add_ask",
        "update_node",
        "configure",
        "add_priority_class",
    ]


ASK: dict[str, object] = {"op": "add_ask", "app": "a", "ask": "k", "resources": {"vcore": 1}}


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (ASK | {"colour": "red"}, "AddAsk has 'colour', which this version of Muster does not"),
        (ASK | {"op": "paint"}, "op is 'paint', which this version of Muster does not know"),
        ({"app": "a"}, "op is None"),
        ({"op": "add_ask", "app": "a"}, "the field 'ask' is missing"),
        (ASK | {"app": 7}, "7 is int, not str"),
        (ASK | {"priority": True}, "True is bool, not int"),
        (ASK | {"priority": 2**40}, "priority"),
        (ASK | {"resources": {"vcore": -1}}, "vcore: -1"),
        (ASK | {"resources": [1]}, "is no amount of resources"),
        (ASK | {"selector": ["zone"]}, "is no map"),
        (ASK | {"selector": {"zone": 1}}, "1 is int, not str"),
        ({"op": "release", "app": "a", "ask": "k", "outcome": "gone"}, "'gone' is no Outcome"),
        ({"op": "delete", "objects": 7}, "int"),
        ("add_ask", "is no member of a union"),
    ],
)
def test_an_event_that_this_version_does_not_know_is_refused(event: object, message: str) -> None:
    # STORE-12
    with pytest.raises(CodecError) as caught:
        decode_events(msgpack.packb([{"op": "remove_node", "node": "n"}, event]))

    assert str(caught.value).startswith("event 1 is unreadable: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x91", b"\xc1", b"\x90\x90", b"\xa1\xff", b"\x91" * 5000, msgpack.packb({"op": 1}),
     msgpack.packb([msgpack.ExtType(7, b"x")]), msgpack.packb([msgpack.ExtType(1, b"x")])],
)  # fmt: skip
def test_other_bytes_are_no_events(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_events(data)


@given(st.binary(max_size=40) | st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["op", "app", "objects", "config", "x"]), inner, max_size=4),
    max_leaves=12,
).map(msgpack.packb))  # fmt: skip
def test_any_bytes_are_events_or_refused(data: bytes) -> None:
    try:
        events = decode_events(data)
    except CodecError:
        return
    assert decode_events(encode_events(events)) == events


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Dot:
    x: int
    label: str | None = None


@attrs.frozen
class Line:
    ends: tuple[Dot, Dot]


@attrs.frozen
class Picture:
    """Types such as the facts of owners have."""

    shapes: tuple[Dot | Line, ...]
    key: tuple[int, str, float]
    by_colour: Mapping[Colour, Dot]
    by_place: dict[tuple[str, int], Dot]
    by_number: dict[int, str]
    names: frozenset[str]
    dots: frozenset[Dot]
    either: int | str | None
    maybe: Dot | Line | None
    amount: Resources | None
    raw: bytes
    some: list[int]


DOTS = st.builds(Dot, st.integers(), st.none() | st.text())
LINES = st.builds(Line, st.tuples(DOTS, DOTS))


@given(
    st.builds(
        Picture,
        shapes=st.lists(DOTS | LINES).map(tuple),
        key=st.tuples(st.integers(), st.text(), st.floats(allow_nan=False)),
        by_colour=st.dictionaries(st.sampled_from(Colour), DOTS),
        by_place=st.dictionaries(st.tuples(st.text(), st.integers()), DOTS),
        by_number=st.dictionaries(st.integers(), st.text()),
        names=st.frozensets(st.text()),
        dots=st.frozensets(DOTS),
        either=st.none() | st.integers() | st.text(),
        maybe=st.none() | DOTS | LINES,
        amount=st.none() | st.just(ONE_VCORE),
        raw=st.binary(),
        some=st.lists(st.integers()),
    )
)
def test_any_class_of_attrs_comes_back_exactly(picture: Picture) -> None:
    # STORE-10
    found = decode(encode(picture), Picture)

    assert found == picture
    assert anatomy(found) == anatomy(picture)


def test_the_order_of_a_set_changes_no_byte() -> None:
    # STORE-10
    one, other = {f"name-{n}" for n in range(50)}, {f"name-{n}" for n in reversed(range(50))}
    pictures = [
        Picture((), (1, "", 1.0), {}, {}, {}, frozenset(names), frozenset({Dot(1), Dot(2)}), 1,
                None, None, b"", [])
        for names in (one, other)
    ]  # fmt: skip

    assert encode(pictures[0]) == encode(pictures[1])


@attrs.frozen
class Unkeepable:
    what: Dot | tuple[int, ...]


def test_an_ambiguous_union_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="cannot be kept"):
        encode(Unkeepable((1,)))


def test_a_program_without_a_store_does_not_import_cattrs() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, muster.store, muster.store._writer; print('cattrs' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xc1", "not msgpack"),
        (b"\xa1\xff", "not msgpack"),
        (msgpack.packb({"x": 1, "y": 2}), "Dot has 'y', which this version of Muster does not"),
        (msgpack.packb({"x": "1"}), "'1' is str, not int"),
        (msgpack.packb([]), r"\[\] is no Dot"),
    ],
)
def test_an_object_that_is_none_of_its_class_is_refused(data: bytes, message: str) -> None:
    # STORE-12
    with pytest.raises(CodecError, match=message):
        decode(data, Dot)


TEXTS = st.none() | st.text()
NUMBERS = st.none() | st.integers()
DECISIONS = st.builds(
    Decision,
    st.sampled_from(Kind),
    app=TEXTS,
    ask=TEXTS,
    node=TEXTS,
    queue=TEXTS,
    gang=TEXTS,
    reason=st.none() | st.sampled_from(Reason),
    state=TEXTS,
    priority=NUMBERS,
    message=TEXTS,
    index=NUMBERS,
    line=NUMBERS,
    start_us=NUMBERS,
    over_max=TEXTS,
    devices=st.none()
    | st.dictionaries(st.text(), st.lists(st.integers(0, 63), min_size=1).map(tuple), min_size=1),
)


@given(st.lists(DECISIONS), st.integers(1), st.integers(0))
def test_decisions_come_back_exactly(decisions: list[Decision], first: int, at_us: int) -> None:
    # STORE-7
    batch = tuple(Announced(seq, at_us, one) for seq, one in enumerate(decisions, first))

    found = decode_decisions(encode_decisions(batch), first, at_us)

    assert found == batch
    assert anatomy(found) == anatomy(batch)


def test_the_bytes_of_decisions_of_format_1_stay_as_they_are() -> None:
    # STORE-7
    released = Decision(Kind.RELEASED, "a", "k", "n", "root.q", "g", Reason.FAILED, message="m")
    priority = Decision(Kind.QUEUE_PRIORITY, queue="root", priority=-3, index=4, line=5)
    batch = [Announced(7, 20, released), Announced(8, 20, priority)]

    assert msgpack.unpackb(encode_decisions(batch)) == [
        ["released", "a", "k", "n", "root.q", "g", "failed", None, None, "m", None, None],
        ["queue_priority", None, None, None, "root", None, None, None, -3, None, 4, 5],
    ]


def test_only_what_has_devices_names_them() -> None:
    # STORE-7
    taken = Decision(Kind.ASSIGNED, "a", "k", "n", "root.q", devices={"gpu": (0, 1)})

    (line,) = msgpack.unpackb(encode_decisions([Announced(1, 0, taken)]))
    assert line == ["assigned", "a", "k", "n", "root.q", *[None] * 7, {"gpu": [0, 1]}]


NOTHING: dict[str, int] = {}
NO_NUMBERS: dict[str, list[int]] = {"gpu": []}
BOUND: list[object] = ["bound", "a", "k", *[None] * 9]


@pytest.mark.parametrize(
    ("decision", "message"),
    [
        (
            [*BOUND, NOTHING, 7, "q", 7],
            "decision 4 has 16 fields, and this version of Muster knows 15",
        ),
        ([*BOUND, 7], "decision 4: devices is 7"),
        ([*BOUND, {"gpu": [0.5]}], "decision 4: devices is {'gpu': [0.5]}"),
        ([*BOUND, NO_NUMBERS], "decision 4: devices is {'gpu': []}"),
        (BOUND[:11], "decision 4 has 11 fields"),
        (["painted", *BOUND[1:]], "decision 4 has the kind 'painted'"),
        ([*BOUND[:6], "tired", *BOUND[7:]], "the reason 'tired', one of which this version"),
        ([*BOUND[:6], "", *BOUND[7:]], "the reason ''"),
        ([None, *BOUND[1:]], "the kind None"),
        (["bound", 7, *BOUND[2:]], "decision 4: app is 7"),
        ([*BOUND[:8], True, *BOUND[9:]], "decision 4: priority is True"),
        ({"kind": "bound"}, "decision 4: {'kind': 'bound'} is no array"),
    ],
)
def test_a_decision_that_this_version_does_not_know_is_refused(
    decision: object, message: str
) -> None:
    # STORE-12
    with pytest.raises(CodecError) as caught:
        decode_decisions(msgpack.packb([BOUND, decision]), 3, 0)

    assert message in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"\xc1", msgpack.packb(7), msgpack.packb({})])
def test_other_bytes_are_no_decisions(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_decisions(data, 1, 0)
