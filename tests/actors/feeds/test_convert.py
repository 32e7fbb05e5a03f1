"""Feeds are converted, and what is written means what it did.

Whatever stands in a feed is read, refused, or ends in a clean error.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings, strategies as st

from muster.config_files import read_configuration
from muster.feeds import (
    Encoding,
    FeedError,
    FeedItem,
    Raw,
    RawEvent,
    Refused,
    convert,
    parse,
    read_feed,
    read_raw,
    write_event,
)
from muster.feeds._encodings import Encoder
from muster_core.config.model import Configuration
from muster_core.events import (
    AddApp,
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
    FailBind,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    Outcome,
    PodObject,
    QueueObject,
    Release,
    RemoveGang,
    UpdateNode,
    Work,
)
from muster_core.gangs import GangFields, GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.values.configuration import Limits
from tests.actors.feeds.helpers import FEEDS, write_feed
from tests.actors.store.test_codec import FEEDS_FOLDER, SUFFIXES, events_in, events_of
from tests.naive.device_strategies import device_configurations, devices, topologies
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations, operator_configurations
from tests.naive.strategies import scenarios
from tests.naive.test_model import some_configurations
from tests.share import every, share

YAML, JSONL = Encoding.YAML, Encoding.JSON_LINES
ENCODINGS = st.sampled_from(list(Encoding))


def contents_of(data: bytes, encoding: Encoding) -> list[object]:
    """Return the content of a feed's items, without lines and messages of refusals."""
    return [content_of(item) for item in read_feed(io.BytesIO(data), encoding=encoding)]


def content_of(item: FeedItem) -> object:
    content = Refused if isinstance(item.content, Refused) else item.content
    return item.index, item.at_us, content


def converted(data: bytes, source: Encoding, target: Encoding) -> bytes:
    out = io.BytesIO()
    convert(io.BytesIO(data), out, source_encoding=source, target_encoding=target)
    return out.getvalue()


@given(FEEDS, ENCODINGS, ENCODINGS, ENCODINGS)
def test_a_converted_feed_replays_the_same(
    feed: list[Raw], written: Encoding, via: Encoding, to: Encoding
) -> None:
    data = write_feed(feed, written, compressed=False)
    first = converted(data, written, via)
    assert contents_of(first, via) == contents_of(data, written)
    assert contents_of(converted(first, via, to), to) == contents_of(data, written)


FEEDS_HERE = Path(__file__).parents[2] / "feeds"
ALL = sorted(path for path in FEEDS_HERE.rglob("*") if path.suffix in {".yaml", ".jsonl"})
OF_FORMS = {"config", "format", "objects", "quantities"}
"""Folders of feeds that differ in how they are written; the others are written alike."""
ALIKE = [path for path in ALL if path.relative_to(FEEDS_HERE).parts[0] not in OF_FORMS]
KEPT = sorted({*ALL} - {*ALIKE} | {*ALIKE[::4]})


@pytest.mark.parametrize(
    "path", every(3, KEPT), ids=[str(path.relative_to(FEEDS_HERE)) for path in KEPT]
)
def test_a_feed_of_the_suite_is_the_same_in_every_encoding(path: Path) -> None:
    items = [content_of(item) for item in read_feed(path)]
    lines = io.BytesIO()
    convert(path, lines, target_encoding=JSONL)
    # The other encodings are made of the lines, which are read in a fraction of the time.
    for encoding in Encoding:
        data = converted(lines.getvalue(), JSONL, encoding)
        raws = read_raw(io.BytesIO(data), encoding=encoding)

        assert [content_of(item) for item in parse(raws)] == items


CONVERTED = [
    ("a.yaml", b"- {op: add_app, app: off, queue: 010}\n- op: settle\n"),
    ("a.jsonl", b'{"op": "add_app", "app": "off", "queue": "010"}\n{"op": "settle"}\n'),
    ("a.json", b'[{"op": "add_app", "app": "off", "queue": "010"}\n,{"op": "settle"}\n]\n'),
    ("a.msgpack", b"\x83\xa2op\xa7add_app\xa3app\xa3off\xa5queue\xa3010\x81\xa2op\xa6settle"),
]


@pytest.mark.parametrize(("name", "data"), CONVERTED, ids=[name for name, _ in CONVERTED])
@pytest.mark.parametrize("zipped", ["", ".gz"])
def test_the_name_says_how_to_write(tmp_path: Path, name: str, data: bytes, zipped: str) -> None:
    source, target = tmp_path / "source.yaml", tmp_path / f"{name}{zipped}"
    source.write_bytes(b"- {op: add_app, app: off, queue: 010}\n- {op: settle}\n")

    assert convert(source, target) == 2
    assert list(read_raw(target))[1].value == {"op": "settle"}
    written = target.read_bytes()
    read = gzip.decompress(written) if zipped else written
    if name != "a.yaml":
        assert read == data
    else:
        assert read == b'- {op: add_app, app: "off", queue: "010"}\n- {op: settle}\n'


