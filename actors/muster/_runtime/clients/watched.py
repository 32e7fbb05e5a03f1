"""A value that one task publishes and others watch: they see the newest, not each one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, TypeVar, final

import trio

T = TypeVar("T")


@final
class Watched(Generic[T]):
    """An immutable value with room for one: publishing replaces it, and wakes who waits.

    Whoever is not there when a value is published may never see it. So what must not be
    missed has to be part of every later value.

    Args:
        value: The first value.

    Attributes:
        value: The newest.
    """

    __slots__ = ("_changed", "_listeners", "value")

    def __init__(self, value: T) -> None:
        self.value = value
        self._changed: trio.Event | None = None
        self._listeners: dict[object, Callable[[T], None]] = {}

    def publish(self, value: T) -> None:
        """Replace the value; only the task that owns what it speaks of does that."""
        self.value = value
        if self._changed is not None:
            self._changed.set()
            self._changed = None
        for listener in list(self._listeners.values()):
            listener(value)

    @contextmanager
    def heard_by(self, listener: Callable[[T], None]) -> Generator[None, None, None]:
        """Have every value of the time of the block told at once, in the publisher's task.

        Args:
            listener: Must be quick, and raise nothing: it is there to cancel a scope.
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
