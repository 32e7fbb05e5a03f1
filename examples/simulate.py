"""A scheduler in virtual time: a node with room for two asks, and three of them."""

import trio

import muster
from muster.testing import Recording
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.resources import Resources

MINUTE_US = 60_000_000


async def main() -> None:
    log = Recording()  # or anything else that has its method `write`
    async with muster.open_simulation(journal=log) as simulation:
        await simulation.submit(AddNode(node="node-1", capacity=Resources({"vcore": 4000})))
        await simulation.submit(AddApp(app="report", queue="root.batch"))
        cores = Resources({"vcore": 2000})  # in millicores
        await simulation.submit(
            AddAsk(app="report", ask="part", count=3, resources=cores, run_for_us=10 * MINUTE_US)
        )
        await simulation.finish()  # let time pass until nothing happens any more
    for announced in log.decisions:
        if announced.decision.kind is muster.Kind.BOUND:
            print(announced.as_map())


trio.run(main)
