"""The moment whose state a page shows: now, or one in the past."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, final

import attrs

from muster.service.reading.looking import Looking, Seen, seen

if TYPE_CHECKING:
    from muster.service.state import Service
    from muster_core.structures.steps import Steps

T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class Moment:
    """A moment, and the state then.

    Attributes:
        service: The service.
    """

    service: Service

    @property
    def is_past(self) -> bool:
        """Return whether it is in the past, so that nothing changes any more."""
        return False

    def query(self) -> Mapping[str, str]:
        """Return what stands in the addresses of pages that show this moment."""
        return {}

    def now_us(self) -> int:
        """Return the instant up to which waits last, in microseconds since the origin."""
        return self.service.now_us()

    async def seen(self, read: Callable[[Looking], Steps[T]]) -> Seen[T]:
        """Read the state of this moment.

        Args:
            read: Reads it in steps, and changes nothing.

        Raises:
            Exception: What ``read`` raises.
        """
        return await seen(self.service, read)


def moment_of(service: Service) -> Moment:
    """Return the present moment."""
    return Moment(service)
