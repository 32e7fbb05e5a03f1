"""What a program of its own receives: the journal gets decisions, the record gets events."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, final

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from muster._runtime.pace import Pace
    from muster_core.decisions import Announced
    from muster_core.events import Event
    from muster_core.structures.steps import Steps


class Journal(Protocol):
    """An object of a program that receives all decisions.

    A slow ``write`` stops the whole scheduler. So a journal may also have a method
    ``write_in_steps``, as :class:`muster.feeds.DecisionLog` has. It is called instead of
    ``write``, and does the same as a generator, which yields wherever other tasks may run. It is
    not cancelled there.
    """

    def write(self, batch: Sequence[Announced], /) -> None:
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
        self._error: Exception | None = None

    @contextmanager
    def taken(self) -> Generator[None, None, None]:
        """Remember an exception in the block as one from outside."""
        try:
            yield
        except Exception as error:
            self._error = error
            raise

    def is_for(self, error: Exception) -> bool:
        """Return whether an error comes from outside."""
        # A coroutine cannot raise StopIteration: Python makes it the cause of a RuntimeError.
        ours = self._error
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
        self._steps = _steps_of(journal)

    async def write(self, announced: Sequence[Announced]) -> None:
        """Write the decisions of one batch; this is not cancelled."""
        if announced:
            with self._blame.taken():
                await self._pace.take(self._steps(announced), shield=True)


def _steps_of(journal: Journal | None) -> Callable[[Sequence[Announced]], Steps[None]]:
    """Return the generator function that writes to a journal, or does nothing without one."""

    def write(batch: Sequence[Announced]) -> Steps[None]:
        if journal is not None:
            journal.write(batch)
        yield from ()

    in_steps: Callable[[Sequence[Announced]], Steps[None]] | None
    in_steps = getattr(journal, "write_in_steps", None)
    return write if in_steps is None else in_steps
