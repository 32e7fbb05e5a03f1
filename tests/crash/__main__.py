"""Kill processes with a store, and check what is kept: ``python -m tests.crash --kills 200``.

It stops at the first fault, keeps that directory, and says how to run its chain again. It has one
thread, since it forks: a life costs milliseconds so, and not the start of an interpreter.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import final

import attrs
import click

from tests.crash.chain import Tally, run_chain, warm_up
from tests.crash.protocol import plan_of

_MEMORY = Path("/dev/shm")


@final
@attrs.frozen
class Job:
    """The work of one process.

    Attributes:
        seed: The first seed.
        stride: The step between seeds; 0 to run one chain again and again.
        kills: After how many kills it ends, or None.
        until: When it ends, by the monotonic clock, or None.
    """

    seed: int
    stride: int
    kills: int | None
    until: float | None

    def run(self) -> tuple[Tally, list[str]]:
        """Run chains; return the tally, and the faults."""
        tally, seed = Tally(), self.seed
        while not self._is_over(tally):
            directory = Path(tempfile.mkdtemp(prefix="muster-crash-", dir=_room()))
            faults = run_chain(seed, directory / "state", tally)
            if faults:
                again = f"again: python -m tests.crash --chain {seed} --kills 500"
                plan = str(plan_of(seed))
                return tally, [plan, "", *faults, "", f"the directory: {directory}", again]
            shutil.rmtree(directory)
            seed += self.stride
        return tally, []

    def _is_over(self, tally: Tally) -> bool:
        is_late = self.until is not None and time.monotonic() >= self.until
        return is_late or (self.kills is not None and tally.kills >= self.kills)


def _room() -> Path | None:
    """Return a folder in memory if there is one, as a kill takes nothing from it; or else None."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else None


def _started(job: Job) -> tuple[int, int]:
    """Start a process for a job; return its id, and where its result can be read."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(job.run(), pipe)
        os._exit(0)
    os.close(writing)
    return pid, reading


def _run(jobs: list[Job]) -> tuple[Tally, list[str]]:
    """Run jobs at the same time; end all when one has found something."""
    total, found = Tally(), list[str]()
    started = [_started(job) for job in jobs]
    for pid, reading in started:
        with os.fdopen(reading, "rb") as pipe:
            data = b"" if found else pipe.read()
        if found:
            os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        if data:
            tally, faults = pickle.loads(data)  # our own child wrote it
            total.add(tally)
            found += faults
        elif not found:
            found.append("a process has ended without a result")
    return total, found


@click.command()
@click.option("--kills", type=int, help="End after so many kills.")
@click.option("--minutes", type=float, help="End after so many minutes.")
@click.option("--seed", type=int, default=1, show_default=True, help="The first seed.")
@click.option("--jobs", type=int, default=1, show_default=True, help="How many processes.")
@click.option("--chain", type=int, help="Run the chain of this seed alone, again and again.")
def main(kills: int | None, minutes: float | None, seed: int, jobs: int, chain: int | None) -> None:
    """Kill processes with a store; the exit status is 1 if something was found."""
    if kills is None and minutes is None:
        raise click.UsageError("say how long: --kills or --minutes")
    began = time.monotonic()
    until = None if minutes is None else began + minutes * 60
    with tempfile.TemporaryDirectory(prefix="muster-crash-", dir=_room()) as warm:
        warm_up(Path(warm) / "state")
    if chain is not None:
        tally, found = Job(chain, 0, kills, until).run()
    else:
        each = None if kills is None else -(-kills // jobs)
        tally, found = _run([Job(seed + job, jobs, each, until) for job in range(jobs)])
    click.echo("\n".join(found))
    first = seed if chain is None else chain
    click.echo(f"seeds from {first} on, {(time.monotonic() - began) / 60:.1f} minutes: {tally}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
