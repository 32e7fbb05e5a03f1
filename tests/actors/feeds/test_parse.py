"""Feeds as texts: operations, the date of the start, and instants that are dates."""

from __future__ import annotations

import io
import itertools
import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import attrs
import msgpack
import pytest
from hypothesis import given, strategies as st

from muster.feeds import (
    AT,
    OPS,
    Content,
    Encoding,
    FeedItem,
    FeedOrigin,
    Op,
    RawEvent,
    Refused,
    Settle,
    date_text,
    is_like_date,
    parse,
    parse_date,
    read_feed,
)
from muster.feeds._configuration import EventOrigin
from muster.feeds._fields import EXIT_FIELDS
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    AddPriorityClass,
    BindFailed,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
    Work,
)
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from tests.actors.feeds.helpers import content, items, refusal

GIB = 2**30


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("op: settle", Settle()),
        (
            "{op: add_node, node: n, capacity: {vcore: 500m, memory: 8Gi, pods: '3'}}",
            AddNode("n", Resources({"vcore": 500, "memory": 8 * GIB, "pods": 3})),
        ),
        (
            "{op: add_node, node: n, capacity: {}, attributes: {a: off, b: 010}, schedulable: off}",
            AddNode("n", Resources(), {"a": "off", "b": "010"}, schedulable=False),
        ),
        ("{op: update_node, node: n}", UpdateNode("n")),
        (
            "{op: update_node, node: n, capacity: {}, attributes: {}, schedulable: yes}",
            UpdateNode("n", Resources(), {}, schedulable=True),
        ),
        ("{op: remove_node, node: a/b}", RemoveNode("a/b")),
        ("{op: add_app, app: 12:30, queue: root.a}", AddApp("12:30", "root.a")),
        (
            "{op: add_app, app: a, queue: b, user: u, groups: [g, 5], tags: {x: true, y: 'no'}}",
            AddApp("a", "b", "u", ("g", "5"), {"x": "true", "y": "no"}),
        ),
        ("{op: remove_app, app: off}", RemoveApp("off")),
        (
            "{op: add_ask, app: a, ask: x, resources: {vcore: 2}}",
            AddAsk("a", "x", Resources({"vcore": 2000})),
        ),
        (
            """
            {op: add_ask, app: a, ask: x, resources: {vcore: 2, memory: 0}, priority: -5,
            priority_class: c, count: 3, annotations: {x: y}, node: n, selector: {s: 1},
            run_for: 1m30s}
            """,
            AddAsk("a", "x", Resources({"vcore": 2000}), -5, "c", 3, "n", {"s": "1"}, 90_000_000),
        ),
        (
            "{op: add_ask, app: a, ask: x, resources: {vcore: 2}, node: null, priority: ~, count: }",
            AddAsk("a", "x", Resources({"vcore": 2000})),
        ),
        (
            (
                "{op: add_ask, app: a, ask: x, resources: {vcore: 2}, command: [date, -u, 1.5, yes],"
                " env: {A: 1, B: yes, C: ''}, workdir: /srv}"
            ),
            AddAsk(
                "a",
                "x",
                Resources({"vcore": 2000}),
                work=Work(
                    ("date", "-u", "1.5", "yes"),
                    env={"A": "1", "B": "yes", "C": ""},
                    workdir="/srv",
                ),
            ),
        ),
        (
            "{op: add_ask, app: a, ask: x, resources: {vcore: 2}, command: 'date; true', env: }",
            AddAsk("a", "x", Resources({"vcore": 2000}), work=Work(shell="date; true")),
        ),
        (
            "{op: add_ask, app: a, ask: x, resources: {vcore: 2}, command: , env: {}}",
            AddAsk("a", "x", Resources({"vcore": 2000})),
        ),
        (
            "{op: add_node, node: n, capacity: {}, lease: 1m30s}",
            AddNode("n", Resources(), lease_us=90_000_000),
        ),
        ("{op: remove_ask, app: a, ask: x-0}", RemoveAsk("a", "x-0")),
        ("{op: release, app: a, ask: x}", Release("a", "x")),
        ("{op: add_priority_class, name: c, value: +7}", AddPriorityClass("c", 7)),
        (
            "{op: add_priority_class, name: c, value: -7, preemption_policy: PreemptLowerPriority}",
            AddPriorityClass("c", -7, preempts=True),
        ),
        (
            "{op: add_priority_class, name: c, value: 1000000000, preemption_policy: Never}",
            AddPriorityClass("c", 1_000_000_000),
        ),
        ("{op: fail_bind, app: a, ask: x}", FailBind("a", "x")),
        ("{op: fail_bind, app: a, ask: x, times: 2}", FailBind("a", "x", 2)),
        ("{op: bind_failed, app: a, ask: x-0}", BindFailed("a", "x-0")),
        (
            "{op: bind_failed, app: a, ask: x-0, message: no such program}",
            BindFailed("a", "x-0", "no such program"),
        ),
    ],
)
def test_what_an_event_becomes(text: str, wanted: Content) -> None:
    assert content(text) == wanted


