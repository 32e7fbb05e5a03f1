"""A client of a stream of decisions, which reads it as the standard of server-sent events says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, final

import attrs
import httpx


@final
@attrs.frozen
class Sent:
    """One event of a stream.

    Attributes:
        kind: Its kind.
        last_id: The last id when it came.
        data: Its data.
    """

    kind: str
    last_id: str
    data: str

    @property
    def value(self) -> dict[str, Any]:
        """Its data, which are JSON."""
        found: dict[str, Any] = json.loads(self.data)
        return found


@final
class EventReader:
    """Reads the bytes of a stream.

    Attributes:
        last_id: The last id that came.
        comments: How many comments came.
        retry: When to connect again, in milliseconds, as it was said.
    """

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self.comments = 0
        self.retry = 0
        self._rest = b""
        self._kind = ""
        self._data: list[str] = []

    def feed(self, part: bytes) -> Iterator[Sent]:
        """Yield the events that end in a part of the stream; what is cut short is none."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        for line in lines:
            if not line:
                if self._data:
                    yield Sent(self._kind or "message", self.last_id, "\n".join(self._data))
                self._kind, self._data = "", []
                continue
            name, _, value = line.decode().partition(":")
            value = value.removeprefix(" ")
            match name:
                case "":
                    self.comments += 1
                case "event":
                    self._kind = value
                case "data":
                    self._data.append(value)
                case "id":
                    self.last_id = value
                case "retry":
                    self.retry = int(value)
                case _:
                    msg = f"no field of an event: {line!r}"
                    raise AssertionError(msg)


def decisions_in(
    client: httpx.Client, target: str, last_id: str = "", until: int | None = None
) -> list[Sent]:
    """Read a stream up to its end, or to a decision.

    Args:
        client: The client.
        target: The path with its query.
        last_id: Where to go on.
        until: The number of the last decision to read; None to read to the end.
    """
    headers = {"accept": "text/event-stream", **({"last-event-id": last_id} if last_id else {})}
    found: list[Sent] = []
    reader = EventReader()
    with client.stream("GET", target, headers=headers) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        for part in response.iter_bytes():
            found += reader.feed(part)
            if found and until is not None and found[-1].value["seq"] >= until:
                break
    return found
