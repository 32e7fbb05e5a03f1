"""``muster replay --live``: what is shown, and where."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio
from rich.console import Console

from muster.cli._progress import ProgressLine
from muster.cli._replay_output import live_view, moment
from muster.feeds import FeedItem, FeedOrigin
from muster.replay import Tally, replay
from muster.report import Board
from tests.actors.cli.helpers import ASK, COMMAND, LONGEST_S, SETUP, run, written
from tests.actors.replay.helpers import items
from tests.actors.report.helpers import EVERYTHING


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
        """Wait until it has ended; give its exit status."""
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
