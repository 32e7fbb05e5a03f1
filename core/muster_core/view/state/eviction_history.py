"""The preemptors that were evicted themselves, so that evictions never form a cycle.

Three asks can each have a right to the node of the next: one by its queue's ``guaranteed``,
two by their priorities. So an ask that has evicted others from a node, and was then evicted
from there, evicts nothing more on that node until something new happens. Equal asks of one
application count as one, or each of them could evict in turn. A gang group that has lost
a node that it got by evictions evicts nothing at all until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.structures.shapes import Shape
from muster_core.view.facts import AlikeFacts, EvictionFacts, HistoryFacts

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import Allocation, Ask

Alike = tuple[int, Shape, int, bool, str | None]
"""What asks share that differ only in their names: the application, what they need
of a node, their priority, whether they may preempt, and their gang."""

Evicted = tuple[Alike | None, str | None, tuple[str, ...]]
"""Equal asks and the node on which they evicted others; or the names of a group's gangs."""


# EVICTION-47
def alike(app: int, ask: Ask) -> Alike:
    """Return what an ask shares with equal asks of its application.

    Args:
        app: The key of the application.
        ask: The ask.
    """
    return (app, ask.shape, ask.priority, ask.preempts, ask.gang)


@final
class EvictionHistory:
    """The evictions, and the evicted preemptors, since something new happened."""

    def __init__(self) -> None:
        #: The asks placed by evictions that still hold their nodes, by application and name.
        self._held: dict[tuple[int, str], Evicted] = {}
        #: The evictions whose preemptors were evicted.
        self._lost: dict[Evicted, None] = {}
        #: The preemptors that were evicted.
        self._losers: dict[Alike, None] = {}
        #: The allocations of bound asks, by application and name, that are released only to try
        #: what would follow.
        self.tried_without: dict[tuple[int, str], Allocation] = {}
        #: Increases whenever evicted preemptors are forgotten.
        self.changes = 0

    def forget(self) -> None:
        """Forget everything: something new happened, or a bind has failed."""
        self._held.clear()
        if self._lost:
            self._lost.clear()
            self._losers.clear()
            self.changes += 1

    def note(self, app: int, ask: Ask, node: str) -> None:
        """Record that asks on a node were evicted for an ask.

        Args:
            app: The key of its application.
            ask: The ask.
            node: The name of the node.
        """
        self._held[app, ask.name] = (alike(app, ask), node, ())

    def note_member(self, app: int, ask: Ask, group: tuple[str, ...]) -> None:
        """Record that asks were evicted for a group, and that a member was placed by that.

        Args:
            app: The key of its application.
            ask: The member.
            group: The names of the group's gangs.
        """
        self._held[app, ask.name] = (None, None, group)

    def evicted(self, app: int, ask: Ask) -> None:
        """Record that an ask was evicted, whether or not it had evicted others."""
        evicted = self._held.pop((app, ask.name), None)
        # EVICTION-49
        if evicted is not None:
            self._lost[evicted] = self._losers[alike(app, ask)] = None

    def has_lost(self, app: int, ask: Ask) -> bool:
        """Return whether an equal ask was evicted from any node where it had evicted others."""
        return bool(self._losers) and alike(app, ask) in self._losers

    # EVICTION-45
    def lost_on(self, app: int, ask: Ask, node: str) -> bool:
        """Return whether an equal ask was evicted from this node, where it had evicted others."""
        return (alike(app, ask), node, ()) in self._lost

    # EVICTION-48
    def lost_by(self, group: tuple[str, ...]) -> bool:
        """Return whether a group has lost a node that it got by evictions."""
        return (None, None, group) in self._lost

    # CHECKPOINT-4
    def facts(self) -> HistoryFacts:
        """Return what is remembered. Between two batches."""
        return HistoryFacts(
            held=tuple((*key, _facts_of(evicted)) for key, evicted in self._held.items()),
            lost=tuple(map(_facts_of, self._lost)),
            losers=tuple(AlikeFacts(*losers) for losers in self._losers),
        )

    # CHECKPOINT-5
    def load(self, facts: HistoryFacts) -> None:
        """Remember what was saved."""
        self._held = {(app, ask): _evicted_of(evicted) for app, ask, evicted in facts.held}
        self._lost = dict.fromkeys(map(_evicted_of, facts.lost))
        self._losers = dict.fromkeys(map(_alike_of, facts.losers))


def _facts_of(evicted: Evicted) -> EvictionFacts:
    asks, node, group = evicted
    return EvictionFacts(None if asks is None else AlikeFacts(*asks), node, group)


def _evicted_of(facts: EvictionFacts) -> Evicted:
    return (None if facts.alike is None else _alike_of(facts.alike), facts.node, facts.group)


def _alike_of(facts: AlikeFacts) -> Alike:
    return (facts.app, facts.shape, facts.priority, facts.preempts, facts.gang)
