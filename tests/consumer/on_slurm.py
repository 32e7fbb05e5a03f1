"""The types of what runs asks as jobs of Slurm, in trio and in asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

import trio

import muster
import muster.asyncio
import muster.asyncio.slurm
import muster.slurm


def work(held: muster.Allocation) -> muster.slurm.Command:
    """Return what is to run."""
    return muster.slurm.Command(["true"], cwd="/tmp", env={"NAME": held.ask})


def done(held: muster.Allocation, result: muster.slurm.JobResult) -> None:
    """Judge an end."""
    assert_type(result.status, int)
    assert_type(result.job, int | None)
    if result.status:
        raise muster.WorkFailedError(f"{held.ask}: exit status {result.status}")


async def in_trio() -> None:
    """Run asks in trio."""
    assert_type(muster.slurm.DEFAULT_RESOURCES, Mapping[str, str])
    async with muster.slurm.connect(partition="p", options=["--account=x"]) as slurm:
        assert_type(slurm, muster.slurm.Slurm)
        binder: muster.ResumingBinder = muster.slurm.SlurmBinder(slurm, work, done=done)
        async with (
            muster.open_scheduler(binder=binder) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(slurm.follow, scheduler)


async def in_asyncio() -> None:
    """Run asks in asyncio."""
    async with muster.asyncio.slurm.connect(gangs="components") as slurm:
        assert_type(slurm, muster.asyncio.slurm.Slurm)
        binder: muster.ResumingBinder = muster.asyncio.slurm.SlurmBinder(slurm, work, done=done)
        async with muster.asyncio.open_scheduler(binder=binder) as scheduler:
            await slurm.follow(scheduler, started=print)


def errors(raised: Exception) -> None:
    """Tell the errors apart."""
    if isinstance(raised, muster.slurm.SilentError):
        assert_type(raised, muster.slurm.SilentError)
        error: muster.slurm.SlurmError = raised
        base: muster.MusterError = error
        del base
    if isinstance(raised, muster.slurm.JobLostError):
        lost: muster.NotStartedError = raised
        del lost
