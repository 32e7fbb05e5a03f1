#!/usr/bin/env python3
"""Run shell commands under queue limits, with gangs: ``python jobs.py demo.yaml``."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import trio
import yaml
from attrs.validators import ge, instance_of

import muster
from muster.subprocesses import Command, SubprocessBinder


@attrs.frozen(kw_only=True)
class Job:
    """A job as it stands in the file; the README says what the fields mean."""

    name: str = attrs.field(validator=instance_of(str))
    queue: str = attrs.field(validator=instance_of(str))
    command: str = attrs.field(validator=instance_of(str))
    vcore: float | str = 1
    memory: int | str = 0
    priority: int = 0
    preempts: bool = False
    gang: int = attrs.field(default=1, validator=[instance_of(int), ge(1)])
    after: str | None = None


def read(path: Path) -> tuple[Any, dict[str, Any], dict[str, Job]]:
    """Read the configuration, the nodes and the jobs of a file."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    this_machine = {"here": {"vcore": os.cpu_count(), "memory": memory}}
    try:
        file: dict[str, Any] = dict(yaml.safe_load(path.read_bytes()))
        nodes = dict[str, Any](file.get("nodes", this_machine))
        entries: list[dict[str, Any]] = [dict(entry) for entry in file["jobs"]]
    except (KeyError, TypeError, ValueError):
        raise ValueError("`jobs` has to be a list of maps, and `nodes` a map of maps") from None
    jobs: dict[str, Job] = {}
    for place, entry in enumerate(entries, 1):
        try:
            job = Job(**entry)
        except (TypeError, ValueError) as error:
            raise ValueError(f"job {entry.get('name', place)!r}: {error.args[0]}") from None
        if job.after not in {None, *jobs}:
            raise ValueError(f"job {job.name!r}: after: there is no job {job.after!r} above it")
        if jobs.setdefault(job.name, job) is not job:
            raise ValueError(f"job {job.name!r}: another one has this name")
    queues = file.get("queues")
    if isinstance(queues, str):
        return path.parent / queues, nodes, jobs
    root = {"name": "root", "properties": {"queue.create": "disabled"}, "queues": queues}
    return {"partitions": [{"name": "default", "queues": [root]}]}, nodes, jobs


