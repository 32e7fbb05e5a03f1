"""``muster replay``: its log, its summary, also on narrow terminals, and what ``--live`` shows."""

from __future__ import annotations

import gzip
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio
from rich.console import Console

from muster.cli._progress import ProgressLine
from muster.cli._replay_output import live_view, moment
from muster.feeds import FeedItem, FeedOrigin, read_feed
from muster.replay import Tally, replay
from muster.report import Board
from tests.actors.cli.helpers import (
    ASK,
    BAD,
    COMMAND,
    LONGEST_S,
    SETUP,
    Running,
    run,
    run_json,
    started,
    written,
)
from tests.actors.report.helpers import EVERYTHING
from tests.actors.samples import RESERVED, items

FEED = SETUP + ASK


def decided(log: str) -> list[str]:
    return [json.loads(line)["kind"] for line in log.splitlines()]


KINDS = ["app_state", "app_state", "assigned", "bound", "app_state", "released", "app_state",
         "app_state"]  # fmt: skip


def test_the_summary() -> None:
    result = run("replay", "-", stdin=FEED)
    text = re.sub(r"in \S+ s \(\S+ a second\)", "in … s (… a second)", result.stdout)

    assert (result.exit_code, result.stderr) == (0, "")
    assert (
        text
        == """\
Replayed 3 events, 40 s of virtual time: 8 decisions in … s (… a second)

asks bound                  1
asks pending at the end     0
events refused              0
makespan                 10 s
mean bounded slowdown       1

 queue    jobs   asks bound   mean wait   median   95 %   longest
 ────────────────────────────────────────────────────────────────
 root.q      1            1         0 s      0 s    0 s       0 s


 resource     used   weighted wait
 ─────────────────────────────────
 vcore      12.5 %             0 s

"""
    )


def test_the_summary_of_several_queues() -> None:
    more = """\
- {op: add_app, app: b, queue: root.other}
- {op: add_ask, app: b, ask: y, resources: {vcore: 2}, run_for: 2000}
- {op: add_app, app: idle, queue: root.other}
"""
    lines = run("replay", "-", stdin=FEED + more).stdout.splitlines()

    assert lines[0].startswith("Replayed 6 events, 00:34:00 of virtual time: ")
    assert lines[5:8] == [
        "makespan                 2,010 s",
        "mean bounded slowdown        101",
        "fairness of queues           0.5",
    ]
    assert lines[11:] == [
        " root.other      2            1         0 s       0 s       0 s       0 s",
        " root.q          1            1     2,000 s   2,000 s   2,000 s   2,000 s",
        "",
        " all             3            2     1,000 s   1,000 s   2,000 s   2,000 s",
        "",
        "",
        " jobs by vcore   jobs   mean wait    median      95 %   longest   slowdown   median   95 %",
        " ─────────────────────────────────────────────────────────────────────────────────────────",
        " 1                  1     2,000 s   2,000 s   2,000 s   2,000 s        201      201    201",
        " 2-4                1         0 s       0 s       0 s       0 s          1        1      1",
        " all                2     1,000 s   1,000 s   2,000 s   2,000 s        101      101    201",
        "",
        "",
        " resource     used   weighted wait",
        " ─────────────────────────────────",
        " vcore      98.3 %          4.99 s",
        "",
    ]


def test_the_summary_of_nothing() -> None:
    result = run("replay", "-", stdin="[]")

    assert result.exit_code == 0
    assert result.stdout.startswith("Replayed 0 events, 0 s of virtual time: 0 decisions in ")
    assert "queue" not in result.stdout


def test_a_narrow_page_cuts_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name = "q" * 64
    text = run("replay", "-", stdin=FEED.replace("root.q", f"root.{name}")).stdout

    assert max(map(len, text.splitlines())) <= 60 or "Replayed" in text
    assert text.count("q") >= 64


def test_the_decision_log(tmp_path: Path) -> None:
    feed, log = written(tmp_path / "feed.yaml", FEED), tmp_path / "log.jsonl"
    result = run("replay", feed, "--decisions", log)

    assert result.exit_code == 0
    assert decided(log.read_text()) == KINDS


def test_the_decision_log_compressed(tmp_path: Path) -> None:
    run("replay", "-", "--decisions", tmp_path / "log.jsonl.gz", stdin=FEED)

    assert decided(gzip.decompress((tmp_path / "log.jsonl.gz").read_bytes()).decode()) == KINDS


