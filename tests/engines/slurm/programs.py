"""Helpers for tests with a real Slurm: a program with a scheduler, and its work."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import trio

import muster
import muster.slurm
from muster.slurm import Command, JobResult, Slurm, SlurmBinder
from tests.engines.slurm.cluster import PATIENCE_S

ONE: Final[dict[str, int | float | str]] = {"vcore": 1, "memory": "50Mi"}
"""What most asks need."""

FAST_S: Final = 0.2
"""How often the tests ask Slurm, in seconds."""

_QUEUES: Final = """
partitions:
  - name: default
    queues:
      - name: root
        queues: [{name: q, properties: {preemption.delay: 0s}}]
"""

Work = Callable[[muster.Allocation], Command | str]


@asynccontextmanager
async def opened(
    work: Work,
    *,
    done: Callable[[muster.Allocation, JobResult], None] | None = None,
    grace_period: float = 10.0,
    detached: bool = False,
    store: Path | None = None,
    results: Path | None = None,
    bind_timeout: float = PATIENCE_S,
    adopt_within: float = 60.0,
    gangs: Literal["job", "components"] = "job",
) -> AsyncGenerator[tuple[muster.Scheduler, Slurm]]:
    """Open a scheduler on the nodes of Slurm, for at most so long as a test may take."""
    with trio.fail_after(2 * PATIENCE_S):
        async with muster.slurm.connect(
            every=FAST_S, results=results, adopt_within=adopt_within, gangs=gangs
        ) as slurm:
            binder = SlurmBinder(
                slurm, work, done=done, grace_period=grace_period, detached=detached
            )
            async with (
                muster.open_scheduler(
                    _QUEUES, binder=binder, bind_timeout=bind_timeout, store=store
                ) as scheduler,
                trio.open_nursery() as nursery,
            ):
                await nursery.start(slurm.follow, scheduler)
                yield scheduler, slurm
                nursery.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    with trio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - other processes make it hold
            await trio.sleep(0.05)


async def lines_in(file: Path, count: int) -> list[str]:
    """Wait until a file has so many lines, and return them."""
    await until(lambda: len(_lines_of(file)) >= count)
    return _lines_of(file)


def _lines_of(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


def processes_of(run: str) -> list[str]:
    """Return the command lines of the processes that were started for an allocation.

    Args:
        run: Its ``MUSTER_RUN``: application, ask and number.
    """
    wanted = f"MUSTER_RUN={run}".encode()
    found: list[str] = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if wanted not in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                continue
            state = Path(f"/proc/{name}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
            line = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if state not in "ZX":
            found.append(line)
    return found
