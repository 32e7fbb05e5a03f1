from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from muster.feeds import FeedItem, read_feed
from tests.actors.cli.helpers import (
    ASK,
    BAD,
    COMMAND,
    SETUP,
    Running,
    run,
    run_json,
    started,
    written,
)

FEED = SETUP + ASK


def decided(log: str) -> list[str]:
    return [json.loads(line)["kind"] for line in log.splitlines()]


KINDS = ["app_state", "app_state", "assigned", "bound", "app_state", "released", "app_state",
         "app_state"]  # fmt: skip


def test_the_summary() -> None:
    result = run("replay", "-", given=FEED)
    text = re.sub(r"in \S+ s \(\S+ a second\)", "in … s (… a second)", result.stdout)

    assert (result.exit_code, result.stderr) == (0, "")
    assert (
        text
        == """\
Replayed 3 events, 40 s of virtual time: 8 decisions in … s (… a second)

asks bound               1
asks pending at the end  0
events refused           0

 queue    jobs   asks bound   mean wait   median   95 %   longest
 ────────────────────────────────────────────────────────────────
 root.q      1            1         0 s      0 s    0 s       0 s


 resource     used
 ─────────────────
 vcore      12.5 %

"""
    )


def test_the_summary_of_several_queues() -> None:
    more = """\
- {op: add_app, app: b, queue: root.other}
- {op: add_ask, app: b, ask: y, resources: {vcore: 2}, run_for: 2000}
- {op: add_app, app: idle, queue: root.other}
"""
    lines = run("replay", "-", given=FEED + more).stdout.splitlines()

    assert lines[0].startswith("Replayed 6 events, 00:34:00 of virtual time: ")
    assert lines[5] == "fairness of queues       0.5"
    assert lines[9:] == [
        " root.other      2            1         0 s       0 s       0 s       0 s",
        " root.q          1            1     2,000 s   2,000 s   2,000 s   2,000 s",
        "",
        " all             3            2     1,000 s   1,000 s   2,000 s   2,000 s",
        "",
        "",
        " resource     used",
        " ─────────────────",
        " vcore      98.3 %",
        "",
    ]


def test_the_summary_of_nothing() -> None:
    result = run("replay", "-", given="[]")

    assert result.exit_code == 0
    assert result.stdout.startswith("Replayed 0 events, 0 s of virtual time: 0 decisions in ")
    assert "queue" not in result.stdout


def test_a_narrow_page_cuts_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name = "q" * 64
    text = run("replay", "-", given=FEED.replace("root.q", f"root.{name}")).stdout

    assert max(map(len, text.splitlines())) <= 60 or "Replayed" in text
    assert text.count("q") >= 64


def test_the_decision_log(tmp_path: Path) -> None:
    feed, log = written(tmp_path / "feed.yaml", FEED), tmp_path / "log.jsonl"
    result = run("replay", feed, "--decisions", log)

    assert result.exit_code == 0
    assert decided(log.read_text()) == KINDS


def test_the_decision_log_compressed(tmp_path: Path) -> None:
    run("replay", "-", "--decisions", tmp_path / "log.jsonl.gz", given=FEED)

    assert decided(gzip.decompress((tmp_path / "log.jsonl.gz").read_bytes()).decode()) == KINDS


def test_the_decision_log_on_standard_output() -> None:
    result = run("replay", "-", "--decisions", "-", given=FEED)

    assert decided(result.stdout) == KINDS
    assert result.stderr.startswith("Replayed 3 events")


def test_json_beside_the_decision_log() -> None:
    result = run("replay", "-", "--decisions", "-", "--format", "json", given=FEED)

    assert decided(result.stdout) == KINDS
    assert json.loads(result.stderr)["decisions"] == 8


def test_json() -> None:
    status, said = run_json("replay", "-", given=FEED)
    real_s = said.pop("real_s")
    wait = {"count": 1, "mean_s": 0, "median_s": 0, "p95_s": 0, "longest_s": 0}

    assert status == 0
    assert said.pop("decisions_per_s") == 8 / real_s
    assert said == {
        "origin": None,
        "events": 3,
        "refused": 0,
        "first_refusals": [],
        "warnings": 0,
        "first_warnings": [],
        "asks_bound": 1,
        "asks_unbound": 0,
        "asks_running": 0,
        "asks_waiting": 0,
        "asks_pending": 0,
        "asks_reclaimed": 0,
        "asks_preempted": 0,
        "gangs_satisfied": 0,
        "gangs_timed_out": 0,
        "decisions": 8,
        "virtual_s": 40,
        "wait": wait,
        "queues": [
            {
                "queue": "root.q",
                "jobs": 1,
                "asks_bound": 1,
                "asks_unbound": 0,
                "wait": wait,
                "asks_reclaimed": 0,
                "asks_preempted": 0,
                "lost": {},
            }
        ],
        "utilisation": {"vcore": 0.125},
        "lost": {},
        "fairness": {"queues": None, "queues_s": 0, "users": None, "users_s": 0},
        "reserved": {"asks": 0, "kept": 0, "late": 0, "open_ended": 0},
        "interrupted": False,
        "report": None,
    }


@pytest.mark.parametrize(("until", "released"), [("9.999999", False), ("10", True), ("1h", True)])
def test_until(until: str, released: bool) -> None:
    later = "- {op: settle, at: 2h}\n"
    result = run("replay", "-", "--until", until, "--decisions", "-", given=FEED + later)

    assert ("released" in decided(result.stdout)) is released


