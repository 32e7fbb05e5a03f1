"""Processes that are killed at any moment; many more of them: ``make crash MINUTES=…``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from muster_core.config import default_configuration
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddApp, Configure, Event
from muster_core.snapshots import Snapshot
from tests.crash.accounts import Account, Batch, LifeLog, StoreContent, faults_of_decisions
from tests.crash.protocol import (
    CallAnswered,
    CallMade,
    DecisionsSeen,
    JournalEntry,
    LifeFailed,
    Phase,
    RecordEntry,
    Report,
    ReportReader,
    ReportWriter,
    StateShown,
    WorkStarted,
)

PROJECT = Path(__file__).parents[2]


# Nothing is found


@pytest.mark.starts_early
@pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
@pytest.mark.parametrize(
    ("kills", "seed"), [(30, 1), pytest.param(200, 1, marks=pytest.mark.takes_long)]
)
def test_what_was_answered_survives_a_kill(kills: int, seed: int) -> None:
    options = [f"--kills={kills}", f"--seed={seed}", f"--jobs={1 + kills // 200}"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash", *options],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r": (\d+) kills \((.*?)\)", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) >= kills
    # Where a process is when it is killed is up to the machine: a few kills may miss a short time.
    phases = {"closing", "open", "opening"} if kills >= 200 else {"open"}
    assert phases <= {*re.findall(r"while (\w+)", found[2])}


# Something would be found

APP = AddApp("a", "root.q")
KEY = ("AddApp", "a")
BOUND = Announced(1, 5, Decision(Kind.BOUND, "a", "k", "n", "root.q"))
REJECTED = Announced(2, 5, Decision(Kind.REJECTED, message="no"))
BATCH = Batch(5, (APP,), (BOUND, REJECTED))
ANNOUNCED: tuple[Report, ...] = (
    JournalEntry((BOUND, REJECTED)),
    RecordEntry(5, APP),
    RecordEntry(5, None),
)
CALLED = CallMade(0, "add_app", (KEY,))


def faults(*reports: Report, kept: tuple[Batch, ...], anchor: int = 0, killed: bool = True) -> str:
    """Return the faults of a life with these reports."""
    log, account = LifeLog(), Account()
    for report in reports:
        log.add(report)
    return "\n".join(account.take(log, StoreContent(anchor, kept), was_killed=killed))


def state_shown(batches: int, on_disk: int) -> StateShown:
    snapshot = Snapshot(
        at_us=0, apps={}, completed=frozenset(), queues={}, shares={}, nodes={}, gangs={}
    )
    return StateShown(batches, on_disk, snapshot)


def test_what_is_as_it_should_be_has_no_faults() -> None:
    everything = (
        *(
            CALLED,
            *ANNOUNCED,
            DecisionsSeen(0, (BOUND,)),
            DecisionsSeen(0, (REJECTED,)),
            DecisionsSeen(1, (REJECTED,)),
        ),
        *(WorkStarted("a", "k", "n", again=False), CallAnswered(0, done=True, refusal="no")),
        *(state_shown(1, 1), Phase("closed")),
    )
    assert not faults(*everything, kept=(BATCH,), killed=False)
    assert not faults(*everything, kept=(), anchor=1, killed=False)
    assert not faults(CALLED, kept=())
    assert not faults(CALLED, kept=(BATCH,))
    assert not faults(CALLED, ANNOUNCED[0], kept=(BATCH,))
    assert not faults(CALLED, *ANNOUNCED[:2], kept=(BATCH,))


@pytest.mark.parametrize(
    ("reports", "kept", "fault"),
    [
        ((CALLED, *ANNOUNCED), (), "1 batches were announced, and only 0 are kept"),
        ((CALLED, ANNOUNCED[0]), (), "1 batches were announced, and only 0 are kept"),
        ((CALLED, *ANNOUNCED), (attrs.evolve(BATCH, at_us=6),), "was announced as"),
        ((CALLED, *ANNOUNCED), (attrs.evolve(BATCH, events=()),), "was announced as"),
        ((CALLED, *ANNOUNCED[1:]), (BATCH,), "was announced as"),
        ((CALLED, JournalEntry((BOUND,))), (BATCH,), "was announced as"),
        ((CALLED, CallAnswered(0, done=True)), (BATCH,), "was answered before"),
        ((CALLED, *ANNOUNCED, CallAnswered(0, done=False)), (BATCH,), "but only 0 calls made"),
        (ANNOUNCED, (BATCH,), "but only 0 calls made"),
        (
            (CALLED, *ANNOUNCED, CallAnswered(0, done=True, refusal="never")),
            (BATCH,),
            "nothing that is kept was refused as 'never'",
        ),
        ((CALLED, *ANNOUNCED, DecisionsSeen(0, (REJECTED, BOUND))), (BATCH,), "observer 0 saw"),
        ((CALLED, DecisionsSeen(1, (BOUND,))), (), "observer 1 saw"),
        ((WorkStarted("a", "k", "n", again=False),), (), "before it is bound"),
        ((CALLED, state_shown(1, 0)), (BATCH,), "the state of batch 1 was shown when 0"),
        ((CALLED, state_shown(2, 2)), (BATCH,), "the state of batch 2 was shown when 2"),
        ((LifeFailed("a trace"),), (), "a trace"),
    ],
)
def test_each_fault_is_reported(
    reports: tuple[Report, ...], kept: tuple[Batch, ...], fault: str
) -> None:
    assert fault in faults(*reports, kept=kept)


def test_a_life_that_ends_by_itself_is_to_announce_everything() -> None:
    assert "only 0 were announced" in faults(CALLED, Phase("closed"), kept=(BATCH,), killed=False)
    assert "it ended while open" in faults(Phase("open"), kept=(), killed=False)


def test_batches_that_were_removed_are_to_be_announced_before() -> None:
    assert "1 batches were removed, and 0 announced" in faults(CALLED, kept=(), anchor=1)


def test_decisions_are_compared() -> None:
    let_in: tuple[Event, ...] = (APP,)
    decided = faults_of_decisions([Batch(5, let_in, ())], [])

    assert "the machines decide" in decided[0]
    assert "decision 1 is not that of the naive model" in decided[1]


def test_states_are_compared() -> None:
    account = faults_of_decisions([Batch(0, (), ())], [state_shown(1, 1)])

    assert "after batch 1, the machines (-) and the scheduler (+):" in account[0]
    assert any("after batch 1, the model (-)" in one for one in account)


def test_reports_that_were_cut_short_do_not_count() -> None:
    reading, writing = os.pipe()
    reports: list[Report] = [
        Phase("open"),
        CALLED,
        *ANNOUNCED,
        RecordEntry(7, Configure(default_configuration())),
    ]
    try:
        writer = ReportWriter(writing)
        for report in reports:
            writer.write(report)
        data = os.read(reading, 1 << 16)
    finally:
        os.close(reading)
        os.close(writing)
    reader = ReportReader()

    received = list(reader.feed(data[:-1]))
    assert received == reports[:-1]
    assert list(reader.feed(data[-1:])) == reports[-1:]
