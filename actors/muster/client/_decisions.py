"""Following decisions: a stream that goes on where it was after every break."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, final

import attrs

from muster.client._server import Server, ServerError

SILENCE_S: Final = 60.0
"""How long a stream may be silent, in seconds; the server sends a sign of life more often."""

_WAIT_S: Final = 1.0
_LONGEST_WAIT_S: Final = 30.0


@final
@attrs.frozen
class Message:
    """One event of an event stream.

    Attributes:
        id: Its id, or None.
        event: Its name.
        data: Its text; empty if it has none.
    """

    id: str | None
    event: str
    data: str


def messages(lines: Iterator[str]) -> Iterator[Message]:
    """Yield the events of an event stream (WHATWG HTML, server-sent events)."""
    name, data, number = "message", list[str](), None
    for line in lines:
        if not line:
            if data or number is not None:
                yield Message(number, name, "\n".join(data))
            name, data, number = "message", [], None
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "id":
                number = value
            case "event":
                name = value
            case "data":
                data.append(value)
            case _:
                pass  # a comment, or a field that does not concern us


# CLIENT-5
def follow(
    server: Server,
    *,
    after: int | None = None,
    parameters: Mapping[str, object] | None = None,
    patience_s: float = 300.0,
) -> Iterator[dict[str, Any]]:
    """Yield the decisions that follow, each once and in order, also across breaks.

    Args:
        server: The server.
        after: The ``seq`` of the decision before the first one; None: from now on.
        parameters: The filters.
        patience_s: How long the server may be away before this gives up, in seconds.

    Raises:
        ServerError: If the server refuses the request, or was away too long.
    """
    last = after
    wait_s, gone_since = _WAIT_S, None
    while True:
        try:
            for message in _read(server, last, parameters or {}):
                wait_s, gone_since = _WAIT_S, None
                if message.id:
                    last = int(message.id)
                if message.event == "decision" and message.data:
                    yield json.loads(message.data)
        except ServerError as error:
            if not error.passes:
                raise
            now = time.monotonic()
            gone_since = now if gone_since is None else gone_since
            if now - gone_since > patience_s:
                raise
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _read(server: Server, last: int | None, filters: Mapping[str, object]) -> Iterator[Message]:
    headers = {"Accept": "text/event-stream"}
    if last is not None:
        headers["Last-Event-ID"] = str(last)
    with server.stream(
        "decisions", parameters=filters, headers=headers, silence_s=SILENCE_S
    ) as response:
        yield from messages(response.iter_lines())