def test_the_decision_log_on_standard_output() -> None:
    result = run("replay", "-", "--decisions", "-", stdin=FEED)

    assert decided(result.stdout) == KINDS
    assert result.stderr.startswith("Replayed 3 events")


def test_json_beside_the_decision_log() -> None:
    result = run("replay", "-", "--decisions", "-", "--format", "json", stdin=FEED)

    assert decided(result.stdout) == KINDS
    assert json.loads(result.stderr)["decisions"] == 8


def test_json() -> None:
    status, answer = run_json("replay", "-", stdin=FEED)
    real_s = answer.pop("real_s")
    wait = {"count": 1, "mean_s": 0, "median_s": 0, "p95_s": 0, "longest_s": 0}
    slowdown = {"mean": 1, "median": 1, "p95": 1, "highest": 1}
    group = {"wait": wait, "bounded_slowdown": slowdown}

    assert status == 0
    assert answer.pop("decisions_per_s") == 8 / real_s
    assert answer == {
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
        "asks_run_limit": 0,
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
        "makespan_s": 10,
        "utilisation_to_last_arrival": {"vcore": None},
        "measures": {
            "ended": 1,
            "never_ran": 0,
            "unfinished": 0,
            **group,
            "weighted_wait_s": {"vcore": 0},
            "size_resource": "vcore",
            "by_size": {"1": group},
            "by_user": {"": group},
            "by_queue": {"root.q": group},
        },
        "parts": [],
        "interrupted": False,
        "report": None,
    }


@pytest.mark.parametrize(("until", "released"), [("9.999999", False), ("10", True), ("1h", True)])
def test_until(until: str, released: bool) -> None:
    later = "- {op: settle, at: 2h}\n"
    result = run("replay", "-", "--until", until, "--decisions", "-", stdin=FEED + later)

    assert ("released" in decided(result.stdout)) is released


def test_a_refusal(tmp_path: Path) -> None:
    feed = written(tmp_path / "feed.yaml", SETUP + BAD + ASK)
    result = run("replay", feed)

    assert result.exit_code == 1
    assert result.stderr.startswith(f"{feed}:3: refused: app: ")
    assert "\nevents refused              1\n" in result.stdout
    assert "\nasks bound                  1\n" in result.stdout


def test_a_refusal_that_stops() -> None:
    result = run("replay", "-", "--strict", stdin=SETUP + BAD + ASK)

    assert result.exit_code == 1
    assert result.stderr.startswith("standard input:3: refused: app: ")
    assert result.stdout.startswith("Replayed 3 events, 0 s of virtual time")
    assert "\nasks bound               0\n" in result.stdout


def test_many_refusals() -> None:
    result = run("replay", "-", stdin="- {op: x}\n" * 12)

    assert len(result.stderr.splitlines()) == 11
    assert result.stderr.splitlines()[-1] == "standard input: refused: … 12 in all"


def test_refusals_in_json() -> None:
    status, answer = run_json("replay", "-", stdin=SETUP + BAD)

    assert (status, answer["refused"]) == (1, 1)
    assert (answer["first_refusals"][0]["index"], answer["first_refusals"][0]["line"]) == (2, 3)


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
    status, answer = run_json("replay", tmp_path / "missing")

    assert status == 2
    assert answer == {
        "error": {
            "file": str(tmp_path / "missing"),
            "line": None,
            "message": "No such file or directory",
        }
    }


@pytest.mark.parametrize("name", ["log.yaml", "missing/log.jsonl", "."])
def test_a_log_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    result = run("replay", "-", "--decisions", tmp_path / name, stdin=FEED)

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
                running.stdin.write(app(number))
            running.stdin.flush()

    threading.Thread(target=write, daemon=True).start()


@pytest.mark.parametrize("most", [1_000, 10_000_000], ids=["while it reads", "while it works"])
def test_ctrl_c_ends_with_what_was_done(most: int) -> None:
    with started("replay", "-", "--decisions", "-") as running:
        feed_in_background(running, most)
        lines = [running.out.readline()]
        running.process.send_signal(signal.SIGINT)
        lines += running.out.readlines()
        errors = running.err.read().decode()

    assert running.process.returncode == 130
    assert errors.startswith("Interrupted after ")
    assert f": {len(lines):,} decision" in errors
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


