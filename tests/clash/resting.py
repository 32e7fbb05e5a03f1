"""What must be so when all clients have left: lists as of a replay, nothing held, also after a kill."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import trio

from tests.actors.serving.truth import Truth, same
from tests.clash.wire import PATIENCE_S, Request
from tests.clash.world import World

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

Told = dict[str, Any]


async def told_by(world: World) -> tuple[int, Told]:
    """Return all that the server tells, as of one batch, and its number."""
    with trio.fail_after(PATIENCE_S * 3):
        while True:
            told: Told = {}
            batches = set[int]()
            for name in _LISTS:
                told[name] = await _whole(world, name, batches)
            for path in _YUNIKORN:
                # The order of the members of a map is nobody's business.
                answer = await _answer(world, path)
                is_json = answer.headers["content-type"].startswith("application/json")
                told[path] = answer.json() if is_json else answer.body.decode()
            batches.add((await _answer(world, "/api/v1/queues?limit=1")).json()["batch"])
            if len(batches) == 1:
                return batches.pop(), told


async def _answer(world: World, target: str) -> Any:  # noqa: ANN401 - an answer
    answer = await world.ask(Request("GET", target), 200)
    assert answer is not None, "nobody ends the server"
    return answer


async def _whole(world: World, name: str, batches: set[int]) -> list[Told]:
    items: list[Told] = []
    after = ""
    while True:
        found = (await _answer(world, f"/api/v1/{name}?limit=1000{after}")).json()
        batches.add(found["batch"])
        items += found["items"]
        if found["next"] is None:
            return items
        after = f"&after={found['next']}"


def faults_of_lists(world: World, told: Told) -> Iterator[str]:
    """Yield where lists differ from the state of the scheduler that was let in again."""
    truth = Truth.of(world.account.scheduler)
    wanted = {
        "queues": truth.queues(),
        "apps": truth.apps(),
        "asks": truth.asks(),
        "gangs": truth.gangs(),
        "nodes": truth.nodes(),
    }
    for name in _LISTS:
        world.tally.lists += len(told[name])
        for fault in same(told[name], wanted[name]):
            yield f"{name}: {fault}"


def faults_between(before: Told, after: Told) -> Iterator[str]:
    """Yield what a server tells otherwise than the one that was killed before it."""
    for name, was in before.items():
        # A minute may have gone by meanwhile.
        told = after[name][: len(was)] if name in _HISTORIES else after[name]
        if told != was:
            yield f"{name} after a kill: {after[name]} instead of {was}"


async def faults_of_held(world: World, files: int) -> list[str]:
    """Return what is still held after all clients have left.

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
    """Return what ``muster store --verify`` finds."""
    done = subprocess.run(
        [sys.executable, "-m", "muster", "store", str(world.state), "--verify"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S * 3,
    )
    return [] if done.returncode == 0 else [f"muster store --verify: {done.stdout}{done.stderr}"]
