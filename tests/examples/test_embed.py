"""The examples of programs that embed Muster; what they print is compared with the pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = [*sorted(FOLDER.glob("*.py")), *sorted((FOLDER / "embedding").glob("*.py"))]


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_example_runs_without_a_warning(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", path], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert done.stderr == ""
