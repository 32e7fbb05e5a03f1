"""What the real scheduler says of why asks are not running, to be held against the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import trio

import muster
from muster.testing import Interleaving, Recording
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.reasons import Explanation, Level
from muster_core.snapshots import Snapshot
from tests.actors import real
from tests.naive.figures import figure_names
from tests.naive.harness import SETTLE, Accounts, Observed, Scenario, Step, run_plainly
from tests.naive.order import NUMBERS, Parting
from tests.naive.reasons import Account

_LATER_US: Final = 4_000_000


def account_of(explanation: Explanation) -> Account:
    """Leave of an explanation what the model has an account of."""
    codes = tuple(reason.code.value for reason in explanation.reasons)
    figures = {
        reason.code.value: {
            name: dict(fact) if isinstance(fact, Mapping) else fact
            for name, fact in reason.facts.items()
            if name in figure_names(reason.code)
        }
        for reason in explanation.reasons
    }
    ways = _parting(explanation.levels)
    return Account(codes, explanation.since_us, explanation.first, ways, figures)


def _parting(levels: Sequence[Level]) -> Parting | None:
    if not levels:
        return None
    at = levels[-1]
    (key,) = (key for key in at.keys if key.decides)
    values = (int(key.own), int(key.other)) if key.name in NUMBERS else None
    return Parting(at.at, at.own, at.other, key.name, values)


def explain_all(scenario: Scenario) -> Observed:
    """Let a scenario into the machines of the core, which are asked of every ask there is.

    Args:
        scenario: What comes in.
    """
    scheduler = PlainScheduler()
    snapshots, accounts = list[Snapshot](), list[Accounts]()

    def settled() -> None:
        snapshots.append(scheduler.snapshot())
        accounts.append(_accounts(scheduler))

    run_plainly(scenario, scheduler, settled)
    settled()
    return Observed(scheduler.announced, snapshots, accounts)


def _accounts(scheduler: PlainScheduler) -> Accounts:
    """Return the account of everything that is not bound; each is explained."""
    accounts: dict[str, Account] = {}
    for app, ask in scheduler.pending():
        explanation = scheduler.explain(app, ask)
        assert explanation is not None, f"{app}/{ask} is pending and not explained"
        accounts[f"{app}/{ask}"] = account_of(explanation)
    return accounts


def watched(scenario: Scenario) -> list[Step]:
    """Close every batch of a scenario where it would be closed anyway, to look on after it.

    Args:
        scenario: What comes in.

    Returns:
        The same with more steps: now and then one between two batches, too, and one after
        the end, when not all delays are over.
    """
    steps: list[Step] = []
    for step in scenario:
        if steps and step.at_us > steps[-1].at_us:
            _settle(steps, steps[-1].at_us)
            if len(steps) % 4 == 0:
                _settle(steps, (steps[-1].at_us + step.at_us) // 2)
        steps.append(step)
    end_us = steps[-1].at_us if steps else 0
    for at_us in (end_us, end_us + _LATER_US):
        _settle(steps, at_us)
    return steps


def _settle(steps: list[Step], at_us: int) -> None:
    if not steps or steps[-1] != Step(at_us, SETTLE):
        steps.append(Step(at_us, SETTLE))


def observe(scenario: Scenario, seed: int | None = None) -> Observed:
    """Return the log of a scenario, with snapshots and accounts after each ``SETTLE``, and at the end.

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
            accounts.append(await _observed_accounts(scheduler, snapshots[-1]))

        await real.play(scheduler, scenario, look)
        await scheduler.finish()
        await look()
    return Observed(recording.decisions, snapshots, accounts)


async def _observed_accounts(scheduler: muster.Simulation, snapshot: Snapshot) -> Accounts:
    """Ask of every ask in a snapshot why it is not running; those that are say nothing."""
    found: dict[str, Account] = {}
    for app in snapshot.apps.values():
        for ask in app.asks:
            explanation = await scheduler.why_pending(app.name, ask.name)
            if explanation is not None:
                found[f"{app.name}/{ask.name}"] = account_of(explanation)
    return found
