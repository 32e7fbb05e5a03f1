"""Looking at the state after a batch, without holding up anybody and without breaking anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import attrs

from muster_core.decisions import seconds
from muster_core.snapshots import ReservationSnapshot

if TYPE_CHECKING:
    from muster.service.ledger.ledger import Ledger
    from muster.service.roll import Roll
    from muster.service.state import Service
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps
    from muster_core.view import DecisionView

T = TypeVar("T")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@final
@attrs.frozen(eq=False)
class Looking:
    """The state between two batches, while one request reads it.

    Attributes:
        machine: The machine; it must not be changed.
        ledger: What was let in and decided.
        roll: All asks in the order in which they were added.
    """

    machine: CoordinatorMachine
    ledger: Ledger
    roll: Roll
    #: What is reserved, once somebody has asked.
    _reserved: list[Mapping[str, ReservationSnapshot]] = attrs.field(
        factory=list["Mapping[str, ReservationSnapshot]"], init=False
    )

    def reservations(self) -> Mapping[str, ReservationSnapshot]:
        """Return what the last round has left reserved, by ``app/ask``."""
        if not self._reserved:
            self._reserved.append(self.view.reservations())
        return self._reserved[0]

    @property
    def view(self) -> DecisionView:
        """The decision view."""
        return self.machine.view

    @property
    def now_us(self) -> int:
        """The instant of the last batch, in microseconds since the origin."""
        return self.machine.now_us


@final
@attrs.frozen
class Seen(Generic[T]):
    """What was read, and after which batch.

    Attributes:
        value: What was read.
        batch: The number of the batch.
        at_us: Its instant, in microseconds since the origin.
    """

    value: T
    batch: int
    at_us: int

    # LISTS-1
    def heading(self, service: Service) -> dict[str, object]:
        """Return the members of an answer that say after which batch it is."""
        return {
            "batch": self.batch,
            "at": seconds(self.at_us),
            "time": as_iso(service.unix_us(self.at_us)),
        }


@final
@attrs.frozen
class _Failed:
    error: Exception


async def seen(service: Service, read: Callable[[Looking], Steps[T]]) -> Seen[T]:
    """Read the state after the last batch that was announced.

    Args:
        service: The service.
        read: Reads it in steps.

    Raises:
        Exception: What ``read`` raises; the scheduler goes on.
    """

    def look(machine: CoordinatorMachine) -> Steps[Seen[T] | _Failed]:
        looking = Looking(machine, service.ledger, service.roll)
        try:
            value = yield from read(looking)
        except Exception as error:  # noqa: BLE001 - a bug in a list must not end the scheduler
            return _Failed(error)
        return Seen(value, machine.batches, machine.now_us)

    found = await service.look(look)
    if isinstance(found, _Failed):
        raise found.error
    return found


def as_iso(unix_us: int) -> str:
    """Return an instant since 1970 as ISO text in UTC."""
    instant = _EPOCH + timedelta(microseconds=unix_us)
    return instant.isoformat().replace("+00:00", "Z")


def in_seconds(at_us: int | None) -> float | int | None:
    """Return an instant or a duration in seconds, or None."""
    return None if at_us is None else seconds(at_us)