ASK = "op: add_ask, app: a, ask: x"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("foo", "event: 'foo' is not a map"),
        ("- []", "event: a list is not a map"),
        ("{op: settle, op: settle}", "event: line 1: the key 'op' stands twice"),
        ("{at: 5}", "op: is missing"),
        ("{op: [x]}", "op: a list is no operation; there are: configure, add_node, "),
        ("{op: Settle}", "op: 'Settle' is no operation; "),
        ("{op: settle, x: 5}", "x: unknown field (with '5'); there are no fields here"),
        ("{op: remove_app}", "app: is missing"),
        ("{op: remove_app, app: }", "app: nothing is not a text"),
        ("{op: remove_app, app: null}", "app: null is not a text"),
        ("{op: remove_app, app: ''}", "app: '' is empty: a name has at least one character"),
        ("{op: remove_app, app: [a]}", "app: a list is not a text"),
        ("{op: remove_app, app: a/b}", "app: 'a/b' has a '/', which the name of an application"),
        ("{op: release, app: a, ask: x/y}", "ask: 'x/y' has a '/'"),
        ("{op: bind_failed, app: a}", "ask: is missing"),
        (
            "{op: bind_failed, app: a, ask: x, times: 2}",
            "times: unknown field (with '2'); the fields are: app, ask",
        ),
        (
            "{op: remove_app, app: a, queue: b}",
            "queue: unknown field (with 'b'); the fields are: app",
        ),
        (f"{{{ASK}}}", "resources: is missing"),
        (f"{{{ASK}, resources: }}", "resources: nothing is not a map of resource types"),
        (f"{{{ASK}, resources: 5}}", "resources: '5' is not a map of resource types"),
        (f"{{{ASK}, resources: {{}}}}", "resources: nothing: an ask has at least one type above 0"),
        (
            f"{{{ASK}, resources: {{vcore: 0}}}}",
            "resources: vcore '0': an ask has at least one type",
        ),
        (
            f"{{{ASK}, resources: {{vcore: 0.0001}}}}",
            "resources.vcore: '0.0001' is not a whole number of millicores",
        ),
        (f"{{{ASK}, resources: {{vcore: -1}}}}", "resources.vcore: '-1' is negative"),
        (f"{{{ASK}, resources: {{memory: 8GB}}}}", "resources.memory: '8GB' is not a quantity"),
        (f"{{{ASK}, resources: {{memory: 9E}}}}", ""),
        (f"{{{ASK}, resources: {{memory: 10E}}}}", "resources.memory: '10E' is too large"),
        (f"{{{ASK}, resources: {{pods: }}}}", "resources.pods: nothing is not a quantity"),
        (f"{{{ASK}, resources: {{pods: [1]}}}}", "resources.pods: a list is not a quantity"),
        (f"{{{ASK}, resources: {{'': 1}}}}", "resources: a resource type has an empty name"),
        (f"{{{ASK}, resources: {{pods: 1}}, gangs: g}}", "gangs: unknown field (with 'g')"),
        (
            f"{{{ASK}, resources: {{pods: 1}}, priority: '5'}}",
            "priority: '5' is a text, not a number: leave out the quotes",
        ),
        (
            f"{{{ASK}, resources: {{pods: 1}}, priority: 2147483648}}",
            "priority: '2147483648' is not a whole number between -2147483648 and 2147483647",
        ),
        (f"{{{ASK}, resources: {{pods: 1}}, priority: 1.0}}", "priority: '1.0' is not a whole num"),
        (
            f"{{{ASK}, resources: {{pods: 1}}, count: 0}}",
            "count: '0' is not a whole number between",
        ),
        (f"{{{ASK}, resources: {{pods: 1}}, count: 10000001}}", "count: '10000001' is not a whole"),
        (f"{{{ASK}, resources: {{pods: 1}}, run_for: 0}}", "run_for: '0' is not above 0"),
        (f"{{{ASK}, resources: {{pods: 1}}, run_for: -5}}", "run_for: '-5' is negative"),
        (
            f"{{{ASK}, resources: {{pods: 1}}, run_for: '5'}}",
            "run_for: '5' is a text, not a number: leave out the quotes, or add a unit",
        ),
        (f"{{{ASK}, resources: {{pods: 1}}, run_for: soon}}", "run_for: 'soon' is not a duration"),
        (
            f"{{{ASK}, resources: {{pods: 1}}, selector: {{a: [b]}}}}",
            "selector.a: a list is not a text",
        ),
        (f"{{{ASK}, resources: {{pods: 1}}, selector: [a]}}", "selector: a list is not a map"),
        (
            f"{{{ASK}, resources: {{pods: 1}}, annotations: {{a: , b: c}}}}",
            "annotations.a: nothing is not a text",
        ),
        ("{op: add_app, app: a, queue: q, groups: g}", "groups: 'g' is not a list"),
        ("{op: add_app, app: a, queue: q, groups: [g, '']}", "groups[1]: '' is empty"),
        ("{op: add_node, node: n, capacity: {}, schedulable: 1}", "schedulable: '1' is not a bool"),
        (
            "{op: add_node, node: n, capacity: {}, schedulable: 'true'}",
            "schedulable: 'true' is not a boolean: write true or false",
        ),
        ("{op: add_priority_class, name: system-x, value: 1}", "name: 'system-x' starts with"),
        ("{op: add_priority_class, name: c, value: 1000000001}", "value: '1000000001' is not a"),
        (
            "{op: add_priority_class, name: c, value: 1, preemption_policy: never}",
            "preemption_policy: 'never' is none of Never, PreemptLowerPriority",
        ),
        ("{op: fail_bind, app: a, ask: x, times: 0}", "times: '0' is not a whole number between 1"),
    ],
)
def test_what_is_refused_and_why(text: str, message: str) -> None:
    if message:
        assert refusal(text).startswith(message)
    else:
        assert not isinstance(content(text), Refused)


