#!/usr/bin/env python3
"""An urgent job where every node is taken, with plain Slurm and with Muster: ``python evict.py``.

It uses the Slurm of this machine: the default partition, or the one that is named as argument.
Nobody else should use it meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import trio

import muster
import muster.slurm

LONG = 15  # seconds of work
BEFORE = 3.5  # seconds until the urgent job comes
QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: nightly}
          - {name: people, properties: {preemption.delay: 0s}}
"""

# Counts to LONG, one each second. When it is asked to end it saves how far it has come, and goes
# on from there when it runs again.
COUNTING = f"""
i=$(cat "count-$NAME" 2>/dev/null || echo 0)
trap 'echo $i >"count-$NAME"; echo "$NAME was asked to end at $i" >>log; exit 0' TERM
echo "$NAME begins at $i" >>log
while [ $i -lt {LONG} ]; do sleep 1 & wait; i=$((i + 1)); done
"""
URGENT = "date +%s.%N >>urgent"


def slurm(*command: str, script: str = "") -> str:
    """Run a command of Slurm, and return its output."""
    return subprocess.run(command, input=script, text=True, check=True, capture_output=True).stdout


def plain(partition: str, folder: Path) -> None:
    printed = slurm("sinfo", "-h", "-N", "-p", partition, "-t", "idle", "-o", "%N")
    nodes = sorted(set(printed.split()))
    common = (
        "sbatch",
        "--parsable",
        f"--partition={partition}",
        "--nodes=1",
        "--exclusive",
        "--output=/dev/null",
        f"--chdir={folder}",
    )
    jobs = [slurm(*common, script=f"#!/bin/sh\nNAME={node}\n{COUNTING}") for node in nodes]
    wait_for(lambda: lines(folder / "log") == len(nodes))
    time.sleep(BEFORE)

    asked_at = time.time()
    jobs.append(slurm(*common, script=f"#!/bin/sh\n{URGENT}"))
    wait_for(lambda: lines(folder / "urgent") == 1)
    print(f"plain Slurm  the urgent job has waited {waited(folder, asked_at):.1f} s")
    slurm("scancel", *(job.strip() for job in jobs))


async def with_muster(partition: str, folder: Path) -> None:
    def work(held: muster.Allocation) -> muster.slurm.Command:
        line = URGENT if held.app == "shop" else COUNTING
        out = "/dev/null"
        return muster.slurm.Command(line, cwd=folder, env={"NAME": held.ask}, stdout=out)

    async with muster.slurm.connect(partition=partition, every=0.5) as slurm:
        binder = muster.slurm.SlurmBinder(slurm, work, grace_period=10)
        async with (
            muster.open_scheduler(QUEUES, binder=binder, bind_timeout=600) as scheduler,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(slurm.follow, scheduler)
            nodes = (await scheduler.snapshot()).nodes
            # Each of them takes a node as a whole.
            whole = {"vcore": min(node.capacity["vcore"] for node in nodes.values()) // 1000}
            amounts: dict[str, int | float | str] = {**whole, "memory": "100Mi"}
            report = await scheduler.add_app("report", "root.nightly")
            parts = await report.add_asks("part", amounts, len(nodes))
            for part in parts:
                await part.bound()
            await trio.to_thread.run_sync(
                wait_for, lambda: lines(folder / "log") == len(nodes), abandon_on_cancel=True
            )
            await trio.sleep(BEFORE)

            policy = "PreemptLowerPriority"
            await scheduler.add_priority_class("urgent", 1000, preemption_policy=policy)
            shop = await scheduler.add_app("shop", "root.people")
            asked_at = time.time()
            page = await shop.add_ask("page", amounts, priority_class="urgent")
            await (await page.bound()).ended()
            print(f"with Muster  the urgent job has waited {waited(folder, asked_at):.1f} s")
            for part in parts:
                while await (await part.bound()).ended() is not muster.Reason.COMPLETED:
                    pass  # it has made room, and will run again
            for line in (folder / "log").read_text(encoding="utf-8").splitlines()[len(nodes) :]:
                print(f"with Muster  {line}")
            nursery.cancel_scope.cancel()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    while not condition():
        time.sleep(0.1)


def lines(file: Path) -> int:
    return file.read_text(encoding="utf-8").count("\n") if file.exists() else 0


def waited(folder: Path, asked_at: float) -> float:
    return float((folder / "urgent").read_text(encoding="utf-8")) - asked_at


def main(arguments: list[str]) -> int:
    try:
        printed = slurm("sinfo", "-h", "-o", "%P").split()
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        print(f"needs a Slurm whose commands are here: {reason}", file=sys.stderr)
        return 2
    default = [name[:-1] for name in printed if name.endswith("*")]
    partition = next(iter(arguments or default), None)
    if partition is None:
        print(f"usage: evict.py PARTITION; there are {', '.join(printed)}", file=sys.stderr)
        return 2
    for half in ("plain", "muster"):  # in the working folder, which the nodes have to share
        with TemporaryDirectory(
            prefix=f"evict-{half}-", dir=Path.cwd(), ignore_cleanup_errors=True
        ) as folder:
            if half == "plain":
                plain(partition, Path(folder))
            else:
                trio.run(with_muster, partition, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
