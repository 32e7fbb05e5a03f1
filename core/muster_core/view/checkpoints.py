"""The facts of the view: how they are taken, and how the view is loaded.

The view is loaded in three steps: first the nodes with what stands on them, then the reports of
the owners, which the intake applies as at any other time, and finally what the view itself
remembers from batch to batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.nodes.node import Node
from muster_core.structures.steps import in_pieces
from muster_core.structures.totals import add_to
from muster_core.view.facts import NodeFacts, ViewFacts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.owners.messages.to_applications import AppFacts
    from muster_core.structures.steps import Steps
    from muster_core.view.rounds import Rounds
    from muster_core.view.state.view_state import ViewState


@final
@attrs.frozen
class Checkpoints:
    """Takes the facts of the view, and loads them.

    Args:
        state: The view.
        rounds: The rounds on it.
    """

    _state: ViewState
    _rounds: Rounds

    # CHECKPOINT-4
    def facts(self) -> Steps[ViewFacts]:
        """Return what the view owns. Between two batches."""
        state = self._state
        nodes: list[NodeFacts] = []
        for piece in in_pieces(state.nodes.nodes.values()):
            yield
            nodes.extend(map(_facts_of, piece))
        timers = yield from state.timers.facts()
        last_round = yield from self._rounds.facts()
        return ViewFacts(
            nodes=tuple(nodes),
            numbers=state.numbers,
            steps=self._rounds.steps,
            timers=timers,
            keepers=state.kept_nodes.keepers(),
            history=state.eviction_history.facts(),
            last_round=last_round,
        )

    # CHECKPOINT-5
    def begin(self, facts: ViewFacts, apps: Iterable[AppFacts]) -> Steps[None]:
        """Load the nodes, into an empty view; the owners report next.

        Args:
            facts: The facts of the view.
            apps: The facts of all applications.
        """
        state = self._state
        nodes: dict[str, Node] = {}
        for some in in_pieces(facts.nodes):
            yield
            for one in some:
                capacity, attributes = dict(one.capacity), dict(one.attributes)
                nodes[one.name] = Node(one.name, capacity, attributes, one.schedulable)
        # What stands on a node is counted before the node has its place in the order.
        for piece in in_pieces(apps):
            yield
            for app in piece:
                for held in in_pieces((*app.bound, *app.waiting)):
                    yield
                    for allocation in held:
                        node, ask = nodes[allocation.node], allocation.ask
                        add_to(node.used, ask.resources.amounts)
                        node.held[app.identity.key, ask.name] = 1
                        state.placing[allocation.number] = node
        for loaded in in_pieces(nodes.values()):
            yield
            for node in loaded:
                state.nodes.load(node)
        state.total = dict(state.nodes.total)
        state.numbers = facts.numbers

    # CHECKPOINT-5
    def end(self, facts: ViewFacts) -> Steps[None]:
        """Load what the view remembers; all owners have reported."""
        state = self._state
        yield from state.timers.load(facts.timers)
        state.eviction_history.load(facts.history)
        self._rounds.steps = facts.steps
        yield from self._rounds.load(facts.last_round, facts.timers.passed_us)
        for key, name in facts.keepers:
            app = state.apps[key]
            state.kept_nodes.keep(app, app.pending[name])


def _facts_of(node: Node) -> NodeFacts:
    capacity, attributes = tuple(node.capacity.items()), tuple(node.attributes.items())
    return NodeFacts(node.name, capacity, attributes, node.schedulable)
