"""Tests send signals that are ignored around them: in background jobs of scripts, below nohup."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent

#: Ignores them, as a shell or nohup does for a background job, and becomes another program.
IGNORING = """\
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    "tests",
    [
        "tests/actors/asyncio/test_interrupt.py",
        "tests/actors/cli/test_interrupt.py",
        pytest.param(
            "tests/actors/serving/commands/test_run.py::test_a_signal_cancels_it",
            marks=pytest.mark.takes_long,
        ),
    ],
)
def test_tests_send_signals_that_are_ignored(tests: str) -> None:
    pytest_ = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", tests)
    result = subprocess.run(
        [sys.executable, "-c", IGNORING, *pytest_],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert result.returncode == 0, result.stdout + result.stderr
