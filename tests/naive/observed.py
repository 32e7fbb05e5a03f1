"""Runs a scenario through the real scheduler and looks at its state on the way."""

from __future__ import annotations

import trio

import muster
from muster.testing import Interleaving, Recording
from muster_core.snapshots import Snapshot
from tests.naive.harness import Marker, Observed, Scenario


def observe(scenario: Scenario, seed: int | None = None) -> Observed:
    """Give the log of a scenario and the snapshots after each ``SETTLE`` and at the end.

    Args:
        scenario: What comes in.
        seed: The seed of the delays injected into every mailbox, or None for none.
    """
    return trio.run(_observe, scenario, seed)


async def _observe(scenario: Scenario, seed: int | None) -> Observed:
    recording, snapshots = Recording(), list[Snapshot]()
    interleave = None if seed is None else Interleaving(seed)
    async with muster.open_simulation(journal=recording, interleave=interleave) as scheduler:
        for index, step in enumerate(scenario):
            match step.what:
                case Marker.SETTLE:
                    await scheduler.settle(step.at_us)
                    snapshots.append(await scheduler.snapshot())
                case str() as message:
                    await scheduler.refuse(message, at_us=step.at_us, index=index)
                case event:
                    await scheduler.submit(event, at_us=step.at_us, index=index)
        await scheduler.finish()
        snapshots.append(await scheduler.snapshot())
    return Observed(recording.decisions, snapshots)
