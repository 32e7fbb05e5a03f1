"""The output of the commands of asks: ``/api/v1/asks/{app}/{ask}/logs``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from muster.service.access.who import Role
from muster.service.endpoints.kinds import FLAG, in_path, integer, query
from muster.service.endpoints.table import Answer, Asked, Endpoint
from muster.service.local.following import TEXT, Output
from muster.service.problems import Problem

if TYPE_CHECKING:
    from starlette.responses import Response


# LOCAL-10
async def _logs(asked: Asked) -> Response:
    app, ask = asked.value("app", str), asked.value("ask", str)
    local = asked.service.local
    if local is None:
        raise Problem(404, "this service runs no commands: it was started without --run local")
    attempts = await trio.to_thread.run_sync(local.logs.attempts, app, ask)
    if not attempts:
        told = f"{app}/{ask} has no output: no command of it has started here"
        raise Problem(404, told, may_start=_may_start(asked, app, ask))
    wanted = asked.maybe("attempt", int) or attempts[-1].number
    found = next((one for one in attempts if one.number == wanted), None)
    if found is None:
        there = ", ".join(str(one.number) for one in attempts[-10:])
        raise Problem(404, f"attempt: {wanted}: there is output of {there}", parameter="attempt")
    asked.service.broadcast.check_room()
    return Output(found, asked.service.broadcast, follows=asked.value("follow", bool))


def _may_start(asked: Asked, app: str, ask: str) -> bool:
    """Return whether an ask is there whose command has not started."""
    known = asked.service.ledger.ask(app, ask)
    work = None if known is None else known.event.work
    return work is not None and work.command is not None


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
            query("attempt", integer(1, 999_999_999), "Which start, from 1. Default: the latest."),
            query("follow", FLAG, "Whether to go on until the command has ended.", default=False),
        ),
        answers={
            200: Answer("What it has written, as it is.", {"type": "string"}, TEXT),
            404: Answer(
                "There is no output of this ask, or of this start. `may_start` says whether its "
                "command is still to start."
            ),
        },
        tag="state",
    ),
)
