"""What a chain is to do, drawn from a seed: its program, and how each life ends."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import Final, Literal, final

import attrs
from typing_extensions import override

from muster.testing.fuzz import Drawn, Program, draw_program
from muster.testing.fuzz._generator import FRAME_BYTES, STEP_BYTES
from muster.testing.fuzz._program import Config, Step

STEPS: Final = 14
"""How many steps a client makes in one life."""

S: Final = 1_000_000


@final
class When(StrEnum):
    """At which moment a life is killed."""

    OPENING = "some time after it began to open the store"
    REPORT = "some time after a report"
    CLOSING = "some time after it began to close"
    DISK = "at a call to the disk"
    NEVER = "never"


_WHENS: Final = (
    *(When.REPORT,) * 8,
    *(When.DISK,) * 7,
    *(When.OPENING,) * 3,
    *(When.CLOSING,) * 3,
    When.NEVER,
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

    when: When
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
    """What a chain is to do.

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
        said = (
            f"seed {self.seed}: durability {self.durability}, checkpoint_every "
            f"{self.checkpoint_every}, keep {self.keep_s} s, parts of {self.part_bytes} bytes"
        )
        kills = [
            f"life {life.number}: {life.callers} callers, {life.kill.when.value} "
            f"(number {life.kill.number}, {life.kill.delay_s * 1e3:.3f} ms later)"
            for life in self.lives
        ]
        return "\n".join([said, *kills])


def plan_of(seed: int) -> Plan:
    """Draw a plan; the same seed gives the same plan."""
    random = Random(seed)
    count = random.randint(3, 6)
    program = draw_program(
        Drawn(
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
    return attrs.evolve(life, config=None, kill=Kill(When.NEVER))


def _life(number: int, program: Program, random: Random) -> Life:
    at = number * STEPS
    others = (program.config, None, None, *program.configs)
    when = random.choice(_WHENS)
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


def _kill(when: When, random: Random) -> Kill:
    match when:
        case When.REPORT:
            late_s = random.choice((0.0, random.uniform(0, 0.002)))
            return Kill(when, number=int(random.expovariate(1 / 40)), delay_s=late_s)
        case When.DISK:
            return Kill(when, number=random.randrange(60), after=random.random() < 0.5)
        case When.OPENING:
            return Kill(when, delay_s=random.uniform(0, 0.02))
        case When.CLOSING:
            return Kill(when, delay_s=random.uniform(0, 0.008))
        case When.NEVER:
            return Kill(when)
