"""``muster check``, ``muster validate`` and ``muster convert``."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import msgpack
import pytest

from tests.actors.cli.helpers import ASK, BAD, SETUP, run, run_json, written

GOOD = SETUP + ASK + "- {op: expect, bound: [a/x]}\n"
WRONG = SETUP + ASK + "- {op: expect, bound: [], placed: {a/x: n2}}\n"


def test_no_difference(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", GOOD)
    result = run("check", feed)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{feed}: ok (4 events, 1 expect)\n"


def test_differences(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", WRONG)
    result = run("check", feed)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{feed}:4: bound: expected [], found [a/x]",
        f"{feed}:4: placed.a/x: expected n2, found n1",
        f"{feed}: 2 differences (4 events, 1 expect)",
    ]


# EXPECT-13
def test_a_refusal_has_its_own_line_and_says_what_would_accept_it(tmp_path: Path) -> None:
    refused = SETUP + BAD
    feed = written(tmp_path / "feed.yaml", refused + "- {op: expect}\n" + BAD)
    result = run("check", feed)

    why = "this event is refused, and no `expect` expects it: app: 'a' is already an application"
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{feed}:3: {why}",
        f"{feed}:5: {why}",
        (
            f"{feed}: if these refusals are right, list a part of each message in `rejected` of the "
            "next `expect`, in order"
        ),
        f"{feed}: 2 differences (5 events, 1 expect)",
    ]
    accepted = f"- {{op: expect, rejected: [already]}}\n{BAD}- {{op: expect, rejected: [app]}}\n"
    assert run("check", written(feed, refused + accepted)).exit_code == 0


# EXPECT-9, EXPECT-10
def test_messages_that_are_others_or_not_there() -> None:
    expect = """\
- {op: expect, rejected: [nothing, more], warnings: [w]}
- {op: expect, rejected: [nothing]}
"""
    assert differences_in(SETUP + BAD + expect) == [
        (
            "rejected[0]: expected a refused event with nothing in its message, found app: 'a' is "
            "already an application"
        ),
        (
            "rejected[1]: expected a refused event with more in its message, and no further event was "
            "refused"
        ),
        "warnings[0]: expected a warning with w in its message, and no further warning came",
        (
            "rejected[0]: expected a refused event with nothing in its message, and no further event "
            "was refused"
        ),
    ]
    warned = "- {op: configure, config: {partitions: [{usergroupresolver: {type: os}}]}}\n"
    (difference,) = differences_in(warned + "- {op: expect, warnings: []}\n")
    assert difference.startswith("warnings[0]: this warning is not expected: ")


# EXPECT-14
def test_names_that_are_not_there() -> None:
    expect = """\
- {op: expect, placed: {a/xx: n1, b/x: unknown}, apps: {b: {}}, gangs: {g: {bound: 1}},
   queues: {root.p: {priority: 0}}, reservations: {a/y: null}, reasons: {a/z: x}, devices: {c/x: {gpu: [0]}}}
