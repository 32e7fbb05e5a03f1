"""The plain algorithm as an oracle: on the order of entry it decides the same."""

from __future__ import annotations

from itertools import zip_longest

from muster.testing._helpers import decided
from muster.testing.fuzz import Outcome
from muster_core.decisions import Announced, Decision
from muster_core.events import Apply, Delete, Event, ObjectKind, QueueObject
from tests.naive.directory import replace
from tests.naive.harness import SETTLE, Drive, Step, comparable, tell
from tests.naive.scheduler import NaiveScheduler


def naive(outcome: Outcome) -> list[str]:
    """Return where the plain algorithm decides differently on the same events."""
    story = outcome.story
    entries = list(decided((one.at_us, one.event) for one in story.entries))
    if any(speaks_of_queue_objects(event) for _, _, event in entries):
        return []
    expected = _decided(outcome, [_step(at_us, event) for at_us, _, event in entries])
    for place, (want, got) in enumerate(
        zip_longest(expected[: len(story.decisions)], story.decisions)
    ):
        if want is None or got is None or not _same(want, got):
            return [_difference(place, expected, story.decisions)]
    return []


def speaks_of_queue_objects(event: Event | None) -> bool:
    """Return whether an event is about Volcano Queues, which the plain algorithm does not know."""
    match event:
        case Apply(objects):
            return any(isinstance(one.content, QueueObject) for one in objects)
        case Delete(names):
            return any(one.content.kind is ObjectKind.QUEUE for one in names)
        case _:
            return False


def _step(at_us: int, event: Event | None) -> Step:
    return Step(at_us, SETTLE if event is None else event)


def _decided(outcome: Outcome, steps: list[Step]) -> list[tuple[int, Decision]]:
    model = NaiveScheduler()
    if outcome.configuration is not None:
        replace(model.world, outcome.configuration)
    drive = Drive(model)
    if outcome.story.decisions:  # Timers may have gone off after what came last.
        steps = [*steps, Step(max(outcome.story.decisions[-1].at_us, steps[-1].at_us) + 1, SETTLE)]
    index = 0
    for step in steps:
        drive.step(index, step)
        index += step.what is not SETTLE
    return [(batch.at_us, decision) for batch in drive.batches for decision in batch.decisions]


def _same(want: tuple[int, Decision], got: Announced) -> bool:
    return want[0] == got.at_us and comparable(want[1]) == comparable(got.decision)


def _difference(place: int, expected: list[tuple[int, Decision]], got: list[Announced]) -> str:
    lines = [f"decision {place + 1} is not that of the plain algorithm"]
    lines += [f"    {tell(one.at_us, one.decision)}" for one in got[max(0, place - 6) : place]]
    lines += [f"  - {tell(*one)}" for one in expected[place : place + 4]] or ["  - (end)"]
    lines += [f"  + {tell(one.at_us, one.decision)}" for one in got[place : place + 4]]
    return "\n".join(lines)
