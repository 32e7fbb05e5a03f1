"""examples/jobs: what it says, and how it ends."""

from __future__ import annotations

import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

import pytest

JOBS = Path(__file__).parents[2] / "examples" / "jobs"
LONG_S = 120.0
"""How long to wait for anything, in seconds; only a failing test waits so long."""
COMMAND = (sys.executable, "-W", "error", str(JOBS / "jobs.py"))

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shells and signals")


def run(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, str(file)], capture_output=True, text=True, check=False, timeout=LONG_S
    )


@pytest.fixture
def run_text(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Run a file with this text."""

    def run_it(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "jobs.yaml").write_text(text, encoding="utf-8")
        return run(tmp_path / "jobs.yaml")

    return run_it


def happened(output: str) -> list[tuple[str, str, str]]:
    """Return what happened to what, and more of it, of the lines with a time."""
    lines = [line.split(maxsplit=4) for line in output.splitlines() if line[:7].strip()]
    return [(line[1], line[2], line[4]) for line in lines if is_time(line[0])]


def is_time(word: str) -> bool:
    return word.replace(".", "", 1).isdecimal()


# The demo


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    return run(JOBS / "demo.yaml")


def test_all_of_the_demo_ends_well(demo: subprocess.CompletedProcess[str]) -> None:
    ended = {name: more for what, name, more in happened(demo.stdout) if what == "end"}

    assert demo.returncode == 0, demo.stderr
    assert set(ended) == {
        *("daily", "weekly", "monthly", "crunch", "alarm"),
        *("train/part-0", "train/part-1", "train/part-2"),
    }
    assert set(ended.values()) == {"exit status 0"}
    assert demo.stdout.splitlines()[-1] == "6 jobs, 0 failed, 1 killed and run again"


def test_no_more_than_two_reports_run_at_once(demo: subprocess.CompletedProcess[str]) -> None:
    reports, running, seen = {"daily", "weekly", "monthly"}, 0, 0
    for what, name, _ in happened(demo.stdout):
        if name in reports:
            running += {"start": 1, "end": -1}[what]
            seen = max(seen, running)

    assert seen == 2


def test_priorities_decide_who_is_started(demo: subprocess.CompletedProcess[str]) -> None:
    started = [name for what, name, _ in happened(demo.stdout) if what == "start"]

    assert started.index("monthly") < started.index("weekly")
    assert started.index("daily") < started.index("weekly")


def test_the_gang_is_started_together(demo: subprocess.CompletedProcess[str]) -> None:
    train = [what for what, name, _ in happened(demo.stdout) if name.startswith("train/")]

    assert train == ["start"] * 3 + ["end"] * 3
    for part in range(3):
        assert f"part-{part} trains on" in demo.stdout


def test_what_is_preempted_runs_again(demo: subprocess.CompletedProcess[str]) -> None:
    research = [line for line in happened(demo.stdout) if line[1] in ("crunch", "alarm")]
    crunch = [(what, more) for what, name, more in research if name == "crunch"]

    assert [what for what, _ in crunch] == ["start", "killed", "start", "end"]
    assert "preempted for alarm/part-0" in crunch[1][1]
    assert "crunch goes on" in demo.stdout
    assert [name for what, name, _ in research if what == "end"] == ["alarm", "crunch"]


# Other files


def test_a_job_that_fails_shows_in_the_exit_status(
    run_text: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    done = run_text(
        """
        nodes: {n: {vcore: 1}}
        queues: [{name: q}]
        jobs:
          - {name: bad, queue: q, command: exit 3}
          - {name: good, queue: root.q, command: exit 0}
          - {name: large, queue: q, command: exit 0, vcore: 2}
          - {name: next, queue: q, command: exit 0, after: large}
        """
    )

    assert done.returncode == 1
    log = happened(done.stdout)
    assert ("end", "bad", "exit status 3") in log
    assert ("end", "good", "exit status 0") in log
    assert [more for what, name, more in log if (what, name) == ("drop", "large")] == [
        "NeverFits: it asks for 2 vcore, and the most on the only node is 1 vcore"
    ]
    assert ("end", "next", "exit status 0") in log
    assert done.stdout.splitlines()[-1] == "4 jobs, 2 failed, 0 killed and run again"


def test_queues_may_stand_in_a_file_of_their_own(
    tmp_path: Path, run_text: Callable[[str], subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "queues.yaml").write_text(
        "partitions: [{name: default, queues: [{name: root, queues: [{name: own}]}]}]",
        encoding="utf-8",
    )

    done = run_text("{queues: queues.yaml, jobs: [{name: a, queue: own, command: echo hi}]}")

    assert done.returncode == 0, done.stderr
    assert "hi" in done.stdout.splitlines()


@pytest.fixture(scope="module")
def main() -> Callable[[Path], Awaitable[int]]:
    """The program, without the time that it takes to start."""
    return cast("Callable[[Path], Awaitable[int]]", runpy.run_path(COMMAND[-1])["main"])


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ("[{name: a, queue: r, command: x}]", "job 'a': queue: 'r' is unknown"),
        ("[{name: a, queue: q}]", "job 'a': .*'command'"),
        ("[{name: a, queue: q, command: }]", "job 'a': 'command' must be .*str"),
        ("[{queue: q, command: x}]", "job 1: .*'name'"),
        ("[{name: a, queue: q, command: x, cores: 1}]", "job 'a': .*'cores'"),
        ("[{name: a, queue: q, command: x, vcore: many}]", "job 'a': resources.vcore: 'many'"),
        ("[{name: a, queue: q, command: x, gang: 0}]", "job 'a': 'gang' must be >= 1"),
        ("[{name: a, queue: q, command: x, after: b}]", "job 'a': after: there is no job 'b'"),
        ("[{name: a, queue: q, command: x}, {name: a, queue: q, command: x}]", "job 'a': another"),
        ("[a]", "`jobs` has to be a list of maps"),
        ("[", "line 1"),
    ],
)
async def test_what_is_wrong_is_said_before_anything_runs(
    jobs: str,
    message: str,
    main: Callable[[Path], Awaitable[int]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(f"{{queues: [{{name: q}}], jobs: {jobs}}}", encoding="utf-8")

    assert await main(file) == 2

    said, complained = capsys.readouterr()
    assert said == ""
    assert re.search(f"jobs.yaml: .*{message}", complained, re.DOTALL)


def test_an_interrupt_ends_all_commands(tmp_path: Path) -> None:
    file = tmp_path / "jobs.yaml"
    file.write_text(
        "{queues: [{name: q}], jobs: [{name: a, queue: q, command: 'echo $$; exec sleep 1000'}]}",
        encoding="utf-8",
    )
    with subprocess.Popen([*COMMAND, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=LONG_S) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(lines[1]), 0)