"""
    assert differences_in(SETUP + ASK + expect) == [
        "placed.a/xx: there is no such ask; did you mean x?",
        "placed.b/x: there is no such ask; did you mean a/x?",
        "queues.root.p: there is no such queue; did you mean root.q or root?",
        "apps.b: there is no such application",
        "gangs.g: there is no such gang",
        "reservations.a/y: there is no such ask",
        "devices.c/x: there is no such ask; did you mean a/x?",
        "reasons.a/z: there is no such ask",
    ]


def test_a_node_may_have_any_name() -> None:
    feed = SETUP.replace("n1", "unknown") + ASK + "- {op: expect, placed: {a/x: nothing}}\n"
    assert differences_in(feed) == ["placed.a/x: expected nothing, found unknown"]


def differences_in(feed: str) -> list[str]:
    """Check a feed; return its differences without their places."""
    lines = run("check", "-", stdin=feed).stdout.splitlines()[:-1]
    return [line.partition(": ")[2] for line in lines]


def test_many_feeds_are_all_checked(tmp_path: Path) -> None:
    good, wrong = written(tmp_path / "a.yaml", GOOD), written(tmp_path / "b.yaml", WRONG)
    missing = tmp_path / "c.yaml"
    both, all_three = run("check", wrong, good), run("check", missing, wrong, good)

    assert both.exit_code == 1
    assert both.stdout.splitlines()[-1] == f"{good}: ok (4 events, 1 expect)"
    assert all_three.exit_code == 2
    assert all_three.stdout == both.stdout
    assert all_three.stderr == f"{missing}: No such file or directory\n"


def test_a_feed_that_breaks_off(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", WRONG + "- [\n")
    result = run("check", feed)

    assert result.exit_code == 2
    assert result.stdout.splitlines()[0] == f"{feed}:4: bound: expected [], found [a/x]"
    assert result.stderr.startswith(f"{feed}:")


def test_check_reads_standard_input() -> None:
    result = run("check", "-", stdin=gzip.compress(WRONG.encode()))

    assert result.exit_code == 1
    assert result.stdout.startswith("standard input:4: bound: ")


def test_events_of_msgpack_are_counted_from_0(tmp_path: Path) -> None:
    written(tmp_path / "feed.yaml", WRONG)
    run("convert", tmp_path / "feed.yaml", tmp_path / "feed.msgpack")
    result = run("check", tmp_path / "feed.msgpack")

    assert result.stdout.startswith(f"{tmp_path}/feed.msgpack: event 3: bound: ")


def test_how_values_are_written() -> None:
    expect = """\
- {op: expect, apps: {a: {priority: 5}}, queues: {q: {allocated: {vcore: 0.5, memory: 1Gi},
   share: 0.5, exists: false}}, warnings: ["a\\nb", ""]}
