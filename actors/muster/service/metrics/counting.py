"""What is counted of every batch: decisions, releases, waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, final

from muster._runtime.meter import Timings
from muster._runtime.pace import slices
from muster_core.decisions import Announced, Kind, Reason

if TYPE_CHECKING:
    from muster.service.ledger.ledger import Ledger
    from muster_core.structures.steps import Steps

WAIT_BOUNDS_S: Final = (
    0.01,
    0.1,
    0.5,
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    14400.0,
    86400.0,
)
"""The upper bounds of the buckets for waits of asks, in seconds."""

# Looking up a member of an enum takes ten times as long.
_BOUND: Final = Kind.BOUND
_RELEASED: Final = Kind.RELEASED

_KIND: Final = attrgetter("decision.kind")


@final
class Counting:
    """Counts what is decided since the start of the process.

    Args:
        ledger: Knows since when asks wait; it has heard of a batch before this does.

    Attributes:
        is_open: Whether it counts; what is heard again at the start has happened before.
        decisions: How many decisions there were, by kind.
        released: How many asks were released, by reason.
        waits: How long asks waited until they were bound.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.is_open = False
        self.decisions: Counter[Kind] = Counter()
        self.released: Counter[Reason | None] = Counter()
        self.waits = Timings(WAIT_BOUNDS_S)

    def hear(self, at_us: int, announced: Sequence[Announced]) -> Steps[None]:
        """Hear of the decisions of a batch, in steps.

        Args:
            at_us: The instant of the batch, in microseconds since the origin.
            announced: Its decisions.
        """
        if not self.is_open:
            return
        for piece in slices(announced):
            self.decisions.update(map(_KIND, piece))
            for one in piece:
                decision = one.decision
                if decision.kind is _BOUND:
                    self._bound(at_us, decision.app, decision.ask)
                elif decision.kind is _RELEASED:
                    self.released[decision.reason] += 1
            yield

    def _bound(self, at_us: int, app: str | None, ask: str | None) -> None:
        entry = None if app is None or ask is None else self._ledger.ask(app, ask)
        if entry is not None and entry.since_us is not None:  # It may have ended since.
            self.waits.note((at_us - entry.since_us) / 1e6)