# FEED-80
@pytest.mark.parametrize(
    "event",
    [
        {"op": "add_app", "app": 5, "queue": "root.q"},
        {"op": "add_app", "app": "a", "queue": 5},
        {"op": "add_app", "app": "a", "queue": "q", "user": 5},
        {"op": "add_app", "app": "a", "queue": "q", "groups": [5]},
        {"op": "add_node", "node": 5, "capacity": {"vcore": 1}},
        {"op": "release", "app": "a", "ask": 5},
        {"op": "release", "app": "a", "ask": "x", "message": 5},
        {"op": "bind_failed", "app": "a", "ask": "x", "message": 5},
        {"op": "add_ask", "app": "a", "ask": "x", "resources": {"pods": 1}, "command": 5},
        {"op": "add_ask", "app": "a", "ask": "x", "resources": {"pods": 1}, "command": ["a", 5]},
        {"op": "add_ask", "app": "a", "ask": "x", "resources": {"pods": 1}, "workdir": 5},
        {"op": "set_usage", "queue": "root.q", "user": 5, "usage": {"vcore": 1}},
    ],
    ids=str,
)
def test_a_whole_number_is_a_text(event: dict[str, object]) -> None:
    # FEED-5
    line = json.dumps(event)

    def read(text: str, encoding: Encoding) -> Content:
        [item] = items(line.replace("5", text), encoding)
        return item.content

    for encoding in (Encoding.JSON_LINES, Encoding.YAML):
        assert read("5", encoding) == read('"5"', encoding)
    for other in ("5.5", "true"):
        refused = read(other, Encoding.JSON_LINES)
        assert isinstance(refused, Refused)
        assert f"{other} is not a text: put it in quotes" in refused.message
        assert read(other, Encoding.YAML) == read(f'"{other}"', Encoding.YAML)


