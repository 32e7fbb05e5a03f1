"""Bars: what is allocated of each resource type, against `guaranteed` and `max`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, final

import attrs

from muster.figures.text import Unit, number

if TYPE_CHECKING:
    from muster.service.reading.queues import QueueRow


@final
@attrs.frozen
class Bar:
    """What a queue has of one resource type.

    Attributes:
        kind: The type.
        allocated: What is allocated in it, in base units.
        guaranteed: Its `guaranteed`; 0 for none.
        most: Its `max`; None for no limit.
        whole: What the length of the bar stands for: its `max`; without one the nearest `max`
            above it, or the capacity of all nodes.
    """

    kind: str
    allocated: int
    guaranteed: int
    most: int | None
    whole: int

    @property
    def share(self) -> float:
        """How much of the whole is allocated; more than 1 if it is more than that."""
        return self._of_whole(self.allocated)

    @property
    def marks(self) -> tuple[float, ...]:
        """Where the bar has a mark: at `guaranteed`."""
        return (self._of_whole(self.guaranteed),) if self.guaranteed else ()

    def _of_whole(self, amount: int) -> float:
        if self.whole <= 0:
            return 2.0 if amount else 0.0
        return amount / self.whole

    @property
    def words(self) -> str:
        """The same in words."""
        unit = Unit.of(self.kind, max(self.allocated, self.guaranteed, self.most or 0))
        if self.most is None:
            told = f"{unit.text(self.allocated)}, no max"
        else:
            told = f"{number(self.allocated / unit.scale)} of {unit.text(self.most)}"
        if not self.guaranteed:
            return told
        return f"{told}, guaranteed {number(self.guaranteed / unit.scale)}"


# PAGE-20
def bars_of(row: QueueRow, wholes: Mapping[str, int], only: str | None = None) -> list[Bar]:
    """Return the bars of a queue, that with the largest share first.

    Args:
        row: The queue.
        wholes: How much of each type the queue could have at most; see :func:`wholes_below`.
        only: The only type to show, or None for all that matter to the queue.
    """
    allocated, limits = row.allocated(), dict(row.config.max.amounts)
    guaranteed = row.config.guaranteed.amounts
    kinds = {only} if only else {*allocated, *limits, *guaranteed}
    if not row.entry.parent and not only:
        kinds.update(wholes)
    bars = [
        Bar(
            kind,
            allocated.get(kind, 0),
            guaranteed.get(kind, 0),
            limits.get(kind),
            wholes.get(kind, 0),
        )
        for kind in kinds
    ]
    return sorted(bars, key=lambda bar: (-bar.share, bar.kind))


def wholes_below(row: QueueRow, above: Mapping[str, int]) -> Mapping[str, int]:
    """Return how much of each type a queue and what is below it could have at most.

    Args:
        row: The queue.
        above: The same of its parent; for the root the capacity of all nodes.
    """
    return {**above, **dict(row.config.max.amounts)}
