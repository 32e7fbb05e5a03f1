"""A round: a state directory, a server that comes and goes, clients, and checks after they have left."""

from __future__ import annotations

import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from tests.actors.serving.truth import Truth, compare_items
from tests.clash.clients import Follower, Reader, Submitter
from tests.clash.requests import PATIENCE_S, Request
from tests.clash.world import Tally, World

_LISTS: Final = ("queues", "apps", "asks", "gangs", "nodes")
_P: Final = "/ws/v1/partition/default"
_HISTORIES: Final = ("/ws/v1/history/apps", "/ws/v1/history/containers")
_YUNIKORN: Final = (
    f"{_P}/queues",
    f"{_P}/applications/active",
    f"{_P}/applications/completed",
    f"{_P}/applications/rejected",
    f"{_P}/nodes",
    f"{_P}/usage/users",
    f"{_P}/usage/groups",
    "/ws/v1/config",
    *_HISTORIES,
)
_FILES: Final = 12
"""How many more files than at the start may be open: the store is read in some threads."""

_HELD: Final = re.compile(
    r"^muster_[a-z_]*(?:connections|streams)(?:\{[^}]*\})? (\S+)$", re.MULTILINE
)

Answers = dict[str, Any]


async def read_answers(world: World) -> tuple[int, Answers]:
    """Return the number of a batch and all that the server answers as of it."""
    with trio.fail_after(PATIENCE_S * 3):
        while True:
            answers: Answers = {}
            batches = set[int]()
            for name in _LISTS:
                answers[name] = await _whole(world, name, batches)
            for path in _YUNIKORN:
                # The members of a map may come in any order.
                answer = await _answer(world, path)
                is_json = answer.headers["content-type"].startswith("application/json")
                answers[path] = answer.json() if is_json else answer.body.decode()
            batches.add((await _answer(world, "/api/v1/queues?limit=1")).json()["batch"])
            if len(batches) == 1:
                return batches.pop(), answers


async def _answer(world: World, target: str) -> Any:  # noqa: ANN401 - an answer
    answer = await world.ask(Request("GET", target), 200)
    assert answer is not None, "nobody ends the server"
    return answer


async def _whole(world: World, name: str, batches: set[int]) -> list[Answers]:
    items: list[Answers] = []
    after = ""
    while True:
        found = (await _answer(world, f"/api/v1/{name}?limit=1000{after}")).json()
        batches.add(found["batch"])
        items += found["items"]
        if found["next"] is None:
            return items
        after = f"&after={found['next']}"


def faults_of_lists(world: World, answers: Answers) -> Iterator[str]:
    """Yield where lists differ from the state of the scheduler that replayed the store."""
    truth = Truth.of(world.account.scheduler)
    wanted = {
        "queues": truth.queues(),
        "apps": truth.apps(),
        "asks": truth.asks(),
        "gangs": truth.gangs(),
        "nodes": truth.nodes(),
    }
    for name in _LISTS:
        world.tally.lists += len(answers[name])
        for fault in compare_items(answers[name], wanted[name]):
            yield f"{name}: {fault}"


def faults_between(before: Answers, after: Answers) -> Iterator[str]:
    """Yield where a server answers otherwise than the one that was killed before it."""
    for name, before_kill in before.items():
        # A minute may have gone by meanwhile.
        is_now = after[name][: len(before_kill)] if name in _HISTORIES else after[name]
        if is_now != before_kill:
            yield f"{name} after a kill: {after[name]} instead of {before_kill}"


async def faults_of_held(world: World, files: int) -> list[str]:
    """Return the resources that are still held after all clients have left.

    Args:
        world: The world.
        files: How many files were open when it was ready.
    """
    held, found = 0, list[str]()
    with trio.move_on_after(PATIENCE_S):
        while True:
            text = (await _answer(world, "/metrics")).body.decode()
            found = [one[0] for one in _HELD.finditer(text) if float(one[1]) > 1]
            held = world.measure()
            if held <= files + _FILES and not found:
                break
            await trio.sleep(0.1)
    world.tally.files = max(world.tally.files, held)
    faults = [f"after all have left: {one}" for one in found]
    if held > files + _FILES:
        faults.append(f"{held} files are open, and {files} were open at the start")
    return faults


def faults_of_store(world: World) -> list[str]:
    """Return the faults that ``muster store --verify`` finds."""
    done = subprocess.run(
        [sys.executable, "-m", "muster", "store", str(world.state), "--verify"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S * 3,
    )
    return [] if done.returncode == 0 else [f"muster store --verify: {done.stdout}{done.stderr}"]


_SUBMITTERS: Final = 4
_READERS: Final = 4
_FOLLOWERS: Final = 10
_REST_S: Final = 600.0
"""How long the end of a round may take, in seconds."""


def run_round(seed: int, folder: Path, long_s: float, tally: Tally) -> list[str]:
    """Run a round; return its faults.

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
        await _finish(world, followers)


async def _restart(world: World, random: Random, until: float) -> None:
    """Kill or end the server at random moments, and start it again."""
    while True:
        await trio.sleep(0.2 + random.expovariate(1 / 3))
        # The checks at the end find a server that runs.
        with trio.CancelScope(shield=True):
            await (world.kill() if random.random() < 0.8 else world.stop())
            while random.random() < 0.15:
                await world.start(killed_after_s=random.random() * 0.5)
            await world.start(config=random.random() < 0.7)
        if trio.current_time() > until:
            return


async def _finish(world: World, followers: list[Follower]) -> None:
    """Check the server and its store when all clients but the followers have ended."""
    await world.kill()
    # With a configuration file, it would answer the configuration as the file has it.
    await world.start(config=False)
    files = world.measure()
    batch, answers = await read_answers(world)
    last = world.account.decisions[-1].seq if world.account.decisions else 0
    async with trio.open_nursery() as nursery:
        for follower in followers:
            nursery.start_soon(follower.finish, last)
    world.take(await faults_of_held(world, files))
    await world.kill()
    before = answers if world.account.batches == batch else None
    if before is not None:
        world.take(faults_of_lists(world, before))
    for follower in followers:
        world.take(follower.faults(world.account.decisions, last))
    await world.start(config=False)
    again, answers = await read_answers(world)
    if before is not None and again == batch:
        world.take(faults_between(before, answers))
    await world.stop()
    if world.account.batches == again:
        world.take(faults_of_lists(world, answers))
    world.take(await trio.to_thread.run_sync(partial(faults_of_store, world)))
