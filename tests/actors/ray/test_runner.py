"""The runner, the keeper and the fence in plain processes.

What they run, and that nothing of it is left.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster import _keeper as keeper
from muster.ray import runner
from tests.actors.ray.workers import (
    callable_job,
    command,
    kill_if_there,
    shipped,
    wait_until,
    worker,
)


def test_command_says_its_start_and_its_status(tmp_path: Path) -> None:
    with worker(tmp_path, command("exit 3")) as running:
        started, ended, _ = running.items()

    assert started[0] == "started"
    assert ended == ["ended", 3, None]


def test_signal_is_a_negative_status(tmp_path: Path) -> None:
    with worker(tmp_path, command("kill -USR1 $$")) as running:
        assert running.wait_for("ended")[1] == -signal.SIGUSR1


def test_command_has_its_files_folder_and_environment(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("before\n")
    (tmp_path / "in").write_text("given\n")
    (tmp_path / "there").mkdir()
    job = command(
        "cat; echo $MUSTER_RUN $A; basename $PWD; echo wrong >&2",
        cwd=str(tmp_path / "there"),
        env={"A": "1", "MUSTER_APP": "app"},
        stdin=str(tmp_path / "in"),
        stdout=str(out),
        stderr=str(out),
    )

    with worker(tmp_path, job) as running:
        assert running.wait_for("ended")[1] == 0

    assert out.read_text() == "before\ngiven\napp/ask/1 1\nthere\nwrong\n"


def test_program_with_arguments_is_no_text_for_the_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"

    with worker(tmp_path, command(["echo", "$HOME;", "b"], stdout=str(out))) as running:
        running.wait_for("ended")

    assert out.read_text() == "$HOME; b\n"


def test_command_that_cannot_start_says_why(tmp_path: Path) -> None:
    wrong = {
        "No such file or directory: 'nothing'": command(["nothing"]),
        f"No such file or directory: cwd '{tmp_path}/no'": command("true", cwd=f"{tmp_path}/no"),
        f"No such file or directory: stdin '{tmp_path}/no'": command(
            "true", stdin=f"{tmp_path}/no"
        ),
        f"there is no folder '{tmp_path}/no', for stdout": command(
            "true", stdout=f"{tmp_path}/no/out"
        ),
        f"Permission denied: '{tmp_path}'": command([str(tmp_path)]),
    }
    for error, job in wrong.items():
        with worker(tmp_path, job) as running:
            assert running.items()[0][:2] == ["failed", error]
            assert running.commands() == {}


def test_value_of_a_callable(tmp_path: Path) -> None:
    def add(a: int, b: int) -> tuple[int, str]:
        return a + b, os.environ["MUSTER_RUN"]

    with worker(tmp_path, callable_job(add, 1, kwargs={"b": 2})) as running:
        started = running.wait_for("started")
        ended = running.wait_for("ended")
        (over,) = running.items()

    assert started[1] == running.pid
    assert ended[2] == repr(pickle.dumps((3, "app/ask/1")))
    assert "MUSTER_RUN" not in over[1]


def test_named_callable(tmp_path: Path) -> None:
    with worker(tmp_path, callable_job("os.path:basename", "/a/b")) as running:
        assert running.wait_for("ended")[2] == repr(pickle.dumps("b"))


def test_callable_that_raises(tmp_path: Path) -> None:
    def leave() -> None:
        raise SystemExit(3)

    def secret() -> Any:  # noqa: ANN401
        return lambda: 1

    for function, said in (
        ("os:no_such_name", "AttributeError: module 'os' has no attribute 'no_such_name'"),
        ("no_such_module:x", "ModuleNotFoundError: No module named 'no_such_module'"),
        (leave, "SystemExit: 3"),
    ):
        with worker(tmp_path, callable_job(function)) as running:
            failed = running.wait_for("failed")
            assert failed[1] == said
            assert failed[2].startswith("Traceback")
    with worker(tmp_path, callable_job(secret)) as running:
        assert running.wait_for("failed")[1].startswith("TypeError: the result cannot be pickled: ")


def test_interrupt_reaches_a_callable(tmp_path: Path) -> None:
    def spin(path: str) -> None:
        Path(path).touch()
        while True:
            time.sleep(0.01)

    with worker(tmp_path, callable_job(spin, str(tmp_path / "begun"))) as running:
        wait_until((tmp_path / "begun").exists, "it runs")
        os.kill(running.pid, signal.SIGINT)

        assert [item[0] for item in running.items()][-2:] == ["interrupted", "over"]


def test_second_interrupt_does_not_disturb_the_end_of_a_callable(tmp_path: Path) -> None:
    ending = tmp_path / "ending"

    def spin(path: str) -> str:
        try:
            Path(path).with_name("begun").touch()
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            Path(path).touch()
            while not Path(path).with_name("go").exists():
                time.sleep(0.01)
            return "saved"

    with worker(tmp_path, callable_job(spin, str(ending))) as running:
        wait_until((tmp_path / "begun").exists, "it runs")
        os.kill(running.pid, signal.SIGINT)
        wait_until(ending.exists, "it has heard the first one")
        os.kill(running.pid, signal.SIGINT)
        (tmp_path / "go").touch()

        assert running.wait_for("ended")[2] == repr(pickle.dumps("saved"))


def test_interrupt_that_python_drops_comes_again(tmp_path: Path) -> None:
    class Drops:
        def __init__(self, path: str) -> None:
            self.path = path

        def __del__(self) -> None:
            Path(self.path).touch()
            while True:
                time.sleep(0.01)

    def spin(path: str) -> None:
        drops = Drops(path)
        del drops
        while True:
            time.sleep(0.01)

    with worker(tmp_path, callable_job(spin, str(tmp_path / "begun"))) as running:
        wait_until((tmp_path / "begun").exists, "it runs")
        os.kill(running.pid, signal.SIGINT)

        assert [item[0] for item in running.items()][-2:] == ["interrupted", "over"]


def test_interrupt_ends_a_command_and_what_it_has_started(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001 & wait")) as running:
        running.wait_for("started")
        wait_until(lambda: len(running.left()) >= 6, "all of it runs")
        os.kill(running.pid, signal.SIGINT)

        assert running.wait_for("ended")[1] == -signal.SIGTERM
        running.items()
        assert running.commands() == {}


def test_deaf_command_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    deaf = f"trap '' TERM INT HUP; touch {ready}; while :; do sleep 0.05; done"

    with worker(tmp_path, command(deaf, grace_s=0.3)) as running:
        wait_until(ready.exists, "it is deaf")
        os.kill(running.pid, signal.SIGINT)

        assert running.wait_for("ended")[1] == -signal.SIGKILL
        running.items()
        assert running.commands() == {}


def test_a_stopped_command_gets_the_signal_to_end(tmp_path: Path) -> None:
    output = tmp_path / "said"
    ready = tmp_path / "ready"
    stops = (
        f"trap 'echo heard > {output}; exit 7' TERM; touch {ready}; while :; do sleep 0.05; done"
    )

    with worker(tmp_path, command(stops)) as running:
        pid = running.wait_for("started")[1]
        wait_until(ready.exists, "it listens")
        os.killpg(pid, signal.SIGSTOP)
        os.kill(running.pid, signal.SIGINT)

        assert running.wait_for("ended")[1] == 7
    assert output.read_text() == "heard\n"


def test_what_a_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & exit 4")) as running:
        assert running.wait_for("ended")[1] == 4
        running.items()
        assert running.commands() == {}


class _Gate:
    """A gate that opens, or not, when it is asked so many times."""

    def __init__(self, opened: bool | Exception, tries: int) -> None:
        self._opened = opened
        self._tries = tries
        self.name = ""
        self.wait = self

    def remote(self, name: str) -> _Gate:
        self.name = name
        return self

    def future(self) -> _Gate:
        return self

    def done(self) -> bool:
        self._tries -= 1
        return self._tries < 0

    def result(self) -> bool:
        if isinstance(self._opened, Exception):
            raise self._opened
        return self._opened


def items_at(gate: _Gate, asked: runner.EndRequest | None = None) -> list[runner.Item]:
    job = callable_job("os.path:basename", "/a/b") | {"gate": "gang"}
    return list(runner.work("", job, gate, asked))


def test_work_begins_when_the_gate_is_open() -> None:
    gate = _Gate(opened=True, tries=3)

    assert [item[0] for item in items_at(gate)] == ["placed", "started", "ended"]
    assert gate.name == "gang"


def test_gate_that_does_not_open() -> None:
    assert items_at(_Gate(opened=False, tries=1))[1:] == [
        ("closed", "another member of the gang has not started", False)
    ]
    assert items_at(_Gate(opened=OSError("gone"), tries=1))[1:] == [
        ("closed", "the gate is lost: gone", True)
    ]


def test_run_that_is_asked_to_end_at_the_gate_does_not_begin() -> None:
    asked = runner.EndRequest()
    asked.end()

    assert [item[0] for item in items_at(_Gate(opened=True, tries=5), asked)] == ["placed"]


def test_runner_needs_no_muster(tmp_path: Path) -> None:
    (tmp_path / "runner").write_bytes(shipped())
    job = command("exit 5")
    program = f"""
