"""The moment whose state a page shows: now, or one in the past."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs

from muster._errors import StoreError
from muster.service.past.building import Past, read_all
from muster.service.problems import Problem
from muster.service.reading.looking import Looking, Seen, as_iso, seen
from muster_core.decisions import MICROSECONDS

if TYPE_CHECKING:
    from threading import Event as Flag

    from starlette.requests import Request

    from muster.service.past.kept import Kept
    from muster.service.state import Service
    from muster_core.structures.steps import Steps

T = TypeVar("T")

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_SECONDS: Final = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
_RIGHT: Final = "must be a date in UTC such as 2026-01-31T18:30:00Z, or seconds since the origin"


@final
@attrs.frozen(eq=False)
class Moment:
    """A moment, and the state then.

    Attributes:
        service: The service.
        request: The request for the page.
        kept: The extent of the kept history; None if nothing is kept, or it cannot be read.
        past_us: The instant in microseconds since the origin; None for the present.
    """

    service: Service
    request: Request
    kept: Kept | None = None
    past_us: int | None = None

    # PAGE-64
    @property
    def is_past(self) -> bool:
        """Return whether it is in the past, so that nothing changes any more."""
        return self.past_us is not None

    def query(self) -> Mapping[str, str]:
        """Return what stands in the addresses of pages that show this moment."""
        return {} if self.past_us is None else {"at": self.iso(self.past_us)}

    def iso(self, at_us: int) -> str:
        """Return an instant as it stands in addresses: a date in UTC."""
        return as_iso(self.service.unix_us(at_us))

    def now_us(self) -> int:
        """Return the instant up to which waits last, in microseconds since the origin."""
        return self.service.now_us() if self.past_us is None else self.past_us

    # PAGE-60
    async def seen(self, read: Callable[[Looking], Steps[T]]) -> Seen[T]:
        """Read the state of this moment: after the last batch at or before it.

        A state of the past is read in a thread, and the scheduler is not asked.

        Args:
            read: Reads it in steps, and changes nothing.

        Raises:
            Problem: If the past cannot be made again.
            Exception: What ``read`` raises.
        """
        at_us, moments = self.past_us, self.service.past
        if at_us is None:
            return await seen(self.service, read)

        def look(past: Past, gone: Flag) -> Seen[T]:
            looking = Looking(past.machine_at(at_us), past.ledger, past.roll)
            return Seen(read_all(read(looking), gone), past.number, at_us)

        return await moments.read(self.request, await moments.batch_at(at_us), look)


# PAGE-62
async def moment_of(service: Service, request: Request) -> Moment:
    """Return the moment that the address of a page names after ``at``; without it the present.

    Raises:
        Problem: 400 if it is no instant, or lies in the future; 409 if nothing is kept; 410 if it
            is before what is kept.
    """
    present = await present_of(service, request)
    written = request.query_params.get("at", "").strip()
    if not written:
        return present
    at_us = instant_of("at", written, service)
    kept = present.kept
    if service.options.state is None:
        told = "nothing is kept, so there is no past to show: start the service with --state"
        raise Problem(409, told)
    if kept is None:
        raise Problem(409, "the kept history has no batch yet, or cannot be read")
    now_us = service.now_us()
    if at_us > max(now_us, kept.last_us):
        told = f"at: {written!r} lies in the future: now is {present.iso(now_us)}"
        raise Problem(400, told)
    if at_us < kept.first_us:
        told = f"at: {written!r}: there is history from {present.iso(kept.first_us)} on"
        raise Problem(410, told)
    return attrs.evolve(present, past_us=at_us)


async def present_of(service: Service, request: Request) -> Moment:
    """Return the present moment."""
    try:
        kept = await service.past.kept()
    except StoreError:  # Whoever needs the store is told; the present can be shown without.
        kept = None
    return Moment(service, request, kept)


def instant_of(name: str, written: str, service: Service) -> int:
    """Return an instant in microseconds since the origin.

    Args:
        name: The name of the parameter, for messages.
        written: A date in UTC, or seconds since the origin.
        service: The service.

    Raises:
        Problem: 400 if it is neither.
    """
    if _SECONDS.fullmatch(written):
        return int(Decimal(written) * MICROSECONDS)
    try:
        date = datetime.fromisoformat(written)
    except ValueError:
        raise Problem(400, f"{name}: {written[:100]!r}: {_RIGHT}") from None
    date = date if date.tzinfo is not None else date.replace(tzinfo=UTC)
    return (date - _EPOCH) // _MICROSECOND - service.origin_us