@pytest.mark.parametrize("name", ["time", "estimated", "Estimate"])
def test_a_time_of_an_ask_may_mean_its_estimate(name: str) -> None:
    message = refusal(f"{{{ASK}, resources: {{pods: 1}}, {name}: 90m}}")
    assert message.endswith("; did you mean estimate?")


def test_every_problem_is_reported() -> None:
    message = refusal("{op: add_ask, app: a/b, count: 0, x: 1, at: -1}")

    assert [problem.split(":")[0] for problem in message.split("; ") if ":" in problem[:12]] == [
        "at", "app", "count", "x", "ask", "resources",
    ]  # fmt: skip


def test_the_number_of_reported_problems_is_limited() -> None:
    message = refusal("{op: settle, " + ", ".join(f"x{n}: 1" for n in range(30)) + "}")

    assert message.endswith("; and 20 more problems")


def test_long_values_are_cut_short() -> None:
    assert len(refusal(f"{{op: remove_app, app: {'a/' * 10_000}}}")) < 200
    assert len(refusal(f"{{op: remove_app, app: a, {'x' * 900}: {'y' * 10_000}}}")) < 300


def instants(*events: str) -> list[int]:
    return [item.at_us for item in items("".join(f"- {event}\n" for event in events))]


def test_the_instant_is_that_of_the_event_before_unless_it_is_given() -> None:
    assert instants("{op: settle}", "{op: settle, at: 5}", "{op: settle}", "{op: settle, at: }") == [
        0, 5_000_000, 5_000_000, 5_000_000,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("at", "at_us"),
    [
        ("0", 0),
        ("1.5", 1_500_000),
        ("1e-6", 1),
        ("0.0000004", 0),
        ("0.0000005", 1),
        ("1m30s", 90_000_000),
        ("'1h2m3s'", 3_723_000_000),
        ("'500ms'", 500_000),
        ("1us", 1),
        ("9223372036854.775807", 2**63 - 1),
        ("9007199254.740993", 9_007_199_254_740_993),
    ],
)
def test_instants_are_exact(at: str, at_us: int) -> None:
    assert instants(f"{{op: settle, at: {at}}}") == [at_us]


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("4", "at: '4' is before the event before it, which is at 5 s"),
        ("-1", "at: '-1' is negative"),
        ("'6'", "at: '6' is a text, not a number"),
        ("soon", "at: 'soon' is not a duration"),
        ("[6]", "at: a list is not a duration"),
        ("true", "at: 'true' is not a duration"),
        ("9223372036855", "at: '9223372036855' is longer than"),
        ("1e400", "at: '1e400' is longer than"),
        ("6 ", None),
    ],
)
def test_a_bad_instant_is_refused_and_does_not_count(at: str, message: str | None) -> None:
    found = items(f"- {{op: settle, at: 5}}\n- {{op: settle, at: {at}}}\n- {{op: settle}}\n")

    if message is None:
        assert found[2].at_us == 6_000_000
    else:
        assert isinstance(found[1].content, Refused)
        assert found[1].content.message.startswith(message)
        assert [item.at_us for item in found] == [5_000_000] * 3


