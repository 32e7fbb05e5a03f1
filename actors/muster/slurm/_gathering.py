"""Brings the members of a gang together that were bound in one step, so that one job has them."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, final

import attrs
import trio

from muster.slurm._batch import Batch
from muster.slurm._errors import JobLostError
from muster.slurm._texts.script import Work

_LONGEST_S: Final = 10.0
"""How long the members wait for one that has no reason not to come, in seconds: the scheduler does
not say that an allocation has ended if its run has not begun."""

_CALLED_OFF: Final = 100
"""How many of the last steps are remembered that were called off, so that nobody waits who comes
late."""


@final
@attrs.define(eq=False)
class _Meeting:
    """The members of one step.

    Attributes:
        peers: How many there are.
        works: What those that have come are to run, by number.
        came: How many have come, also those that have left again.
        present: How many have come and are still there.
        batch: Their job.
        is_off: Whether one of them will not come.
        settled: Set when there is a job, or will not be.
    """

    peers: int
    works: dict[int, Work] = attrs.field(factory=dict[int, Work])
    came: int = 0
    present: int = 0
    batch: Batch | None = None
    is_off: bool = False
    settled: trio.Event = attrs.field(factory=trio.Event)

    def call_off(self) -> None:
        """Let nobody wait any more."""
        if self.batch is None:
            self.is_off = True
        self.settled.set()


@final
class Gathering:
    """The meetings of all gangs."""

    def __init__(self) -> None:
        #: Those to which somebody has come, and not everybody.
        self._meetings: dict[int, _Meeting] = {}
        self._called_off: deque[int] = deque(maxlen=_CALLED_OFF)

    @property
    def is_empty(self) -> bool:
        """Whether nobody waits for others to come."""
        return not self._meetings

    async def join(
        self,
        step: int,
        peers: int,
        prepare: Callable[[], Awaitable[Work]],
        submit: Callable[[tuple[Work, ...]], Batch],
        may_come: Callable[[], bool],
    ) -> Batch:
        """Wait until all members of a step have come.

        Args:
            step: The step.
            peers: How many members it has.
            prepare: Returns what the caller is to run.
            submit: Returns the job of all; called by the last one.
            may_come: Says whether a member that has not come may have a reason.

        Returns:
            The job.

        Raises:
            JobLostError: If one of them does not come, or has left.
        """
        if step in self._called_off:
            raise _not_all()
        meeting = self._meetings.setdefault(step, _Meeting(peers))
        meeting.came += 1
        meeting.present += 1
        if meeting.came == peers:
            del self._meetings[step]
        try:
            work = await prepare()
            meeting.works[work.number] = work
            if len(meeting.works) == peers and not meeting.is_off:
                works = tuple(meeting.works[number] for number in sorted(meeting.works))
                meeting.batch = submit(works)
                meeting.settled.set()
            await _settle(meeting, may_come)
        except trio.Cancelled:
            # If it was submitted meanwhile, its part has to be ended: by the caller, who is
            # cancelled again when it waits for the job.
            if meeting.batch is None:
                raise
        finally:
            if meeting.batch is None:
                meeting.call_off()
            meeting.present -= 1
            if not meeting.present and self._meetings.get(step) is meeting:
                del self._meetings[step]
                self._called_off.append(step)
        if meeting.batch is None:
            raise _not_all()
        return meeting.batch


def _not_all() -> JobLostError:
    return JobLostError("another member of the gang does not start")


async def _settle(meeting: _Meeting, may_come: Callable[[], bool]) -> None:
    """Wait until there is a job, or will not be."""
    while not meeting.settled.is_set():
        with trio.move_on_after(_LONGEST_S):
            await meeting.settled.wait()
            return
        if meeting.came < meeting.peers and not may_come():
            return
