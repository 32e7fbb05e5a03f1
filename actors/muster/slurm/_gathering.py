"""Brings the members of a gang together that were bound in one step, so that one job has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import attrs
import trio

from muster.slurm._batch import Batch
from muster.slurm._errors import JobLostError
from muster.slurm._texts.script import Work

_LONGEST_S: Final = 10.0
"""How long the members wait for each other, in seconds, besides the grace period: a member may
still have to wait for its own earlier run."""


@final
@attrs.define(eq=False)
class _Meeting:
    """The members of one step.

    Attributes:
        peers: How many there are.
        works: What those that have come are to run, by number.
        came: How many have come, also those that have left again.
        batch: Their job.
        is_off: Whether one of them will not come.
        settled: Set when there is a job, or will not be.
    """

    peers: int
    works: dict[int, Work] = attrs.field(factory=dict[int, Work])
    came: int = 0
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
    """The meetings of all gangs.

    Args:
        patience_s: How long to wait for the others, in seconds.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s + _LONGEST_S
        self._meetings: dict[int, _Meeting] = {}

    async def join(
        self,
        step: int,
        peers: int,
        prepare: Callable[[], Work],
        submit: Callable[[tuple[Work, ...]], Batch],
    ) -> Batch:
        """Wait until all members of a step have come.

        Args:
            step: The step.
            peers: How many members it has.
            prepare: Returns what the caller is to run.
            submit: Returns the job of all; called by the last one.

        Returns:
            The job.

        Raises:
            JobLostError: If one of them does not come in time, or has left.
        """
        meeting = self._meetings.setdefault(step, _Meeting(peers))
        meeting.came += 1
        if meeting.came >= peers:
            self._meetings.pop(step, None)
        try:
            work = prepare()
            meeting.works[work.number] = work
            if len(meeting.works) == peers and not meeting.is_off:
                works = tuple(meeting.works[number] for number in sorted(meeting.works))
                meeting.batch = submit(works)
                meeting.settled.set()
            with trio.move_on_after(self._patience_s):
                await meeting.settled.wait()
        finally:
            if meeting.batch is None:
                meeting.call_off()
        if meeting.batch is None:
            msg = "another member of the gang does not start"
            raise JobLostError(msg)
        return meeting.batch