import pickle, sys
for name in ("muster", "muster_core", "trio", "attrs", "ray"):
    sys.modules[name] = None
work, text = pickle.loads(open({str(tmp_path / "runner")!r}, "rb").read())
print([item[0:2] for item in work(text, {job!r}) if item[0] == "ended"])
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == ("[('ended', 5)]\n", "")


def test_end_of_a_group_without_keeper() -> None:
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    at = keeper.started_at(process.pid)
    assert at is not None

    assert runner.end_group(process.pid, at + 1, 0.0), "another process: it is left alone"
    assert process.poll() is None
    assert runner.end_group(process.pid, at, 5.0)
    assert process.wait() == -signal.SIGTERM
    assert runner.end_group(process.pid, at, 0.0)


PATIENCE_S = 60.0


def job(function: Callable[..., object], *arguments: object) -> dict[str, Any]:
    # What runs in this process need not be sent.
    CALLS["now"] = lambda: function(*arguments)
    return {
        "kind": "call",
        "function": f"{__name__}:call",
        "arguments": pickle.dumps(((), {})),
        "env": {},
        "name": "a/k/1",
        "grace_s": 1.0,
        "gate": None,
    }


CALLS: dict[str, Callable[[], object]] = {}


def call() -> object:
    return CALLS["now"]()


