"""Streams of decisions and events, which last until somebody ends them."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self, final

import trio

if TYPE_CHECKING:
    from muster.service.access.who import Access, Who
    from muster.service.limits.counting import Slots


@final
class Stream:
    """An open stream, as a context manager around whatever sends it.

    When the service ends, or whoever opened it has no token any more, the block is cancelled and
    left as if it had come to its end.

    Attributes:
        who: Who opened it.
    """

    def __init__(self, streams: Streams, who: Who) -> None:
        self.who = who
        self._streams = streams
        self._scope = trio.CancelScope()

    def __enter__(self) -> Self:
        self._scope.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._streams.close(self)
        return bool(self._scope.__exit__(kind, error, trace))

    def end(self) -> None:
        """End it."""
        self._scope.cancel()


@final
class Streams:
    """All open streams.

    Args:
        slots: The limit on how many there are.
    """

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._open: set[Stream] = set()
        self._is_ending = False

    def open(self, who: Who) -> Stream:
        """Open a stream; enter it, or :meth:`close` it.

        Args:
            who: Who opens it.

        Raises:
            Problem: 503 if there are too many; it is counted.
        """
        self._slots.take()
        stream = Stream(self, who)
        self._open.add(stream)
        if self._is_ending:
            stream.end()
        return stream

    def close(self, stream: Stream) -> None:
        """Forget a stream that has ended; leaving its block does so."""
        if stream in self._open:
            self._open.remove(stream)
            self._slots.leave()

    # ACCESS-4
    def end_without(self, access: Access) -> int:
        """End the streams of those who have no token any more; return how many."""
        lost = [stream for stream in self._open if not access.still(stream.who)]
        for stream in lost:
            stream.end()
        return len(lost)

    # ACCESS-15
    def end_all(self) -> None:
        """End all streams, also those that are opened later."""
        self._is_ending = True
        for stream in self._open:
            stream.end()
