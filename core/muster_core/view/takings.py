"""Who has taken what, so that no circle goes round for ever.

Three asks can each have a right to the place of the next: one by what its queue is
guaranteed, two by their priorities. So an ask that has taken something from a node takes
nothing again from that node as it stood then, until anything new comes in. Asks of an
application that are alike count as the same, or each of them would have its turn.

What counts is the node alone, and others on which victims are, not everything that there
is: circles that have nothing to do with one another would begin each other anew.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, final

from muster_core.shapes import Shape
from muster_core.view.victims import victim_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.messages import Ask
    from muster_core.nodes import Node
    from muster_core.view.state import ViewState

Alike = tuple[int, Shape, int, bool, str | None]
"""What asks have in common that differ in their names alone: the application, what they need
of a node, their priority, whether they preempt, and their gang."""

Taker = Alike | tuple[str, ...]
"""Who takes something: an ask like these, or a group of gangs of these names."""

Scene = frozenset[tuple[str, frozenset[tuple[tuple[Alike, bool], int]]]]
"""The nodes that are concerned: of each its name, and how many alike are bound or wait there."""


def alike(app: int, ask: Ask) -> Alike:
    """Give what an ask has in common with others of its application.

    Args:
        app: The key of the application.
        ask: The ask.
    """
    return (app, ask.shape, ask.priority, ask.preempts, ask.gang)


@final
class Takings:
    """What was taken since anything new came in.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._taken: dict[Taker, set[Scene]] = {}
        #: Goes up whenever something is forgotten.
        self.changes = 0

    def forget(self) -> None:
        """Forget everything: something new came in, or a bind has failed, which is a change."""
        if self._taken:
            self._taken.clear()
            self.changes += 1

    def note(self, taker: Taker, nodes: Iterable[Node]) -> None:
        """Take note that somebody takes something now.

        Args:
            taker: Who.
            nodes: The nodes that are concerned, as they are before.
        """
        self._taken.setdefault(taker, set()).add(self._scene(nodes))

    def knows(self, taker: Taker, nodes: Iterable[Node]) -> bool:
        """Say whether somebody has taken something already from nodes as they are now."""
        taken = self._taken.get(taker)
        return taken is not None and self._scene(nodes) in taken

    def _scene(self, nodes: Iterable[Node]) -> Scene:
        return frozenset((node.name, self._stands_on(node)) for node in nodes)

    def _stands_on(self, node: Node) -> frozenset[tuple[tuple[Alike, bool], int]]:
        victims = (victim_of(self._state, *holder) for holder in node.held)
        counts = Counter(
            (alike(victim.app.identity.key, victim.allocation.ask), victim.bound)
            for victim in victims
        )
        return frozenset(counts.items())
