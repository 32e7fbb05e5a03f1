"""Asks Slurm for all jobs once a second while anybody wants to know."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Final, final

import trio

from muster.slurm._commands import Commands
from muster.slurm._errors import SlurmError
from muster.slurm._texts.jobs import Job, read_jobs

_LOG: Final = logging.getLogger("muster.slurm")

LIST: Final = ("squeue", "--json", "--states=all", "--me")


@final
class Watch:
    """Keeps the last list of jobs.

    Args:
        commands: Runs the commands.
        every_s: How often to ask at most, in seconds.

    Attributes:
        jobs: The jobs of this user, by number.
        asked: How many questions were asked.
        answered: Which of them was the last one with an answer.
        told: Called after each answer, before those who wait.
    """

    def __init__(self, commands: Commands, every_s: float) -> None:
        self._commands = commands
        self._every_s = every_s
        self._interested = 0
        self._wake = trio.Event()
        self._heard = trio.Event()
        self.jobs: Mapping[int, Job] = {}
        self.asked = 0
        self.answered = 0
        self.told: Callable[[], None] = _nothing
        self._is_silent = False

    @property
    def is_silent(self) -> bool:
        """Whether the last question had no answer."""
        return self._is_silent

    @contextmanager
    def interest(self) -> Generator[None, None, None]:
        """Ask for the time of a block."""
        self._interested += 1
        self._wake.set()
        try:
            yield
        finally:
            self._interested -= 1

    async def ask(self) -> None:
        """Ask once, and tell who waits.

        Raises:
            SlurmError: If there is no answer.
        """
        self.asked += 1
        number = self.asked
        jobs = read_jobs(await self._commands.run(LIST))
        self.jobs, self.answered = jobs, number
        self.told()
        heard, self._heard = self._heard, trio.Event()
        heard.set()

    async def run(self) -> None:
        """Ask again and again while anybody is interested."""
        while True:
            while not self._interested:
                self._wake = trio.Event()
                await self._wake.wait()
            next_s = trio.current_time() + self._every_s
            try:
                await self.ask()
            except SlurmError as error:
                if not self._is_silent:
                    _LOG.warning("Slurm does not answer; all that runs is kept: %s", error)
                self._is_silent = True
            else:
                if self._is_silent:
                    _LOG.warning("Slurm answers again")
                self._is_silent = False
            await trio.sleep_until(next_s)

    async def next(self) -> Mapping[int, Job]:
        """Return the next list of jobs; for use in a block of :meth:`interest`."""
        await self._heard.wait()
        return self.jobs

    async def fresh(self) -> Mapping[int, Job]:
        """Return a list that was asked for after this call, however long that takes."""
        asked = self.asked
        with self.interest():
            while self.answered <= asked:
                await self._heard.wait()
        return self.jobs


def _nothing() -> None:
    """Do nothing."""
