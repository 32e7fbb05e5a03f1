"""When each node will have room for a plain ask, remembered until something about the node changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.view.reservations.projection import Projection
from muster_core.view.reservations.releases import releases_on

if TYPE_CHECKING:
    from collections.abc import Callable

    from muster_core.nodes.node import Node
    from muster_core.owners.messages.asks import Ask
    from muster_core.view.reservations.party import Member
    from muster_core.view.reservations.releases import Instant
    from muster_core.view.state.view_state import ViewState


@final
@attrs.frozen
class _Opening:
    """When a node will have room.

    Attributes:
        at: When; None if never.
        version: The version of the node.
        until_us: The first expected end on the node, in microseconds; when it has passed without
            an end, the ends are others. None if no end is known.
    """

    at: Instant | None
    version: int
    until_us: int | None


@final
class Openings:
    """When nodes will have room for plain asks, if nothing is placed there any more.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: The nodes by shape, and the settings for which they were looked at.
        self._known: dict[int, dict[Node, _Opening]] = {}
        self._shape_of: dict[int, object] = {}
        self._reconfigured = -1

    def at(
        self, member: Member, node: Node, now_us: int, prepared: Callable[[], Projection] | None
    ) -> Instant | None:
        """Return the first instant at which a pending ask fits a node; None if never.

        Args:
            member: The ask; it does not fit the node now.
            node: The node.
            now_us: The present instant, in microseconds.
            prepared: Makes a projection in which others hold the node; None if nobody does.
        """
        if prepared is not None:
            return self._look(member, node, now_us, prepared()).at
        known = self._of(self._state.bit_of(member.ask), member.ask)
        found = known.get(node)
        if (
            found is None
            or found.version != node.version
            or (found.until_us is not None and found.until_us <= now_us)
        ):
            found = known[node] = self._look(member, node, now_us, Projection(self._state))
        return found.at

    def _of(self, bit: int, ask: Ask) -> dict[Node, _Opening]:
        """Return what is known for a shape, which may have had another bit before."""
        if self._reconfigured != self._state.reconfigured:
            self._reconfigured = self._state.reconfigured
            self._known.clear()
        if self._shape_of.get(bit) != ask.shape:
            self._shape_of[bit] = ask.shape
            self._known.pop(bit, None)
        return self._known.setdefault(bit, {})

    def _look(self, member: Member, node: Node, now_us: int, projection: Projection) -> _Opening:
        state, ask = self._state, member.ask
        leaf = state.leaf_of(member.app)
        releases = releases_on(state, node, now_us)
        ends = [release.at[1] for release in releases if not release.at[0]]
        found: Instant | None = None
        for number, release in enumerate(releases):
            projection.release(release.app, release.allocation, node)
            is_last = number + 1 == len(releases) or releases[number + 1].at != release.at
            if is_last and projection.has_room(node, leaf, ask):
                found = release.at
                break
        return _Opening(found, node.version, min(ends, default=None))
