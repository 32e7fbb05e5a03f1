"""Running the command: in this process, or as a user does.

A feed and two configurations to compare it under.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import attrs
from click.testing import CliRunner, Result

from muster.cli._main import muster

COMMAND = (sys.executable, "-m", "muster")

LONGEST_S = 120
"""How long a test waits for a process that is about to end, in seconds."""

SETUP = """\
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q}
"""
ASK = "- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 10}\n"
BAD = "- {op: add_app, app: a, queue: root.q}\n"


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    """Run the command in this process."""
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(muster, words, input=stdin, prog_name="muster")


def run_json(*arguments: str | Path, stdin: str | bytes | None = None) -> tuple[int, Any]:
    """Run the command with ``--format json``; return the exit status and the JSON."""
    result = run(*arguments, "--format", "json", stdin=stdin)
    return result.exit_code, json.loads(result.stdout)


@attrs.frozen
class Running:
    """The command as a process.

    Attributes:
        process: The process.
        stdin: Its standard input.
        out: Its standard output.
        err: Its standard error.
    """

    process: subprocess.Popen[bytes]
    stdin: IO[bytes]
    out: IO[bytes]
    err: IO[bytes]


@contextmanager
def started(*arguments: str | Path) -> Generator[Running]:
    """Start the command with pipes; wait for its end when the block is left."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    try:
        yield Running(process, process.stdin, process.stdout, process.stderr)
        process.wait(timeout=LONGEST_S)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        with suppress(BrokenPipeError):
            process.stdin.close()


def written(path: Path, text: str) -> Path:
    """Write a file, and return its path."""
    path.write_text(text, encoding="utf-8")
    return path


FEED = """\
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.east}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}, run_for: 10}
- {op: add_app, app: b, queue: root.west}
- {op: add_ask, app: b, ask: y, resources: {vcore: 2}, run_for: 1500}
"""
QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: east}
          - {name: west}
"""
RANKED = QUEUES.replace("west}", 'west, properties: {queue.priority: "5"}}')
PARTITIONS = QUEUES + RANKED.replace("partitions:\n", "").replace("default", "other")


def compare_both(files: dict[str, Path]) -> list[str | Path]:
    """Return the arguments for the feed under both configurations."""
    return ["compare", files["feed"], "--config", files["a"], "--config", files["b"]]
