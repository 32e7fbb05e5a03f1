"""Decisions for the tests of streams, without a scheduler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any, final

import trio

from muster.service.limits import Slots
from muster.service.streams import Broadcast, EventStream
from muster_core.decisions import Announced, Decision, Kind
from muster_core.structures.steps import all_at_once
from tests.actors.serving.listening import EventReader, Sent


def new_broadcast(directory: Path | None = None, most: int = 100) -> Broadcast:
    """Return a broadcast for so many streams."""
    return Broadcast(directory, Slots("streams", most), 30.0)


def announced(first: int, count: int, message: str | None = None) -> list[Announced]:
    """Return decisions with the numbers from one on; every third one is a warning."""
    return [
        Announced(
            seq,
            seq * 1000,
            Decision(Kind.BOUND, app="a", ask=f"k-{seq}", queue="root.q", message=message)
            if seq % 3
            else Decision(Kind.WARNING, message=message),
        )
        for seq in range(first, first + count)
    ]


def tell(broadcast: Broadcast, count: int, message: str | None = None) -> None:
    """Announce the next decisions, as one batch."""
    tail = broadcast.tail
    all_at_once(tail.hear(tail.batch + 1, announced(tail.last + 1, count, message)))


@final
class Following:
    """A client of a stream: what the server sends, it reads or not.

    Attributes:
        reader: Reads the events.
        sent: The events that came.
        is_reading: Set while it reads.
        is_over: Whether the server has ended the response.
    """

    def __init__(self) -> None:
        self.reader = EventReader()
        self.sent: list[Sent] = []
        self.is_over = False
        self.is_reading = trio.Event()
        self.is_reading.set()
        self.leaves = trio.Event()

    async def run(self, stream: EventStream) -> None:
        """Read a stream to its end."""
        scope: MutableMapping[str, Any] = {"type": "http", "method": "GET"}
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]] = self._receive
        await stream(scope, receive, self._send)

    async def _receive(self) -> MutableMapping[str, Any]:
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.is_reading.wait()
        self.sent += self.reader.feed(message.get("body", b""))
        self.is_over = message.get("more_body") is False

    @property
    def seqs(self) -> list[int]:
        """The numbers of the decisions that came."""
        return [one.value["seq"] for one in self.sent if one.kind == "decision"]