@contextmanager
def begun(function: Callable[..., object], *arguments: object) -> Generator[runner.Detached]:
    """Have a detached run, as its actor has it: the work is in a thread of its own."""
    actor = runner.Detached("", job(function, *arguments), {"node": "n"})
    thread = threading.Thread(target=actor.begin, args=(None,), daemon=True)
    thread.start()
    try:
        yield actor
    finally:
        actor.end()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "it has ended"


def ends(actor: runner.Detached) -> runner.Item:
    """Wait for the last item."""
    (_, last) = actor.items(0, PATIENCE_S)[:1] + actor.items(1, PATIENCE_S)
    return last


def test_the_end_interrupts_a_callable_once() -> None:
    entered = threading.Event()
    leave = threading.Event()
    interrupted = threading.Event()

    def work() -> str:
        entered.set()
        try:
            while True:
                time.sleep(0.001)
        except KeyboardInterrupt:
            interrupted.set()
        while not leave.is_set():  # it saves what it has
            time.sleep(0.001)
        return "saved"

    with begun(work) as actor:
        assert entered.wait(PATIENCE_S)
        actor.end()
        assert interrupted.wait(PATIENCE_S)
        for _ in range(3):  # the agent may ask several times
            actor.end()
        leave.set()

        assert ends(actor) == ("ended", None, pickle.dumps("saved"))


