"""The decisions that are kept against those of the naive model and of the machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from muster_core.config import default_configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Decision
from tests.crash.accounts import Batch
from tests.crash.reports import Looked
from tests.fuzz.naive_oracle import speaks_of_queue_objects
from tests.naive.harness import SETTLE, Drive, Step, comparable, tell
from tests.naive.scheduler import NaiveScheduler
from tests.naive.shown import Shown, differences, shown, snapshot_of


def faults_of_decisions(batches: Sequence[Batch], looks: Sequence[Looked]) -> list[str]:
    """Decide again what was let in; return where decisions or states are different.

    Args:
        batches: All batches of a directory, from the first one on.
        looks: The states that were shown, each with the number of the last batch.
    """
    kept = [one for batch in batches for one in batch.decisions]
    states = {look.batches: shown(look.snapshot) for look in looks}
    faults = list(_faults_of_machines(batches, kept, states))
    # The naive model does not know Volcano Queues.
    if not any(speaks_of_queue_objects(event) for batch in batches for event in batch.events):
        faults += _faults_of_model(batches, kept, states)
    return faults


def _faults_of_machines(
    batches: Sequence[Batch], kept: Sequence[Announced], states: dict[int, Shown]
) -> Iterator[str]:
    plain = PlainScheduler(default_configuration())
    index = 0
    for number, batch in enumerate(batches, 1):
        for event in batch.events:
            plain.submit(event, batch.at_us, index)
            index += 1
        plain.settle(batch.at_us)
        if number in states:
            yield from _of_state(number, shown(plain.snapshot()), states[number], "the machines")
    for want, got in zip_longest(plain.announced, kept):
        if want != got:
            yield f"the machines decide {want}, and {got} is kept"
            return


def _faults_of_model(
    batches: Sequence[Batch], kept: Sequence[Announced], states: dict[int, Shown]
) -> Iterator[str]:
    model = NaiveScheduler()
    drive = Drive(model)
    index = 0
    for number, batch in enumerate(batches, 1):
        for what in (*batch.events, SETTLE):
            drive.step(index, Step(batch.at_us, what))
            index += what is not SETTLE
        if number in states:
            yield from _of_state(number, shown(snapshot_of(model)), states[number], "the model")
    decided = [(one.at_us, decision) for one in drive.batches for decision in one.decisions]
    for place, (want, got) in enumerate(zip_longest(decided, kept)):
        if want is None or got is None or not _same(want, got):
            yield _difference(place, decided, kept)
            return


def _of_state(number: int, want: Shown, got: Shown, who: str) -> Iterator[str]:
    found = differences(want, got)
    if found:
        yield "\n".join([f"after batch {number}, {who} (-) and the scheduler (+):", *found])


def _same(want: tuple[int, Decision], got: Announced) -> bool:
    return want[0] == got.at_us and comparable(want[1]) == comparable(got.decision)


def _difference(
    place: int, expected: Sequence[tuple[int, Decision]], kept: Sequence[Announced]
) -> str:
    lines = [f"decision {place + 1} is not that of the naive model"]
    lines += [f"    {tell(one.at_us, one.decision)}" for one in kept[max(0, place - 6) : place]]
    lines += [f"  - {tell(*one)}" for one in expected[place : place + 4]] or ["  - (end)"]
    lines += [f"  + {tell(one.at_us, one.decision)}" for one in kept[place : place + 4]]
    return "\n".join(lines)