# COMMAND-31
@pytest.mark.parametrize("command", ["replay", "compare"])
def test_no_progress_on_a_terminal(tmp_path: Path, command: str) -> None:
    feed = written(tmp_path / "feed.yaml", FEED)
    terminal, its_end = os.openpty()
    arguments: list[str | Path] = (
        ["replay", feed] if command == "replay" else ["compare", feed, feed]
    )
    with os.fdopen(terminal, "rb", buffering=0) as shown:
        words: list[str | Path] = [*COMMAND, *arguments, "--no-progress"]
        environment = {**os.environ, "TERM": "xterm"}
        subprocess.run(words, stdout=subprocess.PIPE, stderr=its_end, env=environment, check=True)
        os.write(its_end, b"that is all\n")
        os.close(its_end)
        assert shown.read(10_000) == b"that is all\r\n"


def test_the_view_is_progress() -> None:
    errors = run("replay", "feed.yaml", "--live", "--no-progress").stderr
    assert "--live shows progress: leave --no-progress away" in errors


QUEUES = ("root.production.interactive", "root.research.batch", "root.x")
WIDE_FEED = (
    "- {op: add_node, node: n1, capacity: {vcore: 2, example.com/accelerator: 4}}\n"
    + "".join(
        f"- {{op: add_app, app: a{app}, queue: {QUEUES[app % 3]}}}\n"
        f"- {{op: add_ask, app: a{app}, ask: x, resources: {{vcore: 2}}, run_for: {1_234_567 + app}}}\n"
        for app in range(12)
    )
)


def numbers(text: str) -> set[str]:
    """Return the numbers in the tables, without how fast it was."""
    return set(re.findall(r"\d[\d,.]*%?", text.partition("\n\n")[2]))