class Runner:
    """Runs jobs, and says what becomes of them."""

    def __init__(self, jobs: dict[str, Job]) -> None:
        self.jobs = jobs
        self.later = [job for job in jobs.values() if job.after is not None]
        self.open: dict[
            tuple[str, str], float
        ] = {}  # jobs that have not ended, and since when each waits
        self.runs = Counter[tuple[str, str]]()
        self.failed: set[str] = set()
        self.began_at = trio.current_time()

    def say(self, app: str, ask: str, what: str, more: object) -> None:
        """Print a line."""
        name = app if self.jobs[app].gang == 1 else f"{app}/{ask}"
        time = trio.current_time() - self.began_at
        line = f"{time:6.2f}  {what:6}  {name:14}  {self.jobs[app].queue:10}  {more}\n"
        print(line, end="", flush=True)  # in one piece, since jobs write to the same output

    def command(self, held: muster.Allocation) -> Command:
        """Say what is to run, just before it is started."""
        key = held.app, held.ask
        waited = trio.current_time() - self.open[key]
        self.say(*key, "start", f"on {held.node}, has waited {waited:.2f} s")
        self.runs[key] += 1
        return Command(self.jobs[held.app].command, env={"JOB_RUN": str(self.runs[key])})

    def exited(self, held: muster.Allocation, status: int) -> None:
        """Take note of a command that has ended by itself."""
        if status != 0:
            self.failed.add(held.app)
        self.say(held.app, held.ask, "end", f"exit status {status}")

    def note(self, one: muster.Decision) -> None:
        """Take note that a part of a job has ended, was killed, or was given up."""
        key = str(one.app), str(one.ask)
        del self.open[key]
        if one.reason is muster.Reason.REMOVED:
            self.failed.add(key[0])
        elif one.reason is not muster.Reason.COMPLETED:
            self.open[key] = trio.current_time()
            self.say(*key, "killed", f"{one.reason} {one.message or ''}")

    async def run(self, scheduler: muster.Scheduler, nodes: dict[str, Any]) -> int:
        """Run all jobs until the last one has ended; give the exit status."""
        async with scheduler.decisions(kinds={muster.Kind.RELEASED}) as releases:
            for job in self.jobs.values():
                if job.after is None:
                    await self.submit(scheduler, job)
            # Last, so that priorities decide what starts first, and not the order of the file.
            for name, capacity in nodes.items():
                await scheduler.add_node(name, capacity)
            await self.drop_what_cannot_run(scheduler)
            while self.open or self.later:
                for announced in await releases.take():
                    self.note(announced.decision)
                unfinished = {app for app, _ in self.open} | {job.name for job in self.later}
                for job in [job for job in self.later if job.after not in unfinished]:
                    self.later.remove(job)
                    await self.submit(scheduler, job)
                await self.drop_what_cannot_run(scheduler)
        again = self.runs.total() - len(self.runs)
        print(f"{len(self.jobs)} jobs, {len(self.failed)} failed, {again} killed and run again")
        return 1 if self.failed else 0

    async def submit(self, scheduler: muster.Scheduler, job: Job) -> None:
        """Ask for what a job needs."""
        options: dict[str, Any] = {"priority": job.priority}
        for part in range(job.gang):
            self.open[job.name, f"part-{part}"] = trio.current_time()
        try:
            await scheduler.add_app(job.name, job.queue)
            if job.preempts:  # that is the privilege of a class
                policy = "PreemptLowerPriority"
                await scheduler.add_priority_class(job.name, job.priority, preemption_policy=policy)
                options = {"priority_class": job.name}
            if job.gang > 1:  # all of it is bound at once, or nothing
                await scheduler.add_gang(job.name, job.gang)
                options["gang"] = job.name
            amounts = {"vcore": job.vcore, "memory": job.memory}
            await scheduler.add_asks(job.name, "part", amounts, job.gang, **options)
        except muster.MusterError as error:
            raise ValueError(f"job {job.name!r}: {error}") from None

    async def drop_what_cannot_run(self, scheduler: muster.Scheduler) -> None:
        """Drop what is pending while nothing runs: nobody will ever make room for it."""
        apps = (await scheduler.snapshot()).apps.values()
        if all(ask.place is not muster.AskPlace.BOUND for app in apps for ask in app.asks):
            for ask in [scheduler.ask(app.name, ask.name) for app in apps for ask in app.asks]:
                self.say(ask.app, ask.name, "drop", f"{await ask.why()}")
                await ask.remove()


async def main(path: Path) -> int:
    """Run the jobs of a file until they have ended, or Ctrl-C; give the exit status."""
    status = 130
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        try:
            config, nodes, jobs = read(path)
            runner = Runner(jobs)
            binder = SubprocessBinder(runner.command, exited=runner.exited, grace_period=2)
            async with trio.open_nursery() as stopper:
                stopper.start_soon(cancel_at, signals, stopper.cancel_scope)
                async with muster.open_scheduler(config, binder=binder) as scheduler:
                    status = await runner.run(scheduler, nodes)
                stopper.cancel_scope.cancel()
        except* (OSError, ValueError, yaml.YAMLError, muster.MusterError) as errors:
            print(f"{path}: {errors.exceptions[0]}", file=sys.stderr)
            status = 2
    return status


async def cancel_at(signals: AsyncIterator[int], scope: trio.CancelScope) -> None:
    """Cancel at the first signal; that closes the scheduler, which ends every command."""
    await anext(signals)
    scope.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(trio.run(main, Path(sys.argv[1])))