@pytest.mark.parametrize(
    "event", ["{op: nope, at: 6}", "{op: settle, at: 6, x: 1}", "{op: a, op: b, at: 6}"]
)
def test_the_instant_of_a_refused_event_counts(event: str) -> None:
    found = items(f"- {{op: settle, at: 5}}\n- {event}\n- {{op: settle}}\n")

    assert isinstance(found[1].content, Refused)
    assert [item.at_us for item in found] == [5_000_000, 6_000_000, 6_000_000]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('{"op": "remove_app", "app": 5}', RemoveApp("5")),
        ('{"op": "add_app", "app": "a", "queue": "q", "tags": {"x": true, "y": 5}}',
         AddApp("a", "q", tags={"x": "true", "y": "5"})),
        ('{"op": "add_node", "node": "n", "capacity": {"vcore": 0.5, "memory": 1e3, "pods": "1k"}}',
         AddNode("n", Resources({"vcore": 500, "memory": 1000, "pods": 1000}))),
        ('{"op": "add_app", "app": "off", "queue": "~", "user": null}', AddApp("off", "~")),
        ('{"op": "remove_app", "app": 1.5}', "app: 1.5 is not a text: put it in quotes"),
        ('{"op": "remove_app", "app": true}', "app: true is not a text: put it in quotes"),
        ('{"op": "remove_app", "app": null}', "app: null is not a text"),
        ('{"op": "fail_bind", "app": "a", "ask": "x", "times": "2"}', "times: '2' is a text, not"),
        ('{"op": "fail_bind", "app": "a", "ask": "x", "times": 2.0}', "times: 2.0 is not a whole"),
        ('{"op": "fail_bind", "app": "a", "ask": "x", "times": true}', "times: true is not a whole"),
        ('{"op": "settle", "at": "5"}', "at: '5' is a text, not a number"),
        ('{"op": "settle", "at": false}', "at: false is not a duration"),
        ('{"op": "add_node", "node": "n", "capacity": {"vcore": true}}', "capacity.vcore: true is"),
        ('{"op": "update_node", "node": "n", "schedulable": "yes"}', "schedulable: 'yes' is not a"),
        ('{"op": "update_node", "node": "n", "schedulable": 1}', "schedulable: 1 is not a boolean"),
        ('{"op": 5}', "op: 5 is no operation"),
        ("5", "event: 5 is not a map"),
        ("null", "event: null is not a map"),
        ("{", "event: the line is not JSON: "),
    ],
)  # fmt: skip
def test_what_json_says(line: str, wanted: Content | str) -> None:
    [item] = items(line, Encoding.JSON_LINES)

    if isinstance(wanted, str):
        assert isinstance(item.content, Refused)
        assert item.content.message.startswith(wanted)
    else:
        assert item.content == wanted


def test_raw_events_may_come_from_anywhere() -> None:
    found = list(parse([RawEvent(7, None, {"op": "settle", "at": 1.5})]))

    assert found == [FeedItem(7, None, 1_500_000, Settle())]


def test_items_come_as_they_are_read() -> None:
    endless = (RawEvent(index, None, {"op": "settle"}) for index in itertools.count())

    assert [item.index for item in itertools.islice(parse(endless), 3)] == [0, 1, 2]


def test_a_feed_that_is_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("- op: settle\n")

    assert list(read_feed(path)) == list(read_feed(io.BytesIO(b"- op: settle\n")))


SPEC = {
    "configure": "config? file? partition?",
    "add_node": "node capacity attributes? schedulable? devices? taints? lease?",
    "update_node": "node capacity? attributes? schedulable? devices? reserved? taints?",
    "remove_node": "node",
    "add_app": "app queue? user? groups? tags?",
    "remove_app": "app",
    "add_ask": "app ask resources devices? priority? priority_class? count? gang? annotations? node?"
    " selector? tolerations? affinity? run_for? estimate? run_limit? start_by? retries? once? command?"
    " env? workdir?",
    "remove_ask": "app ask",
    "release": "app ask outcome? message? exit_status? signal? cpu_time? max_memory?",
    "add_gang": "gang min_member total? mode? wait_time? groups? topology? user?",
    "remove_gang": "gang",
    "add_priority_class": "name value preemption_policy?",
    "apply": "manifest",
    "delete": "manifest",
    "fail_bind": "app ask times?",
    "set_usage": "queue user? usage",
    "settle": "",
    "expect": "order? bound? waiting? pending? parked? placed? queues? apps? gangs? preempted?"
    " reclaimed? rejected? warnings? reasons? devices? reservations? usage?",
}

ADDED = {"bind_failed": "app ask message?"}
"""What services record, and the contract does not name."""

OTHERWISE = {"add_ask": {"says", "timed_out", "work"}, "release": {"exited"}}
"""What events have that is made of several fields."""


