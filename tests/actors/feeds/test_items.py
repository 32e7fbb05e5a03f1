"""The events of a feed that are not for the scheduler's machines: ``configure`` and ``expect``.

And the log of decisions.
"""

from __future__ import annotations

import gzip
import io
import json
import math
from pathlib import Path

import msgpack
import pytest
from hypothesis import given, strategies as st

from muster.feeds import (
    UNSET,
    DecisionLog,
    Encoding,
    Expect,
    ExpectedApp,
    ExpectedGang,
    ExpectedQueue,
    FeedError,
    Refused,
    convert,
    read_feed,
)
from muster_core.config.model import Configuration, SortPolicy
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.events import Configure
from muster_core.resources import Resources
from tests.actors.feeds.helpers import content, items, refusal

QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: off
            maxapplications: 010
            properties: {application.sort.policy: FAIR, note: ~}
            resources: {max: {vcore: 1, memory: 8Gi}}
  - name: other
    queues: [{name: root}]
"""


def inline(text: str = QUEUES) -> str:
    return "- op: configure\n  config:\n" + "".join(f"    {line}\n" for line in text.splitlines())


def configuration(text: str) -> Configuration:
    [item] = items(text, Encoding.YAML)
    assert isinstance(item.content, Configure), item.content
    return item.content.config


def test_inline() -> None:
    [off] = configuration(inline()).root.children

    assert off.name == "off"
    assert off.max_applications == 10
    assert off.settings.sort_policy is SortPolicy.FAIR
    assert off.max.amounts == (("memory", 2**33), ("vcore", 1000))
    assert ("note", "~") in off.own_properties


def test_a_partition_may_be_chosen() -> None:
    assert configuration(inline() + "  partition: other\n").partition == "other"


def test_a_file_relative_to_the_feed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/queues.yaml").write_text(QUEUES)
    feed = tmp_path / "feed.yaml"
    feed.write_text("- {op: configure, file: sub/queues.yaml}\n")
    [item] = read_feed(feed)

    assert item.content == Configure(configuration(inline()), "file")


def test_a_file_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES)
    monkeypatch.chdir(tmp_path)

    assert isinstance(content("{op: configure, file: queues.yaml}"), Configure)


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("{op: configure}", "config: is missing, or file"),
        ("{op: configure, config: , file: }", "config: is missing, or file"),
        ("{op: configure, config: {}, file: a}", "config: leave it out, or the file 'a'"),
        ("{op: configure, config: [a]}", "config: a list is not a map"),
        ("{op: configure, file: [a]}", "file: a list is not a text"),
        ("{op: configure, file: missing.yaml}", "file: 'missing.yaml' cannot be read: No such"),
        ("{op: configure, file: .}", "file: '.' cannot be read: Is a directory"),
        ('{op: configure, file: "a\\0b"}', r"file: 'a\x00b' cannot be read: embedded null"),
        ("{op: configure, config: {partitionen: 1}}", "config.partitionen: "),
    ],
)
def test_which_configurations_are_refused(event: str, message: str) -> None:
    assert refusal(event).startswith(message)


def test_a_refused_configuration_names_path_and_line() -> None:
    message = refusal(inline(QUEUES.replace("vcore: 1", "vcore: -1")))

    assert message.startswith("config.partitions[0].queues[0].queues[0].resources.max.vcore: '-1'")
    assert message.endswith("(line 11)")


def test_a_refused_file_is_named_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "queues.yaml").write_text(QUEUES.replace("vcore: 1", "vcore: -1"))
    feed = tmp_path / "feed.yaml"
    feed.write_text("- {op: configure, file: queues.yaml}\n")
    [item] = read_feed(feed)

    assert isinstance(item.content, Refused)
    assert item.content.message.startswith("file: queues.yaml:9: partitions[0].queues")


def test_json_brings_numbers_and_booleans() -> None:
    config = {
        "partitions": [
            {
                "name": "default",
                "preemption": {"enabled": False},
                "queues": [{"name": "a", "maxapplications": 10, "properties": None}],
            }
        ]
    }
    [item] = items(json.dumps({"op": "configure", "config": config}), Encoding.JSON_LINES)

    assert isinstance(item.content, Configure)
    assert not item.content.config.preemption_enabled


def test_deep_queues_do_not_overflow() -> None:
    queue: dict[str, object] = {"name": "leaf"}
    for _ in range(94):
        queue = {"name": "a", "queues": [queue]}
    event = {"op": "configure", "config": {"partitions": [{"name": "default", "queues": [queue]}]}}
    [item] = items(json.dumps(event), Encoding.JSON_LINES)

    assert isinstance(item.content, Configure)


@pytest.mark.parametrize("encoding", [Encoding.JSON_LINES, Encoding.MSGPACK, Encoding.YAML])
def test_a_converted_configuration_is_the_same(encoding: Encoding) -> None:
    text = inline() + inline(
        "partitions: [{name: default, queues: , preemption: {enabled: yes}}]\n"
    )
    out = io.BytesIO()
    convert(io.BytesIO(text.encode()), out, target_encoding=encoding)

    assert [item.content for item in read_feed(out_again(out), encoding=encoding)] == [
        item.content for item in items(text)
    ]


def out_again(out: io.BytesIO) -> io.BytesIO:
    return io.BytesIO(out.getvalue())


def test_every_field() -> None:
    text = """
    op: expect
    order: [a/x, a/y-0]
    bound: [a/x]
    waiting: []
    pending: [b/x, b/y]
    parked: []
    placed: {a/x: n1}
    queues:
      root.a: {priority: 5, allocated: {vcore: 2}, pending: {}, share: inf, state: draining}
      root.b: {priority: null, exists: no}
    apps:
      a: {state: Running, priority: null}
      12:30: {state: New}
    gangs:
      default/g: {waiting: 1, bound: 2, satisfied: yes, timed_out: false, cycle_valid: true}
    preempted: [a/z]
    reclaimed: []
    rejected: [unknown queue]
    warnings: [over, 5]
    reasons: {b/x: no node}
    """

    assert content(text) == Expect(
        order=("a/x", "a/y-0"),
        bound=frozenset({"a/x"}),
        waiting=frozenset(),
        pending=frozenset({"b/x", "b/y"}),
        parked=frozenset(),
        placed={"a/x": "n1"},
        queues={
            "root.a": ExpectedQueue(
                5, Resources({"vcore": 2000}), Resources(), math.inf, "draining"
            ),
            "root.b": ExpectedQueue(priority=None, exists=False),
        },
        apps={"a": ExpectedApp("Running", None), "12:30": ExpectedApp("New", UNSET)},
        gangs={"default/g": ExpectedGang(1, 2, satisfied=True, timed_out=False, cycle_valid=True)},
        preempted=("a/z",),
        reclaimed=(),
        rejected=("unknown queue",),
        warnings=("over", "5"),
        reasons={"b/x": "no node"},
    )


def test_nothing_is_compared_unless_it_is_named() -> None:
    assert content("op: expect") == Expect()


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("order: ", "order: nothing is not a list"),
        ("order: a/x", "order: 'a/x' is not a list"),
        ("order: [a]", "order[0]: 'a' is not an ask: write 'application/ask'"),
        ("order: [a/b/c]", "order[0]: 'a/b/c' is not an ask"),
        ("bound: [/x]", "bound[0]: '/x' is not an ask"),
        ("bound: {a/x: 1}", "bound: a map is not a list"),
        ("placed: {a: n}", "placed.a: 'a' is not an ask"),
        ("placed: {a/x: }", "placed.a/x: nothing is not a text"),
        ("queues: [root]", "queues: a list is not a map"),
        ("queues: {root: 5}", "queues.root: '5' is not a map"),
        (
            "queues: {root: {size: 5}}",
            "queues.root.size: unknown field (with '5'); the fields are:",
        ),
        ("queues: {root: {priority: high}}", "queues.root.priority: 'high' is not a whole number"),
        ("queues: {root: {share: -1}}", "queues.root.share: '-1' is not a share"),
        ("queues: {root: {state: gone}}", "queues.root.state: 'gone' is none of active, draining"),
        ("queues: {root: {exists: }}", "queues.root.exists: nothing is not a boolean"),
        ("queues: {root: {pending: {vcore: x}}}", "queues.root.pending.vcore: 'x' is not a quant"),
        ("apps: {a: {state: running}}", "apps.a.state: 'running' is none of New, Accepted, "),
        ("gangs: {g: {bound: -1}}", "gangs.g.bound: '-1' is not a whole number"),
        ("rejected: oops", "rejected: 'oops' is not a list"),
        ("reasons: {a/x: [b]}", "reasons.a/x: a list is not a text"),
        ("bounds: []", "bounds: unknown field (with a list); the fields are: order, bound"),
    ],
)
def test_which_expectations_are_refused(field: str, message: str) -> None:
    assert refusal(f"op: expect\n{field}").startswith(message)


@pytest.mark.parametrize("share", ['"inf"', "0.5", "0", "1e400"])
def test_shares_in_json(share: str) -> None:
    [item] = items(
        f'{{"op": "expect", "queues": {{"a": {{"share": {share}}}}}}}', Encoding.JSON_LINES
    )

    assert isinstance(item.content, Refused if share == "1e400" else Expect)


BATCH = [
    Announced(1, 0, Decision(Kind.ASSIGNED, app="a", ask="é", node="n", queue="root.q")),
    Announced(2, 1_500_000, Decision(Kind.RELEASED, app="a", ask="x", reason=Reason.COMPLETED)),
    Announced(3, 2_000_000, Decision(Kind.QUEUE_PRIORITY, queue="root.q")),
    Announced(4, 2_000_000, Decision(Kind.REJECTED, message="op: 'x'", index=5, line=7)),
]
LINES = """\
{"seq": 1, "at": 0, "kind": "assigned", "app": "a", "ask": "é", "node": "n", "queue": "root.q"}
{"seq": 2, "at": 1.5, "kind": "released", "app": "a", "ask": "x", "reason": "completed"}
{"seq": 3, "at": 2, "kind": "queue_priority", "queue": "root.q", "priority": null}
{"seq": 4, "at": 2, "kind": "rejected", "message": "op: 'x'", "index": 5, "line": 7}
"""


def written(path: Path, encoding: Encoding | None = None) -> bytes:
    with DecisionLog(path, encoding=encoding) as log:
        log.write(BATCH[:1])
        log.write([])
        log.write(BATCH[1:])
    return path.read_bytes()


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.ndjson", "x.log", "x"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    assert written(tmp_path / name).decode() == LINES


@pytest.mark.parametrize("name", ["x.msgpack", "x.mp", "x.MPK"])
def test_msgpack(tmp_path: Path, name: str) -> None:
    unpacker = msgpack.Unpacker(io.BytesIO(written(tmp_path / name)))

    assert list(unpacker) == [json.loads(line) for line in LINES.splitlines()]


def test_compressed(tmp_path: Path) -> None:
    assert gzip.decompress(written(tmp_path / "x.jsonl.gz")).decode() == LINES
    assert written(tmp_path / "x.mp.gz") == written(tmp_path / "y.mp.gz")


def test_the_encoding_may_be_said(tmp_path: Path) -> None:
    assert written(tmp_path / "x", Encoding.MSGPACK) == written(tmp_path / "x.mp")


def test_there_is_no_log_in_yaml(tmp_path: Path) -> None:
    with pytest.raises(FeedError, match="a decision log is JSON Lines"):
        DecisionLog(tmp_path / "x.yaml")

    assert not (tmp_path / "x.yaml").exists()


def test_in_steps() -> None:
    stream = io.BytesIO()
    many = 100 * BATCH
    with DecisionLog(stream) as log:
        assert len(list(log.write_in_steps(many))) > 1
        assert not list(log.write_in_steps([]))

    assert stream.getvalue().decode() == 100 * LINES


TEXTS = st.none() | st.text(st.characters(codec=None), max_size=8)
NUMBERS = st.none() | st.integers(-(2**70), 2**70)
DECISIONS = st.builds(
    Decision,
    st.sampled_from(Kind),
    *[TEXTS] * 5,
    reason=st.none() | st.sampled_from(Reason),
    state=TEXTS,
    priority=NUMBERS,
    message=TEXTS,
    index=NUMBERS,
    line=NUMBERS,
    devices=st.none() | st.dictionaries(st.text(max_size=3), st.just((0, 2)), max_size=2),
    start_us=st.none() | st.integers(0, 2**60),
)


@given(st.builds(Announced, st.integers(1, 2**63), st.integers(0, 2**60), DECISIONS))
def test_a_line_is_the_map_of_a_decision_in_json(announced: Announced) -> None:
    stream = io.BytesIO()
    with DecisionLog(stream) as log:
        log.write([announced])

    line = json.dumps(announced.as_map(), ensure_ascii=False)
    assert stream.getvalue() == line.encode(errors="backslashreplace") + b"\n"


def test_a_stream() -> None:
    stream = io.BytesIO()
    with DecisionLog(stream) as log:
        log.write(BATCH)

    assert stream.getvalue().decode() == LINES
