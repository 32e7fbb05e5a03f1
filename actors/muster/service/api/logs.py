"""The output of the commands of asks: ``/api/v1/asks/{app}/{ask}/logs``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, final

import trio
from starlette.responses import Response
from typing_extensions import override

from muster.service.access import Role
from muster.service.endpoints.routes import Answer, ApiRequest, Endpoint
from muster.service.endpoints.schemas import FLAG, in_path, integer, query
from muster.service.options import NoOutputError, StartOutput
from muster.service.payloads import Problem
from muster.service.streams import Broadcast, LongResponse

if TYPE_CHECKING:
    from starlette.types import Send

    from muster.service.state import Service


TEXT: Final = "text/plain"

# PAGE-86
EARLIER: Final = "Muster-Earlier-Ask"
"""The header that says that the output is of an earlier ask of the same name."""

_LOOKS_S: Final = 0.1
"""How long to wait between looks at a file that may grow, in seconds."""

_PART: Final = 256 * 1024
"""How much is read and sent at once, in bytes."""


# LOCAL-10
@final
class OutputBody(LongResponse):
    """The output of one start of an ask, or of all of them.

    Args:
        written: The output.
        broadcast: Counts long responses, and ends them with the service.
        follows: Whether the response goes on until the command has ended, and does not end with
            what is there.
        after: How many bytes of it the client has already.
    """

    def __init__(
        self, written: StartOutput, broadcast: Broadcast, *, follows: bool, after: int = 0
    ) -> None:
        headers = {"Cache-Control": "no-cache, no-store", "Muster-Attempt": str(written.number)}
        if written.is_earlier:
            headers[EARLIER] = "true"
        super().__init__(broadcast, TEXT, headers)
        self._file = written.file
        self._is_over = written.is_over if follows else None
        self._after = after

    @override
    async def _follow(self, send: Send) -> bytes:
        """Send the output until there is no more."""
        position = self._after
        while True:
            # In this order: what was written before the end is read after it.
            is_last = self._is_over is None or self._broadcast.tail.is_over or await self._is_over()
            part = await trio.to_thread.run_sync(self._read, position)
            if part:
                position += len(part)
                await self._push(send, part)
            elif is_last:
                return b""
            else:
                await trio.sleep(_LOOKS_S)

    def _read(self, position: int) -> bytes:
        try:
            file = os.open(self._file, os.O_RDONLY)
        except FileNotFoundError:  # it was removed with history
            return b""
        try:
            return os.pread(file, _PART, position)
        finally:
            os.close(file)


# LOCAL-10
async def _logs(request: ApiRequest) -> Response:
    written = await written_by(
        request.service,
        request.value("app", str),
        request.value("ask", str),
        request.maybe("attempt", int),
    )
    request.service.broadcast.check_room()
    follows = request.value("follow", bool)
    return OutputBody(
        written, request.service.broadcast, follows=follows, after=request.value("after", int)
    )


# LOCAL-10
async def written_by(service: Service, app: str, ask: str, attempt: int | None) -> StartOutput:
    """Return where the output of the command of an ask is.

    Args:
        service: The service.
        app: The name of its application.
        ask: Its name; it may be over.
        attempt: Which start of an ask of this name, from 1; None for the latest of the ask that
            is there, or of the application that is there.

    Raises:
        Problem: 404 if there is none.
    """
    if service.backend is None:
        raise Problem(404, "this service runs no commands: it was started without --run")
    try:
        return await service.backend.output(service, app, ask, attempt)
    except NoOutputError as error:
        members: dict[str, Any] = error.fields
        raise Problem(404, error.reason, **members) from None


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/asks/{app}/{ask}/logs",
        "The output of the command of an ask, and of earlier starts.",
        Role.READER,
        _logs,
        parameters=(
            in_path("app", "The application."),
            in_path("ask", "The ask; it may be over."),
            query(
                "attempt",
                integer(1, 999_999_999),
                "Which start of an ask of this name, from 1. Default: the latest of the ask that "
                "is there.",
            ),
            query(
                "after",
                integer(0, 2**62),
                "Only what follows so many bytes, to go on after a broken connection.",
                default=0,
            ),
            query("follow", FLAG, "Whether to go on until the command has ended.", default=False),
        ),
        answers={
            200: Answer(
                "What it has written, as it is.",
                {"type": "string"},
                TEXT,
                headers={
                    "Muster-Attempt": "Which start of an ask of this name it is.",
                    EARLIER: "Is there if it is of an earlier ask of this name.",
                },
            ),
            404: Answer(
                "There is no output of this ask, or of this start. `may_start` says whether its "
                "command is still to start, `earlier` of which starts of earlier asks of this "
                "name there is some."
            ),
        },
        tag="state",
    ),
)
