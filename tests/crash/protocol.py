"""The plan of a chain, drawn from a seed, and the reports that its lives write to a pipe.

A life writes each report before anything follows from it.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator, Sequence
from enum import StrEnum
from random import Random
from typing import Final, Literal, final

import attrs
from typing_extensions import override

from muster.testing.fuzz import DrawnBytes, Program, draw_program
from muster.testing.fuzz._generator import FRAME_BYTES, STEP_BYTES
from muster.testing.fuzz._program import Config, Step
from muster_core.decisions import Announced
from muster_core.events import Event
from muster_core.snapshots import Snapshot

STEPS: Final = 14
"""How many steps a client makes in one life."""

S: Final = 1_000_000


@final
class KillMoment(StrEnum):
    """At which moment a life is killed."""

    OPENING = "some time after it began to open the store"
    REPORT = "some time after a report"
    CLOSING = "some time after it began to close"
    DISK = "at a call to the disk"
    NEVER = "never"


_MOMENTS: Final = (
    *(KillMoment.REPORT,) * 8,
    *(KillMoment.DISK,) * 7,
    *(KillMoment.OPENING,) * 3,
    *(KillMoment.CLOSING,) * 3,
    KillMoment.NEVER,
)


@final
@attrs.frozen
class Kill:
    """When a life is killed.

    Attributes:
        when: The kind of moment.
        number: The number of the report, or of the call to the disk.
        delay_s: How long after that moment, in seconds.
        after: Whether the call to the disk is done before.
    """

    when: KillMoment
    number: int = 0
    delay_s: float = 0.0
    after: bool = False


@final
@attrs.frozen
class Life:
    """One life.

    Attributes:
        number: Its number in the chain, from 0.
        config: The configuration with which it opens the scheduler.
        prelude: The steps before clients begin.
        clients: The steps of each client.
        callers: How many tasks besides add an application and asks of their own.
        ahead_us: By how much the clock is ahead of the last batch; below 0 if it was set back.
        resumes: Whether the binder can resume work.
        chance: The seed for the order of its tasks.
        kill: When it is killed.
    """

    number: int
    config: Config | None
    prelude: Sequence[Step]
    clients: Sequence[Sequence[Step]]
    callers: int
    ahead_us: int
    resumes: bool
    chance: int
    kill: Kill


@final
@attrs.frozen
class Plan:
    """The plan of a chain.

    Attributes:
        seed: The seed that it was drawn from.
        program: The program that its lives share.
        lives: The lives that are killed, or are not; one more follows that goes on to the end.
        durability: As of ``open_scheduler``.
        checkpoint_every: As of ``open_scheduler``.
        keep_s: As ``keep`` of ``open_scheduler``.
        part_bytes: The size of a part of a checkpoint.
    """

    seed: int
    program: Program
    lives: Sequence[Life]
    durability: Literal["full", "process"]
    checkpoint_every: int
    keep_s: float | None
    part_bytes: int

    @override
    def __str__(self) -> str:
        """Return the plan as a text of several lines."""
        summary = (
            f"seed {self.seed}: durability {self.durability}, checkpoint_every "
            f"{self.checkpoint_every}, keep {self.keep_s} s, parts of {self.part_bytes} bytes"
        )
        kills = [
            f"life {life.number}: {life.callers} callers, {life.kill.when.value} "
            f"(number {life.kill.number}, {life.kill.delay_s * 1e3:.3f} ms later)"
            for life in self.lives
        ]
        return "\n".join([summary, *kills])


def plan_of(seed: int) -> Plan:
    """Draw a plan; the same seed gives the same plan."""
    random = Random(seed)
    count = random.randint(3, 6)
    program = draw_program(
        DrawnBytes(
            random.randbytes(FRAME_BYTES),
            tuple(
                tuple(random.randbytes(STEP_BYTES) for _ in range(count * STEPS + STEPS))
                for _ in range(random.randint(1, 5))
            ),
        )
    )
    return Plan(
        seed=seed,
        program=program,
        lives=[_life(number, program, random) for number in range(count)],
        durability="full" if random.random() < 0.1 else "process",
        checkpoint_every=random.choice((1, 3, 10, 30, 50_000)),
        keep_s=random.choice((None, None, None, 2.0)),
        part_bytes=random.choice((200, 1000, 256 * 1024)),
    )


def last_of(plan: Plan) -> Life:
    """Return the life after all others, which is not killed."""
    random = Random(-plan.seed - 1)
    life = _life(len(plan.lives), plan.program, random)
    return attrs.evolve(life, config=None, kill=Kill(KillMoment.NEVER))


def _life(number: int, program: Program, random: Random) -> Life:
    at = number * STEPS
    others = (program.config, None, None, *program.configs)
    when = random.choice(_MOMENTS)
    return Life(
        number=number,
        config=program.config if number == 0 else random.choice(others),
        prelude=program.prelude if number == 0 else (),
        clients=[client.steps[at : at + STEPS] for client in program.clients],
        callers=random.choice((0, 1, 2, 5, 20)),
        ahead_us=random.choice((0, 1, S // 2, 3 * S, 60 * S, -2 * S)),
        resumes=random.random() < 0.5,
        chance=random.randrange(2**16),
        kill=_kill(when, random),
    )


def _kill(when: KillMoment, random: Random) -> Kill:
    match when:
        case KillMoment.REPORT:
            late_s = random.choice((0.0, random.uniform(0, 0.002)))
            return Kill(when, number=int(random.expovariate(1 / 40)), delay_s=late_s)
        case KillMoment.DISK:
            return Kill(when, number=random.randrange(60), after=random.random() < 0.5)
        case KillMoment.OPENING:
            return Kill(when, delay_s=random.uniform(0, 0.02))
        case KillMoment.CLOSING:
            return Kill(when, delay_s=random.uniform(0, 0.008))
        case KillMoment.NEVER:
            return Kill(when)


_HEAD: Final = struct.Struct(">I")

Key = tuple[str, ...]


@final
@attrs.frozen
class Phase:
    """A part of the life begins: ``opening``, ``open``, ``closing`` or ``closed``."""

    name: str


@final
@attrs.frozen
class CallMade:
    """A call was made.

    Attributes:
        number: Its number.
        text: The call in words.
        keys: What it submits.
    """

    number: int
    text: str
    keys: tuple[Key, ...]


@final
@attrs.frozen
class CallAnswered:
    """A call was answered.

    Attributes:
        number: Its number.
        done: Whether what it submits was let in; None if that is unknown, as the scheduler was closed.
        refusal: The message with which it was refused, or None.
    """

    number: int
    done: bool | None
    refusal: str | None = None


@final
@attrs.frozen
class JournalEntry:
    """The journal got the decisions of a batch."""

    decisions: tuple[Announced, ...]


@final
@attrs.frozen
class RecordEntry:
    """The record got an event, or the end of a batch.

    Attributes:
        at_us: The instant of the batch.
        event: The event; None for the end of the batch.
    """

    at_us: int
    event: Event | None


@final
@attrs.frozen
class DecisionsSeen:
    """An observer read decisions.

    Attributes:
        observer: Which one.
        decisions: What it read.
    """

    observer: int
    decisions: tuple[Announced, ...]


@final
@attrs.frozen
class WorkStarted:
    """The binder was given an allocation.

    Attributes:
        app: The application.
        ask: The ask.
        node: The node.
        again: Whether it was to be resumed.
    """

    app: str
    ask: str
    node: str
    again: bool


@final
@attrs.frozen
class StateShown:
    """The state between two batches was examined.

    Attributes:
        batches: How many batches there were.
        on_disk: The last batch that a reader found.
        snapshot: The state.
    """

    batches: int
    on_disk: int
    snapshot: Snapshot


@final
@attrs.frozen
class LifeFailed:
    """Something went wrong in the life."""

    what: str


Report = (
    Phase
    | CallMade
    | CallAnswered
    | JournalEntry
    | RecordEntry
    | DecisionsSeen
    | WorkStarted
    | StateShown
    | LifeFailed
)


@final
class ReportWriter:
    """Writes reports to a pipe, each at once, so that a kill takes none back.

    Args:
        pipe: The file descriptor.
    """

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def write(self, report: Report) -> None:
        """Write a report."""
        data = pickle.dumps(report, protocol=5)
        rest = memoryview(_HEAD.pack(len(data)) + data)
        while rest:
            rest = rest[os.write(self._pipe, rest) :]


@final
class ReportReader:
    """Reads reports from the bytes of a pipe; one that was cut short does not count."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> Iterator[Report]:
        """Yield the reports that are complete now."""
        self._data += data
        while len(self._data) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._data)
            end = _HEAD.size + size
            if len(self._data) < end:
                return
            report: Report = pickle.loads(self._data[_HEAD.size : end])  # our own child wrote it
            del self._data[:end]
            yield report
