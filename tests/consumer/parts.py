"""What a program may bring along: a binder, a clock, a journal and a record of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, assert_type, final

import attrs
import trio

import muster
from muster import testing
from muster.subprocesses import Command, SubprocessBinder
from muster_core.events import Event


@final
class Containers:
    """A binder."""

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Start the work, say so, and come back when it has ended."""
        await trio.sleep(1)
        started()
        assert_type(await allocation.ended(), muster.Reason)
        raise muster.WorkFailedError("exit status 3") from OSError()

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Find the work again."""
        started()
        assert_type(allocation.ending, muster.Reason | Literal["closing"] | None)


@final
@attrs.define
class Stepped:
    """A clock that a test or a driver moves.

    Attributes:
        at_us: How late it is.
    """

    at_us: int = 0

    def now_us(self) -> int:
        """Return the present time."""
        return self.at_us

    async def wait_until_us(self, at_us: int) -> None:
        """Wait until it is so late."""
        while self.at_us < at_us:
            await trio.lowlevel.checkpoint()


@final
class Lines:
    """A journal."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, batch: Sequence[muster.Announced]) -> None:
        """Keep the decisions of a batch as text."""
        self.lines.extend(str(one.as_map()) for one in batch)


@final
class History:
    """A record."""

    def __init__(self) -> None:
        self.entered: list[tuple[int, Event]] = []
        self.closed: list[int] = []

    def enter(self, at_us: int, event: Event) -> None:
        """Keep an event."""
        self.entered.append((at_us, event))

    def close(self, at_us: int) -> None:
        """Keep the end of a batch."""
        self.closed.append(at_us)


def command(allocation: muster.Allocation) -> Command:
    """Return the command to run for an ask."""
    assert_type(allocation.number, int)
    if allocation.work is not None:
        assert_type(allocation.work.command, tuple[str, ...] | str | None)
    return Command(["sleep", "1"], cwd="/", env={"NODE": allocation.node}, stdout="out")


def exited(allocation: muster.Allocation, status: int) -> None:
    """Take the status with which a command ended."""
    assert_type((allocation.app, status), tuple[str, int])


async def main() -> None:
    """Open schedulers with them."""
    binder: muster.Binder = Containers()
    resuming: muster.ResumingBinder = Containers()
    clock: muster.Clock = Stepped()
    journal: muster.Journal = Lines()
    record: muster.Record = History()
    async with muster.open_scheduler(
        binder=binder,
        bind_timeout=5,
        bind_attempts=None,
        clock=clock,
        journal=journal,
        record=record,
        interleave=testing.Interleaving(1),
    ) as scheduler:
        assert_type(scheduler, muster.Scheduler)
    async with muster.open_scheduler(binder=resuming, clock=Stepped(), record=History()):
        pass
    recording = testing.Recording()
    local = SubprocessBinder(command, exited=exited, grace_period=2)
    async with muster.open_scheduler(binder=local, journal=recording):
        assert_type(recording.decisions, list[muster.Announced])
    inputs = testing.Inputs()
    async with muster.open_scheduler(record=inputs):
        pass
    assert_type(await inputs.replay(), Sequence[muster.Announced])
    SubprocessBinder(lambda allocation: ["echo", allocation.ask])
    SubprocessBinder(lambda allocation: f"echo {allocation.ask}")


if __name__ == "__main__":
    trio.run(main)
