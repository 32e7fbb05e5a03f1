"""The books of a storm: what was sent, answered and followed, and what of it the stores have."""

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
_TELL: Final = 5
"""How many faults of a kind are told; where one is, there may be thousands."""


@final
@attrs.frozen
class Answer:
    """An answer to a call.

    Attributes:
        server: The name of who has answered.
        headers: The batch, and the numbers of its first and its last decision; None where not told.
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
        """What is sent."""
        return json.dumps([*self.events]).encode()

    @property
    def asks(self) -> Iterator[str]:
        """The asks that it adds."""
        return (one["ask"] for one in self.events if one["op"] == "add_ask")


@final
class History:
    """The batches of those who led, put together of their stores.

    A store that began with a copy lacks what came before: that is in the store of the leader before.

    Attributes:
        batches: The batches, from the first one.
    """

    def __init__(self) -> None:
        self.batches: list[KeptBatch] = []

    def take(self, directory: Path, before: Path) -> Iterator[str]:
        """Take what is new in the store of who leads; yield what is wrong.

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
    """What clients know, and what stores have.

    Attributes:
        calls: All calls.
        history: The batches of those who led.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.history = History()
        self._checked = 0

    def note(self, call: Call, answer: Answer) -> Iterator[str]:
        """Note an answer; yield what is wrong with it."""
        call.answers.append(answer)
        first = call.answers[0]
        if (answer.headers, answer.body) != (first.headers, first.body):
            yield f"{call.key} was answered with {first}, and then with {answer}"

    # What has to be so

    def at_promotion(self, directory: Path, before: Path, answered: Sequence[Call]) -> list[str]:
        """Check the store of who leads now; return what is wrong.

        Args:
            directory: Its state directory.
            before: That of the other server.
            answered: The calls that had been answered before.
        """
        return [*self.history.take(directory, before), *self._of_calls(directory, answered)]

    def at_end(self, directory: Path, other: Path) -> list[str]:
        """Check the stores in the end, when nobody writes; return what is wrong.

        Args:
            directory: The state directory of who leads.
            other: That of the follower.
        """
        answered = [one for one in self.calls if one.answers]
        return [
            *self.at_promotion(directory, other, answered),
            *self._of_events(),
            *_between(directory, other),
            *self._of_replay(),
            *(fault for one in (directory, other) for fault in verify(one)),
        ]

    def _of_calls(self, directory: Path, answered: Sequence[Call]) -> Iterator[str]:
        """Yield the answered calls that are not as they were answered."""
        with StateReader(directory) as reader:
            rows = {row.key: row.batch for row in reader.requests(0)}
        faults = 0
        for call in answered:
            batch, *seqs = call.answers[0].headers
            there = rows.get(call.key)
            if there is None or there > len(self.history.batches):
                told = f"is not in {directory} (batch {there})"
            elif there != batch or self.history.seqs(there) != (*seqs,):
                told = f"is in batch {there} with decisions {self.history.seqs(there)}"
            else:
                continue
            faults += 1
            if faults <= _TELL:
                yield f"{call.key} was answered with {call.answers[0]}, and {told}"
        if faults > _TELL:
            yield f"... and {faults - _TELL} more answered calls are not as they were answered"

    def _of_events(self) -> Iterator[str]:
        """Yield the asks that nobody has added, or that were let in twice."""
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
        yield from faults[:_TELL]

    def _of_replay(self) -> Iterator[str]:
        """Yield the first batch that is decided otherwise when all are let in again."""
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

    def of_watcher(self, name: str, seen: Sequence[str]) -> Iterator[str]:
        """Yield where a client that followed the decisions has got others than the store has."""
        kept = self.history.lines()
        for seq, (one, other) in enumerate(zip(seen, kept, strict=False), 1):
            if one != other:
                yield f"{name}: decision {seq} was {one}, and the store has {other}"
                return
        if len(seen) != len(kept):
            yield f"{name} has got {len(seen)} decisions, and the store has {len(kept)}"


def _between(one: Path, other: Path) -> Iterator[str]:
    """Yield where two stores differ, up to the end of the shorter one."""
    with StateReader(one) as left, StateReader(other) as right:
        first = max(left.meta.anchor.batch, right.meta.anchor.batch)
        last = min(left.last().batch, right.last().batch)
        for start in range(first, last + 1, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, last + 1))
            for here, there in zip(left.places(numbers), right.places(numbers), strict=True):
                if here != there:
                    yield f"{one} has {here}, and {other} has {there}"
                    return
        if left.meta.term != right.meta.term:
            yield f"{one} has term {left.meta.term}, and {other} has term {right.meta.term}"