def test_what_the_fields_make_of_plain_texts() -> None:
    event = """
    - op: add_ask
      at: 1.50
      app: 010
      ask: yes
      resources: {vcore: 010, memory: 8Gi}
      priority: -5
      selector: {5: 6, a: on}
      run_for: 1m30s
      x: off
    """
    data = converted(event.encode(), Encoding.YAML, Encoding.JSON_LINES)

    assert json.loads(data) == {
        "op": "add_ask",
        "at": 1.5,
        "app": "010",
        "ask": "yes",
        "resources": {"vcore": "010", "memory": "8Gi"},
        "priority": -5,
        "selector": {"5": "6", "a": "on"},
        "run_for": "1m30s",
        "x": "off",
    }


def test_what_is_no_event_is_refused_at_the_same_time_for_the_same_reason() -> None:
    data = converted(b"- {op: settle, at: 5, at: 6}\n- {op: x, op: y, at: 7}\n- foo\n", YAML, JSONL)

    assert data.decode().splitlines() == [
        """{"op": "refused: line 1: the key 'at' stands twice"}""",
        """{"op": "refused: line 2: the key 'op' stands twice", "at": 7}""",
        '"foo"',
    ]


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        (YAML, b"- {op: settle, at: 5, at: 6}\n"),
        (JSONL, b'{"op": "settle", "at": 5, "at": 6}\n'),
        (Encoding.MSGPACK, b"\x83\xa2op\xa6settle\xa2at\x05\xa2at\x06"),
    ],
)
def test_a_time_that_stands_twice_does_not_count(encoding: Encoding, data: bytes) -> None:
    assert contents_of(data, encoding) == [(0, 0, Refused)]
    assert contents_of(converted(data, encoding, JSONL), JSONL) == [(0, 0, Refused)]


@pytest.mark.parametrize("at", ["-1", "'5'", "soon", "[]"])
def test_where_the_time_is_bad_too_it_does_not_count(at: str) -> None:
    data = f"- {{op: a, op: b, at: {at}}}\n".encode()

    assert converted(data, YAML, JSONL).startswith(b'{"op": "refused: line 1')
    assert list(json.loads(converted(data, YAML, JSONL))) == ["op"]


@pytest.mark.parametrize("name", ["a", "a.txt", "a.yaml.zip"])
def test_a_name_that_does_not_say_how_to_write(tmp_path: Path, name: str) -> None:
    with pytest.raises(FeedError, match="the name has no known ending"):
        convert(io.BytesIO(), tmp_path / name)

    assert not (tmp_path / name).exists()


def test_a_source_that_is_not_there_leaves_the_target_alone(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"precious")
    with pytest.raises(FeedError):
        convert(tmp_path / "missing", tmp_path / "a.jsonl")

    assert (tmp_path / "a.jsonl").read_bytes() == b"precious"


def test_a_source_is_not_its_own_target(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"op": "settle"}\n')
    (tmp_path / "b.jsonl").symlink_to(path)
    with pytest.raises(FeedError, match="is also the source"):
        convert(path, tmp_path / "b.jsonl")

    assert path.read_bytes() == b'{"op": "settle"}\n'


def test_standard_input_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"- op: settle\n")))
    convert("-", "-")

    assert capfdbinary.readouterr().out == b'{"op": "settle"}\n'


def test_a_source_that_breaks_off_costs_the_target_nothing(tmp_path: Path) -> None:
    target = tmp_path / "a.jsonl"
    target.write_bytes(b"precious")
    with pytest.raises(FeedError):
        convert(io.BytesIO(b"- op: settle\n- [\n"), target)

    assert target.read_bytes() == b"precious"
    assert list(tmp_path.iterdir()) == [target]


def test_what_is_no_file_is_not_replaced() -> None:
    assert convert(io.BytesIO(b"- op: settle\n"), os.devnull, target_encoding=Encoding.YAML) == 1
    assert not Path(os.devnull).is_file()


def test_an_empty_feed(tmp_path: Path) -> None:
    assert convert(io.BytesIO(), tmp_path / "a.yaml") == 0
    assert (tmp_path / "a.yaml").read_bytes() == b""