def test_the_table_is_that_of_the_contract() -> None:
    found = {
        name: " ".join(field.name + "?" * (not field.required) for field in op.fields.values())
        for name, op in OPS.items()
    }

    assert found == SPEC | ADDED


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_everything_is_described(op: Op) -> None:
    assert op.doc.endswith(".")
    assert all(field.doc and field.kind.name for field in [AT, *op.fields.values()])


@pytest.mark.parametrize("op", OPS.values(), ids=list(OPS))
def test_every_field_has_its_place_in_the_typed_event(op: Op) -> None:
    names = {field.attribute for field in op.fields.values()}
    if op.name in {"configure", "settle", "add_gang"}:
        return
    with attrs.validators.disabled():
        made = op.build(dict.fromkeys(names), EventOrigin(Path(), None))

    assert {attribute.name for attribute in attrs.fields(type(made))} == (
        names - {"annotations", "command", "env", "workdir", *EXIT_FIELDS}
    ) | OTHERWISE.get(op.name, set())


def test_what_defines_a_gang_has_its_place_in_the_typed_event() -> None:
    names = {field.attribute for field in OPS["add_gang"].fields.values()}

    assert {attribute.name for attribute in attrs.fields(GangFields)} == names - {"gang"}


START = parse_date("2026-01-01")
EVENT = {"op": "add_app", "queue": "root.q"}


def origin_of(text: str) -> int | None:
    origin = FeedOrigin()
    list(read_feed(io.BytesIO(text.encode()), origin=origin))
    return origin.us


def instants_of(*written: object) -> list[int]:
    """Return the instants of events with these `at`, in JSON; None for no `at`."""
    events = [{**EVENT, "app": f"a{n}", "at": at} for n, at in enumerate(written)]
    found = items("".join(json.dumps(event) + "\n" for event in events), Encoding.JSON_LINES)
    assert not any(isinstance(item.content, Refused) for item in found)
    return [item.at_us for item in found]


def test_the_first_date_is_instant_0() -> None:
    # FEED-86
    assert instants_of(None, 0, "2026-01-01", None, "2026-01-01T00:00:02Z", 3, "4s") == [
        *(0, 0, 0, 0, 2_000_000, 3_000_000, 4_000_000)
    ]


@pytest.mark.parametrize(
    ("feed", "origin_us"),
    [
        ("- {op: settle}\n- {op: settle, at: 2026-01-01}\n- {op: settle, at: 2026-01-02}", START),
        ("- {op: unknown, at: 2026-01-01}", START),
        ("- {op: settle, at: 5}\n- {op: settle, at: 2026-01-01}", None),
        ("- {op: settle, at: 2026-02-30}", None),
        ("- {op: settle}", None),
    ],
)
def test_the_origin(feed: str, origin_us: int | None) -> None:
    # FEED-86
    assert origin_of(feed) == origin_us


def test_the_origin_is_known_with_the_first_date() -> None:
    origin = FeedOrigin()
    feed = b"- {op: settle}\n- {op: settle, at: 2026-01-01}\n- {op: settle, at: 9999-01-01}\n"
    found = read_feed(io.BytesIO(feed), origin=origin)

    assert [next(found).at_us, origin.us] == [0, None]
    assert [next(found).at_us, origin.us] == [0, START]


@pytest.mark.parametrize("at", ["2026-01-01T00:00:05Z", "2026-01-01T01:00:05+01:00"])
def test_every_encoding_has_dates(at: str) -> None:
    # FEED-85
    events = [{"op": "settle", "at": "2026-01-01"}, {"op": "settle", "at": at}]
    feeds = [
        f"- {{op: settle, at: 2026-01-01}}\n- {{op: settle, at: {at}}}".encode(),
        f"- {{op: settle, at: '2026-01-01'}}\n- {{op: settle, at: '{at}'}}".encode(),
        "".join(json.dumps(event) + "\n" for event in events).encode(),
        b"".join(msgpack.packb(event) for event in events),
    ]
    for feed in feeds:
        assert [item.at_us for item in read_feed(io.BytesIO(feed))] == [0, 5_000_000]


