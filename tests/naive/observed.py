"""Runs a scenario through the real scheduler, looks at its state on the way and asks why."""

from __future__ import annotations

import trio

import muster
from muster.testing import Interleaving, Recording
from muster_core.snapshots import Snapshot
from tests.actors import real
from tests.naive.explained import account_of
from tests.naive.harness import Accounts, Observed, Scenario
from tests.naive.reasons import Account


def observe(scenario: Scenario, seed: int | None = None) -> Observed:
    """Give the log of a scenario, and what is shown and said after each ``SETTLE`` and at the end.

    Args:
        scenario: What comes in.
        seed: The seed of the delays injected into every mailbox, or None for none.
    """
    return trio.run(_observe, scenario, seed)


async def _observe(scenario: Scenario, seed: int | None) -> Observed:
    recording, snapshots, accounts = Recording(), list[Snapshot](), list[Accounts]()
    interleave = None if seed is None else Interleaving(seed)
    async with muster.open_simulation(journal=recording, interleave=interleave) as scheduler:

        async def look() -> None:
            snapshots.append(await scheduler.snapshot())
            accounts.append(await _accounts(scheduler, snapshots[-1]))

        await real.play(scheduler, scenario, look)
        await scheduler.finish()
        await look()
    return Observed(recording.decisions, snapshots, accounts)


async def _accounts(scheduler: muster.Simulation, snapshot: Snapshot) -> Accounts:
    """Ask of every ask in a snapshot why it is not running; those that are say nothing."""
    found: dict[str, Account] = {}
    for app in snapshot.apps.values():
        for ask in app.asks:
            explanation = await scheduler.why_pending(app.name, ask.name)
            if explanation is not None:
                found[f"{app.name}/{ask.name}"] = account_of(explanation)
    return found
