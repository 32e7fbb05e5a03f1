"""Plans: on which node an ask could be placed if others went, and who these are.

SPEC section 7. Of the nodes on which that works the one is chosen whose victims stand
lowest, then with the fewest, then the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.view.picking import Picking
from muster_core.view.search import Search

if TYPE_CHECKING:
    from muster_core.nodes import Node
    from muster_core.view.scopes import Rank, Scope
    from muster_core.view.state import ViewState
    from muster_core.view.victims import Standings, Victim


@final
@attrs.frozen(eq=False)
class Plan:
    """What would place an ask.

    Attributes:
        scope: Whose plan it is.
        node: The node.
        victims: Who has to go, in the order in which they are taken.
        rank: The highest rank among them.
    """

    scope: Scope
    node: Node
    victims: tuple[Victim, ...]
    rank: Rank


@final
class Planner:
    """Finds the best plan for an ask that does not fit as things are.

    Args:
        state: The view.
        standings: What stands on the nodes.
    """

    def __init__(self, state: ViewState, standings: Standings) -> None:
        self._state = state
        self._standings = standings
        #: The most that a node has of each type and has free of it, at which change of the nodes.
        self._capacity: dict[str, int] = {}
        self._free: dict[str, int] = {}
        self._measured = -1

    def find(self, scope: Scope, bit: int) -> Plan | None:
        """Find the best plan.

        Args:
            scope: Whose plan.
            bit: The bit of the shape of the ask.
        """
        search = Search(self._state, self._standings, scope)
        if not search.givers:
            return None
        search.look()
        self._measure()
        app, ask, takings = scope.app.identity.key, scope.ask, self._state.takings
        lost = takings.has_lost(app, ask)
        if not search.may_suffice(self._free, self._capacity):
            return None
        best: Plan | None = None
        for node in self._state.nodes.in_order():
            if not node.matching >> bit & 1 or (lost and takings.lost_on(app, ask, node.name)):
                continue
            least = search.least(node)
            if least is None or (best is not None and least >= _worth(best)):
                continue
            plan = self._plan_on(search, node)
            if plan is not None and (best is None or _worth(plan) < _worth(best)):
                best = plan
                if _worth(best) <= (search.floor, 1):
                    break
        return best

    @staticmethod
    def _plan_on(search: Search, node: Node) -> Plan | None:
        victims = Picking(search, node).pick()
        if not victims:
            return None
        scope = search.scope
        ranks: list[Rank] = []
        for victim in victims:
            side = scope.side(victim.app.identity.leaf)
            assert side is not None, "a victim that cannot be one"
            ranks.append(scope.rank(side, victim))
        return Plan(scope, node, victims, max(ranks))

    def _measure(self) -> None:
        """Find the most that a node has of each type, and has free of it."""
        if self._measured == self._state.nodes.changes:
            return
        self._measured = self._state.nodes.changes
        self._free.clear()
        self._capacity.clear()
        for node in self._state.nodes.nodes.values():
            for name, amount in node.capacity.items():
                free = amount - node.used.get(name, 0)
                if free > self._free.get(name, 0):
                    self._free[name] = free
                if amount > self._capacity.get(name, 0):
                    self._capacity[name] = amount


def _worth(plan: Plan) -> tuple[Rank, int]:
    return (plan.rank, len(plan.victims))
