"""A round: a state directory, a server that comes and goes, and clients."""

from __future__ import annotations

import traceback
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import trio

from tests.clash.following import Follower
from tests.clash.reading import Reader
from tests.clash.resting import (
    faults_between,
    faults_of_held,
    faults_of_lists,
    faults_of_store,
    told_by,
)
from tests.clash.submitting import Submitter
from tests.clash.world import Tally, World

_SUBMITTERS: Final = 4
_READERS: Final = 4
_FOLLOWERS: Final = 10
_REST_S: Final = 600.0
"""How long the end of a round may take, in seconds."""


def run_round(seed: int, folder: Path, long_s: float, tally: Tally) -> list[str]:
    """Run a round; return what was found.

    Args:
        seed: The seed: what each client does follows from it, and from what it is answered.
        folder: An empty folder.
        long_s: How long clients go on, in seconds.
        tally: Counts what is done.
    """
    world = World(folder, Random(seed), tally)
    try:
        trio.run(_round, world, seed, long_s)
    except Exception as error:  # noqa: BLE001 - any error is a fault here
        world.fault("".join(traceback.format_exception(error)))
    finally:
        world.close()
    tally.rounds += 1
    tally.answered += world.account.answered
    tally.batches += world.account.batches
    tally.decisions += len(world.account.decisions)
    return world.faults


async def _round(world: World, seed: int, long_s: float) -> None:
    def chance(of: str) -> Random:
        return Random(f"{seed} {of}")

    followers = [Follower(world, chance(f"f{n}"), n) for n in range(_FOLLOWERS)]
    await world.start()
    with trio.move_on_after(long_s) as time:
        async with trio.open_nursery() as nursery:
            for n in range(_SUBMITTERS):
                name = f"{seed}-s{n}"
                nursery.start_soon(Submitter(world, chance(name), name).run)
            for n in range(_READERS):
                name = f"{seed}-r{n}"
                nursery.start_soon(Reader(world, chance(name), name).run)
            for follower in followers:
                nursery.start_soon(follower.run)
            nursery.start_soon(_restart, world, chance("kills"), trio.current_time() + long_s)
            await world.failed.wait()
            nursery.cancel_scope.cancel()
    if not time.cancelled_caught:
        return
    with trio.fail_after(_REST_S):
        await _rest(world, followers)


async def _restart(world: World, random: Random, until: float) -> None:
    """Kill or end the server at random moments, and start it again."""
    while True:
        await trio.sleep(0.2 + random.expovariate(1 / 3))
        # Whoever looks at the end finds a server that runs.
        with trio.CancelScope(shield=True):
            await (world.kill() if random.random() < 0.8 else world.stop())
            while random.random() < 0.15:
                await world.start(killed_after_s=random.random() * 0.5)
            await world.start(config=random.random() < 0.7)
        if trio.current_time() > until:
            return


async def _rest(world: World, followers: list[Follower]) -> None:
    """Look at what is left when all clients but the followers have ended."""
    await world.kill()
    # With the file of a configuration, it is told as it is written there.
    await world.start(config=False)
    files = world.measure()
    batch, told = await told_by(world)
    last = world.account.decisions[-1].seq if world.account.decisions else 0
    async with trio.open_nursery() as nursery:
        for follower in followers:
            nursery.start_soon(follower.finish, last)
    world.take(await faults_of_held(world, files))
    await world.kill()
    before = told if world.account.batches == batch else None
    if before is not None:
        world.take(faults_of_lists(world, before))
    for follower in followers:
        world.take(follower.faults(world.account.decisions, last))
    await world.start(config=False)
    again, told = await told_by(world)
    if before is not None and again == batch:
        world.take(faults_between(before, told))
    await world.stop()
    if world.account.batches == again:
        world.take(faults_of_lists(world, told))
    world.take(await trio.to_thread.run_sync(partial(faults_of_store, world)))
