"""Runs a scenario through the real scheduler, under any interleaving."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio

import muster
from muster.testing import Interleaving, Recording
from muster_core.decisions import Announced
from tests.naive.harness import Marker, Scenario


def run(scenario: Scenario, seed: int | None = None) -> Sequence[Announced]:
    """Return the whole log of a scenario.

    Args:
        scenario: What comes in.
        seed: The seed of the delays injected into every mailbox, or None for none.
    """
    return trio.run(run_async, scenario, seed)


async def run_async(scenario: Scenario, seed: int | None = None) -> Sequence[Announced]:
    recording = Recording()
    interleave = None if seed is None else Interleaving(seed)
    async with muster.open_simulation(journal=recording, interleave=interleave) as scheduler:
        await play(scheduler, scenario)
        await scheduler.finish()
    return recording.decisions


async def nothing() -> None:
    """Look at nothing."""


async def play(
    scheduler: muster.Simulation,
    scenario: Scenario,
    settled: Callable[[], Awaitable[None]] = nothing,
) -> None:
    """Let a scenario in, whose last batch is left open.

    Args:
        scheduler: It runs the scenario.
        scenario: What comes in.
        settled: Called after each ``SETTLE``.
    """
    for index, step in enumerate(scenario):
        match step.what:
            case Marker.SETTLE:
                await scheduler.settle(step.at_us)
                await settled()
            case str() as message:
                await scheduler.refuse(message, at_us=step.at_us, index=index)
            case event:
                await scheduler.submit(event, at_us=step.at_us, index=index)
