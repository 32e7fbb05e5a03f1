"""The keeper: whoever is killed, and whenever, nothing of the command is left."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.actors.ray.workers import command, kill_if_there, wait_until, worker


def test_keeper_is_no_child_of_the_worker(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000")) as running:
        pid = running.hear("started")[1]
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()

        assert children == []
        assert running.keeper() is not None
        assert os.getsid(pid) == pid
        assert os.getsid(running.keeper() or 0) not in (pid, os.getsid(running.pid))


def test_worker_killed(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001 & wait")) as running:
        running.hear("started")
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
        running.hear("started")
        wait_until(lambda: len(running.left()) >= 6, "all of it runs")
        keeper = running.keeper()
        assert keeper is not None
        os.kill(keeper, signal.SIGKILL)

        assert running.hear("failed")[1] == "the keeper of the command was killed"
        running.items()
        assert running.commands() == {}


def test_command_killed(tmp_path: Path) -> None:
    with worker(tmp_path, command("sleep 1000 & sleep 1001")) as running:
        pid = running.hear("started")[1]
        os.kill(pid, signal.SIGKILL)

        assert running.hear("ended")[1] == -signal.SIGKILL
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
        # The launcher may start the keeper and end while somebody looks for either.
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
        running.hear("started")
        os.kill(running.keeper() or 0, signal.SIGTERM)

        assert running.hear("ended")[1] == -signal.SIGTERM
