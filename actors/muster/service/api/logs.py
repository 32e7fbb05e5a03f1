"""The output of the commands of asks: ``/api/v1/asks/{app}/{ask}/logs``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import trio
from starlette.responses import Response

from muster.service.access import Role
from muster.service.endpoints.routes import Answer, ApiRequest, Endpoint
from muster.service.endpoints.schemas import FLAG, in_path, integer, query
from muster.service.local.output import EARLIER, TEXT, Attempt, OutputBody, StartOutput, earlier_of
from muster.service.payloads import Problem

if TYPE_CHECKING:
    from muster.service.ray import RayWork
    from muster.service.state import Service


_MOST_STARTS: Final = 10
"""How many starts are named, the latest ones."""


# LOCAL-10
async def _logs(asked: ApiRequest) -> Response:
    written = await written_by(
        asked.service, asked.value("app", str), asked.value("ask", str), asked.maybe("attempt", int)
    )
    asked.service.broadcast.check_room()
    follows = asked.value("follow", bool)
    return OutputBody(
        written, asked.service.broadcast, follows=follows, after=asked.value("after", int)
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
    local, ray = service.local, service.ray
    if ray is not None:
        return await _of_ray(service, ray, app, ask, attempt)
    if local is None:
        raise Problem(404, "this service runs no commands: it was started without --run")
    came_us = _came_us(service, app, ask)

    def look() -> tuple[list[Attempt], Sequence[Attempt]]:
        attempts = local.logs.attempts(app, ask)
        return attempts, earlier_of(attempts, came_us)

    attempts, earlier = await trio.to_thread.run_sync(look)
    own = attempts[len(earlier) :]
    if not (own if attempt is None else attempts):
        failure = service.ledger.failure(app, ask)
        why = "" if failure is None else f"; {failure.told()}"
        told = f"{app}/{ask} has no output: no command of it has started here{why}"
        if earlier:
            told += f"; of an earlier ask of this name there is that of {_numbers(earlier)}"
        raise Problem(404, told, may_start=_may_start(service, app, ask), earlier=_listed(earlier))
    wanted = attempt or own[-1].number
    found = next((one for one in attempts if one.number == wanted), None)
    if found is None:
        there = [_numbers(own)] if own else []
        there += [f"{_numbers(earlier)} (of an earlier ask of this name)"] if earlier else []
        told = f"attempt: {wanted}: there is output of {', and of '.join(there)}"
        raise Problem(404, told, parameter="attempt")

    async def is_over() -> bool:
        return "ended_us" in await trio.to_thread.run_sync(found.about)

    others = [
        (one.number, one in earlier)
        for one in reversed(attempts[-_MOST_STARTS:])
        if one.number != wanted
    ]
    return StartOutput(found.output, found.number, is_over, others, found in earlier)


# PAGE-86
def _came_us(service: Service, app: str, ask: str) -> int | None:
    """Return when an ask came, or else its application, in microseconds since 1970, or None."""
    ledger = service.ledger
    known = ledger.ask(app, ask) or ledger.app(app) or ledger.completed.get(app)
    if known is None or known.came_us is None:
        return None
    return service.unix_us(known.came_us)


def _numbers(attempts: Sequence[Attempt]) -> str:
    return ", ".join(map(str, _listed(attempts)))


def _listed(attempts: Sequence[Attempt]) -> list[int]:
    return [one.number for one in attempts[-_MOST_STARTS:]]


# RAY-4
async def _of_ray(
    service: Service, ray: RayWork, app: str, ask: str, attempt: int | None
) -> StartOutput:
    """Return where the output of a command that ran on Ray is, if its file is here, too."""
    wanted = attempt or 1
    if wanted != 1:
        told = f"attempt: {wanted}: with --run ray all starts of an ask write to one file"
        raise Problem(404, told, parameter="attempt")
    file = ray.output_of(app, ask)
    if file is None or not await trio.to_thread.run_sync(file.is_file):
        # What is bound and has no file here writes it elsewhere.
        known = service.ledger.ask(app, ask)
        may_start = _may_start(service, app, ask)
        waits = known is not None and known.bound_us is None and may_start
        failure = service.ledger.failure(app, ask)
        told = ray.where(app, ask, failure, may_start=may_start)
        raise Problem(404, told, may_start=waits)

    async def is_over() -> bool:
        known = service.ledger.ask(app, ask)
        return known is None or known.bound_us is None

    return StartOutput(file, 1, is_over)


def _may_start(service: Service, app: str, ask: str) -> bool:
    """Return whether an ask is there whose command has not started."""
    known = service.ledger.ask(app, ask)
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