def test_what_is_neither_a_duration_nor_a_date() -> None:
    [item] = items("- {op: settle, at: soon}")
    assert isinstance(item.content, Refused)
    assert item.content.message == (
        "at: 'soon' is not a duration: write seconds or a duration such as '1m30s', '500ms' or "
        "'1.5h', or a date such as '2026-01-31T18:30:00Z'"
    )


WRITTEN = st.sampled_from(["date", "number", "missing"])
DELTAS = st.integers(0, 10**12) | st.sampled_from([0, 1, 999_999, 86_400_000_000])


@given(st.integers(0, 10**15), st.lists(st.tuples(DELTAS, WRITTEN), max_size=8))
def test_a_feed_with_dates_is_one_with_numbers(
    origin_us: int, steps: list[tuple[int, str]]
) -> None:
    # FEED-86
    numbers: list[object] = [0]
    dates: list[object] = [date_text(origin_us)]
    at_us = 0
    for delta_us, how in steps:
        if how == "missing":
            numbers.append(None)
            dates.append(None)
            continue
        at_us += delta_us
        numbers.append(f"{at_us}us")
        dates.append(date_text(origin_us + at_us) if how == "date" else f"{at_us}us")
    assert instants_of(*dates) == instants_of(*numbers)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        ("2026-01-31T18:30", "2026-01-31T18:30:00Z"),
        ("2026-01-31 18:30:05", "2026-01-31T18:30:05Z"),
        ("2026-01-31t18:30:05z", "2026-01-31T18:30:05Z"),
        ("2026-01-31T18:30:05.25+01:30", "2026-01-31T17:00:05.25Z"),
        ("2026-12-31T23:30:00-0100", "2027-01-01T00:30:00Z"),
        ("2026-12-31T23:30:00-01", "2027-01-01T00:30:00Z"),
        ("2026-12-31T23:59:59.9999995Z", "2027-01-01T00:00:00Z"),
        ("2026-12-31T23:59:59.99999949Z", "2026-12-31T23:59:59.999999Z"),
        (" 2026-01-31 ", "2026-01-31T00:00:00Z"),
        ("0001-01-01", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_dates(text: str, same: str) -> None:
    # FEED-85
    assert date_text(parse_date(text)) == same


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-01", "write it like"),
        ("2026-01-31T18", "write it like"),
        ("2026-01-31Z", "write it like"),
        ("2026-1-31", "write it like"),
        ("\u0662026-01-31", "write it like"),
        ("2026-01-31T18:30:00.Z", "write it like"),
        ("2026-01-31T18:30:00 Z", "write it like"),
        ("2026-04-31", "day is out of range for month"),
        ("2026-01-31T18:60:00Z", "minute must be in 0..59"),
        ("2026-12-31T23:59:60Z", "second must be in 0..59"),
        ("2026-01-31T18:30:00+01:60", "its offset must be below 24:00"),
        ("0000-01-01", "year 0 is out of range"),
        ("0001-01-01T00:00:00+00:01", "not within the years 1 to 9999"),
        ("9999-12-31T23:59:59.9999995Z", "not within the years 1 to 9999"),
    ],
)
def test_what_is_no_date(text: str, why: str) -> None:
    # FEED-85
    with pytest.raises(ValueError, match=f"^is no date: .*{why}"):
        parse_date(text)


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.integers(-23 * 60 - 59, 23 * 60 + 59),
)
def test_they_mean_what_python_says(date: datetime, minutes: int) -> None:
    us = (date - EPOCH) // timedelta(microseconds=1)
    assert parse_date(date_text(us)) == us
    offset = timezone(timedelta(minutes=minutes))
    try:
        there = date.astimezone(offset)
    except OverflowError:
        return
    assert parse_date(there.isoformat()) == us


def test_an_instant_without_a_date() -> None:
    last_us = parse_date("9999-12-31T23:59:59.999999Z")

    assert date_text(last_us + 1) == "253402300800 s since 1970"


@pytest.mark.parametrize(
    ("text", "is_date"),
    [("2026-01-31", True), (" 2026-", True), ("2026", False), ("26-01-31", False), ("1m", False)],
)
def test_what_is_meant_as_a_date(text: str, is_date: bool) -> None:
    assert is_like_date(text) is is_date
