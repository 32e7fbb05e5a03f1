"""Ten thousand asks at once, and their state afterwards."""

import trio

import muster
from muster_core.events import AddApp, AddAsk, AddNode, Event
from muster_core.resources import Resources


def burst() -> list[Event]:
    core = Resources({"vcore": 1000})  # in millicores
    return [
        *(AddNode(node=f"node-{n}", capacity=Resources({"vcore": 32_000})) for n in range(200)),
        *(AddApp(app=f"app-{n}", queue="root.batch") for n in range(10)),
        AddApp(app="app-1", queue="root.batch"),  # refused: the name is taken
        *(AddAsk(app=f"app-{n % 10}", ask=f"ask-{n}", resources=core) for n in range(10_000)),
    ]


async def main() -> None:
    async with muster.open_scheduler() as scheduler:
        refusals = await scheduler.submit_many(burst())
        print([str(error) for error in refusals if error is not None])

        ask = scheduler.ask("app-7", "ask-9997")
        print(await ask.why())
        print(scheduler.statistics())
        snapshot = await scheduler.snapshot()
        print(snapshot.queues["root.batch"].allocated, snapshot.nodes["node-0"].used)


trio.run(main)
