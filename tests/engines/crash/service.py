"""The program that is killed: ``python -m tests.engines.crash.service PLAN``.

It has a store. So it goes on where it was when it is started again, and ends when all units are
completed.
"""

from __future__ import annotations

import logging
import signal
import sys
import time
from pathlib import Path
from typing import Final, final

import trio

import muster
import muster.ray
from muster.ray import Call, Command, RayBinder
from tests.engines.crash import work
from tests.engines.crash.plans import QUEUES, URGENT, Plan, Unit, units_of

GRACE_S: Final = 10.0
"""How long work may take to end, in seconds: another agent is there sooner."""

_CLASS: Final = {
    "op": "add_priority_class",
    "name": URGENT,
    "value": 1000,
    "preemption_policy": "PreemptLowerPriority",
}


@final
class Service:
    """The program, with its files."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.units = units_of(plan)
        self._by_app = {unit.app: unit for unit in self.units}

    def work(self, held: muster.Allocation) -> Call | Command:
        """Return what an allocation runs, and write it down."""
        unit = self._by_app[held.app]
        name = f"{held.app} {held.ask} {held.step}"
        with self.plan.bound.open("a", encoding="utf-8") as file:
            file.write(f"{name} {held.peers} {held.node} {time.monotonic():.4f}\n")
        arguments = (str(self.plan.runs), name, unit.seconds)
        if unit.way == "call":
            return Call(work.work, arguments)
        command = [sys.executable, "-I", "-S", work.__file__, *map(str, arguments)]
        return Command([*command, "deaf"] if unit.way == "deaf" else command)

    async def run(self) -> None:
        """Submit all units, and wait until they are completed."""
        plan = self.plan
        async with muster.ray.connect(
            plan.address, python=plan.python, node_name="node_name", warm=1
        ) as ray:
            binder = RayBinder(
                ray, self.work, detached=plan.detached, grace_period=GRACE_S, adopt_within=20.0
            )
            async with (
                muster.open_scheduler(
                    QUEUES,
                    binder=binder,
                    bind_attempts=20,
                    store=plan.store,
                    durability="process",
                ) as scheduler,
                trio.open_nursery() as nursery,
            ):
                await nursery.start(ray.follow, scheduler)
                await self.submit(scheduler)
                while await unfinished(scheduler):  # noqa: ASYNC110 - looks at all asks
                    await trio.sleep(0.2)
                nursery.cancel_scope.cancel()

    async def submit(self, scheduler: muster.Scheduler) -> None:
        """Submit each unit at its time, except those submitted before."""
        marks = self.plan.submitted
        before = marks.read_text(encoding="utf-8").split() if marks.exists() else []
        with marks.open("a", encoding="utf-8") as file:
            if not before:
                await scheduler.submit_many([_CLASS])  # refused if it was killed right after it
                file.write(f"{time.monotonic()}\n")
                file.flush()
        began_at = float(marks.read_text(encoding="utf-8").split()[0])
        for unit in [unit for unit in self.units if unit.app not in before]:
            await trio.sleep(max(0.0, began_at + unit.at_s - time.monotonic()))
            await self._submit(scheduler, unit)

    async def _submit(self, scheduler: muster.Scheduler, unit: Unit) -> None:
        # Refused, as a whole, if it was submitted and the program was killed before the mark.
        await scheduler.submit_many(unit.events())
        with self.plan.submitted.open("a", encoding="utf-8") as file:
            file.write(f"{unit.app}\n")


async def unfinished(scheduler: muster.Scheduler) -> bool:
    """Return whether there are asks; one call lists all, as they move meanwhile."""
    return bool(await scheduler.asks())


async def main(file: Path) -> None:
    """Run the program until it has done everything, or gets SIGTERM."""
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await anext(signals)
                nursery.cancel_scope.cancel()

            nursery.start_soon(stop)
            plan = Plan.load(file)
            plan.runs.mkdir(exist_ok=True)
            await Service(plan).run()
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    logging.basicConfig(format="%(relativeCreated)d %(name)s %(levelname)s %(message)s")
    trio.run(main, Path(sys.argv[1]))
