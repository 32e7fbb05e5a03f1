"""The heartbeat: asks the scheduler again and again whether it is alive."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import trio

from muster._errors import ClosedSchedulerError

if TYPE_CHECKING:
    from muster.service.state import Service

_EVERY_S: Final = 1.0


# ACCESS-17
async def beat(service: Service) -> None:
    """Ask the scheduler for a sign of life each second, and note when it comes."""
    with suppress(ClosedSchedulerError):
        while True:
            service.health.asked()
            await service.scheduler.settle()
            service.health.answered(service.ledger.batch)
            await trio.sleep(_EVERY_S)
