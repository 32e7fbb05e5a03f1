"""Node services take room on their nodes, before reclaim and preemption; or they keep the nodes.

SERVICE-4 to SERVICE-10, after YuniKorn's preemption for a required node. Only priorities decide which
asks are victims: no fence and no ``guaranteed`` protects them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from typing_extensions import override

from muster_core.structures.shapes import bits_of
from muster_core.values.decisions import Reason
from muster_core.view.eviction.action import changes_so_far, exempt, first_in_order, first_of_all
from muster_core.view.eviction.eligibility import Eligibility, Side
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.eviction.action import AlikeAsks
    from muster_core.view.eviction.eligibility import Key, Losses, Rank
    from muster_core.view.eviction.plans import Plan, Planner
    from muster_core.view.eviction.victims import Victim
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

Service = tuple["ViewApp", "Ask", "Node"]
"""A node service that lacks nothing but room on its node, with its application."""


@final
class NodeServices:
    """Finds the plans of node services, and makes those without a plan keep their nodes.

    Args:
        state: The view.
        planner: Finds plans.
    """

    def __init__(self, state: ViewState, planner: Planner) -> None:
        self._state = state
        self._planner = planner
        #: What services without a plan share, in the current state.
        self._without_plan: set[AlikeAsks] = set()
        self._known: tuple[int, ...] = ()

    # SERVICE-4, SERVICE-8
    def find(self) -> Steps[Plan | None]:
        """Find the plan of the first node service that has one; those before it keep their nodes.

        Returns:
            The plan, or None if no service has one.
        """
        if not self._state.kept_nodes.leaves:
            return None
        self._forget_if_changed()
        for service in self._in_order():
            yield
            if service is None:
                continue
            app, ask, node = service
            plan = yield from self._plan_for(app, ask, node)
            if plan is not None:
                return plan
            # SERVICE-10
            self._state.kept_nodes.keep(app, ask)
        return None

    # EVICTION-11
    def _forget_if_changed(self) -> None:
        now = changes_so_far(self._state)
        if self._known != now:
            self._known = now
            self._without_plan.clear()

    def _plan_for(self, app: ViewApp, ask: Ask, node: Node) -> Steps[Plan | None]:
        state = self._state
        # EVICTION-3
        if not state.delays.enabled:
            return None
        # EVICTION-45
        if state.eviction_history.lost_on(app.identity.key, ask, node.name):
            return None
        alike = (app.identity.leaf, state.bit_of(ask), ask.priority, ask.gang or "")
        if alike in self._without_plan:
            return None
        eligibility = ServiceEligibility(state, app, ask, exempt(state, ask))
        plan = yield from self._planner.find_on(eligibility, node)
        if plan is None:
            self._without_plan.add(alike)
        return plan

    # EVICTION-8, EVICTION-10
    def _in_order(self) -> Iterator[Service | None]:
        """Iterate over the services that lack room, in order; None is a pause of the search."""
        required = self._state.shapes.one_node
        leaves = self._state.kept_nodes.leaves.values()
        found = [leaf for leaf in leaves if leaf.pending_mask & required]
        wanted = {queue.key for leaf in found for queue in leaf.upward()}
        if wanted:
            yield from self._below(self._state.root, wanted)

    def _below(self, queue: ViewQueue, wanted: set[int]) -> Iterator[Service | None]:
        # BACKFILL-6
        if self._state.scopes and self._state.scopes.is_strict(queue):
            first_of = first_in_order(self._state, queue)
            if first_of is not None and first_of[0].key in wanted:
                leaf, app, ask = first_of
                yield from self._lacking_room(leaf, app, [ask])
        elif isinstance(queue, ParentView):
            for child in queue.in_turn(wanted, self._state.total):
                yield from self._below(child, wanted)
        elif isinstance(queue, LeafView):
            for app in queue.competing():
                yield None
                # EVICTION-9
                if queue.config.settings.blocking:
                    first = first_of_all(self._state, app)
                    if first is not None:
                        yield from self._lacking_room(queue, app, [first])
                        return
                else:
                    yield from self._lacking_room(queue, app, self._required_by(app))

    def _required_by(self, app: ViewApp) -> list[Ask]:
        """Return the pending asks of an application that require a node, in order."""
        bits = bits_of(app.mask & self._state.shapes.one_node)
        asks = {ask.name: ask for bit in bits for ask in app.each_of(bit)}  # Some come twice.
        return sorted(asks.values(), key=app.order_of)

    # SERVICE-4, EVICTION-12
    def _lacking_room(self, leaf: LeafView, app: ViewApp, asks: list[Ask]) -> Iterator[Service]:
        for ask in asks:
            node = self._state.kept_nodes.node_of(leaf, app, ask)
            if node is not None and self._state.nodes.find(self._state.bit_of(ask)) is None:
                yield app, ask, node


@final
class ServiceEligibility(Eligibility):
    """The asks that can be victims of a node service.

    Args:
        state: The view.
        app: The application of the service.
        ask: The service.
        exempt: The gangs whose members are no victims.
    """

    reason = Reason.PREEMPTED
    ranks_by_priority = False

    @override
    def relation(self) -> Hashable:
        return None  # Leaves are related to all services in the same way.

    @override
    def fence(self) -> ViewQueue:
        return self.state.root

    @override
    def reaches(self, leaf: LeafView, common: ViewQueue) -> bool:
        return True

    # SERVICE-9
    @override
    def _find_side(self, leaf: LeafView) -> Side:
        """Return a side that nothing protects and no setting changes, in whatever queue it is."""
        services = leaf.config.settings.required_node
        return Side(leaf, (), (), (), (), 0, None, 0, None, services)

    # SERVICE-5
    @override
    def deserves(self, side: Side, victim: Victim, losses: Losses) -> bool:
        return not self.is_beyond(side, victim.place[0])

    # SERVICE-6
    @override
    def key(self, side: Side, victim: Victim, losses: Losses) -> Key:
        return ((victim.place[0],), 0.0, 0, victim.place[1])

    @override
    def rank(self, side: Side, victim: Victim) -> Rank:
        return (victim.place[0],)

    @override
    def floor(self, side: Side, lowest: int) -> Rank:
        return (lowest,)

    # SERVICE-5
    @override
    def is_beyond(self, side: Side, priority: int) -> bool:
        return priority > self.ask.priority

    @override
    def sorts_by_priority(self, side: Side) -> bool:
        return True

    @override
    def why(self, victim: Victim) -> str:
        name = f"{self.app.identity.name}/{self.ask.name}"
        return f"for {name}: it is a node service and requires {self.ask.shape.node}"
