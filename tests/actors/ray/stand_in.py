"""Stands in for Ray on one node: ``python stand_in.py RUNNER JOB`` is a daemon with one worker.

The worker loads the runner from a pickle, as a worker of Ray does, and prints the items of the job
as lines. Its first line is its own process, that of the daemon is its parent.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any


def say(*what: Any) -> None:  # noqa: ANN401
    os.write(1, json.dumps(what, default=repr).encode() + b"\n")


def work(runner: Path, job: Path) -> None:
    say("worker", os.getpid())
    run, text = pickle.loads(runner.read_bytes())
    what = pickle.loads(job.read_bytes())
    try:
        for item in run(text, what):
            say(*item)
    except KeyboardInterrupt:
        say("interrupted")
    say("over", {name: value for name, value in os.environ.items() if name.startswith("MUSTER")})


def main() -> None:
    child = os.fork()
    if child == 0:
        try:
            work(Path(sys.argv[1]), Path(sys.argv[2]))
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        os.close(1)
        signal.pause()  # the daemon outlives a worker that was killed


if __name__ == "__main__":
    main()