@pytest.mark.parametrize("columns", [80, 60, 45])
def test_a_narrow_page_cuts_no_number(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    wide = run("replay", "-", stdin=WIDE_FEED).stdout
    monkeypatch.setenv("COLUMNS", str(columns))
    narrow = run("replay", "-", stdin=WIDE_FEED).stdout

    assert {"13,580,292", "157", "12"} <= numbers(wide)
    assert numbers(narrow) == numbers(wide)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= columns
    for name in ("jobs", "bound", "median", "95 %", "longest", "used"):
        assert name in narrow


def test_what_does_not_fit_goes_on_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("replay", "-", stdin=WIDE_FEED).stdout.splitlines()

    headers = [line.split() for line in lines if line.startswith(" queue")]
    assert len(headers) == 3
    assert headers[0][:2] == ["queue", "jobs"]
    assert headers[2][-1] == "longest"
    assert len([line for line in lines if line.startswith(" all ")]) == 3


def test_what_is_too_wide_runs_over_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")

    assert "13,580,292 s (157 d 4 h)" in run("replay", "-", stdin=WIDE_FEED).stdout


# COMMAND-26
def test_what_became_of_reservations() -> None:
    lines = run("replay", "-", stdin=RESERVED).stdout.splitlines()
    figures = dict(line.rsplit("  ", 1) for line in lines[2:9])

    assert "reserv" not in run("replay", "-", stdin=WIDE_FEED).stdout
    assert {name.strip(): int(figure) for name, figure in figures.items()} == {
        "asks bound": 6,
        "asks pending at the end": 0,
        "asks with a reservation": 3,
        "bound by their first known start": 3,
        "bound later": 0,
        "bound without a known start": 0,
        "events refused": 0,
    }


def test_reserved_asks_that_were_not_bound_are_counted() -> None:
    output = run("replay", "-", "--until", "20", stdin=RESERVED).stdout

    assert re.search(r"^not bound with a reservation +2$", output, re.MULTILINE), output


def board_of(text: str, until_us: int | None = None) -> Board:
    board = Board()
    trio.run(lambda: replay(items(text), watchers=[board], until_us=until_us))
    return board


def lines_of(board: Board, width: int, height: int) -> list[str]:
    console = Console(width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as capture:
        console.print(live_view(board, console))
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in capture.get().splitlines()]


def test_what_is_shown() -> None:
    lines = lines_of(board_of(EVERYTHING, 13_000_000), 100, 30)

    assert lines[0].split() == ["queue", "running", "pending", "waiting", "priority", "used"]
    assert lines[1].split()[:6] == ["root", "8", "8", "0", "10", "100%"]
    assert lines[2].split()[:6] == ["batch", "6", "5", "0", "0", "75%"]
    assert lines[3].split()[:6] == ["web", "2", "3", "0", "10", "25%"]
    assert lines[2].startswith("  batch")
    assert lines[-1].split()[:3] == ["12", "s", "bound"]


@pytest.mark.parametrize(("width", "height"), [(100, 30), (60, 12), (40, 8), (20, 3), (10, 1)])
def test_it_fits(width: int, height: int) -> None:
    feed = "- {op: add_node, node: n, capacity: {vcore: 9}}\n" + "".join(
        f"- {{op: add_app, app: a{number}, queue: root.p{number % 3}.a-long-name-{number}}}\n"
        f"- {{op: add_ask, app: a{number}, ask: x, resources: {{vcore: 1}}}}\n"
        for number in range(30)
    )
    lines = lines_of(board_of(feed), width, height)

    assert len(lines) <= max(height - 2, 3)
    assert all(len(line) <= width for line in lines)
    assert any("more" in line for line in lines) == (width >= 40)


def test_names_cannot_steer_the_terminal() -> None:
    feed = SETUP + '- {op: add_ask, app: a, ask: "x\\e[2J[red]", resources: {vcore: 1}}\n'
    shown = "\n".join(lines_of(board_of(feed), 100, 30))

    assert "\x1b" not in shown
    assert "[red]" in shown


def test_it_wants_a_terminal(tmp_path: Path) -> None:
    result = run("replay", written(tmp_path / "feed.yaml", SETUP + ASK), "--live")

    assert result.exit_code == 2
    assert "--live needs a terminal, and standard error is not one" in result.stderr


class Terminal:
    """The command in a terminal.

    Attributes:
        process: The process.
        shown: What it has written so far.
    """

    def __init__(self, *arguments: str | Path) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
            start_new_session=True,
        )
        os.close(slave)
        self.shown = ""

    def read_until(self, pattern: str, seconds: float = LONGEST_S) -> None:
        """Read until something is shown, or nothing comes any more."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.shown) and time.monotonic() < end:
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self._master, 65536).decode(errors="replace")
                except OSError:  # it has closed the terminal
                    return

    def close(self) -> int:
        """Wait until it has ended; return its exit status."""
        status = self.process.wait(timeout=LONGEST_S)
        os.close(self._master)
        if self.process.stdin:
            self.process.stdin.close()
        return status


def test_in_a_terminal(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    feed = written(tmp_path / "feed.yaml", EVERYTHING)
    terminal = Terminal("replay", feed, "--live", "--decisions", log)
    terminal.read_until("events refused")

    assert terminal.close() == 1  # one event is refused
    assert "Replayed 13 events" in terminal.shown
    assert "\x1b[?25h" in terminal.shown  # the cursor is back
    run("replay", feed, "--decisions", tmp_path / "plain.jsonl")
    assert log.read_bytes() == (tmp_path / "plain.jsonl").read_bytes()


def test_ctrl_c_ends_it_in_order() -> None:
    terminal = Terminal("replay", "-", "--live")
    assert terminal.process.stdin
    terminal.process.stdin.write(
        b'{"op": "add_app", "app": "a", "queue": "root.q"}\n{"op": "settle", "at": 5}\n'
    )
    terminal.process.stdin.flush()
    terminal.read_until(r"running.*pending")
    terminal.process.send_signal(signal.SIGINT)
    terminal.read_until("events refused")

    assert terminal.close() == 130
    assert "Interrupted after" in terminal.shown
    assert "\x1b[?25h" in terminal.shown


def test_the_line_tells_the_instant_of_the_latest_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read goes ahead of what is decided: a frame shows one moment."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    feed = "- {op: add_node, node: n, capacity: {vcore: 999}}\n" + "".join(
        f"- {{op: add_app, app: a{number}, queue: root.q, at: {number}}}\n"
        f"- {{op: add_ask, app: a{number}, ask: x, resources: {{vcore: 1}}, at: {number}}}\n"
        for number in range(50)
    )
    board, tally = Board(), Tally()
    progress = ProgressLine(tally, shown=True, below=partial(moment, board, FeedOrigin()))
    frames: list[tuple[int, list[str]]] = []

    def watched() -> Iterator[FeedItem]:
        for item in items(feed):
            console = Console(width=100, height=30, force_terminal=True, color_system=None)
            with console.capture() as capture:
                console.print(progress._view())  # pyright: ignore[reportPrivateUsage] - no terminal
            frames.append((tally.at_us, capture.get().splitlines()))
            yield item

    trio.run(lambda: replay(watched(), watchers=[board], tally=tally))

    decided = [(at_us, lines) for at_us, lines in frames if lines[-1].split()[2:3] == ["bound"]]
    assert any(f" {at_us // 1_000_000} s " not in lines[0] for at_us, lines in decided)
    for _, lines in decided:
        latest, unit, *_ = lines[-1].split()
        assert f"  {latest} {unit}  " in lines[0]
        assert lines[3].split()[:2] == ["root", str(int(latest) + 1)]


_PARTS = """\
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, properties: {usage.half.life: 100s}, queues: [
    {name: a, properties: {queue.weight: "3"}}, {name: b}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_app, app: a, queue: root.a}
