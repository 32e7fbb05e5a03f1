"""Compare the real scheduler's log with the naive model's, decision by decision.

In one loop, saved and loaded, or as a story by hand.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Final, Protocol, TypeVar, cast, final

import attrs

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Decision, Kind
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Event
from muster_core.facts import Facts
from muster_core.gangs import GangFields, GangMode
from muster_core.reasons import Explanation
from muster_core.resources import Resources
from muster_core.snapshots import Snapshot, Statistics
from tests.naive.reasons import Account, agree
from tests.naive.scheduler import NaiveScheduler, Shown, differences, shown, snapshot_of


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
    """Return an event, or a part of one, in one line: only what is not as by default."""
    if isinstance(what, Marker):
        return what.name
    if isinstance(what, tuple | list):
        return f"({', '.join(brief(one) for one in cast('Sequence[object]', what))})"
    cls = type(what)
    if not attrs.has(cls):
        return repr(what)
    fields = [(field, getattr(what, field.name)) for field in attrs.fields(cls)]
    parts = [f"{field.name}={brief(value)}" for field, value in fields if value != field.default]
    return f"{cls.__name__}({', '.join(parts)})"


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
class PlayedSteps(list[Step]):
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
        """Return what has taken these steps, and has not taken others; only the first time."""
        drive, self._drive = self._drive, None
        return drive


def _drive_through(scenario: Scenario) -> Drive:
    """Return a drive that has taken all steps of a scenario."""
    drive = scenario.take_drive() if isinstance(scenario, PlayedSteps) else None
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
    drive = _drive_through(scenario)
    _compare_logs(scenario, drive.finish(), _run_with_note(scenario, runner))
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
    observed = _run_with_note(scenario, observer)
    _compare_logs(scenario, batches, observed.decisions)
    settled = [f"step {at}" for at, step in enumerate(scenario) if isinstance(step.what, Marker)]
    places = [*settled, "the end"]
    for place, (want, _), snapshot in zip(places, pictures, observed.snapshots, strict=True):
        got = shown(snapshot)
        if got != want:
            raise AssertionError(_lines(scenario, f"at {place}", *differences(want, got)))
    for place, (_, own), accounts in zip(places, pictures, observed.accounts, strict=True):
        for name in sorted({*own, *accounts}):
            ours, theirs = own.get(name), accounts.get(name)
            if ours is None or theirs is None or not agree(ours, theirs):
                found = f"  - {ours}", f"  + {theirs}"
                raise AssertionError(_lines(scenario, f"at {place}, of {name}:", *found))


def _lines(scenario: Scenario, *lines: str) -> str:
    return "\n".join([*lines, "the scenario:", *_scenario_lines(scenario)])


def _picture_of(model: NaiveScheduler) -> tuple[Shown, Accounts]:
    return shown(snapshot_of(model)), model.accounts


def _run_with_note(scenario: Scenario, run: Callable[[Scenario], T]) -> T:
    """Run a scenario; an error tells which one it was."""
    try:
        return run(scenario)
    except Exception as error:
        error.add_note("\n".join(["the scenario:", *_scenario_lines(scenario)]))
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
    return decision._replace(message=message, index=index, line=None)


def _difference(
    scenario: Scenario,
    expected: Sequence[tuple[Batch, Decision]],
    actual: Sequence[Announced],
    place: int,
) -> str:
    batch = expected[place][0] if place < len(expected) else None
    at_us = batch.at_us if batch is not None else actual[place].at_us
    lines = [f"decision {place + 1}, in the batch at {at_us} us", "the scenario:"]
    lines += _scenario_lines(scenario)
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


def _scenario_lines(scenario: Scenario) -> list[str]:
    return [
        f"  [{index}] {step.at_us} us: {brief(step.what)}" for index, step in enumerate(scenario)
    ]


def _timed(expected: Sequence[tuple[Batch, Decision]]) -> list[tuple[int, Decision]]:
    return [(batch.at_us, decision) for batch, decision in expected]


def tell(at_us: int, decision: Decision) -> str:
    """Return a decision in one short line."""
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
        "over_max",
    )
    values = ((name, getattr(decision, name)) for name in names)
    words = " ".join(f"{name}={value}" for name, value in values if value is not None)
    return f"{at_us} us {decision.kind.value} {words}"


def run_plainly(
    steps: Sequence[Step],
    scheduler: PlainScheduler | None = None,
    settled: Callable[[], None] | None = None,
) -> list[Announced]:
    """Take steps with the machines of Muster, and return what they announced.

    Args:
        steps: The steps.
        scheduler: Who takes them, or None for one of its own.
        settled: Called after each ``SETTLE``.
    """
    scheduler = PlainScheduler() if scheduler is None else scheduler
    for index, step in enumerate(steps):
        if isinstance(step.what, Marker):
            scheduler.settle(step.at_us)
            if settled is not None:
                settled()
        else:
            scheduler.submit(step.what, step.at_us, index)
    scheduler.finish()
    return scheduler.announced


Save = Callable[[Facts], Facts]


def as_it_is(facts: Facts) -> Facts:
    """Take facts through nothing."""
    return facts


def through_bytes(facts: Facts) -> Facts:
    """Return equal facts of which no object is one of these."""
    copied = pickle.loads(pickle.dumps(facts))
    assert isinstance(copied, Facts)
    return copied


@final
class Relay:
    """Takes steps with a scheduler that another one, loaded from facts, replaces after each batch.

    Args:
        save: What facts are taken through, like an encoding and back.
        looks: Whether snapshots and reasons are compared, too; they settle cycles.
    """

    def __init__(self, save: Save = as_it_is, *, looks: bool) -> None:
        self._save = save
        self._looks = looks
        #: Which is saved after each batch, and which never is.
        self.loaded, self.kept = PlainScheduler(), PlainScheduler()
        #: How many batches there were.
        self.batches = 0
        self._open = False
        #: What was announced, of both.
        self.log: list[Announced] = []

    def take(self, steps: Sequence[Step]) -> None:
        """Take steps, and let all timers after them go off."""
        for index, step in enumerate(steps):
            self._pass_until(step.at_us)
            if isinstance(step.what, Marker):
                self._settle(step.at_us)
            else:
                for one in self._schedulers():
                    one.submit(step.what, step.at_us, index)
                self._open = True
        self._pass_until(None)
        assert self.log == run_plainly(steps)

    def _schedulers(self) -> Iterator[PlainScheduler]:
        yield from (self.loaded, self.kept)

    def _pass_until(self, at_us: int | None) -> None:
        """End the open batch if time passes, and have a batch for each timer before an instant."""
        now_us = self.kept.machine.now_us
        if at_us == now_us:
            return
        if self._open:
            self._settle(now_us)
        while (due_us := self.kept.machine.next_deadline_us()) is not None:
            assert self.loaded.machine.next_deadline_us() == due_us
            if at_us is not None and due_us >= at_us:
                return
            self._settle(due_us)

    def _settle(self, at_us: int) -> None:
        for one in self._schedulers():
            one.settle(at_us)
        self._open = False
        self.batches += 1
        self.log += self.loaded.announced
        assert self.log == self.kept.announced
        facts = self.loaded.facts()
        self.loaded = PlainScheduler(facts=self._save(facts))
        assert self.loaded.facts() == facts
        self.loaded.machine.check()
        self._compare(self.loaded.machine.statistics(), self.kept.machine.statistics())
        assert self.loaded.machine.next_deadline_us() == self.kept.machine.next_deadline_us()
        if self._looks:
            assert reasons(self.loaded) == reasons(self.kept)
            own, other = self.loaded.snapshot(), self.kept.snapshot()
            assert own == other
            assert list(own.nodes) == list(other.nodes)

    @staticmethod
    def _compare(own: Statistics, other: Statistics) -> None:
        # How many steps rounds take depends on what they found out before.
        assert attrs.evolve(own, steps=other.steps) == other


def reasons(scheduler: PlainScheduler) -> list[Explanation | None]:
    """Explain everything that is not bound."""
    return [scheduler.explain(app, ask) for app, ask in scheduler.pending()]


S: Final = 1_000_000
"""A second in microseconds."""

LOOSE: Final = GangMode.NON_STRICT
APP: Final = AddApp("a", "root.q")


def node(name: str, cores: int) -> AddNode:
    return AddNode(name, Resources({"vcore": cores}))


def gang(
    name: str,
    least: int,
    *groups: str,
    mode: GangMode | None = None,
    wait_us: int | None = None,
) -> AddGang:
    full = tuple(f"default/{other}" for other in groups)
    return AddGang(f"default/{name}", GangFields(least, None, mode, wait_us, full))


def asks(
    name: str,
    *,
    count: int | None = None,
    of: str | None = None,
    app: str = "a",
    cores: int = 1,
    priority: int | None = None,
    named: str | None = None,
    on: str | None = None,
    retries: int = 0,
) -> AddAsk:
    return AddAsk(
        app,
        name,
        Resources({"vcore": cores}),
        priority=priority,
        priority_class=named,
        count=count,
        node=on,
        gang=None if of is None else f"default/{of}",
        retries=retries,
    )


class Story:
    """Plays steps on a model; a number among them is the instant of those after it."""

    def __init__(self, *steps: What | int) -> None:
        self.model = NaiveScheduler()
        self.drive = Drive(self.model)
        self._steps = 0
        self._now_us = 0
        self._seen = 0
        if steps:
            self.play(*steps)

    def play(self, *steps: What | int) -> list[str]:
        """Work off steps and close the batch; return what was decided of gangs and members."""
        return list(summary_lines(self.decide(*steps)))

    def decide(self, *steps: What | int) -> list[Decision]:
        """Work off steps and close the batch; return what was decided."""
        for what in (*steps, SETTLE):
            if isinstance(what, int):
                self._now_us = what
                continue
            self.drive.step(self._steps, Step(self._now_us, what))
            self._steps += 1
        batches = self.drive.batches[self._seen :]
        self._seen += len(batches)
        return [decision for batch in batches for decision in batch.decisions]

    def gang(self, name: str) -> tuple[int, int, int, int]:
        """Return how many members of a gang are waiting, bound, pending, parked."""
        found = self.model.gangs[f"default/{name}"]
        return (len(found.waiting), len(found.bound), len(found.pending), len(found.parked))


def summary_lines(decisions: Iterable[Decision]) -> Iterable[str]:
    """Yield a line for each decision about gangs and asks, each refusal and each warning."""
    relevant = {Kind.ASSIGNED, Kind.WAITING, Kind.BOUND, Kind.RELEASED, Kind.REJECTED, Kind.WARNING}
    for decision in decisions:
        if decision.kind in {Kind.GANG_SATISFIED, Kind.GANG_TIMED_OUT}:
            yield f"{decision.kind.value} {(decision.gang or '').removeprefix('default/')}"
        elif decision.kind in relevant:
            parts = (decision.kind.value, decision.ask, decision.reason)
            yield " ".join(str(part) for part in parts if part)


def kinds(decisions: list[str], *wanted: str) -> list[str]:
    """Return the lines that begin with one of some words."""
    return [one for one in decisions if one.split()[0] in wanted]
