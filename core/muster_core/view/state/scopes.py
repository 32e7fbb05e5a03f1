"""The scopes of ``scheduling.order``: the leaves whose asks may not overtake, or only backfill.

BACKFILL-2 to BACKFILL-8. The topmost queue of a path whose order is not ``greedy`` makes all asks
below it one scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.values.configuration.partition import SchedulingOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.leaf import LeafView
    from muster_core.view.tree.queue import ViewQueue

# Looking up a member of an enum takes ten times as long.
_GREEDY: Final = SchedulingOrder.GREEDY
_STRICT: Final = SchedulingOrder.STRICT
_BACKFILL: Final = SchedulingOrder.BACKFILL


@final
class Scopes:
    """The queues whose order is not ``greedy``, and the scopes that they make.

    Args:
        queues: The queues of the view, by key.
    """

    def __init__(self, queues: Mapping[int, ViewQueue]) -> None:
        self._queues = queues
        #: The queues whose own order is not greedy, by key; others may be above them.
        self._ordered: dict[int, ViewQueue] = {}
        #: The plain asks that became pending since somebody took them; a batch takes them.
        self._new: list[tuple[ViewApp, Sequence[Ask]]] = []

    def __bool__(self) -> bool:
        """Return whether there is a scope."""
        return bool(self._ordered)

    def note_settings(self, queue: ViewQueue) -> None:
        """Record that a queue is new or has other settings."""
        if queue.config.settings.scheduling_order is not _GREEDY:
            self._ordered[queue.key] = queue
        else:
            self._ordered.pop(queue.key, None)

    def forget(self, queue: ViewQueue) -> None:
        """Record that a queue is gone."""
        self._ordered.pop(queue.key, None)

    def note_new(self, app: ViewApp, asks: Sequence[Ask]) -> None:
        """Record that plain asks of an application, in any queue, begin to be pending."""
        self._new.append((app, asks))

    def take_new(self) -> Sequence[tuple[ViewApp, Sequence[Ask]]]:
        """Return the plain asks that began to be pending since this was called."""
        if not self._new:
            return ()
        new, self._new = self._new, []
        return new

    def have_pending(self) -> bool:
        """Return whether an ask of a scope is pending."""
        return any(any(queue.pending) for queue in self._ordered.values())

    # BACKFILL-2, BACKFILL-7
    def of(self, leaf: LeafView) -> ViewQueue | None:
        """Return the queue that makes the scope of a leaf, or None if it is in no scope."""
        if not self._ordered:
            return None
        for queue in reversed(leaf.line):
            if queue.key in self._ordered:
                return queue
        return None

    # BACKFILL-4
    def is_strict(self, queue: ViewQueue) -> bool:
        """Return whether a queue makes a strict scope."""
        if queue.key not in self._ordered or _order(queue) is not _STRICT:
            return False
        return not any(above.key in self._ordered for above in queue.line[1:])

    def strict(self, leaf: LeafView) -> ViewQueue | None:
        """Return the queue that makes the scope of a leaf, if that scope is strict."""
        scope = self.of(leaf)
        return scope if scope is not None and _order(scope) is _STRICT else None

    def backfill(self, leaf: LeafView) -> ViewQueue | None:
        """Return the queue that makes the scope of a leaf, if asks may backfill there."""
        scope = self.of(leaf)
        return scope if scope is not None and _order(scope) is _BACKFILL else None

    def check(self) -> None:
        """Assert the invariants; for tests."""
        assert self._ordered == {
            key: queue for key, queue in self._queues.items() if _order(queue) is not _GREEDY
        }


def _order(queue: ViewQueue) -> SchedulingOrder:
    return queue.config.settings.scheduling_order
