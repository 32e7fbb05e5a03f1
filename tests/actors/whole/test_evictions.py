"""Reclaim and preemption come to rest, whatever the state from which they begin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import trio
from hypothesis import event, given

import muster
from muster_core.decisions import Announced, Decision, Kind, Reason
from tests.actors import real
from tests.naive.eviction_strategies import evictions
from tests.naive.harness import Step
from tests.share import share

EVICTIONS: Final = (Reason.RECLAIMED, Reason.PREEMPTED)
FOR: Final = re.compile(r"for (\S+): ")

Batch = tuple[Decision, ...]


class Batches:
    """A journal that keeps batches apart."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def write(self, batch: Sequence[Announced], /) -> None:
        """Keep a batch."""
        self.batches.append(tuple(one.decision for one in batch))


async def play(scenario: list[Step], journal: Batches) -> int:
    """Play a scenario, and let time pass until no timer is left.

    Returns:
        How many batches there were before the last events were decided on.
    """
    async with muster.open_simulation(journal=journal) as scheduler:
        await real.play(scheduler, scenario)
        before = len(journal.batches)
        await scheduler.finish()
    return before


def evicted(batch: Batch) -> Iterator[tuple[int, Decision]]:
    """Give who was evicted in a batch, each with its place in it."""
    for place, decision in enumerate(batch):
        if decision.reason in EVICTIONS:
            yield place, decision


def asker(decision: Decision) -> str:
    """Give for whom an ask was evicted."""
    found = FOR.match(decision.message or "")
    assert found is not None, decision
    return found[1]


@share(0.15)
@given(evictions())
def test_evictions_place_their_askers_and_come_to_rest(scenario: list[Step]) -> None:
    journal = Batches()
    before = trio.run(play, scenario, journal)

    for batch in journal.batches:
        # Nobody is evicted twice at one instant.
        victims = [(decision.app, decision.ask) for _, decision in evicted(batch)]
        assert len(victims) == len(set(victims))
        for place, decision in evicted(batch):
            event(f"{decision.reason}")
            # An asker that was evicted itself may take something and lose it again: the log says
            # only once in a batch that an ask was evicted, and leaves such a detour out.
            lost = {f"{app}/{ask}" for app, ask in victims}
            assert asker(decision) in placed(batch[place:]) | lost
    # Who is evicted waits for its delay, and may take from others then: that ends, too.
    asks = {(one.app, one.ask) for batch in journal.batches for one in batch if one.ask}
    times = sum(1 for batch in journal.batches[before:] for _ in evicted(batch))
    event(f"evicted since the last event: {min(times, 5)}")
    assert times <= len(asks) ** 2


def placed(batch: Batch) -> set[str]:
    """Give the asks for which a node was chosen."""
    return {f"{one.app}/{one.ask}" for one in batch if one.kind is Kind.ASSIGNED}
