"""What a new configuration would lead to, before it is put in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.service.input.looking_back import DAY, Since, compared, in_thread
from muster.service.input.trying import try_events
from muster.service.problems import Problem
from muster_core.events import Configure

if TYPE_CHECKING:
    from threading import Event as Flag

    from starlette.requests import Request

    from muster.service.state import Service
    from muster_core.config.model import Configuration


# INPUT-15
async def previewed(
    service: Service, request: Request, new: Configuration, since: Since | None
) -> dict[str, Any]:
    """Return what a configuration would lead to now, and what it would have changed.

    Args:
        service: The service.
        request: The request, whose body was read; the look back ends when its client goes away.
        new: The configuration.
        since: How far to look back; None for a day if there is a state directory.

    Raises:
        Problem: 409 if it cannot replace the one in force, or history cannot be read.
    """
    directory = service.options.state
    if directory is None and since is not None:
        told = "since: nothing is kept: the service was started without --state"
        raise Problem(409, told, parameter="since")
    tried = await try_events(service, service.intake.dry_runs, [Configure(new)], None)
    if tried.errors:
        raise Problem(409, tried.errors[0])
    found: dict[str, Any] = {"decisions": tried.decisions, "compared": None}
    if directory is None or (since is not None and since.back_us == 0):
        return found
    began, now_us = since or DAY, service.unix_us(service.now_us())

    def work(gone: Flag) -> dict[str, Any]:
        return compared(directory, began, now_us, new, gone)

    async def compare() -> dict[str, Any]:
        return await in_thread(request, work)

    return found | {"compared": await service.intake.comparisons.run(compare)}
