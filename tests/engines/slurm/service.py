"""A program with a store, which the tests kill: ``python service.py FOLDER SECONDS [ASK …]``.

It adds the asks that it is given, each of which appends a line at its begin and at its end to the
file ``ran``, and writes to ``log`` what becomes of them. It ends when nothing is left to do. With ``gate``
for the seconds, each waits for the file ``go``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import trio

import muster
import muster.slurm
from muster.slurm import Command, JobResult, SlurmBinder


async def main(folder: Path, seconds: str, asks: list[str]) -> None:
    """Run asks until all have ended."""

    def work(held: muster.Allocation) -> Command:
        pause = f"sleep {seconds}"
        if seconds == "gate":
            pause = f"until [ -e '{folder}/go' ]; do sleep 0.1; done"
        line = f'echo "begin $MUSTER_RUN"; {pause}; echo "end $MUSTER_RUN"; exit 5'
        return Command(line, stdout=folder / "ran")

    def done(held: muster.Allocation, result: JobResult) -> None:
        say(f"done {held.ask} {result.status}")

    def say(text: str) -> None:
        with (folder / "log").open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    async with muster.slurm.connect(every=0.2, results=folder / "results") as slurm:
        binder = SlurmBinder(slurm, work, done=done, detached="--detached" in asks)
        async with (
            muster.open_scheduler(
                binder=binder, store=folder / "store", bind_timeout=120
            ) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(slurm.follow, scheduler)
            if not (await scheduler.snapshot()).apps:
                await add(scheduler, [name for name in asks if not name.startswith("--")])
            for ask in await scheduler.asks():
                await ask.bound()
            say("bound")
            if "--leave" not in asks:
                for ask in await scheduler.asks():
                    while (await (await ask.bound()).ended()) is not muster.Reason.COMPLETED:
                        pass
                say("over")
            nursery.cancel_scope.cancel()


async def add(scheduler: muster.Scheduler, asks: list[str]) -> None:
    """Add asks; those with a name that begins with g are members of a gang of two."""
    app = await scheduler.add_app("a", "root.q")
    await scheduler.add_gang("ring", 2)
    for name in asks:
        gang = "ring" if name.startswith("g") else None
        await app.add_ask(name, {"vcore": 1, "memory": "50Mi"}, gang=gang)


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