- {op: add_app, app: b, queue: root.b}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 1000}
- {op: add_ask, at: 400, app: b, ask: x, resources: {vcore: 2}, run_for: 400}
"""


# COMMAND-33
def test_what_queues_had_and_what_was_their_due() -> None:
    lines = run("replay", "-", stdin=_PARTS).stdout.splitlines()
    head = " part of its siblings   weight      due      had   furthest   time pending   had then"
    at = lines.index(head)
    assert lines[at + 2 : at + 4] == [
        " root.a                      3   75.0 %   55.6 %     33.3 %          0.0 %          -",
        " root.b                      1   25.0 %   44.4 %     66.7 %          0.0 %          -",
    ]
    _, answer = run_json("replay", "-", stdin=_PARTS)
    assert [part["queue"] for part in answer["parts"]] == ["root.a", "root.b"]
    assert answer["parts"][0]["furthest_us"] == 800_000_000


# COMMAND-33
def test_the_parts_under_a_configuration_that_is_given(tmp_path: Path) -> None:
    queues = "[{name: a, properties: {queue.weight: '3'}}, {name: b}]"
    root = f"{{name: root, properties: {{usage.half.life: 100s}}, queues: {queues}}}"
    config = written(tmp_path / "c.yaml", f"partitions: [{{name: default, queues: [{root}]}}]\n")
    _, answer = run_json("replay", "-", "--config", config, stdin=_PARTS)
    assert answer["parts"] == run_json("replay", "-", stdin=_PARTS)[1]["parts"] != []


# COMMAND-33: who wants nothing gets less than its due, and nobody is to blame
def test_what_a_queue_had_while_it_wanted_more() -> None:
    alone = "- {op: add_app, app: c, queue: root.b, at: 1000}\n"
    alone += "- {op: add_ask, app: c, ask: y, resources: {vcore: 4}, run_for: 100}\n"
    crowd = (
        "- {op: add_ask, app: c, ask: z, resources: {vcore: 1}, run_for: 100, count: 8, at: 1100}\n"
    )
    feed = _PARTS.replace("run_for: 1000", "run_for: 100").replace("run_for: 400", "run_for: 100")
    _, answer = run_json("replay", "-", stdin=feed + alone + crowd)
    a, b = answer["parts"]
    assert (a["wanted"], a["had_wanting"]) == (0.0, None)
    # From 1,100 s to 1,200 s of 1,330 s (the application completes last) four of its asks had no node, and nobody else had anything.
    assert (b["wanted"], b["had_wanting"]) == (100 / 1330, 1.0)
    assert b["had"] < 1

    shared = feed.replace("vcore: 1}, run_for: 100}", "vcore: 1}, run_for: 100, count: 8}")
    a, b = run_json("replay", "-", stdin=shared)[1]["parts"]
    assert (a["wanted"], a["had_wanting"]) == (100 / 530, 1.0)
    assert (b["wanted"], b["had_wanting"]) == (0.0, None)


# COMMAND-23: by weights that count, the shares are even when each has its due
def test_fairness_is_of_what_is_due() -> None:
    asks = "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 100, count: 3}\n"
    asks += "- {op: add_ask, app: b, ask: x, resources: {vcore: 1}, run_for: 100}\n"
    head = "".join(line for line in _PARTS.splitlines(keepends=True) if "add_ask" not in line)
    assert run_json("replay", "-", stdin=head + asks)[1]["fairness"]["queues"] == 1.0
    # Without a half-life no weight counts: shares of 3 and 1.
    without = head.replace("100s", '"0"')
    assert run_json("replay", "-", stdin=without + asks)[1]["fairness"]["queues"] == pytest.approx(
        0.8
    )
