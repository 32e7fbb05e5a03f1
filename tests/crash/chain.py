"""A chain: lives on one state directory, one after the other, each in a process of its own."""

from __future__ import annotations

import gc
import os
import select
import signal
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Final, final

import attrs
from typing_extensions import override

from muster.store import StateReader
from muster.store._codec import facts_of, state_in_parts
from muster.store._rows import row_of
from muster.store._writer import NewState, StateWriter
from muster.testing.fuzz import run_program
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddApp
from muster_core.structures.steps import all_at_once
from tests.actors.store.faults import library
from tests.actors.store.program import put_checkpoint
from tests.crash.accounts import Account, Batch, LifeLog, StoreContent, faults_of_decisions
from tests.crash.life import live
from tests.crash.protocol import (
    Kill,
    KillMoment,
    Life,
    LifeFailed,
    Phase,
    Plan,
    Report,
    ReportReader,
    last_of,
    plan_of,
)

LONGEST_S: Final = 60.0
"""How long a life may take, in seconds, before it counts as stuck."""


@final
@attrs.define
class Tally:
    """How much was done.

    Attributes:
        chains: How many chains.
        lives: How many lives.
        kills: How many of them were killed.
        phases: In which part of their life they were killed.
        answered: How many calls were answered.
        batches: How many batches were kept and compared.
        decisions: How many decisions were kept and compared.
    """

    chains: int = 0
    lives: int = 0
    kills: int = 0
    phases: Counter[str] = attrs.field(factory=Counter[str])
    answered: int = 0
    batches: int = 0
    decisions: int = 0

    def add(self, more: Tally) -> None:
        """Add another tally."""
        self.chains += more.chains
        self.lives += more.lives
        self.kills += more.kills
        self.phases += more.phases
        self.answered += more.answered
        self.batches += more.batches
        self.decisions += more.decisions

    @override
    def __str__(self) -> str:
        """Return the figures in one line."""
        phases = ", ".join(f"{count:,} {name}" for name, count in sorted(self.phases.items()))
        return (
            f"{self.kills:,} kills ({phases}), {self.chains:,} directories, "
            f"{self.answered:,} answered calls, {self.batches:,} batches, "
            f"{self.decisions:,} decisions"
        )


def warm_up(directory: Path) -> None:
    """Do all slow first-time work once, so that no life has to.

    No thread may be left, as this process forks: so no scheduler has a store here.

    Args:
        directory: For a state directory.
    """
    import_module("muster._runtime.storage")
    for seed in range(3):
        run_program(plan_of(seed).program)
    plain = PlainScheduler()
    plain.submit(AddApp("a", "root.q"), 0, 0)
    plain.settle(0)
    with StateWriter.create(directory, NewState("default", 0), durability="process") as writer:
        writer.append([row_of(1, 0, (AddApp("a", "root.q"),), plain.announced, 0)])
        put_checkpoint(writer, 1, all_at_once(state_in_parts(plain.facts())))
    with StateReader(directory) as reader:
        (batch,) = reader.batches()
        assert (len(batch.events), len(batch.decisions)) == (1, len(plain.announced))
        facts_of(reader.checkpoint(1))
    library()


def run_chain(seed: int, directory: Path, tally: Tally) -> list[str]:
    """Run the chain of a seed in a directory; return its faults."""
    plan = plan_of(seed)
    account = Account()
    for life in (*plan.lives, last_of(plan)):
        log = LifeLog()
        was_killed = _live(plan, life, directory, account.last_us, log, tally)
        try:
            content = _content_of(directory, account.last)
            faults = account.take(log, content, was_killed=was_killed)
        except Exception as error:  # noqa: BLE001 - any error is a fault here
            faults = [repr(error)]
        if faults:
            return [f"in life {life.number}, {_kill_text(life.kill, was_killed)}:", *faults]
    tally.chains += 1
    tally.answered += account.answered
    tally.batches += len(account.batches)
    tally.decisions += sum(len(batch.decisions) for batch in account.batches)
    return faults_of_decisions(account.batches, account.shown_states)


def _kill_text(kill: Kill, was_killed: bool) -> str:
    is_planned = was_killed and kill.when is not KillMoment.NEVER
    return f"killed {kill.when.value} ({kill})" if is_planned else "which was not to be killed"


def _content_of(directory: Path, known: int) -> StoreContent:
    """Return the content of a directory, except the known batches."""
    if not (directory / "muster.db").exists():
        return StoreContent(0, ())
    with StateReader(directory) as reader:
        anchor = reader.meta.anchor.batch
        found = reader.batches(after=max(known, anchor))
        return StoreContent(
            anchor, tuple(Batch(one.at_us, one.events, one.decisions) for one in found)
        )


def _live(
    plan: Plan, life: Life, directory: Path, last_us: int, log: LifeLog, tally: Tally
) -> bool:
    """Run one life, and kill it; return whether it was killed."""
    reading, writing = os.pipe()
    gc.freeze()  # The child shares the memory of its parent, and should not copy it.
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        live(plan, life, directory, last_us, writing)
        os._exit(0)
    os.close(writing)
    try:
        _watch(pid, reading, life.kill, log)
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    tally.lives += 1
    was_killed = os.WIFSIGNALED(status)
    if was_killed:
        tally.kills += 1
        tally.phases[log.phase] += 1
    return was_killed


def _watch(pid: int, pipe: int, kill: Kill, log: LifeLog) -> None:
    """Log the reports of a life until it is over; kill it at its moment."""
    reader, trigger = ReportReader(), _Trigger(kill)
    until = time.monotonic() + LONGEST_S
    while True:
        now = time.monotonic()
        if now >= until:
            log.faults.append(f"a life has told nothing new for {LONGEST_S} s")
            return
        wait_s = min(until, trigger.due or until) - now
        ready, _, _ = select.select([pipe], [], [], max(0.0, wait_s))
        if trigger.due is not None and time.monotonic() >= trigger.due:
            os.kill(pid, signal.SIGKILL)
            trigger.due = None
        if ready:
            data = os.read(pipe, 1 << 16)
            if not data:
                return
            for report in reader.feed(data):
                log.add(report)
                trigger.add(report)


@final
class _Trigger:
    """Decides from the reports of a life when to kill it.

    Args:
        kill: The plan.

    Attributes:
        due: When it is to be killed, by the monotonic clock; None for not yet.
    """

    def __init__(self, kill: Kill) -> None:
        self._kill = kill
        self._reports = 0
        self.due: float | None = None

    def add(self, report: Report) -> None:
        """Take a report into account."""
        match self._kill.when, report:
            case KillMoment.OPENING, Phase("opening"):
                is_now = True
            case KillMoment.CLOSING, Phase("closing"):
                is_now = True
            case KillMoment.REPORT, _:
                is_now = self._reports == self._kill.number
            case _:
                is_now = isinstance(report, LifeFailed)
        self._reports += 1
        if is_now:
            self.due = time.monotonic() + self._kill.delay_s
