"""What room nodes have for shapes, as far as the codes of reasons depend on it.

A :class:`~muster_core.view.reasons.room.Survey` says more, and compares a shape with every node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster_core.values.reasons import Code
from muster_core.view.reasons import room

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.shapes import Shape
    from muster_core.view.state.view_state import ViewState
    from muster_core.view.tree.leaf import LeafView

# Looking up a member of an enum takes ten times as long, and this is done for many asks.
_FRAGMENTED: Final = Code.FRAGMENTED
_NO_NODE_FITS: Final = Code.NO_NODE_FITS


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
        self._free: dict[str, int] | None = None

    def _catch_up(self) -> None:
        changes = self._state.nodes.changes
        if self._changes != changes:
            self._changes = changes
            self._ever.clear()
            self._late.clear()
            self._free = None

    def ever_fits(self, shape: Shape) -> bool:
        """Return whether a node could hold an ask of a shape if it were empty."""
        self._catch_up()
        found = self._ever.get(shape)
        if found is None:
            nodes = self._state.nodes.nodes
            # Most shapes fit on the first node.
            found = self._ever[shape] = any(room.is_large(node, shape) for node in nodes.values())
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
                seen = room.survey(state.nodes, ask.shape, service=service)
                kept = room.node_kept(state, seen)
                found = next(room.no_room(ask, seen), None) if kept is None else kept
                self._late[key] = None if found is None else found.code
            return self._late[key]
        bit = state.shapes.find(ask.shape)
        if bit is None or state.nodes.fitting >> bit & 1:
            return None
        return _FRAGMENTED if room.is_in_parts(ask, self._all_free()) else _NO_NODE_FITS

    def _all_free(self) -> Mapping[str, int]:
        """Return what is free on all nodes that any ask may use."""
        if self._free is None:
            free: dict[str, int] = {}
            for node in self._state.nodes.nodes.values():
                if node.schedulable:  # As in a survey; without calls, for there may be many nodes.
                    used = node.used
                    for kind, most in node.capacity.items():
                        left = most - used.get(kind, 0)
                        if left > 0:
                            free[kind] = free.get(kind, 0) + left
            self._free = free
        return self._free
