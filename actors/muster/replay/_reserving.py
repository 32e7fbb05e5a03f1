"""What became of reservations: whether asks were bound by the start that they were given first."""

from __future__ import annotations

from typing import Final, final

import attrs

from muster_core.decisions import GONE, Decision, Kind

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_BOUND: Final = Kind.BOUND
_RELEASED: Final = Kind.RELEASED
_RESERVED: Final = Kind.RESERVED


# COMMAND-26
@final
@attrs.frozen
class Reserved:
    """How many asks had a reservation, and what became of them.

    An ask that has a reservation again after it had lost its node counts again.

    Attributes:
        asks: How many asks had a reservation.
        kept: How many of them were bound not later than the first known start that they were given.
        late: How many were bound after it.
        open_ended: How many were bound and had never been given a known start.
    """

    asks: int = 0
    kept: int = 0
    late: int = 0
    open_ended: int = 0

    @property
    def unbound(self) -> int:
        """How many were not bound: they wait still, or are gone."""
        return self.asks - self.kept - self.late - self.open_ended


@final
class ReservedTally:
    """Follows the decisions about asks with a reservation."""

    def __init__(self) -> None:
        #: The first known start that each of them was given, in microseconds, or None.
        self._open: dict[tuple[str | None, str | None], int | None] = {}
        self._asks = self._kept = self._late = self._open_ended = 0

    def heard(self, decision: Decision, at_us: int) -> None:
        """Hear of a decision; those of other kinds than these three change nothing."""
        kind = decision.kind
        if kind is _RESERVED:
            self._reserved((decision.app, decision.ask), decision.start_us)
        elif not self._open:
            return
        elif kind is _BOUND:
            self._bound((decision.app, decision.ask), at_us)
        elif kind is _RELEASED and decision.reason in GONE:
            self._open.pop((decision.app, decision.ask), None)

    def _reserved(self, ask: tuple[str | None, str | None], start_us: int | None) -> None:
        if ask not in self._open:
            self._asks += 1
            self._open[ask] = start_us
        elif self._open[ask] is None:
            self._open[ask] = start_us

    def _bound(self, ask: tuple[str | None, str | None], at_us: int) -> None:
        if ask not in self._open:
            return
        start_us = self._open.pop(ask)
        if start_us is None:
            self._open_ended += 1
        elif at_us <= start_us:
            self._kept += 1
        else:
            self._late += 1

    def told(self) -> Reserved:
        """Return the figures so far."""
        return Reserved(self._asks, self._kept, self._late, self._open_ended)
