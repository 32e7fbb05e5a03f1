from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest

from muster.feeds import Content, Encoding, FeedItem, RawEvent, Refused, Settle, parse, read_feed
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
@pytest.mark.parametrize("name", ["time", "estimated", "Estimate"])
def test_a_time_of_an_ask_may_mean_its_estimate(name: str) -> None:
    told = refusal(f"{{{ASK}, resources: {{pods: 1}}, {name}: 90m}}")
    assert told.endswith("; did you mean estimate?")


def test_every_problem_is_told() -> None:
    message = refusal("{op: add_ask, app: a/b, count: 0, x: 1, at: -1}")

    assert [problem.split(":")[0] for problem in message.split("; ") if ":" in problem[:12]] == [
        "at", "app", "count", "x", "ask", "resources",
    ]  # fmt: skip


def test_not_too_many_problems_are_told() -> None:
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
