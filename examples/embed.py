"""A scheduler inside a program: a node with room for two asks, and three of them."""

import trio

import muster
from muster.testing import Recording
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.resources import Resources


async def main() -> None:
    log = Recording()  # or anything else that has its method `write`
    async with muster.open_simulation(journal=log) as scheduler:
        await scheduler.submit(AddNode(node="node-1", capacity=Resources({"vcore": 4000})))
        await scheduler.submit(AddApp(app="report", queue="root.batch"))
        cores = Resources({"vcore": 2000})  # in millicores
        await scheduler.submit(AddAsk(app="report", ask="part", count=3, resources=cores))
        await scheduler.settle()
    for announced in log.decisions:
        print(announced.as_map())


trio.run(main)