"""
    result = run("check", "-", stdin=SETUP + ASK + expect)

    assert [line.partition(": ")[2] for line in result.stdout.splitlines()] == [
        "queues.q.exists: expected false, found true",
        "queues.q.allocated: expected {memory: 1Gi, vcore: 500m}, found {vcore: 1}",
        "apps.a.priority: expected 5, found null",
        'warnings[0]: expected a warning with "a\\nb" in its message, and no further warning came',
        'warnings[1]: expected a warning with "" in its message, and no further warning came',
        "5 differences (4 events, 1 expect)",
    ]


def test_a_long_list_is_cut() -> None:
    asks = "- {op: add_ask, app: a, ask: many, count: 100, resources: {vcore: 9}}\n"
    result = run("check", "-", stdin=SETUP + asks + "- {op: expect, pending: []}\n")

    assert "a/many-0, a/many-1, " in result.stdout
    assert result.stdout.splitlines()[0].endswith(", … 100 in all]")


def test_what_is_the_same_in_a_long_list_is_left_out() -> None:
    asks = "- {op: add_ask, app: a, ask: many, count: 100, resources: {vcore: 9}}\n"
    names = sorted(f"a/many-{number}" for number in range(100))
    for wanted, expected in (
        (names[:98], "after 98 that are the same, expected [], found [a/many-98, a/many-99]"),
        (
            [*names[:50], "a/x", *names[50:]],
            "after 100 that are the same, expected [a/x], found []",
        ),
    ):
        expect = f"- {{op: expect, pending: [{', '.join(wanted)}]}}\n"
        assert differences_in(SETUP + asks + expect) == [f"pending: {expected}"]


def test_check_as_json(tmp_path: Path) -> None:
    good, wrong = written(tmp_path / "a.yaml", GOOD), written(tmp_path / "b.yaml", WRONG)
    status, answer = run_json("check", good, wrong, tmp_path / "c.yaml")

    assert (status, answer["ok"]) == (2, False)
    assert answer["feeds"][0] == {
        "feed": str(good),
        "ok": True,
        "events": 4,
        "expects": 1,
        "warnings": [],
        "differences": [],
        "interrupted": False,
        "error": None,
    }
    assert answer["feeds"][1]["differences"][0] == {
        "index": 3,
        "line": 4,
        "field": "bound",
        "expected": [],
        "found": ["a/x"],
    }
    assert answer["feeds"][2]["error"] == {
        "file": str(tmp_path / "c.yaml"),
        "line": None,
        "message": "No such file or directory",
    }


WARNED = """\
- {op: configure, file: queues.yaml}
- {op: add_node, node: n, capacity: {vcore: 1, mem: 1Gi}}
"""


@pytest.fixture
def warned(tmp_path: Path) -> Path:
    written(
        tmp_path / "queues.yaml",
        "partitions:\n  - queues:\n    - name: a\n      resources: {max: {gpu: 1}}\n",
    )
    return written(tmp_path / "feed.yaml", WARNED)


def test_warnings_have_file_line_and_path(warned: Path) -> None:
    result = run("check", warned)

    assert (result.exit_code, result.stdout) == (0, f"{warned}: ok (2 events, 0 expects)\n")
    slip, missing = result.stderr.splitlines()
    assert (
        slip
        == f"{warned}:2: warning: capacity.mem: the type 'mem' is not memory, but one of its own: write memory"
    )
    assert missing == (
        "queues.yaml:4: warning: partitions[0].queues[0].resources.max.gpu: "
        "no node and no ask of the feed has the type 'gpu'"
    )


def test_strict_fails_on_warnings(warned: Path, tmp_path: Path) -> None:
    assert run("check", "--strict", warned).exit_code == 1
    assert run("check", "--strict", written(tmp_path / "good.yaml", GOOD)).exit_code == 0
    status, answer = run_json("check", "--strict", warned)
    assert (status, answer["ok"], answer["feeds"][0]["differences"]) == (1, False, [])
    assert answer["feeds"][0]["warnings"][1] == {
        "file": "queues.yaml",
        "index": 0,
        "line": 4,
        "path": "partitions[0].queues[0].resources.max.gpu",
        "message": "no node and no ask of the feed has the type 'gpu'",
    }


def test_json_when_all_is_fine() -> None:
    assert run_json("check", "-", stdin=GOOD)[1]["ok"] is True


def test_ctrl_c_says_what_was_found_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trio.run", interrupted)
    feed = tmp_path / "feed.yaml"
    feed.write_text("- op: settle\n", encoding="utf-8")
    result = run("check", feed, feed)

    assert result.exit_code == 130
    assert result.stdout == f"{feed}: ok (0 events, 0 expects, interrupted)\n"


CONFIGS = Path(__file__).parents[2] / "configs"

GOOD_CONFIG = """\
partitions:
  - name: default
    queues:
      - name: root
        queues: [{name: a}, {name: b, properties: {mine: yes}}]
"""
BAD_CONFIG = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: a
            colour: red
          - name: a b
"""


def test_a_good_one(tmp_path: Path) -> None:
    config = written(tmp_path / "queues.yaml", GOOD_CONFIG)
    result = run("validate", config)

    assert (result.exit_code, result.stderr) == (0, "")
    warning, verdict = result.stdout.splitlines()
    assert warning == (
        f"{config}:5: warning: partitions[0].queues[0].queues[1].properties.mine: "
        "root.b: unknown property 'mine' is kept, without effect"
    )
    assert verdict == f"{config}: ok (partition default, 3 queues)"


def test_every_problem_has_its_line_and_path(tmp_path: Path) -> None:
    config = written(tmp_path / "queues.yaml", BAD_CONFIG)
    result = run("validate", config)

    assert result.exit_code == 1
    first, second, verdict = result.stdout.splitlines()
    assert first.startswith(f"{config}:7: partitions[0].queues[0].queues[0].colour: ")
    assert second.startswith(f"{config}:8: partitions[0].queues[0].queues[1].name: ")
    assert verdict == f"{config}: refused (2 problems)"


