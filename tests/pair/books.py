"""The books of a storm: the calls, answers and followed decisions, compared with the stores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import attrs

from muster.feeds._output import decision_line
from muster.store import KeptBatch, StateReader
from muster.store._reader import verify
from muster_core.config import default_configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddAsk

_AT_ONCE: Final = 1000
_MOST_REPORTED: Final = 5
"""How many faults of a kind are reported; where there is one, there may be thousands."""


@final
@attrs.frozen
class Answer:
    """An answer to a call.

    Attributes:
        server: The name of the server.
        headers: The batch, and the numbers of its first and its last decision; None if missing.
        body: The answer.
    """

    server: str
    headers: tuple[int | None, int | None, int | None]
    body: bytes


@final
@attrs.define(eq=False)
class Call:
    """A call of a client, which is repeated until it is answered.

    Attributes:
        key: Its key.
        events: Its events.
        tries: How often it was sent.
        answers: Its answers, all of which say the same.
    """

    key: str
    events: Sequence[Mapping[str, Any]]
    tries: int = 0
    answers: list[Answer] = attrs.field(factory=list[Answer])

    @property
    def body(self) -> bytes:
        """The body of its request."""
        return json.dumps([*self.events]).encode()

    @property
    def asks(self) -> Iterator[str]:
        """The asks that it adds."""
        return (one["ask"] for one in self.events if one["op"] == "add_ask")


@final
class History:
    """The batches of all leaders, put together from their stores.

    A store that began with a copy lacks the batches before: the store of the previous leader has them.

    Attributes:
        batches: The batches, from the first one.
    """

    def __init__(self) -> None:
        self.batches: list[KeptBatch] = []

    def take(self, directory: Path, before: Path) -> Iterator[str]:
        """Add the new batches of the store of the leader; yield faults.

        Args:
            directory: Its state directory.
            before: That of the other server, for what came before a copy.
        """
        with StateReader(directory) as reader:
            begin, last = reader.meta.anchor, reader.last()
            if begin.batch > len(self.batches):
                with StateReader(before) as other:
                    self.batches += other.batches(len(self.batches), begin.batch)
            known = len(self.batches)
            if last.batch < known:
                yield f"{directory} ends at batch {last.batch}, and {known} were there before"
            elif known > 0 and reader.places([known])[0].digest != self.batches[-1].digest:
                yield f"{directory} has another batch {known} than who led before"
            else:
                self.batches += reader.batches(after=known)

    def seqs(self, batch: int) -> tuple[int | None, int | None]:
        """Return the numbers of the decisions of a batch, as an answer has them."""
        one = self.batches[batch - 1]
        return (one.first_seq, one.last_seq) if one.decisions else (None, None)

    def lines(self) -> list[str]:
        """Return the lines of all decisions."""
        found = (one for batch in self.batches for one in batch.decisions)
        return [decision_line(one).decode().rstrip("\n") for one in found]


@final
class Books:
    """Compares what clients know with what stores have.

    Attributes:
        calls: All calls.
        history: The batches of all leaders.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.history = History()
        self._checked = 0

    def note(self, call: Call, answer: Answer) -> Iterator[str]:
        """Note an answer; yield its faults."""
        call.answers.append(answer)
        first = call.answers[0]
        if (answer.headers, answer.body) != (first.headers, first.body):
            yield f"{call.key} was answered with {first}, and then with {answer}"

    # Checks

    def check_promotion(self, directory: Path, before: Path, answered: Sequence[Call]) -> list[str]:
        """Check the store of the new leader; return its faults.

        Args:
            directory: Its state directory.
            before: That of the other server.
            answered: The calls that had been answered before.
        """
        return [*self.history.take(directory, before), *self._faults_of_calls(directory, answered)]

    def check_end(self, directory: Path, other: Path) -> list[str]:
        """Check both stores in the end, when nothing is written; return their faults.

        Args:
            directory: The state directory of the leader.
            other: That of the follower.
        """
        answered = [one for one in self.calls if one.answers]
        return [
            *self.check_promotion(directory, other, answered),
            *self._faults_of_events(),
            *_differences(directory, other),
            *self._faults_of_replay(),
            *(fault for one in (directory, other) for fault in verify(one)),
        ]

    def _faults_of_calls(self, directory: Path, answered: Sequence[Call]) -> Iterator[str]:
        """Yield the answered calls that are not as they were answered."""
        with StateReader(directory) as reader:
            rows = {row.key: row.batch for row in reader.requests(0)}
        faults = 0
        for call in answered:
            batch, *seqs = call.answers[0].headers
            there = rows.get(call.key)
            if there is None or there > len(self.history.batches):
                problem = f"is not in {directory} (batch {there})"
            elif there != batch or self.history.seqs(there) != (*seqs,):
                problem = f"is in batch {there} with decisions {self.history.seqs(there)}"
            else:
                continue
            faults += 1
            if faults <= _MOST_REPORTED:
                yield f"{call.key} was answered with {call.answers[0]}, and {problem}"
        if faults > _MOST_REPORTED:
            yield f"... and {faults - _MOST_REPORTED} more answered calls are not as they were answered"

    def _faults_of_events(self) -> Iterator[str]:
        """Yield the asks that no call has added, or that were let in twice."""
        there = Counter(
            event.ask
            for batch in self.history.batches
            for event in batch.events
            if isinstance(event, AddAsk)
        )
        sent = {ask for call in self.calls for ask in call.asks}
        faults = [
            *(f"ask {ask} was let in {count} times" for ask, count in there.items() if count > 1),
            *(f"ask {ask} was let in, and nobody has sent it" for ask in there.keys() - sent),
        ]
        yield from faults[:_MOST_REPORTED]

    def _faults_of_replay(self) -> Iterator[str]:
        """Yield the first batch that a replay decides otherwise."""
        again, index = PlainScheduler(default_configuration()), 0
        for batch in self.history.batches:
            before = len(again.announced)
            for event in batch.events:
                again.submit(event, batch.at_us, index)
                index += 1
            again.settle(batch.at_us)
            if list(again.announced[before:]) != list(batch.decisions):
                yield f"batch {batch.number} of the store decides otherwise, let in again"
                return

    def faults_of_watcher(self, name: str, seen: Sequence[str]) -> Iterator[str]:
        """Yield where the decisions that a client followed differ from those of the store."""
        kept = self.history.lines()
        for seq, (one, other) in enumerate(zip(seen, kept, strict=False), 1):
            if one != other:
                yield f"{name}: decision {seq} was {one}, and the store has {other}"
                return
        if len(seen) != len(kept):
            yield f"{name} has got {len(seen)} decisions, and the store has {len(kept)}"


def _differences(one: Path, other: Path) -> Iterator[str]:
    """Yield where two stores differ, up to the end of the shorter one."""
    with StateReader(one) as left, StateReader(other) as right:
        first = max(left.meta.anchor.batch, right.meta.anchor.batch)
        last = min(left.last().batch, right.last().batch)
        for start in range(first, last + 1, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, last + 1))
            for ours, theirs in zip(left.places(numbers), right.places(numbers), strict=True):
                if ours != theirs:
                    yield f"{one} has {ours}, and {other} has {theirs}"
                    return
        if left.meta.term != right.meta.term:
            yield f"{one} has term {left.meta.term}, and {other} has term {right.meta.term}"
