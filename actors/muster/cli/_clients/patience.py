"""Asking a server again when it does not answer, and saying so."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from threading import Timer
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs

from muster.cli._options import complain

if TYPE_CHECKING:
    from muster.client import Server

T = TypeVar("T")

_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0


@final
@attrs.frozen
class Patience:
    """How long a server may be away.

    Attributes:
        limit_s: How long, in seconds: after that no new try begins.
        silent_s: After how many seconds without an answer the user is told.
    """

    limit_s: float
    silent_s: float

    # CLIENT-16
    def ask(self, server: Server, ask: Callable[[], T], also: Collection[int] = ()) -> T:
        """Return the answer of a server, which is asked again if it gives none.

        Args:
            server: The server.
            ask: Sends the request; it may be called again.
            also: The statuses of further answers after which it is asked again.

        Raises:
            ServerError: If it refuses the request, or was away too long.
        """
        from muster.client import ServerError  # noqa: PLC0415 - needs httpx

        began = time.monotonic()
        notice = _Notice(server.url, datetime.now(UTC) + timedelta(seconds=self.limit_s))
        timer = Timer(self.silent_s, notice.give)
        timer.daemon = True
        timer.start()
        wait_s = _FIRST_WAIT_S
        try:
            while True:
                try:
                    return ask()
                except ServerError as error:
                    passed_s = time.monotonic() - began
                    if not (error.passes or error.status in also) or passed_s > self.limit_s:
                        raise
                    notice.why = str(error)
                time.sleep(min(wait_s, max(0.0, self.limit_s - passed_s)))
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
        finally:
            timer.cancel()


@final
class _Notice:
    """Tells that a server does not answer, and until when it is asked again.

    Args:
        url: The address of the server.
        until: Until when it is asked again.
    """

    def __init__(self, url: str, until: datetime) -> None:
        self.why = f"{url}: there is no answer yet"
        self._until = until

    def give(self) -> None:
        """Tell it."""
        complain(f"{self.why}\nIt is tried again until {self._until:%H:%M:%S} UTC.")


SUBMITTING: Final = Patience(limit_s=16.0, silent_s=1.0)
"""How long a server may be away when something is submitted."""

WAITING: Final = Patience(limit_s=300.0, silent_s=5.0)
"""How long it may be away while the end of a command is waited for."""