def test_validate_reads_standard_input() -> None:
    assert run("validate", "-", stdin=GOOD_CONFIG).exit_code == 0
    assert run("validate", "-", stdin=BAD_CONFIG).stdout.startswith("standard input:7: ")


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_one_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    result = run("validate", tmp_path / name)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(str(tmp_path))


def test_all_are_looked_at(tmp_path: Path) -> None:
    good, bad = (
        written(tmp_path / "good.yaml", GOOD_CONFIG),
        written(tmp_path / "bad.yaml", BAD_CONFIG),
    )

    assert run("validate", bad, good).exit_code == 1
    assert run("validate", tmp_path / "missing", bad, good).exit_code == 2
    assert (
        run("validate", bad, good)
        .stdout.splitlines()[-1]
        .endswith(": ok (partition default, 3 queues)")
    )


def test_the_partition_that_is_to_run() -> None:
    two = GOOD_CONFIG + GOOD_CONFIG.partition("\n")[2].replace("default", "gpu")

    assert "partition default" in run("validate", "-", stdin=two).stdout
    assert "partition gpu" in run("validate", "--partition", "gpu", "-", stdin=two).stdout
    refused = run("validate", "--partition", "tpu", "-", stdin=two)
    assert refused.exit_code == 1
    assert "tpu" in refused.stdout


def test_validate_as_json(tmp_path: Path) -> None:
    good, bad = (
        written(tmp_path / "good.yaml", GOOD_CONFIG),
        written(tmp_path / "bad.yaml", BAD_CONFIG),
    )
    status, answer = run_json("validate", good, bad, tmp_path / "missing")
    first, second, third = answer["configs"]

    assert (status, answer["ok"]) == (2, False)
    assert (first["config"], first["ok"], first["partition"]) == (str(good), True, "default")
    assert [(warning["line"], warning["path"]) for warning in first["warnings"]] == [
        (5, "partitions[0].queues[0].queues[1].properties.mine")
    ]
    assert (second["ok"], second["partition"], second["error"]) == (False, None, None)
    assert [problem["line"] for problem in second["problems"]] == [7, 8]
    assert second["problems"][0]["path"] == "partitions[0].queues[0].queues[0].colour"
    assert third["error"]["message"] == "No such file or directory"


def test_validate_strict_fails_on_warnings(tmp_path: Path) -> None:
    warned = written(tmp_path / "queues.yaml", GOOD_CONFIG)
    clean = written(tmp_path / "clean.yaml", GOOD_CONFIG.replace(", properties: {mine: yes}", ""))

    result = run("validate", "--strict", warned)
    assert result.exit_code == 1
    assert (
        result.stdout.splitlines()[-1] == f"{warned}: valid, but not without warnings (1 warning)"
    )
    assert run_json("validate", "--strict", warned)[1]["configs"][0]["ok"] is False
    assert run("validate", "--strict", clean).exit_code == 0


def test_types_that_look_like_a_slip(tmp_path: Path) -> None:
    """CONFIG-83."""
    resources = "{guaranteed: {cpu: 1, gpu: 1}, max: {cpu: 2, gpus: 4}}"
    config = written(
        tmp_path / "queues.yaml",
        GOOD_CONFIG.replace("{name: a}", f"{{name: a, resources: {resources}}}"),
    )
    *warnings, _ = run("validate", config).stdout.splitlines()

    path = f"{config}:5: warning: partitions[0].queues[0].queues[0].resources"
    assert warnings[0].startswith(f"{path}.guaranteed.cpu: the type 'cpu' is not vcore")
    assert warnings[1].startswith(f"{path}.max.gpus: the type 'gpus' differs little from 'gpu'")
    assert "mine" in warnings[2]
    assert len(warnings) == 3


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_configurations_of_the_suite(path: Path) -> None:
    result = run("validate", path)

    assert result.exit_code == (0 if path.parent.name == "good" else 1), result.output


