"""The runner in a plain process: what it runs, and what it says."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from muster.ray import keeper, runner
from tests.actors.ray.workers import call, command, shipped, wait_until, worker


def test_command_says_its_start_and_its_status(tmp_path: Path) -> None:
    with worker(tmp_path, command("exit 3")) as running:
        started, ended, _ = running.items()

    assert started[0] == "started"
    assert ended == ["ended", 3, None]


def test_signal_is_a_negative_status(tmp_path: Path) -> None:
    with worker(tmp_path, command("kill -USR1 $$")) as running:
        assert running.hear("ended")[1] == -signal.SIGUSR1


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
        assert running.hear("ended")[1] == 0

    assert out.read_text() == "before\ngiven\napp/ask/1 1\nthere\nwrong\n"


def test_program_with_arguments_is_no_text_for_the_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"

    with worker(tmp_path, command(["echo", "$HOME;", "b"], stdout=str(out))) as running:
        running.hear("ended")

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

    with worker(tmp_path, call(add, 1, kwargs={"b": 2})) as running:
        started = running.hear("started")
        ended = running.hear("ended")
        (over,) = running.items()

    assert started[1] == running.pid
    assert ended[2] == repr(pickle.dumps((3, "app/ask/1")))
    assert "MUSTER_RUN" not in over[1]


def test_named_callable(tmp_path: Path) -> None:
    with worker(tmp_path, call("os.path:basename", "/a/b")) as running:
        assert running.hear("ended")[2] == repr(pickle.dumps("b"))


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
        with worker(tmp_path, call(function)) as running:
            failed = running.hear("failed")
            assert failed[1] == said
            assert failed[2].startswith("Traceback")
    with worker(tmp_path, call(secret)) as running:
        assert running.hear("failed")[1].startswith("TypeError: the result cannot be pickled: ")


def test_interrupt_reaches_a_callable(tmp_path: Path) -> None:
    def spin(path: str) -> None:
        Path(path).touch()
        while True:
            time.sleep(0.01)

    with worker(tmp_path, call(spin, str(tmp_path / "begun"))) as running:
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

    with worker(tmp_path, call(spin, str(ending))) as running:
        wait_until((tmp_path / "begun").exists, "it runs")
        os.kill(running.pid, signal.SIGINT)
        wait_until(ending.exists, "it has heard the first one")
        os.kill(running.pid, signal.SIGINT)
        (tmp_path / "go").touch()

        assert running.hear("ended")[2] == repr(pickle.dumps("saved"))


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

    with worker(tmp_path, call(spin, str(tmp_path / "begun"))) as running:
        wait_until((tmp_path / "begun").exists, "it runs")
        os.kill(running.pid, signal.SIGINT)

        assert [item[0] for item in running.items()][-2:] == ["interrupted", "over"]


def test_interrupt_ends_a_command_and_what_it_has_started(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001 & wait")) as running:
        running.hear("started")
        wait_until(lambda: len(running.left()) >= 6, "all of it runs")
        os.kill(running.pid, signal.SIGINT)

        assert running.hear("ended")[1] == -signal.SIGTERM
        running.items()
        assert running.commands() == {}


def test_deaf_command_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    deaf = f"trap '' TERM INT HUP; touch {ready}; while :; do sleep 0.05; done"

    with worker(tmp_path, command(deaf, grace_s=0.3)) as running:
        wait_until(ready.exists, "it is deaf")
        os.kill(running.pid, signal.SIGINT)

        assert running.hear("ended")[1] == -signal.SIGKILL
        running.items()
        assert running.commands() == {}


def test_stopped_command_hears_that_it_is_to_end(tmp_path: Path) -> None:
    said = tmp_path / "said"
    ready = tmp_path / "ready"
    stops = f"trap 'echo heard > {said}; exit 7' TERM; touch {ready}; while :; do sleep 0.05; done"

    with worker(tmp_path, command(stops)) as running:
        pid = running.hear("started")[1]
        wait_until(ready.exists, "it listens")
        os.killpg(pid, signal.SIGSTOP)
        os.kill(running.pid, signal.SIGINT)

        assert running.hear("ended")[1] == 7
    assert said.read_text() == "heard\n"


def test_what_a_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & exit 4")) as running:
        assert running.hear("ended")[1] == 4
        running.items()
        assert running.commands() == {}


class _Gate:
    """A gate that opens, or not, when it is asked so many times."""

    def __init__(self, opened: bool | Exception, looks: int) -> None:
        self._opened = opened
        self._looks = looks
        self.name = ""
        self.wait = self

    def remote(self, name: str) -> _Gate:
        self.name = name
        return self

    def future(self) -> _Gate:
        return self

    def done(self) -> bool:
        self._looks -= 1
        return self._looks < 0

    def result(self) -> bool:
        if isinstance(self._opened, Exception):
            raise self._opened
        return self._opened


def items_at(gate: _Gate, asked: runner.Asked | None = None) -> list[runner.Item]:
    job = call("os.path:basename", "/a/b") | {"gate": "gang"}
    return list(runner.work("", job, gate, asked))


def test_work_begins_when_the_gate_is_open() -> None:
    gate = _Gate(opened=True, looks=3)

    assert [item[0] for item in items_at(gate)] == ["placed", "started", "ended"]
    assert gate.name == "gang"


def test_gate_that_does_not_open() -> None:
    assert items_at(_Gate(opened=False, looks=1))[1:] == [
        ("closed", "another member of the gang has not started", False)
    ]
    assert items_at(_Gate(opened=OSError("gone"), looks=1))[1:] == [
        ("closed", "the gate is lost: gone", True)
    ]


def test_run_that_is_asked_to_end_at_the_gate_does_not_begin() -> None:
    asked = runner.Asked()
    asked.end()

    assert [item[0] for item in items_at(_Gate(opened=True, looks=5), asked)] == ["placed"]


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
