"""Compare the real scheduler's log with the naive model's, decision by decision.

The messages of refusals and of ``config`` are each implementation's own, so only
the kind, and of a refusal the index, is compared there; of the warning of a deadlock
the names of the gangs. What each shows of its state can be compared too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Final, Protocol, TypeVar, cast, final

import attrs

from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import Event
from muster_core.snapshots import Snapshot
from tests.naive.reasons import Account, agree
from tests.naive.scheduler import NaiveScheduler
from tests.naive.shown import Shown, differences, shown, snapshot_of


@final
class Marker(Enum):
    """What a step can be besides an event or a refusal."""

    SETTLE = "settle"


DEADLOCK: Final = "deadlock of gangs"
GANG_NAME: Final = re.compile(r"[a-z0-9-]+/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")

T = TypeVar("T")

SETTLE: Final = Marker.SETTLE
"""Closes the batch and runs the rounds."""


What = Event | str | Marker
Accounts = Mapping[str, Account]


class _Printer(Protocol):
    def text(self, text: str) -> None: ...


def brief(what: object) -> str:
    """Give an event, or a part of one, in one line: only what is not as by default."""
    if isinstance(what, Marker):
        return what.name
    if isinstance(what, tuple | list):
        return f"({', '.join(brief(one) for one in cast('Sequence[object]', what))})"
    cls = type(what)
    if not attrs.has(cls):
        return repr(what)
    fields = [(field, getattr(what, field.name)) for field in attrs.fields(cls)]
    told = [f"{field.name}={brief(value)}" for field, value in fields if value != field.default]
    return f"{cls.__name__}({', '.join(told)})"


@final
@attrs.frozen
class Step:
    """One step of a scenario; its index is its place in it, ``SETTLE`` steps counted too.

    Attributes:
        at_us: When, in microseconds since the start; never before the step before.
        what: An event, why an event is unusable, or ``SETTLE``.
    """

    at_us: int
    what: What = attrs.field(repr=brief)

    def _repr_pretty_(self, printer: _Printer, cycle: bool) -> None:
        """Keep Hypothesis from spreading a configuration over a hundred lines."""
        printer.text("..." if cycle else repr(self))


Scenario = Sequence[Step]
Runner = Callable[[Scenario], Sequence[Announced]]


@final
@attrs.frozen
class Observed:
    """What the real scheduler decided, and what it showed of its state.

    Attributes:
        decisions: The whole log.
        snapshots: One after each ``SETTLE`` step and one at the end.
        accounts: At the same places, why each ask that is not bound is not running, by
            ``app/ask``.
    """

    decisions: Sequence[Announced]
    snapshots: Sequence[Snapshot]
    accounts: Sequence[Accounts]


Observer = Callable[[Scenario], Observed]


@final
@attrs.frozen
class Batch:
    """One batch of the naive model, with what went in and what was decided."""

    at_us: int
    entries: tuple[tuple[int, Event | str], ...]
    decisions: tuple[Decision, ...]


class Drive:
    """Drives a naive scheduler through a scenario, batch by batch.

    Args:
        model: The scheduler, fresh. Between two steps it shows what the events so far
            have done, though not yet what the rounds of the open batch will do.
        after: Called after each batch, for checks.
    """

    def __init__(
        self, model: NaiveScheduler, after: Callable[[NaiveScheduler, Batch], None] | None = None
    ) -> None:
        self.model = model
        self._after = after
        self._now_us = 0
        self._open: list[tuple[int, Event | str]] | None = None
        self.batches: list[Batch] = []

    def run(self, scenario: Scenario) -> list[Batch]:
        """Work off a scenario and all timers after it."""
        for index, step in enumerate(scenario):
            self.step(index, step)
        return self.finish()

    def finish(self) -> list[Batch]:
        """Close the last batch and work off all timers."""
        if self._open is not None:
            self._close()
        self._timers(None)
        return self.batches

    def step(self, index: int, step: Step) -> None:
        """Take the next step."""
        if step.at_us > self._now_us:
            if self._open is not None:
                self._close()
            self._timers(step.at_us)
            self._now_us = step.at_us
        if self._open is None:
            self._begin()
        if isinstance(step.what, Marker):
            self._close()
        else:
            self._enter(index, step.what)

    def _begin(self) -> None:
        self._open = []
        self.model.begin(self._now_us)

    def _enter(self, index: int, entry: Event | str) -> None:
        if self._open is not None:
            self._open.append((index, entry))
        self.model.enter(index, entry, self._now_us)

    def _close(self) -> None:
        decisions = self.model.close(self._now_us)
        batch = Batch(self._now_us, tuple(self._open or ()), tuple(decisions))
        self._open = None
        self.batches.append(batch)
        if self._after is not None:
            self._after(self.model, batch)

    def _timers(self, until_us: int | None) -> None:
        """Run the batches of the timers that are due before an instant, None: all."""
        while (due := self.model.next_deadline()) is not None:
            if until_us is not None and due >= until_us:
                return
            self._now_us = max(self._now_us, due)  # A wait made shorter may be over long ago.
            self._begin()
            self._close()


@final
class Played(list[Step]):
    """Steps that a naive scheduler takes as they are appended, which need not be taken again.

    Args:
        drive: What drives it.
    """

    def __init__(self, drive: Drive) -> None:
        super().__init__()
        self._drive: Drive | None = drive

    def play(self, step: Step) -> None:
        """Take one more step."""
        assert self._drive is not None
        self._drive.step(len(self), step)
        self.append(step)

    def take_drive(self) -> Drive | None:
        """Give what has taken these steps, and has not taken others; only the first time."""
        drive, self._drive = self._drive, None
        return drive


def _driven(scenario: Scenario) -> Drive:
    """Give a drive that has taken all steps of a scenario."""
    drive = scenario.take_drive() if isinstance(scenario, Played) else None
    if drive is None:
        drive = Drive(NaiveScheduler())
        for index, step in enumerate(scenario):
            drive.step(index, step)
    return drive


def compare(scenario: Scenario, runner: Runner) -> NaiveScheduler:
    """Check that the real scheduler decides as the naive one does.

    Args:
        scenario: What comes in.
        runner: The real scheduler: gives its whole log for a scenario.

    Returns:
        The naive one, as it is at the end.

    Raises:
        AssertionError: If they differ; the message tells the first difference.
    """
    drive = _driven(scenario)
    _compare_logs(scenario, drive.finish(), _telling(scenario, runner))
    return drive.model


def compare_with_state(scenario: Scenario, observer: Observer) -> None:
    """Check that the real scheduler decides as the naive one does, and shows the same.

    Args:
        scenario: What comes in.
        observer: The real scheduler, of which snapshots were taken on the way.

    Raises:
        AssertionError: If they differ; the message tells the first difference.
    """
    drive = Drive(NaiveScheduler())
    pictures: list[tuple[Shown, Accounts]] = []
    for index, step in enumerate(scenario):
        drive.step(index, step)
        if isinstance(step.what, Marker):
            pictures.append(_picture_of(drive.model))
    batches = drive.finish()
    pictures.append(_picture_of(drive.model))
    observed = _telling(scenario, observer)
    _compare_logs(scenario, batches, observed.decisions)
    settled = [f"step {at}" for at, step in enumerate(scenario) if isinstance(step.what, Marker)]
    places = [*settled, "the end"]
    for place, (want, _), snapshot in zip(places, pictures, observed.snapshots, strict=True):
        got = shown(snapshot)
        if got != want:
            raise AssertionError(_lines(scenario, f"at {place}", *differences(want, got)))
    for place, (_, own), accounts in zip(places, pictures, observed.accounts, strict=True):
        for name in sorted({*own, *accounts}):
            mine, theirs = own.get(name), accounts.get(name)
            if mine is None or theirs is None or not agree(mine, theirs):
                found = f"  - {mine}", f"  + {theirs}"
                raise AssertionError(_lines(scenario, f"at {place}, of {name}:", *found))


def _lines(scenario: Scenario, *lines: str) -> str:
    return "\n".join([*lines, "the scenario:", *_told(scenario)])


def _picture_of(model: NaiveScheduler) -> tuple[Shown, Accounts]:
    return shown(snapshot_of(model)), model.accounts


def _telling(scenario: Scenario, run: Callable[[Scenario], T]) -> T:
    """Run a scenario; an error tells which one it was."""
    try:
        return run(scenario)
    except Exception as error:
        error.add_note("\n".join(["the scenario:", *_told(scenario)]))
        raise


def _compare_logs(scenario: Scenario, batches: Sequence[Batch], log: Sequence[Announced]) -> None:
    expected = [(batch, decision) for batch in batches for decision in batch.decisions]
    actual = list(log)
    for place, (want, got) in enumerate(zip_longest(expected, actual)):
        if want is not None and got is not None and _same(want[0].at_us, want[1], got, place + 1):
            continue
        raise AssertionError(_difference(scenario, expected, actual, place))


def _same(at_us: int, decision: Decision, got: Announced, seq: int) -> bool:
    same_place = (got.seq, got.at_us) == (seq, at_us)
    return same_place and comparable(got.decision) == comparable(decision)


def comparable(decision: Decision) -> Decision:
    """Leave out of a decision what each implementation may say in its own words."""
    index = decision.index if decision.kind is Kind.REJECTED else None
    keeps_message = decision.kind not in {Kind.REJECTED, Kind.CONFIG}
    message = decision.message if keeps_message else None
    if decision.kind is Kind.WARNING and message is not None and message.startswith(DEADLOCK):
        message = " ".join([DEADLOCK, *sorted(set(GANG_NAME.findall(message)))])
    return attrs.evolve(decision, message=message, index=index, line=None)


def _difference(
    scenario: Scenario,
    expected: Sequence[tuple[Batch, Decision]],
    actual: Sequence[Announced],
    place: int,
) -> str:
    batch = expected[place][0] if place < len(expected) else None
    at_us = batch.at_us if batch is not None else actual[place].at_us
    lines = [f"decision {place + 1}, in the batch at {at_us} us", "the scenario:"]
    lines += _told(scenario)
    if batch is not None:
        lines.append(f"this batch's events: {[index for index, _ in batch.entries]}")
    lines.append("the decisions before it, in both logs:")
    lines += [f"    {tell(a, d)}" for a, d in _timed(expected)[max(0, place - 12) : place]]
    lines.append("then the naive model:")
    lines += [f"  - {tell(a, d)}" for a, d in _timed(expected)[place : place + 5]] or ["  - (end)"]
    lines.append("and the scheduler:")
    rest = actual[place : place + 5]
    lines += [f"  + {tell(got.at_us, got.decision)} (seq {got.seq})" for got in rest]
    if not rest:
        lines.append("  + (end)")
    return "\n".join(lines)


def _told(scenario: Scenario) -> list[str]:
    return [
        f"  [{index}] {step.at_us} us: {brief(step.what)}" for index, step in enumerate(scenario)
    ]


def _timed(expected: Sequence[tuple[Batch, Decision]]) -> list[tuple[int, Decision]]:
    return [(batch.at_us, decision) for batch, decision in expected]


def tell(at_us: int, decision: Decision) -> str:
    """Give a decision in one short line."""
    names = (
        "app",
        "ask",
        "node",
        "queue",
        "gang",
        "reason",
        "state",
        "priority",
        "message",
        "index",
        "start_us",
    )
    values = ((name, getattr(decision, name)) for name in names)
    said = " ".join(f"{name}={value}" for name, value in values if value is not None)
    return f"{at_us} us {decision.kind.value} {said}"