def test_events_are_written_as_they_are_read() -> None:
    written: list[bytes] = []

    class Sink:
        def write(self, data: bytes, /) -> None:
            written.append(data)

    class EndlessFeed:
        def read(self, _size: int, /) -> bytes:
            if len(written) > 50:
                raise OSError(5, "enough")
            return b'{"op": "settle"}\n'

    with pytest.raises(FeedError, match="enough"):
        convert(EndlessFeed(), Sink())


CONFIGURE = b"- {op: configure, file: queues.yaml}\n- {op: add_app, app: a, queue: root.q}\n"
QUEUES = "partitions: [{name: default, queues: [{name: root, queues: [{name: q}]}]}]\n"


# COMMAND-20: a file that `configure` names is found from the new place, whatever way leads there
@pytest.mark.parametrize(
    ("name", "target", "written"),
    [
        ("queues.yaml", "from/b.jsonl", "queues.yaml"),
        ("./queues.yaml", "from/b.jsonl", "./queues.yaml"),
        ("queues.yaml", "b.jsonl", "from/queues.yaml"),
        ("queues.yaml", "from/below/b.jsonl", "../queues.yaml"),
        ("queues.yaml", "to/b.jsonl", "../from/queues.yaml"),
        ("queues.yaml", "link/b.jsonl", "../../from/queues.yaml"),
        ("../link/../queues.yaml", "b.jsonl", "far/queues.yaml"),
    ],
)
def test_a_file_is_found_from_another_folder(
    tmp_path: Path, name: str, target: str, written: str
) -> None:
    for folder in ("from/below", "to", "far/away"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    (tmp_path / "from" / "queues.yaml").write_text(QUEUES)
    (tmp_path / "far" / "queues.yaml").write_text(QUEUES)
    source = tmp_path / "from" / "a.yaml"
    source.write_bytes(CONFIGURE.replace(b"queues.yaml", name.encode()))
    convert(source, tmp_path / target)

    value = next(read_raw(tmp_path / target)).value
    assert value == {"op": "configure", "file": written}
    before, after = (
        [content_of(item) for item in read_feed(path)] for path in (source, tmp_path / target)
    )
    assert before == after
    assert Refused not in [content[2] for content in before if isinstance(content, tuple)]


def test_a_stream_is_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "a.yaml").write_bytes(CONFIGURE)
    monkeypatch.chdir(tmp_path)
    out = io.BytesIO()
    convert("from/a.yaml", out)
    convert(io.BytesIO(CONFIGURE), "from/b.jsonl")

    assert json.loads(out.getvalue().splitlines()[0])["file"] == "from/queues.yaml"
    assert next(read_raw("from/b.jsonl")).value == {"op": "configure", "file": "../queues.yaml"}


@pytest.mark.parametrize(
    ("event", "written"),
    [
        ('{"op": "configure", "file": "/etc/queues.yaml"}', "/etc/queues.yaml"),
        ('{"op": "configure", "file": ["a"]}', ["a"]),
        ('{"op": "configure", "file": ""}', ""),
        ('{"op": "configure", "file": "a\\u0000/b"}', "a\0/b"),
        ('{"op": "settle", "file": "queues.yaml"}', "queues.yaml"),
    ],
)
def test_what_is_not_relative_to_the_feed_stays(
    tmp_path: Path, event: str, written: object
) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "a.jsonl").write_text(event)
    convert(tmp_path / "a.jsonl", tmp_path / "below" / "b.jsonl")

    assert json.loads((tmp_path / "below" / "b.jsonl").read_text())["file"] == written


# COMMAND-13

ONE = Resources({"vcore": 1000})
CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "good").rglob("*.yaml"))


def reread(event: Event) -> object:
    """Write an event, and return what is read."""
    (item,) = parse([RawEvent(0, None, write_event(event))])
    return item.content


@settings(share(0.3))
@given(
    scenarios()
    | scenarios(lists=3)
    | gang_scenarios()
    | operations()
    | evictions()
    | topologies()
    | devices()
)
def test_random_events(steps: list[Step]) -> None:
    for event in events_of(steps):
        if can_be_read(event):
            assert_same(event)


def can_be_read(event: Event) -> bool:
    """Return whether an event of a scenario can come from a feed.

    Some of their configurations are made by hand, and no text has such settings. A PodGroup waits
    for whole seconds.
    """
    match event:
        case Configure():
            return False
        case Apply(objects):
            gangs = (one.content for one in objects if isinstance(one.content, AddGang))
            return all((gang.says.wait_us or 0) % 1_000_000 == 0 for gang in gangs)
        case _:
            return True


