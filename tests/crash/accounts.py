"""Compares what lives reported with what the store keeps, and the kept decisions with the naive
model and the machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, final

import attrs

from muster.testing.fuzz._records import key_of
from muster_core.config import default_configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import Event
from tests.crash.protocol import (
    CallAnswered,
    CallMade,
    DecisionsSeen,
    JournalEntry,
    Key,
    LifeFailed,
    Phase,
    RecordEntry,
    Report,
    StateShown,
    WorkStarted,
)
from tests.fuzz.naive_oracle import speaks_of_queue_objects
from tests.naive.harness import SETTLE, Drive, Step, comparable, tell
from tests.naive.scheduler import NaiveScheduler, Shown, differences, shown, snapshot_of

_BY_ITSELF: Final = frozenset({"Release", "RemoveAsk", "BindFailed", "Configure"})
"""The events that the scheduler submits by itself as well."""
_BOUND: Final = Kind.BOUND
_REJECTED: Final = Kind.REJECTED


@final
@attrs.frozen
class Batch:
    """A batch as it was kept.

    Attributes:
        at_us: Its instant.
        events: What was let in.
        decisions: What was decided.
    """

    at_us: int
    events: tuple[Event, ...]
    decisions: tuple[Announced, ...]


@final
@attrs.define
class Announcement:
    """One batch as the journal and the record got it.

    Attributes:
        decisions: What the journal got.
        events: What the record got.
        at_us: Its instant; None if the record has not got its end.
    """

    decisions: tuple[Announced, ...] = ()
    events: list[Event] = attrs.field(factory=list[Event])
    at_us: int | None = None

    def whole(self) -> Batch:
        """Return the batch, which was announced as a whole."""
        assert self.at_us is not None, "it was not heard to its end"
        return Batch(self.at_us, tuple(self.events), self.decisions)


@final
class LifeLog:
    """The reports of a life.

    Attributes:
        phase: The part of the life that goes on.
        batches: What was announced, in order; the last one may not be complete.
        calls: The calls that were not answered, by number.
        done: What was let in for calls that were answered.
        perhaps: What may have been let in for calls that were answered that the scheduler is closed.
        seen: The decisions that each observer read.
        shown_states: The states that were examined.
        refusals: The messages of refusals.
        answered: How many calls were answered.
        faults: The faults that the reports show by themselves.
    """

    def __init__(self) -> None:
        self.phase = "before opening"
        self.batches: list[Announcement] = []
        self.calls: dict[int, CallMade] = {}
        self.done: Counter[Key] = Counter()
        self.perhaps: Counter[Key] = Counter()
        self.seen: dict[int, list[Announced]] = {}
        self.shown_states: list[StateShown] = []
        self.refusals: list[str] = []
        self.answered = 0
        self.faults: list[str] = []
        self._announced: Counter[Key] = Counter()
        self._bound: set[tuple[str | None, str | None, str | None]] = set()

    def add(self, report: Report) -> None:
        """Add a report."""
        match report:
            case JournalEntry() | RecordEntry() | DecisionsSeen() | WorkStarted():
                self._add_decisions(report)
            case Phase(name):
                self.phase = f"while {name}"
            case CallMade(number):
                self.calls[number] = report
            case CallAnswered(number):
                self._answer(self.calls.pop(number), report)
            case StateShown():
                self.shown_states.append(report)
            case LifeFailed(what):
                self.faults.append(what)

    def _add_decisions(
        self, report: JournalEntry | RecordEntry | DecisionsSeen | WorkStarted
    ) -> None:
        match report:
            case JournalEntry(decisions):
                self._open_batch().decisions = decisions
                bound = (one.decision for one in decisions if one.decision.kind is _BOUND)
                self._bound.update((one.app, one.ask, one.node) for one in bound)
            case RecordEntry(at_us, event):
                batch = self._open_batch()
                if event is not None:
                    batch.events.append(event)
                else:
                    batch.at_us = at_us
                    self._announced.update(map(key_of, batch.events))
            case DecisionsSeen(observer, decisions):
                self.seen.setdefault(observer, []).extend(decisions)
            case WorkStarted(app, ask, node, again):
                if not again and (app, ask, node) not in self._bound:
                    self.faults.append(f"the binder runs {app}/{ask} on {node} before it is bound")

    def _open_batch(self) -> Announcement:
        """Return the batch that is being announced."""
        if not self.batches or self.batches[-1].at_us is not None:
            self.batches.append(Announcement())
        return self.batches[-1]

    def _answer(self, call: CallMade, answer: CallAnswered) -> None:
        self.answered += 1
        if answer.done is None:
            self.perhaps.update(call.keys)
        elif answer.done:
            self.done.update(call.keys)
            # The batch of a call is announced before the call is answered.
            for key in call.keys:
                if self._announced[key] < self.done[key]:
                    self.faults.append(f"{call.text} was answered before {key} was announced")
        if answer.refusal is not None:
            self.refusals.append(answer.refusal)


@final
@attrs.frozen
class StoreContent:
    """The content of a state directory.

    Attributes:
        anchor: The last batch that was removed, 0 if none was.
        batches: The batches after that one, and after those that are known.
    """

    anchor: int
    batches: tuple[Batch, ...]


@final
class Account:
    """The expected content of a state directory after some lives.

    Attributes:
        batches: All batches that were kept so far, those too that were removed since.
        shown_states: The states that were examined, in all lives.
        answered: How many calls were answered.
    """

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.shown_states: list[StateShown] = []
        self.answered = 0
        self._done: Counter[Key] = Counter()
        self._perhaps: Counter[Key] = Counter()
        self._kept: Counter[Key] = Counter()
        self._refusals: set[str | None] = set()

    @property
    def last(self) -> int:
        """The number of the last batch that was kept."""
        return len(self.batches)

    @property
    def last_us(self) -> int:
        """The instant of the last batch that was kept."""
        return self.batches[-1].at_us if self.batches else 0

    def take(self, log: LifeLog, kept: StoreContent, *, was_killed: bool) -> list[str]:
        """Add a life; return its faults.

        Args:
            log: Its reports.
            kept: What the directory holds after it.
            was_killed: Whether it was killed.
        """
        before, removed = self.last, max(0, kept.anchor - self.last)
        # What `keep` has removed was announced before, as a whole.
        whole = [one.whole() for one in log.batches if one.at_us is not None]
        new = [*whole[:removed], *kept.batches]
        faults = [*log.faults, *_faults_of_batches(log.batches, new, was_killed=was_killed)]
        if not was_killed and log.phase != "while closed":
            faults.append(f"it ended {log.phase}")
        if removed > len(whole):
            faults.append(f"{removed} batches were removed, and {len(whole)} announced")
        if faults:
            return faults
        self._add(log, new)
        return [
            *self._faults_of_states(log, before),
            *self._faults_of_observers(log),
            *self._faults_of_calls(),
            *(
                f"nothing that is kept was refused as {one!r}"
                for one in log.refusals
                if one not in self._refusals
            ),
        ]

    def _add(self, log: LifeLog, new: Sequence[Batch]) -> None:
        self.batches += new
        self.shown_states += log.shown_states
        self.answered += log.answered
        self._done.update(log.done)
        self._perhaps.update(log.perhaps)
        for call in log.calls.values():
            self._perhaps.update(call.keys)
        for batch in new:
            self._kept.update(map(key_of, batch.events))
            rejected = (one.decision for one in batch.decisions if one.decision.kind is _REJECTED)
            self._refusals.update(one.message for one in rejected)

    def _faults_of_states(self, log: LifeLog, before: int) -> Iterator[str]:
        for state in log.shown_states:
            if not before <= state.batches == state.on_disk <= self.last:
                yield (
                    f"the state of batch {state.batches} was shown when {state.on_disk} batches were "
                    f"on disk, {before} of them from earlier lives"
                )

    def _faults_of_observers(self, log: LifeLog) -> Iterator[str]:
        kept = [one for batch in self.batches for one in batch.decisions]
        for observer, seen in log.seen.items():
            first = seen[0].seq - 1
            if kept[first : first + len(seen)] != seen:
                yield f"observer {observer} saw from decision {first + 1} on what is not kept"

    def _faults_of_calls(self) -> Iterator[str]:
        for key in sorted({*self._kept, *self._done}):
            there, least = self._kept[key], self._done[key]
            most = least + self._perhaps[key]
            if there < least:
                yield f"{least} calls about {key} were answered, but only {there} are kept"
            elif there > most and key[0] not in _BY_ITSELF:
                yield f"{there} events about {key} are kept, but only {most} calls made"


def _faults_of_batches(
    announced: Sequence[Announcement], kept: Sequence[Batch], *, was_killed: bool
) -> Iterator[str]:
    """Yield where the announced batches differ from the kept ones."""
    if len(announced) > len(kept):
        yield f"{len(announced)} batches were announced, and only {len(kept)} are kept"
    elif len(announced) < len(kept) and not was_killed:
        yield f"{len(kept)} batches are kept, and only {len(announced)} were announced"
    for number, (announcement, batch) in enumerate(zip(announced, kept, strict=False)):
        is_whole = announcement.at_us is not None
        if is_whole and announcement.whole() != batch:
            yield f"batch {number} of this life was announced as {announcement}, and kept as {batch}"
        elif not is_whole and number != len(announced) - 1:
            yield f"batch {number} of this life was announced in part: {announcement}"
        elif not is_whole and (
            announcement.decisions not in {(), batch.decisions}
            or tuple(announcement.events) != batch.events[: len(announcement.events)]
        ):
            yield f"batch {number} of this life was announced as {announcement}, and kept as {batch}"


def faults_of_decisions(batches: Sequence[Batch], shown_states: Sequence[StateShown]) -> list[str]:
    """Replay the batches; return where decisions or states differ.

    Args:
        batches: All batches of a directory, from the first one on.
        shown_states: The states that were examined, each with the number of the last batch.
    """
    kept = [one for batch in batches for one in batch.decisions]
    states = {state.batches: shown(state.snapshot) for state in shown_states}
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
            yield from _state_differences(
                number, shown(plain.snapshot()), states[number], "the machines"
            )
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
            yield from _state_differences(
                number, shown(snapshot_of(model)), states[number], "the model"
            )
    decided = [(one.at_us, decision) for one in drive.batches for decision in one.decisions]
    for place, (want, got) in enumerate(zip_longest(decided, kept)):
        if want is None or got is None or not _same(want, got):
            yield _difference(place, decided, kept)
            return


def _state_differences(number: int, want: Shown, got: Shown, who: str) -> Iterator[str]:
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
