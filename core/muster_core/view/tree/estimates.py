"""How long pending asks of a leaf are expected to take, by shape, the shortest first."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster_core.owners.messages.asks import Ask
    from muster_core.values.configuration.partition import Settings
    from muster_core.view.tree.application import ViewApp

_Entry = tuple[int, int, int, "Ask", "ViewApp"]
"""An estimate in microseconds, the place of the ask in the input, the ask, its application."""

_STALE: Final = 64
"""How many more entries than twice the asks a heap may have."""


# BACKFILL-10
def estimate_us(settings: Settings, ask: Ask) -> int | None:
    """Return how long an ask of a leaf with these settings is expected to take, or None."""
    if ask.estimate_us is not None:
        return ask.estimate_us
    return settings.estimate_us if ask.run_for_us is None else ask.run_for_us


@final
class Estimates:
    """The plain pending asks of a leaf that have an estimate, by shape.

    Args:
        settings: The settings of the leaf.
        asks: Its pending asks, each with its application and the bit of its shape.
    """

    __slots__ = ("_heaps", "_settings")

    def __init__(self, settings: Settings, asks: Iterable[tuple[ViewApp, Ask, int]]) -> None:
        self._settings = settings
        #: All pending asks of each shape, and perhaps others.
        self._heaps: dict[int, list[_Entry]] = {}
        for app, ask, bit in asks:
            entry = self._entry(app, ask)
            if entry is not None:
                self._heaps.setdefault(bit, []).append(entry)
        for heap in self._heaps.values():
            heapify(heap)

    def is_for(self, settings: Settings) -> bool:
        """Return whether the estimates are those that settings give."""
        return self._settings.estimate_us == settings.estimate_us

    def add(self, app: ViewApp, ask: Ask, bit: int) -> None:
        """Add an ask that is pending now."""
        entry = self._entry(app, ask)
        if entry is None:
            return
        heap = self._heaps.setdefault(bit, [])
        heappush(heap, entry)
        if len(heap) > _STALE and len(heap) & (len(heap) - 1) == 0:  # Now and then.
            heap[:] = {entry[:3]: entry for entry in heap if _is_pending(entry)}.values()
            heapify(heap)

    def _entry(self, app: ViewApp, ask: Ask) -> _Entry | None:
        estimate = estimate_us(self._settings, ask)
        return None if estimate is None else (estimate, ask.seq, ask.number, ask, app)

    def shortest(self, bit: int) -> int | None:
        """Return the least estimate of the pending asks of a shape, in microseconds, or None."""
        heap = self._heaps.get(bit)
        while heap and not _is_pending(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def below(self, bit: int, limit_us: int) -> Iterator[tuple[ViewApp, Ask]]:
        """Iterate over the untried asks of a shape with an estimate below a limit, in no order."""
        for estimate, _, _, ask, app in self._heaps.get(bit, ()):
            if estimate < limit_us and app.has_untried(ask):
                yield app, ask


def _is_pending(entry: _Entry) -> bool:
    return entry[4].pending.get(entry[3].name) is entry[3]
