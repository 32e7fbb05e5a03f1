"""A program that tries something out in virtual time."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, suppress
from typing import assert_type

import trio

import muster
from muster.config_files import parse_configuration
from muster.feeds import read_feed
from muster.replay import Check
from muster.testing import Recording, check
from muster_core.events import AddApp, AddAsk, AddNode, RemoveNode
from muster_core.resources import Resources


async def main() -> None:
    """Let events in, let time pass, and look."""
    log = Recording()
    configuration = parse_configuration("partitions: [{name: default, queues: [{name: root}]}]")
    opened = muster.open_simulation(configuration, journal=log)
    manager: AbstractAsyncContextManager[muster.Simulation] = opened
    async with manager as simulation:
        assert_type(simulation, muster.Simulation)
        await simulation.submit(AddNode("a", Resources({"vcore": 1000})))
        await simulation.submit(AddApp("app", "root.team"), at_us=5, index=1, line=3)
        ask = AddAsk(app="app", ask="one", resources=Resources({"vcore": 1}), run_for_us=10)
        assert_type(await simulation.request(ask), None)
        await simulation.refuse("cannot be read", at_us=6)
        await simulation.settle(7)
        assert_type(await simulation.why_pending("app", "one"), str | None)
        assert_type(await simulation.snapshot(), muster.Snapshot)
        assert_type(simulation.statistics(), muster.Statistics)
        await simulation.finish(until_us=1_000_000)
        await check(simulation)
        await simulation.examine(lambda examined: None)
        with suppress(muster.RefusedError):
            await simulation.request(RemoveNode("b"))
    assert_type(log.decisions, list[muster.Announced])
    checked = Check()
    await checked.run(read_feed("first.yaml"))


if __name__ == "__main__":
    trio.run(main)
