"""The example of a scheduler inside a program."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "embed.py"


def test_two_of_three_asks_are_bound() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    log = [ast.literal_eval(line) for line in done.stdout.splitlines()]
    bound = [decision["ask"] for decision in log if decision["kind"] == "bound"]
    assert bound == ["part-0", "part-1"]
