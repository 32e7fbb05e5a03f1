"""``muster logs``: the output of the command of an ask."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.serving.served import (
    APP,
    PATIENCE_S,
    Served,
    decisions_until,
    job,
    node,
    patiently,
    running_commands,
    submit,
)

# LOCAL-10


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    with running_commands(folder, "--no-node") as one:
        submit(one.client, node(100), APP)
        yield one


def logs(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "muster", "logs", *arguments]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)


def test_output_of_what_is_over(served: Served) -> None:
    submit(served.client, job("k", r"printf 'start %s\n\377' $MUSTER_ATTEMPT; exit 1", retries=1))
    decisions_until(served.client, 2, ask="k", kind="released")

    assert logs("a/k").stdout == b"start 2\n\xff"
    assert logs("a/k", "--attempt", "1").stdout == b"start 1\n\xff"
    done = logs("a/k", "--attempt", "3")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"attempt: 3: there is output of 1, 2" in done.stderr


def test_following_until_the_end(served: Served, tmp_path: Path) -> None:
    command = f"echo one; until test -f {tmp_path}/go; do sleep 0.05; done; echo two >&2"
    submit(served.client, job("follow", command))
    path = "/api/v1/asks/a/follow/logs"
    patiently(lambda: served.client.get(path).text == "one\n")
    follow = [sys.executable, "-m", "muster", "logs", "-f", "a/follow"]
    with subprocess.Popen(follow, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        (tmp_path / "go").touch()
        rest = process.stdout.read()

    assert (first, rest, process.returncode) == (b"one\n", b"two\n", 0)


def test_following_what_has_not_started(served: Served) -> None:
    submit(served.client, job("later", "echo here", node="to-come"))
    assert logs("a/later").returncode == 1
    follow = [sys.executable, "-m", "muster", "logs", "-f", "a/later"]
    with subprocess.Popen(follow, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        message = process.stderr.readline()
        submit(served.client, node(1, "to-come"))
        out, rest = process.communicate(timeout=PATIENCE_S)

    assert message == b"a/later has not started; its output is waited for\n"
    assert (out, rest, process.returncode) == (b"here\n", b"", 0)


def test_following_what_never_starts(served: Served) -> None:
    without = job("nothing", "x")
    del without["command"]
    submit(served.client, {**without, "node": "nowhere"}, job("gone", "x", node="nowhere"))

    assert logs("a/nothing", "-f").returncode == 1
    follow = [sys.executable, "-m", "muster", "logs", "-f", "a/gone"]
    with subprocess.Popen(follow, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        process.stderr.readline()
        submit(served.client, {"op": "remove_ask", "app": "a", "ask": "gone"})
        _, rest = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert b"a/gone has no output" in rest


def test_an_ask_that_has_no_output(served: Served) -> None:
    done = logs("a/none")

    assert done.returncode == 1
    assert b"a/none has no output: no command of it has started here" in done.stderr


def test_a_name_that_is_none(served: Served) -> None:
    done = logs("none")

    assert done.returncode == 2
    assert b"write an ask as APP/ASK" in done.stderr
