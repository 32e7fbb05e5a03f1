"""``POST /api/v1/events``: three encodings, limits, an answer for each event, and the shortcut for
plain events.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count

import msgpack
import pytest
from httpx import Response
from hypothesis import example, given, strategies as st

from muster.feeds import Raw, RawEvent, Refused, parse
from muster.service.input.events import PlainEvents
from tests.actors.serving.served import Served

PATH = "/api/v1/events"
_NUMBERS = count()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with Served(folder, "--state", str(folder / "state")) as running:
        yield running


def post(served: Served, body: bytes | str, media: str = "application/json") -> Response:
    content = body.encode() if isinstance(body, str) else body
    return served.client.post(PATH, content=content, headers={"content-type": media})


def batch_of(served: Served) -> int:
    """Return the number of the last batch."""
    batch: int = served.client.get("/api/v1/nodes").json()["batch"]
    return batch


def app() -> dict[str, object]:
    """Return the event that adds an application with a name of its own."""
    return {"op": "add_app", "app": f"app-{next(_NUMBERS)}", "queue": "root.dev"}


def ask(name: object, ask: str = "a", **more: object) -> dict[str, object]:
    return {"op": "add_ask", "app": name, "ask": ask, "resources": {"vcore": 1}, **more}


def results(response: Response) -> list[tuple[bool, object, list[str]]]:
    assert response.status_code == 200, response.text
    found = response.json()
    assert [one["index"] for one in found] == list(range(len(found)))
    return [(one["ok"], one["error"], one["asks"]) for one in found]


def test_events_are_answered_in_order(served: Served) -> None:
    new = app()
    asks = [ask(new["app"], "b", count=3), ask("nobody"), ask(new["app"])]

    answer = post(served, json.dumps([new, *asks]))

    assert results(answer) == [
        (True, None, []),
        (True, None, ["b-0", "b-1", "b-2"]),
        (False, "app: 'nobody' is unknown", []),
        (True, None, ["a"]),
    ]
    assert int(answer.headers["Muster-First-Seq"]) <= int(answer.headers["Muster-Last-Seq"])


def test_one_event_needs_no_list(served: Served) -> None:
    # INPUT-1
    assert results(post(served, json.dumps(app()))) == [(True, None, [])]


def packed(events: list[dict[str, object]]) -> bytes:
    return b"".join(msgpack.packb(event) for event in events)


Events = list[dict[str, object]]
Write = Callable[[Events], bytes]


def listed(events: Events) -> bytes:
    return json.dumps(events, indent=1).encode()


def lines(events: Events, end: str = "\n") -> bytes:
    return end.join(map(json.dumps, events)).encode()


def packed_list(events: Events) -> bytes:
    return b"\x92" + packed(events)


WRITERS: list[tuple[str, Write]] = [
    ("application/json", listed),
    ("application/json; charset=utf-8", listed),
    ("application/json", lambda events: b"\xef\xbb\xbf " + listed(events)),
    ("application/x-ndjson", lines),
    ("application/jsonl", lambda events: lines(events, "\r\n\n")),
    ("application/msgpack", packed),
    ("application/msgpack", packed_list),
    ("application/vnd.msgpack", lambda events: b"\xdd\0\0\0\x02" + packed(events)),
    ("", listed),
]


@pytest.mark.parametrize(("media", "write"), WRITERS, ids=map(str, range(len(WRITERS))))
def test_events_come_in_three_encodings(served: Served, media: str, write: Write) -> None:
    # INPUT-1
    new = app()

    answer = post(served, write([new, ask(new["app"], count=2)]), media)

    assert results(answer) == [(True, None, []), (True, None, ["a-0", "a-1"])]


@pytest.mark.parametrize(
    ("media", "body", "status", "detail"),
    [
        ("application/json", "", 400, "the body is not JSON"),
        ("application/json", "[", 400, "the body is not JSON"),
        ("application/json", "[{}", 400, "the body is not JSON"),
        ("application/json", "[{},]", 400, "the body is not JSON"),
        ("application/json", "[{}] x", 400, "Extra data (line 1, column 6)"),
        ("application/json", '[{"op": NaN}]', 400, "NaN is no number"),
        ("application/json", '[{"op": 1e999}]', 400, "1e999 is too large"),
        ("application/json", "[" + "9" * 5000 + "]", 400, "the body is not JSON"),
        ("application/json", b'[{"op": "\xff"}]', 400, "the body is not UTF-8: byte 9 (0xff)"),
        ("application/json", "[" * 65 + "]" * 65, 413, "nested deeper than 64 levels"),
        ("application/json", "[" * 100_000, 413, "nested deeper than 64 levels"),
        ("application/json", '{"a":' * 65 + "1" + "}" * 65, 413, "nested deeper than 64"),
        ("application/jsonl", '{"a":' * 65 + "1" + "}" * 65, 413, "nested deeper than 64"),
        ("application/msgpack", b"\x91" * 65 + b"\xc0", 413, "nested deeper than 64"),
        ("application/x-ndjson", "\n \n", 400, "the body is empty"),
        ("application/msgpack", b"", 400, "the body is empty"),
        ("application/msgpack", b"\x81\xa2op", 400, "the feed ends within it"),
        ("application/msgpack", b"\xc1", 400, "not msgpack"),
        ("application/msgpack", b"\x93\x80", 400, "a list of 3, and there are 1 values"),
        ("application/msgpack", b"\xdd\xff\xff\xff\xff", 400, "a list of 4294967295"),
        ("application/json", json.dumps([{}] * 10_001), 413, "more than 10000 events"),
        ("application/jsonl", "{}\n" * 10_001, 413, "more than 10000 events"),
        ("application/msgpack", b"\x80" * 10_001, 413, "more than 10000 events"),
        ("text/csv", "a,b", 415, "content-type: 'text/csv': must be one of"),
    ],
    ids=map(str, range(24)),
)
def test_a_body_that_cannot_be_read_is_refused_as_a_whole(
    served: Served, media: str, body: bytes | str, status: int, detail: str
) -> None:
    # INPUT-2
    before = batch_of(served)

    answer = post(served, body, media)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in answer.json()["detail"]
    assert batch_of(served) == before


def test_a_compressed_body_is_refused(served: Served) -> None:
    # INPUT-1
    answer = served.client.post(PATH, content=b"x", headers={"content-encoding": "gzip"})

    assert answer.status_code == 415


@pytest.mark.parametrize(
    ("media", "body", "error"),
    [
        ("application/json", "[%s, 7]", "event: 7 is not a map"),
        ("application/json", "[%s, [1]]", "event: a list is not a map"),
        (
            "application/json",
            '[%s, {"op": "add_app", "op": "x"}]',
            "event: the key 'op' stands twice",
        ),
        (
            "application/json",
            '[%s, {"op": "add_node", "node": "n", "capacity": {"a": 1, "a": 2}}]',
            "event: the key 'a' stands twice",
        ),
        ("application/json", '[%s, {"op": "\\ud800"}]', "event: '\\ud800' is not Unicode text"),
        (
            "application/json",
            '[%s, {"op": "add_node", "node": "n", "capacity": {"vcore": 99999999999999999999}}]',
            "is too large: the most is",
        ),
        ("application/jsonl", "%s\n{", "event: the line is not JSON"),
        ("application/jsonl", "%s\n[]", "event: a list is not a map"),
        ("application/json", '[%s, {"op": "settle"}]', "op: settle and expect are only for feeds"),
        ("application/json", '[%s, {"op": "expect"}]', "op: settle and expect are only for feeds"),
        ("application/json", '[%s, {"op": "remove_app", "app": "a", "at": 1}]', "at: "),
        (
            "application/json",
            '[%s, {"op": "configure", "file": "/etc/passwd"}]',
            "file: no file of the server is read",
        ),
    ],
    ids=map(str, range(12)),
)
def test_an_event_that_is_wrong_keeps_no_other_out(
    served: Served, media: str, body: str, error: str
) -> None:
    # INPUT-3
    answer = post(served, body.replace("%s", json.dumps(app())), media)

    right, wrong = results(answer)
    assert right == (True, None, [])
    assert wrong[0] is False
    assert error in str(wrong[1])


def test_a_colon_in_a_text_is_no_key(served: Served) -> None:
    # INPUT-1
    new = app()
    new["tags"] = {"a:b": "c:d", "e": ":"}

    assert results(post(served, json.dumps([new, new])))[0] == (True, None, [])


def test_events_of_one_request_are_let_in_together(served: Served) -> None:
    # INPUT-4
    new = app()
    asks = [ask(new["app"], f"a-{number}") for number in range(2000)]

    answer = post(served, json.dumps([new, *asks]))

    assert all(ok for ok, _, _ in results(answer))
    first, last = (int(answer.headers[f"Muster-{end}-Seq"]) for end in ("First", "Last"))
    lines = served.client.get(
        "/api/v1/decisions", params={"after": first - 1, "limit": 1}
    ).text.splitlines()
    assert json.loads(lines[0])["seq"] == first <= last


def test_answers_come_as_lines_if_they_are_wanted(served: Served) -> None:
    # INPUT-5
    answer = served.client.post(
        PATH, json=[app(), {"op": "x"}], headers={"accept": "application/x-ndjson"}
    )

    assert answer.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [(one["index"], one["ok"]) for one in lines] == [(0, True), (1, False)]


def test_an_empty_list_changes_nothing(served: Served) -> None:
    # INPUT-4
    answer = post(served, "[]")

    assert results(answer) == []
    assert "Muster-Batch" not in answer.headers


def test_asks_of_pods_are_named(served: Served) -> None:
    # INPUT-5
    def pod(name: str) -> dict[str, object]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"applicationId": "of-pods", "queue": "root.dev"}},
            "spec": {
                "schedulerName": "yunikorn",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
        }

    event = {"op": "apply", "manifest": {"kind": "List", "items": [pod("p"), pod("q")]}}

    ((ok, error, asks),) = results(post(served, json.dumps([event])))

    assert (ok, error) == (True, None)
    assert asks == ["p", "q"]


NAMES = st.sampled_from(["a", "b", "", "a/b", "ä", 7, None, True])
AMOUNTS = st.sampled_from([0, 1, 1.0, True, 2.5, -1, "1", "1Gi", "500m", "much", "", None, 2**70])
RESOURCES: st.SearchStrategy[object] = st.one_of(
    st.dictionaries(st.sampled_from(["vcore", "memory", "gpu", ""]), AMOUNTS, max_size=3),
    st.sampled_from([None, [], "1"]),
)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "op": st.sampled_from(["add_ask", "release", "remove_ask", "remove_app", "nonsense", None, []]),
    "app": NAMES,
    "ask": NAMES,
    "resources": RESOURCES,
    "priority": st.sampled_from([0, 5, -1, 2**31 - 1, 2**31, -(2**31), True, 1.0, "1", None]),
    "count": st.sampled_from([1, 3, None]),
    "outcome": st.sampled_from(["failed", None]),
}
PLAIN = PlainEvents()
ASK: dict[str, Raw] = {"op": "add_ask", "app": "a", "ask": "b"}


@given(
    st.fixed_dictionaries(
        {"op": FIELDS["op"]}, optional={name: FIELDS[name] for name in FIELDS if name != "op"}
    )
)
@example({**ASK, "resources": {"vcore": 1}})
@example({**ASK, "resources": {"vcore": True}})
@example({**ASK, "resources": {"vcore": 1.0}})
@example({**ASK, "resources": {"vcore": 0}})
@example({**ASK, "resources": {}, "priority": 1})
def test_it_makes_what_the_parser_makes(written: dict[str, Raw]) -> None:
    # INPUT-3
    made = PLAIN.convert(written)

    (item,) = parse([RawEvent(0, None, written)])
    assert made is None or made == item.content
    assert made is None or not isinstance(item.content, Refused)


def test_plain_events_take_the_shortcut() -> None:
    # INPUT-3
    some: dict[str, Raw] = {"vcore": 1, "memory": "1Gi"}

    for written in (
        {**ASK, "resources": some},
        {**ASK, "resources": some, "priority": -3},
        {"op": "release", "app": "a", "ask": "b"},
        {"op": "remove_ask", "app": "a", "ask": "b"},
    ):
        assert PlainEvents().convert(written) is not None
