"""The example of a service that is killed, and goes on where it was."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from threading import Timer

PROGRAM = Path(__file__).parent.parent.parent / "examples" / "durable" / "service.py"
PAGES = 4


def start(state: Path, *, until: str) -> list[str]:
    """Run the service until it says something, kill it, and give all that it has said.

    Args:
        state: Its folder.
        until: What a line begins or ends with.
    """
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(PROGRAM), str(state), str(PAGES)],
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = Timer(60, process.kill)
    watchdog.start()
    said: list[str] = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.rstrip())
            if line.rstrip().endswith(until):
                process.kill()
                break
        said += [line.rstrip() for line in process.stdout]
    watchdog.cancel()
    assert any(line.endswith(until) for line in said), said
    return said


def test_it_goes_on_after_every_kill(tmp_path: Path) -> None:
    first = start(tmp_path, until="pages are left")
    second = start(tmp_path, until=": printed")
    third = start(tmp_path, until=": printed")
    last = start(tmp_path, until="done")

    assert first == [f"{PAGES} of {PAGES} pages are left"]
    assert any("goes on after line" in line for line in third), third
    said = [*second, *third, *last]
    # A page may be said twice if the kill came before the scheduler had heard of its end.
    assert {line for line in said if line.endswith(": printed")} == {
        f"page-{number}: printed" for number in range(PAGES)
    }
    left = [int(found[1]) for line in said if (found := re.match(r"(\d+) of", line))]
    assert left == sorted(left, reverse=True)
    assert last[-1] == "done"
