"""The fence: when Ray's daemon has gone, its workers and all that they have started end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from tests.actors.ray.workers import call, command, wait_until, worker


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

    with worker(tmp_path, call(starts)) as running:
        running.hear("started")
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
        running.hear("started")
        os.kill(running.pid, signal.SIGSTOP)
        os.kill(running.pid, signal.SIGKILL)

        wait_until(lambda: running.left().keys() <= {running.daemon.pid}, "nothing is left")


def test_daemon_killed_after_the_worker(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    asked = tmp_path / "asked"
    deaf = f"trap 'touch {asked}' TERM; touch {ready}; while :; do sleep 0.05; done"

    with worker(tmp_path, command(deaf, grace_s=1000.0)) as running:
        wait_until(ready.exists, "it listens")
        os.kill(running.pid, signal.SIGKILL)
        wait_until(asked.exists, "the keeper has begun to end it")
        os.kill(running.daemon.pid, signal.SIGKILL)

        wait_until(lambda: running.left() == {}, "nothing is left")
