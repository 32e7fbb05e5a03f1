"""The record of reservations: which node was reserved for which ask, from when until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

import attrs

from muster.replay import Key, LiveAsk
from muster_core.decisions import Announced, Kind
from muster_core.snapshots import ReservationSnapshot

# Looking up a member of an enum takes ten times as long, and this is done for each decision.
_RESERVED: Final = Kind.RESERVED

MOST_RESERVED: Final = 2_000
"""The most reservations that are drawn."""


@final
@attrs.frozen
class ReservedBar:
    """A node that was reserved for an ask.

    Attributes:
        node: The node.
        ask: The ask.
        since_us: When that was announced first, in microseconds.
        start_us: From when on it was reserved, as it was announced last; None if that was not known.
        end_us: When the ask got a node or the reservation was given up; None if it lasts.
    """

    node: str
    ask: LiveAsk
    since_us: int
    start_us: int | None
    end_us: int | None = None


@final
class ReservationRecord:
    """Follows reservations.

    Decisions say when a reservation is new or changes. That one is given up without another is no
    decision, so the scheduler is asked after each batch while there are any.

    Attributes:
        present: Those that last, by ask.
    """

    def __init__(self) -> None:
        self.present: dict[Key, ReservedBar] = {}
        self._past: list[ReservedBar] | None = []
        self._is_new = False

    @property
    def wants_look(self) -> bool:
        """Whether some may have been given up since the last look."""
        return self._is_new and bool(self.present)

    @property
    def bars(self) -> list[ReservedBar] | None:
        """All that lasted for some time, in the order of their ends; None if they are too many."""
        return None if self._past is None else [*self._past, *self.present.values()]

    def heard(self, batch: Sequence[Announced], unbound: Mapping[Key, LiveAsk]) -> None:
        """Hear of a batch.

        Args:
            batch: Its decisions.
            unbound: The asks that are pending at its end.
        """
        self._is_new = True
        for announced in batch:
            decision = announced.decision
            if decision.kind is not _RESERVED:
                continue
            assert decision.node is not None, "a reservation without a node"
            ask = unbound[decision.app or "", decision.ask or ""]
            self._reserve(ask, decision.node, decision.start_us, announced.at_us)

    def _reserve(self, ask: LiveAsk, node: str, start_us: int | None, at_us: int) -> None:
        before = self.present.get(ask.key)
        if before is not None and before.node == node:
            self.present[ask.key] = attrs.evolve(before, start_us=start_us)
            return
        self.end(ask.key, at_us)
        self.present[ask.key] = ReservedBar(node, ask, at_us, start_us)

    def end(self, key: Key, at_us: int) -> None:
        """End the reservation of an ask, if it has one: it is pending no more."""
        before = self.present.pop(key, None)
        if before is None or self._past is None or before.since_us == at_us:
            return
        self._past.append(attrs.evolve(before, end_us=at_us))
        if len(self._past) > MOST_RESERVED:
            self._past = None

    def look(self, there: Mapping[str, ReservationSnapshot], at_us: int) -> None:
        """End what is not there any more.

        Args:
            there: What is reserved, by ``app/ask``.
            at_us: The instant, in microseconds.
        """
        self._is_new = False
        for key in [key for key in self.present if "/".join(key) not in there]:
            self.end(key, at_us)
