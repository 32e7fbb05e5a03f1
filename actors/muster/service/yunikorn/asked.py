"""A request to one of YuniKorn's end points, and how it sees the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, final

import attrs

from muster.service.yunikorn.objects.forms import Seen

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.state import Service
    from muster.service.yunikorn.streams import Streams
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class Asked:
    """A request.

    Attributes:
        service: The service.
        streams: The streams of events that are open.
        request: The request.
        names: The parts of the path that are names, decoded once.
    """

    service: Service
    streams: Streams
    request: Request
    names: Mapping[str, str]

    async def look(self, read: Callable[[Seen], Steps[T]]) -> T:
        """Read the state between two batches.

        Args:
            read: Reads it in steps.

        Raises:
            Wrong: What ``read`` raises.
            ClosedSchedulerError: If the scheduler is closed.
        """
        service = self.service
        found: list[T] = []
        told: list[Exception] = []

        def reading(machine: CoordinatorMachine) -> Steps[None]:
            seen = Seen(
                machine,
                service.ledger,
                service.origin_us,
                service.started_us,
                service.options.cluster,
            )
            try:
                found.append((yield from read(seen)))
            except Exception as error:  # noqa: BLE001 - raised below, in the task that asks
                told.append(error)

        await service.look(reading)
        if told:
            raise told[0]
        return found[0]

    @property
    def now_us(self) -> int:
        """The present instant, in microseconds since the origin."""
        return self.service.now_us()