def test_an_interrupt_that_is_not_caught_ends_it() -> None:
    entered = threading.Event()

    def work() -> None:
        entered.set()
        while True:
            time.sleep(0.001)

    with begun(work) as actor:
        assert entered.wait(PATIENCE_S)
        actor.end()

        assert ends(actor)[:2] == ("failed", "KeyboardInterrupt")


def test_an_interrupt_that_python_drops_comes_again() -> None:
    dropped = threading.Event()

    class Drops:
        def __del__(self) -> None:
            dropped.set()
            while True:
                time.sleep(0.001)

    def work() -> None:
        drops = Drops()
        del drops
        while True:
            time.sleep(0.001)

    with begun(work) as actor:
        assert dropped.wait(PATIENCE_S)
        actor.end()

        assert ends(actor)[:2] == ("failed", "KeyboardInterrupt")


def test_an_interrupt_that_comes_too_late_changes_nothing() -> None:
    with begun(lambda: "done") as actor:
        assert ends(actor) == ("ended", None, pickle.dumps("done"))
        actor.end()
        assert actor.about()["state"] == "ended"
        assert ends(actor) == ("ended", None, pickle.dumps("done"))


@pytest.mark.parametrize("times", [1, 2])
def test_what_is_asked_to_end_first_does_not_begin(times: int) -> None:
    actor = runner.Detached("", job(lambda: pytest.fail("it has begun")), {"node": "n"})
    for _ in range(times):
        actor.end()
    actor.begin(None)
    assert actor.items(0, 0.0) == []


