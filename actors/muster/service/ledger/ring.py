"""The ring: the latest events of the service as YuniKorn numbers them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import islice
from typing import Final, final
from uuid import uuid4

import trio

KEPT: Final = 100_000
"""How many events are kept."""


@final
class What(IntEnum):
    """What an event is about, what has changed, and why, as YuniKorn numbers it.

    The value is ``type * 10_000 + change * 1_000 + detail``.
    """

    TOLD = 1_00_000
    ALLOCATED = 2_02_200
    ASK_CAME = 2_02_201
    APP_CAME = 2_02_203
    APP_ACCEPTED = 2_01_204
    APP_RUNNING = 2_01_206
    APP_COMPLETING = 2_01_207
    APP_COMPLETED = 2_01_208
    APP_GONE = 2_03_000
    ASK_REMOVED = 2_03_100
    CANCELLED = 2_03_500
    PREEMPTED = 2_03_501
    TIMED_OUT = 2_03_502
    NODE_LOST = 2_03_504
    NODE_CAME = 3_02_000
    NODE_GONE = 3_03_300
    NODE_READY = 3_01_302
    NODE_TAKEN = 3_02_303
    NODE_FREED = 3_03_303
    NODE_CAPACITY = 3_01_304
    QUEUE_CAME = 4_02_000
    QUEUE_GONE = 4_03_000
    DYNAMIC_CAME = 4_02_401
    DYNAMIC_GONE = 4_03_401
    QUEUE_MAX = 4_01_403
    QUEUE_GUARANTEED = 4_01_404
    QUEUE_APP_CAME = 4_02_405
    QUEUE_APP_GONE = 4_03_405

    @property
    def type(self) -> int:
        """1 request, 2 application, 3 node, 4 queue."""
        return self // 100_000

    @property
    def change(self) -> int:
        """0 none, 1 set, 2 added, 3 removed."""
        return self // 1_000 % 100

    @property
    def detail(self) -> int:
        """Which change it is; 0 if there is no more to say."""
        return self % 1_000


RingEvent = tuple[int, int, str, str, Mapping[str, int] | None, str]
"""An event: what has happened, when (in microseconds since the origin), what it is about, the other
thing concerned, the resources concerned, and what it says to a person.

A plain tuple, because it is made several times for each ask."""


@final
class Ring:
    """The latest events; the oldest go when there are more than :data:`KEPT`.

    Attributes:
        instance: Another text with each start of the service.
        next: The number of the next event; they are numbered from 0.
        is_open: Whether events are kept; they are not while history is heard again.
        readers: How many follow the events as they come.
    """

    def __init__(self) -> None:
        self.instance = str(uuid4())
        self.next = 0
        self.is_open = True
        self.readers = 0
        self._events: deque[RingEvent] = deque(maxlen=KEPT)
        self._grew: trio.Event | None = None
        self._is_closed = False

    @property
    def lowest(self) -> int:
        """The number of the oldest event; 0 if there is none."""
        return self.next - len(self._events)

    @property
    def highest(self) -> int:
        """The number of the newest event; 0 if there is none."""
        return max(self.next - 1, 0)

    def add(
        self,
        what: int,
        at_us: int,
        about: str,
        other: str = "",
        amounts: Mapping[str, int] | None = None,
        message: str = "",
    ) -> None:
        """Add an event."""
        if self.is_open:
            self._events.append((what, at_us, about, other, amounts, message))
            self.next += 1

    def add_two(self, first: RingEvent, second: RingEvent) -> None:
        """Add two events."""
        if self.is_open:
            self._events += (first, second)
            self.next += 2

    def add_all(self, events: Sequence[RingEvent]) -> None:
        """Add events, in order."""
        if self.is_open:
            self._events += events
            self.next += len(events)

    def since(self, start: int, count: int) -> list[RingEvent]:
        """Return at most ``count`` events from the number ``start`` on, which must be kept."""
        first = start - self.lowest
        length = len(self._events)
        if first > length // 2:  # A deque is quick at both ends only.
            found = list(islice(reversed(self._events), length - first))[::-1]
            return found[:count]
        return list(islice(self._events, first, first + count))

    def tell(self) -> None:
        """Wake all who wait for events."""
        if self._grew is not None:
            self._grew.set()
            self._grew = None

    def close(self) -> None:
        """Tell all who wait that no event follows."""
        self._is_closed = True
        self.tell()

    async def wait(self, start: int) -> bool:
        """Wait until there is an event with the number ``start``.

        Returns:
            Whether there is one; there is none if the ring was closed.
        """
        while self.next <= start and not self._is_closed:
            if self._grew is None:
                self._grew = trio.Event()
            await self._grew.wait()
        return self.next > start
