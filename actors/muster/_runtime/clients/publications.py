"""The values that a batch has changed: decided at its end, published when it is announced.

With a store the two are apart: the next batch is decided while this one is written, and nobody may
see a value that is not on disk.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster._runtime.clients.watched import Watched

T = TypeVar("T")


class Publications(Protocol):
    """Where the coordinator puts the values that it decides."""

    def put(self, watched: Watched[T], value: T, /) -> None:
        """Decide a value; the values are published in this order."""

    def until_published(self, close: Callable[[], None], /) -> None:
        """Keep a function until everything that was put so far is published.

        Args:
            close: Closes the values of something that is not tracked any more.
        """

    def close(self) -> None:
        """Call the functions that are kept: what they wait for will never be published."""


@final
class Immediate:
    """Publishes each value as soon as it is decided."""

    @staticmethod
    def put(watched: Watched[T], value: T, /) -> None:
        """Decide a value and publish it."""
        watched.decided = value
        watched.publish(value)

    @staticmethod
    def until_published(close: Callable[[], None], /) -> None:
        """Do nothing: everything is published."""

    @staticmethod
    def close() -> None:
        """Do nothing: everything is published."""


@final
class Staged:
    """Collects the values of a batch, which are published when the batch is on disk."""

    def __init__(self) -> None:
        #: The functions that publish the values since the last :meth:`take`. It has no bound of its
        #: own: a batch changes at most every tracked ask and gang.
        self._waiting: list[Callable[[], None]] = []
        #: The functions that close what is not tracked any more and not published yet, in order.
        self._unpublished: dict[Callable[[], None], None] = {}

    def put(self, watched: Watched[T], value: T, /) -> None:
        """Decide a value."""
        watched.decided = value
        self._waiting.append(partial(watched.publish, value))

    def until_published(self, close: Callable[[], None], /) -> None:
        """Keep a function until everything that was put so far is published."""
        self._unpublished[close] = None
        self._waiting.append(partial(self._unpublished.pop, close))

    def close(self) -> None:
        """Call the functions that are kept."""
        for close in self._unpublished:
            close()
        self._unpublished.clear()

    def take(self) -> list[Callable[[], None]]:
        """Return the functions that publish the collected values, in order; begin anew."""
        taken, self._waiting = self._waiting, []
        return taken
