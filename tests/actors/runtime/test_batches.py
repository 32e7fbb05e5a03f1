"""Batches with tasks: a checkpoint is collected from all owners, and they all load theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import trio
from hypothesis import given, settings, strategies as st

from muster._runtime.batches import Batches, DecidedBatch
from muster._runtime.clock import Pace
from muster.testing import Interleaving, Recording
from muster_core.config import default_configuration
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from muster_core.facts import Facts
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Marker, Scenario, Step
from tests.naive.plain import run_plainly
from tests.share import share


def written(recording: Recording) -> Callable[[DecidedBatch], Awaitable[None]]:
    """Return what announces a batch to a recording."""

    async def announce(decided: DecidedBatch) -> None:
        recording.write(decided.announced)

    return announce


def new(machine: CoordinatorMachine, recording: Recording) -> Batches:
    return Batches(machine, None, Pace(), written(recording))


async def play(scenario: Scenario, seed: int) -> tuple[Sequence[Announced], list[Facts]]:
    """Take steps with tasks, all of which are replaced by loaded ones after each ``SETTLE``.

    Returns:
        The decisions, and the facts after each ``SETTLE``.
    """
    recording, saved = Recording(), list[Facts]()

    def made(machine: CoordinatorMachine) -> Batches:
        return Batches(machine, Interleaving(seed), Pace(), written(recording))

    async with trio.open_nursery() as nursery:
        batches = made(CoordinatorMachine(default_configuration()))
        batches.start(nursery)
        for index, step in enumerate(scenario):
            await batches.advance(step.at_us)
            if not isinstance(step.what, Marker):
                await batches.enter(step.what, index)
                continue
            batches.begin()
            await batches.end_and_announce()
            saved.append(await batches.facts())
            await batches.close()
            batches = made(CoordinatorMachine(saved[-1].configuration))
            await batches.load(nursery, saved[-1])
            assert await batches.facts() == saved[-1]
        await batches.end_and_announce()
        await batches.run_timers(None)
        await batches.close()
    return recording.decisions, saved


# CHECKPOINT-1, CHECKPOINT-5
@settings(max_examples=share(0.2).max_examples)
@given(st.one_of(gang_scenarios(), evictions()), st.integers(0, 2**16))
def test_owners_that_are_loaded_go_on(scenario: list[Step], seed: int) -> None:
    decisions, saved = trio.run(play, scenario, seed)

    plain, expected = PlainScheduler(), list[Facts]()
    assert list(decisions) == run_plainly(scenario, plain, lambda: expected.append(plain.facts()))
    # The facts are the same, whoever drives the machines.
    assert saved == expected


# CHECKPOINT-1
async def test_nothing_has_happened_before_the_first_batch() -> None:
    async with trio.open_nursery() as nursery:
        batches = new(CoordinatorMachine(default_configuration()), Recording())
        batches.start(nursery)
        facts = await batches.facts()
        await batches.close()

        recording = Recording()
        loaded = new(CoordinatorMachine(facts.configuration), recording)
        await loaded.load(nursery, facts)
        loaded.begin()
        await loaded.end_and_announce()
        snapshot = await loaded.snapshot()
        await loaded.close()

    plain = PlainScheduler()
    plain.settle()
    assert not facts.has_begun
    assert recording.decisions == plain.announced
    assert snapshot == plain.snapshot()