def test_keeper_is_no_child_of_the_worker(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000")) as running:
        pid = running.wait_for("started")[1]
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()

        assert children == []
        assert running.keeper() is not None
        assert os.getsid(pid) == pid
        assert os.getsid(running.keeper() or 0) not in (pid, os.getsid(running.pid))


def test_worker_killed(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001 & wait")) as running:
        running.wait_for("started")
        wait_until(lambda: len(running.left()) >= 6, "all of it runs")
        os.kill(running.pid, signal.SIGKILL)

        wait_until(lambda: running.left().keys() <= {running.daemon.pid}, "nothing is left")


def test_worker_killed_while_the_command_is_deaf(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    deaf = f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"

    with worker(tmp_path, command(deaf, grace_s=0.2)) as running:
        wait_until(ready.exists, "it is deaf")
        os.kill(running.pid, signal.SIGKILL)

        wait_until(lambda: running.left().keys() <= {running.daemon.pid}, "nothing is left")


def test_command_has_its_grace_period_when_the_worker_was_killed(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    saved = tmp_path / "saved"
    slow = (
        f"trap 'sleep 0.3; touch {saved}; exit' TERM; touch {ready}; while :; do sleep 0.05; done"
    )

    with worker(tmp_path, command(slow)) as running:
        wait_until(ready.exists, "it listens")
        os.kill(running.pid, signal.SIGKILL)

        wait_until(lambda: running.left().keys() <= {running.daemon.pid}, "nothing is left")
    assert saved.exists()


def test_keeper_killed(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001")) as running:
        running.wait_for("started")
        wait_until(lambda: len(running.left()) >= 6, "all of it runs")
        keeper = running.keeper()
        assert keeper is not None
        os.kill(keeper, signal.SIGKILL)

        assert running.wait_for("failed")[1] == "the keeper of the command was killed"
        running.items()
        assert running.commands() == {}


def test_command_killed(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001")) as running:
        pid = running.wait_for("started")[1]
        os.kill(pid, signal.SIGKILL)

        assert running.wait_for("ended")[1] == -signal.SIGKILL
        running.items()
        assert running.commands() == {}


@pytest.mark.parametrize("after_ms", [0, 5, 10, 15, 20, 25, 30, 40, 50, 70])
def test_worker_killed_at_any_moment(tmp_path: Path, after_ms: int) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001")) as running:
        time.sleep(after_ms / 1000)
        os.kill(running.pid, signal.SIGKILL)

        wait_until(lambda: running.left().keys() <= {running.daemon.pid}, "nothing is left")


@pytest.mark.parametrize("after_ms", [0, 2, 5, 10, 15, 20, 30])
def test_keeper_or_launcher_killed_at_any_moment(tmp_path: Path, after_ms: int) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001")) as running:
        wait_until(lambda: running.keeper() is not None, "the launcher runs")
        time.sleep(after_ms / 1000)
        # The launcher may start the keeper and end while a test looks for either.
        keeper = running.keeper() or running.keeper()
        assert keeper is not None
        # The launcher has ended already, or is killed: the keeper lives, and is asked to end.
        # If it was the keeper, the worker may have ended by then.
        kill_if_there(keeper, signal.SIGKILL)
        kill_if_there(running.pid, signal.SIGINT)

        running.items()
        assert running.commands() == {}


def test_keeper_ends_its_command_when_it_is_asked_to(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000")) as running:
        running.wait_for("started")
        os.kill(running.keeper() or 0, signal.SIGTERM)

        assert running.wait_for("ended")[1] == -signal.SIGTERM


def test_daemon_killed_ends_a_command_at_once(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    deaf = f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"

    # The grace period is longer than the test would wait: the same work may begin elsewhere soon.
    with worker(tmp_path, command(deaf, grace_s=1000.0)) as running:
        wait_until(ready.exists, "it is deaf")
        os.kill(running.daemon.pid, signal.SIGKILL)

        wait_until(lambda: running.left() == {}, "nothing is left")


def test_daemon_killed_ends_a_callable_and_its_processes(tmp_path: Path) -> None:
    def starts() -> None:
        subprocess.Popen(["sh", "-c", "sleep 1000 & sleep 1001"])
        while True:
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                continue

    with worker(tmp_path, callable_job(starts)) as running:
        running.wait_for("started")
        wait_until(lambda: len(running.left()) >= 5, "all of it runs")
        os.kill(running.daemon.pid, signal.SIGKILL)

        wait_until(lambda: running.left() == {}, "nothing is left")


def test_daemon_killed_while_the_command_is_ending(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    deaf = f"trap '' TERM; touch {ready}; while :; do sleep 0.05; done"

    with worker(tmp_path, command(deaf, grace_s=1000.0)) as running:
        wait_until(ready.exists, "it is deaf")
        os.kill(running.pid, signal.SIGINT)
        os.kill(running.daemon.pid, signal.SIGKILL)

        wait_until(lambda: running.left() == {}, "nothing is left")


def test_stopped_worker_does_not_keep_a_command_when_it_is_killed(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000")) as running:
        running.wait_for("started")
        os.kill(running.pid, signal.SIGSTOP)
        os.kill(running.pid, signal.SIGKILL)

        wait_until(lambda: running.left().keys() <= {running.daemon.pid}, "nothing is left")


def test_daemon_killed_after_the_worker(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    is_asked = tmp_path / "asked"
    deaf = f"trap 'touch {is_asked}' TERM; touch {ready}; while :; do sleep 0.05; done"

    with worker(tmp_path, command(deaf, grace_s=1000.0)) as running:
        wait_until(ready.exists, "it listens")
        os.kill(running.pid, signal.SIGKILL)
        wait_until(is_asked.exists, "the keeper has begun to end it")
        os.kill(running.daemon.pid, signal.SIGKILL)

        wait_until(lambda: running.left() == {}, "nothing is left")