def assert_same(event: Event) -> None:
    found = reread(event)
    if isinstance(event, Configure):
        # Warnings about fields that are not obeyed are gone with the fields.
        assert isinstance(found, Configure)
        assert attrs.evolve(found.config, warnings=()) == attrs.evolve(event.config, warnings=())
    else:
        assert found == event


@pytest.mark.parametrize(
    "folder", every(3, sorted(one.name for one in FEEDS_FOLDER.iterdir() if one.is_dir()))
)
def test_the_events_of_all_feeds(folder: str) -> None:
    feeds = [path for path in (FEEDS_FOLDER / folder).rglob("*") if path.suffix in SUFFIXES]
    found = [event for path in feeds if path.parent.name != "files" for event in events_in(path)]
    assert found

    for event in found:
        assert_same(event)


@pytest.mark.parametrize("path", CONFIGS, ids=[path.name for path in CONFIGS])
def test_all_good_configurations(path: Path) -> None:
    assert_same(Configure(read_configuration(path)))


@settings(share(0.3))
@given(some_configurations() | operator_configurations() | device_configurations())
def test_random_configurations(configs: list[Configuration]) -> None:
    for config in configs:
        assert_same(Configure(config))


MANY = GangFields(3, 5, GangMode.NON_STRICT, 1_500_000, ("default/a", "x/b"))


@pytest.mark.parametrize(
    "event",
    [
        AddAsk("a", "k", ONE, gang="x/g", says=MANY, timed_out=True, selector={"zone": "null"}),
        AddAsk("a", "k", Resources({"vcore": 1, "memory": 3 * 2**30}), run_for_us=1, retries=2),
        AddAsk("a", "k", Resources({"gpu": 2**63 - 1}), priority=-5, count=3, node="n"),
        AddApp("12:30", "root.off", "sue", ("devs", "ops"), {"application.tag": "true"}),
        AddGang("x/g", MANY),
        AddGang("x/g", attrs.evolve(MANY, topology=Topology(TopologyRule.PREFER, "rack"))),
        AddGang("x/g", attrs.evolve(MANY, topology=Topology(TopologyRule.SPREAD, "null", 3))),
        AddNode("n", Resources({}), {"a": ""}, schedulable=False),
        AddNode("n", ONE, lease_us=1_500_000),
        AddAsk("a", "k", ONE, work=Work(("a b", "", "null", "1"), env={"A": "yes"}, workdir="x")),
        AddAsk("a", "k", ONE, work=Work(shell="if true; then date; fi", env={"A": ""})),
        AddAsk("a", "k", ONE, work=Work(workdir="~")),
        UpdateNode("n", attributes={}),
        UpdateNode("n", Resources({}), schedulable=True),
        Release("a", "k", Outcome.FAILED, ""),
        Release("a", "k", Outcome.CANCELLED, "by sue", Exit(signal=15)),
        Release("a", "k", exited=Exit(0, cpu_us=1_500_000, memory=2**31)),
        BindFailed("a", "k"),
        BindFailed("a", "k", "no such program"),
        FailBind("a", "k", 3),
        RemoveGang("x/g"),
        AddPriorityClass("high", 7, preempts=True),
        Apply(()),
        Apply((Manifest(NodeObject("n", Resources({}), schedulable=False)),)),
        Apply((Manifest(NodeObject("n"), "manifest.items[0]"),)),
        Apply((Manifest(AddGang("x/g", attrs.evolve(MANY, wait_us=2_000_000))),)),
        Apply((Manifest(QueueObject("q", "root.p", 0, False, Limits(), Resources({}))),)),
        Apply(
            (
                Manifest(PodObject("a", "p", user="sue", groups=("devs",)), "manifest.items[0]"),
                Manifest(
                    PodObject(
                        "a",
                        "q",
                        "root.b",
                        AddAsk("a", "q", ONE, priority_class="high", gang="x/g", says=MANY),
                        "n",
                        namespace="x",
                        groups=("ops",),
                    ),
                    "manifest.items[1]",
                ),
                Manifest(PodObject("a", "r", finished=True), "manifest.items[2]"),
            )
        ),
        Delete((Manifest(ObjectName(ObjectKind.POD, "p", "a")),)),
        Delete((Manifest(ObjectName(ObjectKind.POD_GROUP, "x/g"), "manifest.items[0]"),)),
    ],
)
def test_an_event(event: Event) -> None:
    assert reread(event) == event


