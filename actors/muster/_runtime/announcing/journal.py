"""What a program of its own receives: the journal gets decisions, the record gets events."""

from __future__ import annotations

from contextlib import contextmanager
from inspect import isawaitable
from typing import TYPE_CHECKING, Final, Protocol, final

from muster._runtime.announcing.grace import finished

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence

    from muster._runtime.pace import Pace
    from muster_core.decisions import Announced
    from muster_core.events import Event
    from muster_core.structures.steps import Steps


WRITE_GRACE_S: Final = 5.0
"""How long an asynchronous journal may write after the program was cancelled, in seconds."""


class Journal(Protocol):
    """An object of a program that receives all decisions.

    ``write`` may be asynchronous (``async def``): then other tasks run while it waits. With
    :mod:`muster.asyncio` it runs in the program's loop. It must not call the scheduler, which waits
    for it. When the block of the scheduler is cancelled or left by an exception, ``write`` may go
    on, so that a batch is not cut short. After five more seconds it is cancelled, and nobody
    learns of that batch. Callers wait for it, also those that are cancelled. So if it may hang, it
    needs a time limit of its own.

    A ``write`` that is not asynchronous stops the whole scheduler while it works. So a journal may
    have a method ``write_in_steps`` instead, as :class:`muster.feeds.DecisionLog` has. It is called
    instead of ``write``, and does the same as a generator, which yields wherever other tasks may
    run. It is not cancelled there.
    """

    def write(self, batch: Sequence[Announced], /) -> Awaitable[None] | None:
        """Receive the decisions of one batch, in order, before callers and observers do."""


class Record(Protocol):
    """An object of a program that receives all accepted events and the ends of batches, in order.

    A :class:`muster.Simulation` makes the same decisions if it gets the same events at the same
    instants, and its batches are closed at the same places.
    """

    def enter(self, at_us: int, event: Event, /) -> None:
        """Receive an event and its instant, in microseconds since the opening."""
        ...

    def close(self, at_us: int, /) -> None:
        """Receive the end of a batch and its instant, in microseconds since the opening."""
        ...


@final
class Blame:
    """Tells the errors of a program's own objects, and of its disk, from errors of Muster."""

    def __init__(self) -> None:
        #: The last exception from outside, which ends the scheduler; None without one.
        self.error: Exception | None = None

    @contextmanager
    def taken(self) -> Generator[None, None, None]:
        """Remember an exception in the block as one from outside."""
        try:
            yield
        except Exception as error:
            self.error = error
            raise

    def is_for(self, error: Exception) -> bool:
        """Return whether an error comes from outside."""
        # A coroutine cannot raise StopIteration: Python makes it the cause of a RuntimeError.
        ours = self.error
        return ours is not None and (error is ours or error.__cause__ is ours)


@final
class JournalWriter:
    """Writes decisions to a journal, which may be missing.

    Args:
        journal: The journal, or None.
        blame: Remembers its exceptions.
        pace: The pace of all tasks of the scheduler.
    """

    def __init__(self, journal: Journal | None, blame: Blame, pace: Pace) -> None:
        self._blame = blame
        self._pace = pace
        self._journal = journal
        in_steps: Callable[[Sequence[Announced]], Steps[None]] | None
        in_steps = getattr(journal, "write_in_steps", None)
        self._in_steps = in_steps

    async def write(self, announced: Sequence[Announced]) -> None:
        """Write the decisions of one batch; this is not cancelled at once."""
        if not announced or self._journal is None:
            return
        with self._blame.taken():
            if self._in_steps is not None:
                await self._pace.take(self._in_steps(announced), shield=True)
                return
            written = self._journal.write(announced)
            if isawaitable(written):
                await finished(written, WRITE_GRACE_S)
