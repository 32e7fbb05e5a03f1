"""Checks after a run: the calls against the recorded input, and a replay of this input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from muster.feeds import DecisionLog, Encoding
from muster.testing._inputs import decided
from muster.testing.fuzz._program import Key
from muster.testing.fuzz._records.book import CallLog, End
from muster.testing.fuzz._records.story import Story, key_of
from muster_core.coordinator.plain import PlainScheduler

if TYPE_CHECKING:
    from muster_core.config.model import Configuration
    from muster_core.decisions import Announced

# Looking up a member of an enum takes ten times as long, and this is done for each call.
_RETURNED: Final = End.RETURNED
_REFUSED: Final = End.REFUSED
_CLOSED: Final = End.CLOSED

_BY_ITSELF: Final = frozenset({"Release", "RemoveAsk", "BindFailed"})
"""The events that the scheduler submits by itself, for binders and for bodies that have ended."""


def faults_of_calls(call_log: CallLog, story: Story, own: Iterable[Key] = ()) -> Iterator[str]:
    """Compare the answers of calls with the recorded events.

    The events of a call that returned or was refused were recorded once; those of a cancelled or
    invalid call were not. Events in a batch that was never announced do not count.

    Args:
        call_log: The calls.
        story: The recorded events.
        own: What the scheduler may have submitted besides.
    """
    done: Counter[Key] = Counter()
    perhaps: Counter[Key] = Counter(own)
    for call in call_log.calls:
        if call.end is None:
            yield f"{call}"
        elif call.end in {_RETURNED, _REFUSED}:
            done.update(call.keys)
        elif call.end is _CLOSED:
            perhaps.update(call.keys)
    yield from _refused_by_itself(story, done + perhaps)
    for key in sorted({*done, *perhaps, *story.closed}):
        there, least = story.closed[key], done[key]
        most = least + perhaps[key]
        if there < least:
            yield f"{least} calls about {key} were answered, but only {there} let in"
        elif there > most and key[0] not in _BY_ITSELF:
            yield f"{there} events about {key} were let in, but only {most} calls made"


def _refused_by_itself(story: Story, made: Counter[Key]) -> Iterator[str]:
    """Yield a fault for each event that the scheduler has submitted by itself twice in a batch.

    One such event may be in vain, because a timer of the same instant came first.
    """
    batch: Counter[Key] = Counter()
    for entry in story.entries:
        if entry.event is None:
            for key, times in batch.items():
                if times > 1 and not made[key]:
                    yield f"{times} events about {key} were let in into one batch"
            batch.clear()
        elif type(entry.event).__name__ in {"Release", "BindFailed"}:
            batch[key_of(entry.event)] += 1


def replay(story: Story, configuration: Configuration | None) -> list[Announced]:
    """Replay the recorded input in the machines, without tasks, and return their decisions.

    Input after the end of the last batch is left out. At the end all timers run.
    """
    plain = PlainScheduler(configuration)
    for at_us, index, event in decided((one.at_us, one.event) for one in story.entries):
        if event is None:
            plain.settle(at_us)
        else:
            plain.submit(event, at_us, index)
    plain.finish()
    return plain.announced


def faults_of_replay(story: Story, expected: Sequence[Announced], who: str) -> Iterator[str]:
    """Compare the log with a replay byte by byte; the replay may have more decisions."""
    wants, got = lines_of(expected[: len(story.decisions)]), lines_of(story.decisions)
    for place, (want, one) in enumerate(zip_longest(wants, got)):
        if want != one:
            yield difference(place, lines_of(expected), got, who)
            return


def lines_of(decisions: Sequence[Announced]) -> list[bytes]:
    """Return the lines of a decision log."""
    stream = BytesIO()
    with DecisionLog(stream, encoding=Encoding.JSON_LINES) as log:
        log.write(decisions)
    return stream.getvalue().splitlines()


def difference(place: int, expected: Sequence[bytes], got: Sequence[bytes], who: str) -> str:
    """Describe the first difference between a log and a replay."""
    before = [f"    {line.decode()}" for line in got[max(0, place - 5) : place]]
    wants = [f"  - {line.decode()}" for line in expected[place : place + 4]] or ["  - (end)"]
    has = [f"  + {line.decode()}" for line in got[place : place + 4]] or ["  + (end)"]
    first = f"decision {place + 1} is not that of {who} (-: {who}, +: the scheduler)"
    return "\n".join([first, *before, *wants, *has])