# OBJECT-30
@pytest.mark.parametrize("node", [None, "n"])
@pytest.mark.parametrize("encoding", Encoding)
def test_a_pod_asks_for_what_a_manifest_cannot_say(encoding: Encoding, node: str | None) -> None:
    asks = (
        AddAsk("a", "p", ONE, once=True, work=Work(env={"POD_NAME": "é", "TEXT": '"\n\u2028'})),
        AddAsk("a", "p", ONE, retries=2, node="m", run_limit_us=1_500_000, start_by_us=0),
        AddAsk("a", "p", ONE, estimate_us=1, work=Work(("date", "-u"), workdir="~")),
        AddAsk("a", "p", ONE, estimate_us=2**31 * 1_000_000, work=Work(shell="if; fi")),
        AddAsk("a", "p", ONE, estimate_us=60_000_000, gang="x/g", says=MANY, once=True),
    )
    for ask in asks:
        pod = PodObject("a", "p", "root.q", ask, node, namespace="x", user="sue")
        event = Apply((Manifest(pod),))
        encoder = Encoder(encoding)
        whole = encoder.event(write_event(event)) + encoder.end()
        [item] = read_feed(io.BytesIO(whole), encoding=encoding)
        assert item.content == event


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (Release("a", "k", message="file \udc80"), "is not Unicode text"),
        (AddAsk("a", "k", ONE, run_for_us=2**70), "run_for: "),
        (
            Apply((Manifest(AddGang("x/g", GangFields(1, wait_us=1_500_000))),)),
            "scheduleTimeoutSeconds",
        ),
        (AddApp("a", "q", ""), "user: "),
        (Apply((Manifest(PodObject("a", "p", ask=AddAsk("a", "p", ONE, run_for_us=2))),)), "would"),
    ],
)
def test_what_no_feed_can_say(event: Event, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        write_event(event)


PIECES = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([
        b"\n", b"\t", b"- ", b"---\n", b"...\n", b": ", b"{", b"}", b"[", b"]", b"&a ", b"*a", b"!",
        b"!!int ", b"<<: ", b"? ", b"|\n", b">-\n", b"'", b'"', b"\\u", b"\\", b"#", b"%YAML 1.1\n",
        b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\x85", b"\xc2\x85", b"\xed\xa0\x80", b"NaN", b"1e999",
        b"\x81", b"\x91", b"\xc1", b"\xd4\xff\x00", b"\xdd\xff\xff\xff\xff", b"\xdf\x00\x0f\x42\x40",
        b"\xc7\x0c\xff", b"\x1f\x8b", b"{" * 300, b"\x91" * 300, b"9" * 5000,
    ]),
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a feed of which some bytes were lost, doubled, moved or replaced."""
    data = write_feed(draw(FEEDS), draw(ENCODINGS), compressed=False)
    for _ in range(draw(st.integers(0, 4))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(data))] * 2)))
        piece = draw(st.one_of(PIECES, st.just(data[start:end] * 2)))
        data = data[:start] + piece + data[end if draw(st.booleans()) else start :]
    if draw(st.integers(0, 4)) == 0:
        data = gzip.compress(data)
        cut = draw(st.integers(0, len(data)))
        data = data[:cut] + draw(PIECES) + data[cut + draw(st.integers(0, 3)) :]
    return data


def until_the_end(data: bytes, encoding: Encoding | None) -> tuple[list[FeedItem], bool]:
    """Return the items that can be read, and whether all could."""
    found: list[FeedItem] = []
    try:
        found.extend(read_feed(io.BytesIO(data), encoding=encoding))
    except FeedError:
        return found, False
    return found, True


@given(mutated(), st.one_of(st.none(), ENCODINGS))
def test_every_feed_comes_to_a_clean_end(data: bytes, encoding: Encoding | None) -> None:
    found, _ = until_the_end(data, encoding)

    assert [item.index for item in found] == list(range(len(found)))
    assert [item.at_us for item in found] == sorted(item.at_us for item in found)
    str(found).encode()  # what is said of it can be written down


@given(mutated(), ENCODINGS, ENCODINGS)
def test_every_feed_that_can_be_read_can_be_converted(
    data: bytes, encoding: Encoding, target: Encoding
) -> None:
    found, complete = until_the_end(data, encoding)
    out = io.BytesIO()
    if complete:
        convert(io.BytesIO(data), out, source_encoding=encoding, target_encoding=target)
        reread = list(read_feed(io.BytesIO(out.getvalue()), encoding=target))
        assert [(item.at_us, type(item.content)) for item in reread] == [
            (item.at_us, type(item.content)) for item in found
        ]


@given(FEEDS, ENCODINGS)
def test_compressed_or_not_is_the_same(feed: list[Raw], encoding: Encoding) -> None:
    plain, zipped = (
        write_feed(feed, encoding, compressed=compressed) for compressed in (False, True)
    )

    assert until_the_end(plain, encoding) == until_the_end(zipped, encoding)
