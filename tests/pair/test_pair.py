"""A short storm of two servers; a longer one: ``make pair``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.mark.starts_early
def test_nothing_that_was_answered_is_lost() -> None:
    # REPLICA-10, REPLICA-12
    done = subprocess.run(
        [sys.executable, "-m", "tests.pair", "--seconds=15", "--seed=1"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert " 0 faults" in done.stdout
