"""A program that is killed: ``python -m tests.engines.scheduled.program ADDRESS PYTHON FOLDER KIND``.

It has three asks, two that run commands and one that runs a callable, which write ``begun`` to files
of their names and go on until there is a file ``go``. With the kind ``detached`` it has a store, and
the work outlives it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import trio

import muster
import muster.ray
from muster.ray import Call, RayBinder, Result


def call(folder: str, name: str) -> str:
    """Be the callable."""
    with open(f"{folder}/{name}", "a", encoding="utf-8") as file:
        file.write("begun\n")
    while not os.path.exists(f"{folder}/go"):
        time.sleep(0.02)
    return name


async def main(address: str, python: str, folder: str, kind: str) -> None:
    """Run three asks to their ends, and write down their results."""

    def work(held: muster.Allocation) -> Call | str:
        if held.ask == "call":
            return Call(call, (folder, held.ask))
        file = f"{folder}/{held.ask}"
        return f"sleep 3600 & echo begun >>{file}; until [ -e {folder}/go ]; do sleep 0.1; done; exit 5"

    def done(held: muster.Allocation, result: Result) -> None:
        with open(f"{folder}/results", "a", encoding="utf-8") as file:
            file.write(f"{held.ask} {result.status} {result.value}\n")

    is_detached = kind == "detached"
    store = Path(folder, "state") if is_detached else None
    async with muster.ray.connect(address, python=python, node_name="node_name") as ray:
        binder = RayBinder(ray, work, done=done, grace_period=1.0, detached=is_detached)
        async with (
            muster.open_scheduler(binder=binder, store=store) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(ray.follow, scheduler)
            if not await scheduler.asks(app="app"):
                app = await scheduler.add_app("app", "root.q")
                await app.add_asks("command", {"vcore": 1}, 2)
                await app.add_ask("call", {"vcore": 1})
            for ask in await scheduler.asks(app="app"):
                await (await ask.bound()).ended()
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    _, address, python, folder, kind = sys.argv
    trio.run(main, address, python, folder, kind)
