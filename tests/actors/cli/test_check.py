from __future__ import annotations

import gzip
from pathlib import Path

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


def test_a_refusal_has_its_own_line(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", SETUP + BAD + "- {op: expect}\n")
    result = run("check", feed)

    assert result.exit_code == 1
    assert result.stdout.startswith(f"{feed}:3: rejected: expected nothing, found app: ")


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


def test_standard_input() -> None:
    result = run("check", "-", given=gzip.compress(WRONG.encode()))

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
    result = run("check", "-", given=SETUP + ASK + expect)

    assert [line.partition(": ")[2] for line in result.stdout.splitlines()] == [
        "queues.q.exists: expected false, found true",
        "queues.q.allocated: expected {memory: 1Gi, vcore: 500m}, found {vcore: 1}",
        "apps.a.priority: expected 5, found null",
        'warnings[0]: expected "a\\nb", found nothing',
        'warnings[1]: expected "", found nothing',
        "5 differences (4 events, 1 expect)",
    ]


def test_a_long_list_is_cut() -> None:
    asks = "- {op: add_ask, app: a, ask: many, count: 100, resources: {vcore: 9}}\n"
    result = run("check", "-", given=SETUP + asks + "- {op: expect, pending: []}\n")

    assert "a/many-0, a/many-1, " in result.stdout
    assert result.stdout.splitlines()[0].endswith(", … 100 in all]")


def test_json(tmp_path: Path) -> None:
    good, wrong = written(tmp_path / "a.yaml", GOOD), written(tmp_path / "b.yaml", WRONG)
    status, said = run_json("check", good, wrong, tmp_path / "c.yaml")

    assert (status, said["ok"]) == (2, False)
    assert said["feeds"][0] == {
        "feed": str(good),
        "ok": True,
        "events": 4,
        "expects": 1,
        "warnings": [],
        "differences": [],
        "interrupted": False,
        "error": None,
    }
    assert said["feeds"][1]["differences"][0] == {
        "index": 3,
        "line": 4,
        "field": "bound",
        "expected": [],
        "found": ["a/x"],
    }
    assert said["feeds"][2]["error"] == {
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
    status, said = run_json("check", "--strict", warned)
    assert (status, said["ok"], said["feeds"][0]["differences"]) == (1, False, [])
    assert said["feeds"][0]["warnings"][1] == {
        "file": "queues.yaml",
        "index": 0,
        "line": 4,
        "path": "partitions[0].queues[0].resources.max.gpu",
        "message": "no node and no ask of the feed has the type 'gpu'",
    }


def test_json_when_all_is_fine() -> None:
    assert run_json("check", "-", given=GOOD)[1]["ok"] is True


def test_ctrl_c_says_what_was_found_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trio.run", interrupted)
    feed = tmp_path / "feed.yaml"
    feed.write_text("- op: settle\n", encoding="utf-8")
    result = run("check", feed, feed)

    assert result.exit_code == 130
    assert result.stdout == f"{feed}: ok (0 events, 0 expects, interrupted)\n"
