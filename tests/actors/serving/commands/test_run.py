"""``muster run`` and ``muster submit --command``: one command on a real server that runs it."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import pytest

from tests.actors.cli.helpers import run, run_json
from tests.actors.serving.served import (
    PATIENCE_S,
    QUEUES,
    Served,
    patiently,
    running_commands,
    submit,
)

MUSTER = (sys.executable, "-m", "muster")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with running_commands(folder, "--no-node", "--grace", "1") as one:
        capacity = {"vcore": 100, "memory": "64Gi"}
        submit(one.client, {"op": "add_node", "node": "here", "capacity": capacity})
        yield one


@contextmanager
def started(*words: str, stdin: int = subprocess.DEVNULL) -> Generator[subprocess.Popen[bytes]]:
    """Start a command as a user does; it is killed if it takes too long."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([*MUSTER, *words], stdin=stdin, stdout=pipe, stderr=pipe)
    limit = Timer(PATIENCE_S, process.kill)
    limit.start()
    try:
        with process:
            yield process
    finally:
        limit.cancel()


def finished(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that waits for something, within a limit."""
    return subprocess.run(
        [*MUSTER, *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def ask(served: Served, name: str, ask: str = "job") -> dict[str, Any]:
    """Return an ask as the server lists it."""
    response = served.client.get(f"/api/v1/asks/{name}/{ask}")
    assert response.status_code == 200, response.text
    item: dict[str, Any] = response.json()["item"]
    return item


def place(served: Served, name: str) -> str | None:
    """Return the place of the ask of a job; None if it is over, or not added yet."""
    response = served.client.get(f"/api/v1/asks/{name}/job")
    found = response.json()["item"]["place"] if response.status_code == 200 else None
    return None if found == "ended" else found


def test_it_is_like_running_the_command(served: Served) -> None:
    # CLIENT-11, CLIENT-13, CLIENT-14
    script = r"echo one; printf 'two\377' >&2; exit 3"
    with started("run", "--", "sh", "-c", script) as process:
        out, errors = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out) == (3, b"one\ntwo\xff")
    assert re.fullmatch(r"sh-[a-z0-9]{6}/job: exit status 3\n", errors.decode())
    assert finished("run", "true").returncode == 0


def test_it_begins_here_with_the_path_of_here(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # CLIENT-11
    program = tmp_path / "bin" / "only-here"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$PWD $COLOUR $SHADE"\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COLOUR", "red")

    result = finished("run", "-e", "COLOUR", "-e", "SHADE=dark", "only-here")
    assert (result.returncode, result.stdout) == (0, f"{tmp_path} red dark\n")

    there = finished("run", "--workdir", "bin", "only-here")
    assert there.stdout == f"{program.parent}  \n"
    assert finished("run", "--env", "MISSING", "true").returncode == 2


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (("sh", "-c", "kill -KILL $$"), 137, "killed by signal SIGKILL"),
        (("no-such-program",), 126, "could not be started: 'no-such-program'"),
        (("--run-for", "500ms", "--", "sleep", "600"), 124, "ended, since its time is up"),
        (
            ("--run-limit", "500ms", "--", "sleep", "600"),
            124,
            "ended, since it has run for as long as it may",
        ),
        (
            # Long enough for a slow machine to submit it.
            ("--cpus", "100000", "--start-by", "3s", "true"),
            126,
            "not started: its time to start is over",
        ),
        (("--retries", "1", "--", "sh", "-c", "exit 5"), 5, "exit status 5"),
        (("--queue", "root.jbos", "true"), 125, "refused: queue: 'root.jbos'"),
        (("--cpus", "many", "true"), 125, "refused: resources"),
        (("--gpus", "1", "true"), 2, "no node has GPUs"),
        (("--min-member", "2", "true"), 2, "--min-member: name the gang with --gang"),
        (("--run-for", "soon", "true"), 2, "'soon' is not a duration"),
        (("--start-by", "soon", "true"), 2, "'soon' is not a duration"),
        (("--start-by", "2026-13-01", "true"), 2, "is no date"),
        (("--start-by", "2001-01-01", "true"), 125, "is in the past"),
    ],
)
def test_how_it_ends(served: Served, words: tuple[str, ...], status: int, message: str) -> None:
    # CLIENT-14
    result = finished("run", *words)

    assert result.returncode == status, result.stderr
    assert message in result.stderr


def test_the_options_become_the_ask(served: Served) -> None:
    # CLIENT-11
    options = (
        "--queue=root.jobs --cpus=200 --memory=1Gi -r nvidia.com/gpu=2 --name=wished --user=ann "
        "--count=2 --priority=7 --gang=pair --min-member=2 --retries=3 --run-for=2h --no-wait"
    )

    result = run("run", *options.split(), "--", "sleep", "1")

    assert (result.exit_code, result.stdout, result.stderr) == (0, "wished\n", "")
    found = [ask(served, "wished", f"job-{number}") for number in range(2)]
    for one in found:
        assert one["resources"] == {"memory": 1 << 30, "nvidia.com/gpu": 2, "vcore": 200_000}
        assert (one["priority"], one["gang"], one["queue"]) == (7, "default/pair", "root.jobs")
    app = served.client.get("/api/v1/apps/wished").json()["item"]
    assert app["user"] == "ann"
    gang = served.client.get("/api/v1/gangs/default/pair").json()["item"]
    assert gang["definition"]["min_member"] == 2
    assert run("cancel", "wished").exit_code == 0


def test_the_output_of_several_comes_one_after_the_other(served: Served) -> None:
    # CLIENT-13, CLIENT-14
    result = finished(
        "run", "--count", "3", "--", "sh", "-c", "echo $MUSTER_ASK; exit ${MUSTER_ASK#job-}"
    )

    assert (result.returncode, result.stdout) == (2, "job-0\njob-1\njob-2\n")
    assert result.stderr.count("exit status") == 2


def test_it_says_why_it_waits(served: Served) -> None:
    # CLIENT-13
    with started("run", "--name", "late", "-r", "fpga=1", "--", "echo", "here") as process:
        assert process.stderr is not None
        why = process.stderr.readline()
        more = {"op": "add_node", "node": "fpga", "capacity": {"vcore": 1, "fpga": 1}}
        submit(served.client, more)
        out, rest = process.communicate(timeout=PATIENCE_S)

    assert why.startswith(b"late/job waits: "), why
    assert b"fpga" in why
    assert (process.returncode, out, rest) == (0, b"here\n", b"")


def test_somebody_else_cancels_it(served: Served) -> None:
    # CLIENT-14
    with started("run", "--name", "ended", "--", "sleep", "600") as process:
        patiently(lambda: place(served, "ended") == "bound")
        assert finished("cancel", "ended").returncode == 0
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, errors) == (143, b"ended/job: cancelled\n")


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_cancels_it(served: Served, number: int, status: int) -> None:
    # CLIENT-15
    name = f"signal-{number}"
    script = "echo begun; sleep 600"
    with started("run", "--name", name, "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, errors.decode()) == (status, f"{name}: cancelled\n")
    assert place(served, name) is None


def test_a_terminal_gets_a_message_first(served: Served) -> None:
    # CLIENT-15
    own, given = pty.openpty()
    script = "echo begun; sleep 600"
    words = ("run", "--name", "twice", "--", "sh", "-c", script)
    with started(*words, stdin=given) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == b"\n"
        assert process.stderr.readline() == b"twice goes on. Ctrl-C again cancels it.\n"
        assert place(served, "twice") == "bound"
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=PATIENCE_S)
    os.close(own)
    os.close(given)

    assert (process.returncode, out, errors) == (130, b"", b"twice: cancelled\n")


def test_a_closed_pipe_cancels_it(served: Served) -> None:
    # CLIENT-15
    with started("run", "--name", "yes", "--", "sh", "-c", "while echo y; do :; done") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        process.wait(PATIENCE_S)

    assert (process.returncode, errors) == (141, b"yes: cancelled\n")
    assert place(served, "yes") is None


def test_a_server_that_starts_again(tmp_path: Path) -> None:
    # CLIENT-13, LOCAL-10
    state, go = ("--state", str(tmp_path / "state")), tmp_path / "go"
    script = f"echo one; until test -f {go}; do sleep 0.05; done; echo two; exit 6"
    with running_commands(tmp_path, *state) as first:
        url = first.urls[0]
        with started("run", "--server", url, "--", "sh", "-c", script) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"one\n"
            first.kill()
            with running_commands(tmp_path, *state, listen=[url.removeprefix("http://")]):
                go.touch()
                out, errors = process.communicate(timeout=PATIENCE_S)

    assert (process.returncode, out) == (6, b"two\n")
    assert errors.endswith(b"/job: exit status 6\n")


def test_nobody_runs_commands(tmp_path: Path) -> None:
    # CLIENT-17
    with Served(tmp_path, config=QUEUES) as idle:
        server = ("--server", idle.urls[0])

        waits = finished("run", *server, "--", "true")
        submitted = finished("run", *server, "--no-wait", "--name", "left", "--", "true")

        assert (waits.returncode, waits.stdout) == (2, "")
        assert "this server runs no commands: it was started without --run" in waits.stderr
        assert (submitted.returncode, submitted.stdout) == (0, "left/job\n")
        assert "waits for a program that reads its decisions" in submitted.stderr
        apps = idle.client.get("/api/v1/apps").json()["items"]
        assert [one["app"] for one in apps] == ["left"]


def test_a_queue_has_to_be_named_if_there_are_several(tmp_path: Path) -> None:
    # CLIENT-11
    queues = QUEUES.replace("[{name: jobs}]", "[{name: jobs}, {name: more}]")
    with running_commands(tmp_path, config=queues) as several:
        result = finished("run", "--server", several.urls[0], "--", "true")

        assert result.returncode == 2
        assert result.stderr == "name a queue with --queue: root.jobs, root.more\n"
        named = finished("run", "--server", several.urls[0], "-q", "root.more", "--", "true")
        assert named.returncode == 0, named.stderr


def test_no_queue_is_named_without_a_configuration(tmp_path: Path) -> None:
    # CLIENT-11
    with running_commands(tmp_path, config=None) as plain:
        for _ in range(2):
            done = finished("run", "--server", plain.urls[0], "--", "true")
            assert (done.returncode, done.stderr) == (0, "")


def test_nobody_is_there() -> None:
    # CLIENT-14
    with started("run", "--server", "http://127.0.0.1:9", "--", "true") as process:
        assert process.stderr is not None
        first, second = process.stderr.readline(), process.stderr.readline()
        process.kill()

    assert first.startswith(b"http://127.0.0.1:9: cannot be reached")
    assert second.startswith(b"It is tried again until ")


# Batch jobs


def test_a_text_for_the_shell(served: Served) -> None:
    # CLIENT-11, CLIENT-13
    status, summary = run_json("submit", "--command", "sleep 600 # forever")
    assert (status, summary["asks"]) == (0, ["job"])
    name: str = summary["app"]
    assert name.startswith("sleep-")
    patiently(lambda: place(served, name) == "bound")
    assert finished("cancel", name).returncode == 0

    result = finished("submit", "--command", "echo $((20 + 1)); exit 2", "--follow")
    assert (result.returncode, result.stdout) == (2, "21\n")
    waits = finished("submit", "--command", "echo out; exit 2", "--wait")
    assert (waits.returncode, waits.stdout) == (2, "")


SCRIPT = """\
#!/bin/bash
# Counts.
#MUSTER --cpus 0.5 -e COLOUR=red -e SHADE=dark   # half of one
#MUSTER --name counted --memory "1Mi"

echo "$0 $* $COLOUR $SHADE"
#MUSTER --nonsense
exit 4
"""


def test_a_script_has_options(served: Served, tmp_path: Path) -> None:
    # CLIENT-12
    script = tmp_path / "count.sh"
    script.write_text(SCRIPT)

    result = finished("submit", "--follow", "-e", "COLOUR=blue", script, "a", "b c")

    assert (result.returncode, result.stdout) == (4, f"{script} a b c blue dark\n")
    assert result.stderr == "counted/job: exit status 4\n"

    late = finished("submit", "--name", "mine", "--cpus", "200", script)
    assert (late.returncode, late.stdout) == (0, "mine/job\n")
    assert ask(served, "mine")["resources"] == {"memory": 1 << 20, "vcore": 200_000}
    assert finished("cancel", "mine").returncode == 0


def test_a_script_of_another_program(served: Served, tmp_path: Path) -> None:
    # CLIENT-12
    script = tmp_path / "job.py"
    script.write_text("#!/usr/bin/env python3\nimport sys\nprint(sys.argv[1:])\n")

    result = finished("submit", "--follow", script, "x")

    assert (result.returncode, result.stdout) == (0, "['x']\n")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("#!/bin/sh\n#MUSTER --quue root.jobs\n", ":2: #MUSTER: No such option '--quue'"),
        ("#!/bin/sh\n#MUSTER --count none\n", ":2: #MUSTER: Invalid value for '--count'"),
        ("#!/bin/sh\n#MUSTER 'open\n", ":2: #MUSTER: No closing quotation"),
        ("#!/bin/sh\n#MUSTER word\n", ":2: #MUSTER: Got unexpected extra argument (word)"),
        ("#!/usr/bin/awk -f\n", ":1: 'awk' is none of sh, bash"),
        ("#!\n", ":1: '#!' is none of sh, bash"),
    ],
)
def test_a_script_that_is_wrong(served: Served, tmp_path: Path, text: str, problem: str) -> None:
    # CLIENT-12
    script = tmp_path / "wrong.sh"
    script.write_text(text)

    result = run("submit", script)

    assert result.exit_code == 2
    assert f"{script}{problem}" in result.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "name a FEED, or a SCRIPT"),
        (("--command", "true", "jobs.yaml"), "--command and a file exclude each other"),
        (("--command", "true", "--atomic"), "--atomic is for feeds"),
        (("jobs.yaml", "--queue", "root.jobs"), "--queue is for --command and scripts"),
        (("jobs.yaml", "more"), "name a FEED, or a SCRIPT"),
        (("jobs.yaml", "--atomic", "--batch", "3"), "--batch is not for --dry-run and --atomic"),
        (("--command", "true", "--no-wait", "--follow"), "--no-wait and --follow exclude"),
    ],
)
def test_options_that_do_not_go_together(
    served: Served, words: tuple[str, ...], problem: str
) -> None:
    result = run("submit", *words)

    assert result.exit_code == 2
    assert problem in result.stderr
