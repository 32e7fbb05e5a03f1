"""The examples of programs that embed Muster.

For the pages, as a durable service, and as a web service.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import httpx
import pytest

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "examples"
EXAMPLES = [*sorted(FOLDER.glob("*.py")), *sorted((FOLDER / "embedding").glob("*.py"))]
PAGES = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_example_is_run_for_a_page(path: Path) -> None:
    command = f"\n$ python {path.relative_to(PROJECT).as_posix()}\n"

    assert [page for page in PAGES if command in page.read_text(encoding="utf-8")]


PROGRAM = Path(__file__).parent.parent.parent / "examples" / "durable" / "service.py"
PAGE_COUNT = 4


def start(state: Path, *, until: str) -> list[str]:
    """Run the service until a line ends in some way, kill it, and return all lines.

    Args:
        state: Its folder.
        until: What a line begins or ends with.
    """
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(PROGRAM), str(state), str(PAGE_COUNT)],
        stdout=subprocess.PIPE,
        text=True,
    )
    watchdog = Timer(60, process.kill)
    watchdog.start()
    lines: list[str] = []
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.rstrip().endswith(until):
                process.kill()
                break
        lines += [line.rstrip() for line in process.stdout]
    watchdog.cancel()
    assert any(line.endswith(until) for line in lines), lines
    return lines


def test_it_goes_on_after_every_kill(tmp_path: Path) -> None:
    first = start(tmp_path, until="pages are left")
    second = start(tmp_path, until=": printed")
    third = start(tmp_path, until=": printed")
    last = start(tmp_path, until="done")

    assert first == [f"{PAGE_COUNT} of {PAGE_COUNT} pages are left"]
    assert any("goes on after line" in line for line in third), third
    lines = [*second, *third, *last]
    # A page may be printed twice if the kill came before the scheduler knew of its end.
    assert {line for line in lines if line.endswith(": printed")} == {
        f"page-{number}: printed" for number in range(PAGE_COUNT)
    }
    left = [int(found[1]) for line in lines if (found := re.match(r"(\d+) of", line))]
    assert left == sorted(left, reverse=True)
    assert last[-1] == "done"


WEB = Path(__file__).parent.parent.parent / "examples" / "web"


@contextmanager
def service(mode: str) -> Generator[httpx.Client, None, None]:
    """Run the service for the time of the block; it has to end as it should."""
    command = [sys.executable, "-W", "error", "-m", "uvicorn", "--app-dir", str(WEB)]
    process = subprocess.Popen(
        [*command, "--port", "0", "--no-access-log", "app:app"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "MUSTER_MODE": mode},
    )
    watchdog = Timer(180, process.kill)
    watchdog.start()
    lines: list[str] = []
    with process:
        try:
            assert process.stderr is not None
            with httpx.Client(base_url=_address(process, lines), timeout=120) as client:
                yield client
            process.send_signal(signal.SIGTERM)
            lines += process.stderr
        finally:
            process.kill()  # if it has not ended by now
            watchdog.cancel()
    output = "".join(lines)
    assert "Application shutdown complete" in output, output
    assert "Traceback" not in output, output
    assert process.returncode in (0, -signal.SIGTERM), output


def _address(process: subprocess.Popen[str], lines: list[str]) -> str:
    """Return the address of the service, when it is ready."""
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        found = re.search(r"running on (http://\S+)", line)
        if found:
            return found[1]
    pytest.fail("".join(lines))


@pytest.mark.parametrize("mode", ["thread", "guest"])
def test_the_service(mode: str) -> None:
    with service(mode) as client:
        for name, vcore in (("one", 3), ("two", 2), ("three", 1)):
            answer = client.post("/jobs", json={"queue": "batch", "name": name, "vcore": vcore})
            assert (answer.status_code, answer.json()) == (201, {"name": name})

        one = client.get("/jobs/one", params={"wait": 9}).json()
        assert one == {"name": "one", "state": "bound", "node": "node-1", "why": None}
        two = client.get("/jobs/two", params={"wait": 0.01}).json()
        assert (two["state"], two["node"]) == ("pending", None)
        assert two["why"].startswith("QueueMax")
        assert client.get("/queues").json()["root.batch"] == {
            "allocated": {"vcore": 4000},
            "pending": {"vcore": 2000},
        }

        # A client waits for the second job while the first goes.
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(client.get, "/jobs/two", params={"wait": 30})
            assert client.delete("/jobs/one").status_code == 204
            assert waiting.result().json()["state"] == "bound"

        assert client.get("/jobs/one").status_code == 404
        assert client.delete("/jobs/one").status_code == 404
        assert client.post("/jobs", content="no JSON").status_code == 400
        assert client.post("/jobs", json=[1]).status_code == 400
        assert client.get("/jobs/two?wait=long").status_code == 400
        assert client.post("/jobs", json={"name": "two", "vcore": 1}).status_code == 409
        refused = client.post("/jobs", json={"name": "bad", "vcore": "many"})
        assert refused.status_code == 400
        assert "many" in refused.json()["error"]
        assert client.get("/jobs/bad").status_code == 404