def test_a_refusal(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", SETUP + BAD + ASK)
    result = run("replay", feed)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"{feed}:3: refused: app: ")
    assert "\nevents refused           1\n" in result.stdout
    assert "\nasks bound               1\n" in result.stdout


def test_a_refusal_that_stops() -> None:
    result = run("replay", "-", "--strict", given=SETUP + BAD + ASK)

    assert result.exit_code == 1
    assert result.stderr.startswith("standard input:3: refused: app: ")
    assert result.stdout.startswith("Replayed 3 events, 0 s of virtual time")
    assert "\nasks bound               0\n" in result.stdout


def test_many_refusals() -> None:
    result = run("replay", "-", given="- {op: x}\n" * 12)

    assert len(result.stderr.splitlines()) == 11
    assert result.stderr.splitlines()[-1] == "standard input: refused: … 12 in all"


def test_refusals_in_json() -> None:
    status, said = run_json("replay", "-", given=SETUP + BAD)

    assert (status, said["refused"]) == (1, 1)
    assert (said["first_refusals"][0]["index"], said["first_refusals"][0]["line"]) == (2, 3)


@pytest.mark.parametrize("text", ["- [\n", "- {op: settle\n"])
def test_a_feed_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    feed = written(tmp_path / "feed.yaml", text)
    log = written(tmp_path / "log.jsonl", "precious")
    result = run("replay", feed, "--decisions", log)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{feed}:")
    assert log.read_text() == "precious"


def test_a_feed_that_breaks_off(tmp_path: Path) -> None:
    feed, log = written(tmp_path / "feed.yaml", FEED + "- [\n"), tmp_path / "log.jsonl"
    result = run("replay", feed, "--decisions", log)

    assert (result.exit_code, result.stdout) == (2, "")
    assert decided(log.read_text()) == KINDS[:5]


def test_an_error_in_json(tmp_path: Path) -> None:
    status, said = run_json("replay", tmp_path / "missing")

    assert status == 2
    assert said == {
        "error": {
            "file": str(tmp_path / "missing"),
            "line": None,
            "message": "No such file or directory",
        }
    }


@pytest.mark.parametrize("name", ["log.yaml", "missing/log.jsonl", "."])
def test_a_log_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    result = run("replay", "-", "--decisions", tmp_path / name, given=FEED)

    assert result.exit_code == 2
    assert result.stderr.startswith(str(tmp_path))


def test_the_feed_is_not_the_log(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.jsonl", '{"op": "settle"}\n')
    result = run("replay", feed, "--decisions", feed)

    assert result.exit_code == 2
    assert "is also the feed" in result.stderr
    assert feed.read_text() == '{"op": "settle"}\n'


def test_a_file_of_the_configuration_is_beside_the_feed(tmp_path: Path) -> None:
    config = "partitions: [{name: default, queues: [{name: root, queues: [{name: here}]}]}]"
    written(tmp_path / "queues.yaml", config)
    feed = written(
        tmp_path / "feed.yaml",
        "- {op: configure, file: queues.yaml}\n- {op: add_app, app: a, queue: here}\n",
    )

    assert run("replay", feed).exit_code == 0


# As a process


def app(number: int) -> bytes:
    event = {"op": "add_app", "at": number, "app": f"app-{number}", "queue": "root.q"}
    return json.dumps(event).encode() + b"\n"


def feed_in_background(running: Running, most: int) -> None:
    """Write so many events to a process, and leave its standard input open."""

    def write() -> None:
        with suppress(BrokenPipeError, ValueError):  # it has ended, or the test has
            for number in range(most):
                running.given.write(app(number))
            running.given.flush()

    threading.Thread(target=write, daemon=True).start()


@pytest.mark.parametrize("most", [1_000, 10_000_000], ids=["while it reads", "while it works"])
def test_ctrl_c_ends_with_what_was_done(most: int) -> None:
    with started("replay", "-", "--decisions", "-") as running:
        feed_in_background(running, most)
        lines = [running.out.readline()]
        running.process.send_signal(signal.SIGINT)
        lines += running.out.readlines()
        said = running.err.read().decode()

    assert running.process.returncode == 130
    assert said.startswith("Interrupted after ")
    assert f": {len(lines):,} decision" in said
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))


def test_ctrl_c_while_the_feed_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def feed(_name: str, **_: object) -> Iterator[FeedItem]:
        yield from read_feed(io.BytesIO(FEED.encode()))
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr("muster.cli._progress.read_feed", feed)
    result = run("replay", "feed.yaml")

    assert result.exit_code == 130
    assert result.stdout.startswith("Interrupted after 3 events, 0 s of virtual time: 5 decisions")


def test_a_closed_pipe_is_quiet() -> None:
    with started("replay", "-", "--decisions", "-") as running:
        feed_in_background(running, 10_000_000)
        assert running.out.readline()
        running.out.close()

        assert running.err.read() == b""
    assert running.process.returncode == 141


def test_the_progress_on_a_terminal(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", FEED)
    terminal, its_end = os.openpty()
    with os.fdopen(terminal, "rb", buffering=0) as shown:
        done = subprocess.run(
            [*COMMAND, "replay", feed, "--decisions", tmp_path / "log.jsonl"],
            stdout=subprocess.PIPE,
            stderr=its_end,
            env={**os.environ, "TERM": "xterm"},
            check=True,
        )
        os.close(its_end)
        line = shown.read(10_000).decode()

    assert "events" in line
    assert "decisions/s" in line
    assert done.stdout.startswith(b"Replayed 3 events")
    assert decided((tmp_path / "log.jsonl").read_text()) == KINDS
