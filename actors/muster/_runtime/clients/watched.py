"""A value that one task publishes and others watch; they see the newest value, not all values."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, TypeVar, final

import trio

T = TypeVar("T")


@final
class Watched(Generic[T]):
    """A place for one immutable value: publishing replaces the value and wakes waiting tasks.

    A task that does not run between two values never sees the first of them. So a fact that a task
    must not miss has to be part of all later values.

    Args:
        value: The first value.

    Attributes:
        value: The newest value that was published.
        decided: The newest value that the owner has decided; only the owner may read it.
    """

    __slots__ = ("_changed", "_listeners", "decided", "value")

    def __init__(self, value: T) -> None:
        self.value = self.decided = value
        self._changed: trio.Event | None = None
        self._listeners: dict[object, Callable[[T], None]] = {}

    def publish(self, value: T) -> None:
        """Replace the value; only the task that owns the watched state may do that."""
        self.value = value
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        for listener in list(self._listeners.values()):
            listener(value)

    @contextmanager
    def heard_by(self, listener: Callable[[T], None]) -> Generator[None, None, None]:
        """Call a listener for every value during the block, at once and in the publisher's task.

        Args:
            listener: Called with the value. It must be fast and must not raise: it is meant to
                cancel a scope.
        """
        key = object()
        self._listeners[key] = listener
        try:
            yield
        finally:
            del self._listeners[key]

    async def changed(self) -> None:
        """Wait until another value is published."""
        if self._changed is None:
            self._changed = trio.Event()
        await self._changed.wait()
