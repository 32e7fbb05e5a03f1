"""Starts, kills and ends the daemons of a Slurm: ``python daemons.py FOLDER``.

It is the first process of a process namespace of its own. When it ends, whyever that is, the
kernel kills all that was started there: daemons, and what jobs have left. It reads requests from
its standard input, a JSON object in each line, and answers each by a line; it ends when its input
does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final, TextIO, final

_UP_S: Final = 30.0


@final
class Daemons:
    """The daemons of one Slurm: munged, slurmctld, and a slurmd for each node."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, command: list[str]) -> None:
        """Start a daemon, in the foreground of its own session."""
        log = self._folder / "log" / f"{name}.txt"
        with log.open("ab") as output:
            self._running[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self._folder
            )

    def wait_for(self, path: str) -> None:
        """Wait until a socket is there."""
        until = time.monotonic() + _UP_S
        while not Path(path).exists():
            if time.monotonic() > until:
                msg = f"{path} is not there after {_UP_S:g} s"
                raise TimeoutError(msg)
            time.sleep(0.02)

    def kill(self, name: str) -> None:
        """Kill a daemon as ``kill -9`` does, and nothing else."""
        daemon = self._running.pop(name)
        daemon.kill()
        daemon.wait()


def serve(daemons: Daemons, answers: TextIO) -> None:
    """Carry out the requests from the standard input until its end."""
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        try:
            getattr(daemons, request.pop("do"))(**request)
            answer: dict[str, str] = {}
        except Exception as error:  # noqa: BLE001 - the test that asked gets it
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def reap(child: int) -> None:
    """Reap all orphans, as the first process of a system does, until a child has ended.

    Slurm waits for ended processes that nobody reaps, up to a minute for each job.
    """
    found = 0
    while found != child:
        found, _ = os.wait()


def main() -> None:
    """Serve requests, and leave nothing behind."""
    if child := os.fork():
        sys.stdin.close()
        reap(child)
        return
    folder = Path(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        serve(Daemons(folder), answers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
