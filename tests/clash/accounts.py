"""What was answered against what the store holds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, final

from muster.store import StateReader
from muster.store._rows import KeptBatch
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Kind
from muster_core.events import AddNode, Configure, Event, RemoveApp, RemoveNode
from tests.clash.drawing import LEASED, MARK, Draft, Kept
from tests.clash.wire import Answer

_NUMBERS: Final = ("muster-batch", "muster-first-seq", "muster-last-seq")
_REJECTED: Final = Kind.REJECTED


def numbers_of(answer: Answer) -> tuple[int | None, ...]:
    """Return what the headers of an answer say about the batch."""
    return tuple(answer.number(name) for name in _NUMBERS)


@final
class Account:
    """What was sent and answered in a round, and what the store must hold then.

    Args:
        configurations: Those that clients or the start of the server may put in force.

    Attributes:
        heard: The last batch that any answer has named; later answers are not older.
        decisions: All decisions that were found in the store, in order.
        batches: How many batches were found in the store.
        answered: How many requests with events were answered.
        scheduler: One that was let in again what is in the store.
    """

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        self._configurations = configurations
        self._marked: dict[str, Draft] = {}
        self._drafts: list[Draft] = []
        self._unmarked: Counter[tuple[int, str]] = Counter()
        self._unmarked_drafts: list[Draft] = []
        self._index = 0
        self._has_leases = False
        self.heard = 0
        self.decisions: list[Announced] = []
        self.batches = 0
        self.answered = 0
        self.scheduler = PlainScheduler(default_configuration())

    def begin(self, draft: Draft) -> None:
        """Take into account that a request is about to be sent for the first time."""
        if draft.marker:
            self._drafts.append(draft)
            self._marked[draft.marker] = draft
        else:
            self._unmarked_drafts.append(draft)

    # Answers

    def answer(self, draft: Draft, answer: Answer) -> Iterator[str]:
        """Take an answer with status 200 into account; yield what is wrong with it."""
        told = (numbers_of(answer), answer.body)
        draft.answers.append(told)
        self.answered += 1
        if draft.answers[0] != told:
            yield f"{draft.marker}: answered as {told}, and before as {draft.answers[0]}"
        batch = told[0][0]
        if (batch is None) != (not draft.events):
            yield f"{draft.marker}: {len(draft.events)} valid events, and batch {batch}"
        if batch is not None:
            self.heard = max(self.heard, batch)
        found = answer.json()
        if [one["index"] for one in found] != [*range(len(draft.is_valid))]:
            yield f"{draft.marker}: {len(draft.is_valid)} events were answered with {found}"
            return
        for one, is_valid in zip(found, draft.is_valid, strict=True):
            if one["ok"] != (one["error"] is None) or (one["ok"] and not is_valid):
                yield f"{draft.marker}: an event was answered with {one}"

    # The store

    def read(self, directory: Path) -> list[str]:
        """Read what is new in the store; return what is wrong with it, or with answers.

        Args:
            directory: The state directory; nobody writes to it.
        """
        faults: list[str] = []
        with StateReader(directory) as reader:
            for batch in reader.batches(after=self.batches):
                faults += self._take(batch)
            rows = {row.key: row for row in reader.requests(0)}
        for draft in self._drafts:
            faults += _faults_of(draft)
            key = draft.key
            if key is None:
                continue
            row = rows.pop(key, None)
            there = None if row is None else (row.batch, row.first, row.count)
            kept = draft.kept
            wanted = None if kept is None else (kept.batch, kept.first, len(draft.events))
            if there != wanted:
                faults.append(f"{key}: the store says {there} of it, and has it at {wanted}")
        faults += [f"{key}: nobody has sent a request with this key" for key in rows]
        self._drafts = [
            one
            for one in self._drafts
            if one.key is not None or one.kept is None or not one.answers
        ]
        faults += self._faults_of_unmarked()
        if self.heard > self.batches:
            faults.append(f"batch {self.heard} was answered, and {self.batches} are kept")
        return faults

    def _take(self, batch: KeptBatch) -> Iterator[str]:
        """Take a batch into account; yield what nobody has sent, and decisions that differ."""
        errors = {
            one.decision.index: one.decision.message or ""
            for one in batch.decisions
            if one.decision.kind is _REJECTED
        }
        seqs = (batch.first_seq, batch.last_seq) if batch.decisions else None
        at, events = 0, batch.events
        while at < len(events):
            event = events[at]
            draft = None
            if isinstance(event, RemoveApp) and event.app.startswith(MARK):
                draft = self._marked.get(event.app)
                if draft is None:
                    yield f"batch {batch.number}: nobody has sent {event}"
            if draft is None:
                yield from self._take_unmarked(batch.number, event)
                at += 1
                continue
            count = len(draft.events)
            if list(events[at : at + count]) != list(draft.events):
                yield f"batch {batch.number}: not the events of {draft.marker}, or not in order"
            if draft.kept is not None or not draft.was_sent:
                yield f"batch {batch.number}: {draft.marker} is there, as if sent once more"
            first = self._index + at
            wrong = {n: errors[first + n] for n in range(count) if first + n in errors}
            draft.kept = Kept(batch.number, seqs, first, wrong)
            at += max(1, count)
        yield from self._let_in(batch)

    def _take_unmarked(self, number: int, event: Event) -> Iterator[str]:
        match event:
            case Configure():
                if event.config not in self._configurations:
                    yield f"batch {number}: nobody has sent {event}"
            case RemoveNode() if event.node.startswith(LEASED):
                if not self._has_leases:
                    yield f"batch {number}: {event}, and no node had a lease"
            case _:
                self._unmarked[number, repr(event)] += 1

    def _let_in(self, batch: KeptBatch) -> Iterator[str]:
        """Let a batch in again; yield where the decisions differ."""
        before = len(self.scheduler.announced)
        for event in batch.events:
            self._has_leases |= isinstance(event, AddNode) and event.lease_us is not None
            self.scheduler.submit(event, batch.at_us, self._index)
            self._index += 1
        self.scheduler.settle(batch.at_us)
        decided = self.scheduler.announced[before:]
        if list(decided) != list(batch.decisions):
            yield f"batch {batch.number}: {batch.decisions} is kept, and {decided} is decided"
        self.decisions += batch.decisions
        self.batches = batch.number

    def _faults_of_unmarked(self) -> Iterator[str]:
        there, tried = Counter[str](), Counter[str]()
        for (_, said), count in self._unmarked.items():
            there[said] += count
        answered = Counter[tuple[int, str]]()
        for draft in self._unmarked_drafts:
            (event,) = draft.events or (None,)
            tried[repr(event)] += draft.tries
            for (batch, *_), _ in draft.answers:
                if batch is not None:
                    answered[batch, repr(event)] += 1
        for said, count in there.items():
            if count > tried[said]:
                yield f"{said} is kept {count} times, and was sent {tried[said]} times"
        for place, count in answered.items():
            if count > self._unmarked[place]:
                yield f"{place} was answered {count} times, kept {self._unmarked[place]} times"


def _faults_of(draft: Draft) -> Iterator[str]:
    """Yield where the answers of a request do not say what is kept."""
    kept = draft.kept
    for told, body in draft.answers[:1]:
        if kept is None:
            if draft.events:
                yield f"{draft.marker} was answered with {told}, and is not kept"
            continue
        if told != (kept.batch, *(kept.seqs or (None, None))):
            yield f"{draft.marker} was answered with {told}, and kept in {kept}"
        valid = 0
        for one, is_valid in zip(json.loads(body), draft.is_valid, strict=False):
            if is_valid and one["error"] != kept.errors.get(valid):
                yield f"{draft.marker}: {one} was answered, and kept is {kept}"
            valid += is_valid
