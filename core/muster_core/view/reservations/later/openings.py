"""When each node will have room for a plain ask, remembered until something about the node changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster_core.values.resources import MAX_QUANTITY
from muster_core.view.reservations.later.projection import Projection
from muster_core.view.reservations.later.releases import releases_on

if TYPE_CHECKING:
    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.shapes import Shape
    from muster_core.view.gangs.member import Member
    from muster_core.view.reservations.later.releases import Instant
    from muster_core.view.state.view_state import ViewState


_MOST: Final = 64
"""How many shapes are remembered before those without pending asks are forgotten."""


@final
@attrs.frozen
class Opening:
    """When a node will have room.

    Attributes:
        at: When; None if never.
        version: The version of the node.
        until_us: The first expected end on the node, in microseconds: when that has passed without
            an end, the ends are others.
    """

    at: Instant | None
    version: int
    until_us: int


@final
class Openings:
    """When nodes will have room for plain asks, if nothing is placed there any more.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The nodes by shape.
        self._known: dict[Shape, dict[Node, Opening]] = {}
        self._reconfigured = -1

    def of(self, ask: Ask) -> dict[Node, Opening]:
        """Return what is known of the nodes for the shape of a pending ask; it may be out of date."""
        state = self._state
        if self._reconfigured != state.reconfigured:
            self._reconfigured = state.reconfigured
            self._known.clear()
        if len(self._known) > _MOST:
            self._forget_idle()
        return self._known.setdefault(ask.shape, {})

    def _forget_idle(self) -> None:
        """Forget the shapes that no pending ask has."""
        for shape in [one for one in self._known if self._state.shapes.find(one) is None]:
            del self._known[shape]

    def look(self, member: Member, node: Node, now_us: int, projection: Projection) -> Opening:
        """Find out when a pending ask, which does not fit a node now, will fit there.

        Args:
            member: The ask.
            node: The node.
            now_us: The present instant, in microseconds.
            projection: The view, in which others may hold the node; it changes.
        """
        releases = releases_on(self._state, node, now_us)
        ends = [release.at[1] for release in releases if not release.at[0]]
        found: Instant | None = None
        for number, release in enumerate(releases):
            projection.release(release.app, release.allocation, node)
            is_last = number + 1 == len(releases) or releases[number + 1].at != release.at
            if is_last and projection.has_room(member, node):
                found = release.at
                break
        return Opening(found, node.version, min(ends, default=MAX_QUANTITY))
