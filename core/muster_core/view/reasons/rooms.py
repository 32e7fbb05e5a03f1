"""What room nodes have for shapes, as far as the codes of reasons depend on it.

A :class:`~muster_core.view.reasons.room.Survey` says more, and compares a shape with every node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, final

from muster_core.structures.totals import add_to, take_from
from muster_core.values.reasons import Code
from muster_core.view.reasons import room

if TYPE_CHECKING:
    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.shapes import Shape
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.leaf import LeafView

# Looking up a member of an enum takes ten times as long, and this is done for many asks.
_FRAGMENTED: Final = Code.FRAGMENTED
_NO_NODE_FITS: Final = Code.NO_NODE_FITS

Capacity: TypeAlias = frozenset[tuple[str, int]]
"""A capacity as pairs of a type and its amount."""


@final
class _Known(NamedTuple):
    """What is known of a node in one of its versions."""

    version: int
    free: Mapping[str, int]
    capacity: Capacity


_NEW: Final = _Known(-1, {}, frozenset())
"""What is known of a new node."""


@final
class Rooms:
    """What room nodes have for shapes; results are kept until a node changes.

    Args:
        state: The view, which is only read.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._changes = -1
        self._ever: dict[Shape, bool] = {}
        self._late: dict[tuple[Shape, bool], Code | None] = {}
        #: What is free on all nodes; no zeros.
        self._free: dict[str, int] = {}
        #: How many nodes have each capacity.
        self._capacities: dict[Capacity, int] = {}
        #: What each node has in these two.
        self._known: dict[Node, _Known] = {}
        self._is_current = False

    def _catch_up(self) -> None:
        changes = self._state.nodes.changes
        if self._changes != changes:
            self._changes = changes
            self._ever.clear()
            self._late.clear()
            self._is_current = False

    def ever_fits(self, shape: Shape) -> bool:
        """Return whether a node could hold an ask of a shape if it were empty."""
        self._catch_up()
        found = self._ever.get(shape)
        if found is None:
            nodes = self._state.nodes.nodes
            if shape.is_choosy:
                found = any(room.is_large(node, shape) for node in nodes.values())
            else:
                self._look_at_nodes()
                found = any(shape.resources.fits_in(dict(one)) for one in self._capacities)
            self._ever[shape] = found
        return found

    def why_none(self, leaf: LeafView, ask: Ask) -> Code | None:
        """Return the most important reason why no node has room for an ask; None if one has.

        Args:
            leaf: Its leaf.
            ask: The pending ask.
        """
        self._catch_up()
        state = self._state
        service = state.kept_nodes.is_service(leaf, ask)
        if ask.shape.is_choosy or state.nodes.keeps_any:
            key = (ask.shape, service)
            if key not in self._late:
                seen = room.survey(state.nodes.nodes.values(), ask.shape, service=service)
                kept = room.node_kept(state, seen)
                found = next(room.no_room(ask, seen), None) if kept is None else kept
                self._late[key] = None if found is None else found.code
            return self._late[key]
        bit = state.shapes.find(ask.shape)
        if bit is None or state.nodes.fitting >> bit & 1:
            return None
        self._look_at_nodes()
        return _FRAGMENTED if room.is_in_parts(ask, self._free) else _NO_NODE_FITS

    def _look_at_nodes(self) -> None:
        """Take note of all nodes; only those that have changed cost time."""
        if self._is_current:
            return
        self._is_current = True
        nodes, known = self._state.nodes.nodes, self._known
        for node in [one for one in nodes.values() if known.get(one, _NEW).version != one.version]:
            self._forget(node)
            seen = known[node] = _Known(
                node.version, _free_on(node), frozenset(node.capacity.items())
            )
            add_to(self._free, seen.free)
            self._capacities[seen.capacity] = self._capacities.get(seen.capacity, 0) + 1
        if len(known) > len(nodes):
            for node in [one for one in known if nodes.get(one.name) is not one]:
                self._forget(node)

    def _forget(self, node: Node) -> None:
        seen = self._known.pop(node, None)
        if seen is None:
            return
        take_from(self._free, seen.free)
        left = self._capacities[seen.capacity] - 1
        if left:
            self._capacities[seen.capacity] = left
        else:
            del self._capacities[seen.capacity]


def _free_on(node: Node) -> Mapping[str, int]:
    """Return what any ask may use of a node, as a survey counts it; no zeros."""
    if not node.schedulable:
        return {}
    left = {kind: most - node.used.get(kind, 0) for kind, most in node.capacity.items()}
    return {kind: amount for kind, amount in left.items() if amount > 0}
