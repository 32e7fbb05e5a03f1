"""A place in the sequence of all decisions, from which somebody goes on reading."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, final

import trio

from muster.service.streaming.history import Gone

if TYPE_CHECKING:
    from muster.service.streaming.blocks import Block
    from muster.service.streaming.history import History
    from muster.service.streaming.tail import Tail


@final
class Lagged(Exception):  # noqa: N818 - a client hears of it as an event of its stream
    """A stream has read so slowly that what follows is not in memory any more."""


# STREAM-2, STREAM-6
@final
class Cursor:
    """Goes through the decisions after a number, each once and in order; a context manager.

    What is not in memory comes from the store.

    Args:
        tail: The latest decisions.
        history: The store, or None without one.
        after: The number of the decision before the first one.
        lags: Whether it does not go back to the store when it has once read from memory: a stream
            that reads so slowly is to begin again.

    Attributes:
        position: The number of the last decision that was passed.
    """

    def __init__(
        self, tail: Tail, history: History | None, after: int, *, lags: bool = False
    ) -> None:
        self._tail: Final = tail
        self._history: Final = history
        self._lags: Final = lags
        self._is_live = False
        self.position = after

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._history is not None:
            self._history.close()

    @property
    def is_at_end(self) -> bool:
        """Whether every decision that was announced was passed."""
        return self.position >= self._tail.last

    async def next(self) -> Block | None:
        """Return a block in which the next decision is; None if none was announced yet.

        The caller sets :attr:`position` to what it has passed of it.

        Raises:
            Gone: If the next decision is not kept any more.
            Lagged: If it is not in memory any more, and this cursor lags.
            StoreError: If the store cannot be read.
        """
        if self.is_at_end:
            return None
        found = self._tail.after(self.position)
        if found is not None:
            self._is_live = True
            await trio.lowlevel.checkpoint()  # To encode a block takes a moment.
            return found
        if self._is_live and self._lags:
            raise Lagged
        if self._history is None:
            raise Gone(self._tail.first)
        return await self._history.after(self.position, self._tail.batch)