FEED = "- {op: settle, at: 5}\n- {op: settle}\n"
LINES = '{"op": "settle", "at": 5}\n{"op": "settle"}\n'


def test_the_name_says_how_to_write(tmp_path: Path) -> None:
    source, target = written(tmp_path / "a.yaml", FEED), tmp_path / "a.jsonl.gz"
    result = run("convert", source, target)

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{target}: 2 events from {source}\n"
    assert gzip.decompress(target.read_bytes()).decode() == LINES


def test_standard_input_to_standard_output() -> None:
    result = run("convert", "-", "-", stdin=FEED)

    assert (result.exit_code, result.stdout, result.stderr) == (0, LINES, "")


def test_encodings_that_are_said() -> None:
    packed = run("convert", "-", "-", "--to", "msgpack", stdin=FEED).stdout_bytes
    back = run("convert", "-", "-", "--from", "msgpack", "--to", "yaml", stdin=packed)

    assert list(msgpack.Unpacker(io.BytesIO(packed)))[1] == {"op": "settle"}
    assert back.stdout == "- {op: settle, at: 5}\n- {op: settle}\n"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("missing.yaml", "a.jsonl"),
        ("a.yaml", "a.txt"),
        ("a.yaml", "missing/a.jsonl"),
        (".", "b.jsonl"),
    ],
)
def test_what_cannot_be_read_or_written(tmp_path: Path, source: str, target: str) -> None:
    written(tmp_path / "a.yaml", FEED)
    result = run("convert", tmp_path / source, tmp_path / target)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(str(tmp_path))


def test_the_line_of_a_broken_feed() -> None:
    result = run("convert", "-", "-", stdin=FEED + "- [\n")

    assert (result.exit_code, result.stdout) == (2, LINES)
    assert result.stderr.startswith("standard input:")


def test_convert_as_json(tmp_path: Path) -> None:
    source, target = written(tmp_path / "a.yaml", FEED), tmp_path / "b.jsonl"

    assert run_json("convert", source, target) == (
        0,
        {"in": str(source), "out": str(target), "events": 2},
    )
    status, answer = run_json("convert", tmp_path / "missing", target)
    assert (status, answer["error"]["message"]) == (2, "No such file or directory")


def test_json_leaves_standard_output_to_the_feed() -> None:
    result = run("convert", "-", "-", "--format", "json", stdin=FEED)

    assert result.stdout == LINES
    assert result.stderr == '{"in": "standard input", "out": "-", "events": 2}\n'


# COMMAND-20: a feed that is converted elsewhere replays the same
def test_a_feed_with_its_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("from", "to"):
        (tmp_path / folder).mkdir()
    limited = "{name: q, resources: {max: {vcore: 1}}}"
    queues = f"partitions: [{{name: default, queues: [{{name: root, queues: [{limited}]}}]}}]\n"
    written(tmp_path / "from" / "queues.yaml", queues)
    feed = (
        "- {op: configure, file: queues.yaml}\n"
        "- {op: add_node, node: n, capacity: {vcore: 9}}\n"
        "- {op: add_app, app: a, queue: root.q}\n"
        "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, count: 3, run_for: 5}\n"
    )
    source = written(tmp_path / "from" / "a.yaml", feed)
    monkeypatch.chdir(tmp_path / "to")
    assert run("convert", source, "b.json").exit_code == 0
    lines = run("convert", source, "-").stdout
    decided = run("replay", source, "--decisions", "-").stdout

    assert (
        json.loads(Path("b.json").read_text(encoding="utf-8"))[0]["file"] == "../from/queues.yaml"
    )
    assert decided.count('"bound"') == 3
    for result in (
        run("replay", "b.json", "--decisions", "-"),
        run("replay", "-", "--decisions", "-", stdin=lines),
    ):
        assert result.exit_code == 0
        assert _without_places(result.stdout) == _without_places(decided)


def _without_places(decided: str) -> list[object]:
    return [{**json.loads(line), "line": None} for line in decided.splitlines()]
