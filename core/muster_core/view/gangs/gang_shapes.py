"""GangShapes: Strict gangs that need so many equal members, as shapes of their own.

A Strict gang that stands alone in its group, with equal members in one application, fits
exactly if there is room for as many of them as it lacks. So it is offered to a round as
if it were one large ask: its *team* has a bit like any shape, which fits the headroom of
a queue if all its members together do, and fits the nodes if there is room for all of
them, on however many. Thousands of such gangs can be pending without a round looking at
any of them, as a round looks only at what could be placed.

Whether there is room is looked up when a round starts, if there may be more than before;
while a round goes on room only shrinks, so that a team that was found not to fit any more
is out until there is more room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.structures.shapes import VISIT_BIT, Shape
from muster_core.values.resources import MAX_QUANTITY, Resources

if TYPE_CHECKING:
    from muster_core.nodes.index import NodeIndex
    from muster_core.structures.shapes import ShapeTable


@final
class GangShapes:
    """The teams that are offered, and which of them there is room for.

    Args:
        shapes: The table of shapes.
        nodes: The nodes.
    """

    def __init__(self, shapes: ShapeTable, nodes: NodeIndex) -> None:
        self._shapes = shapes
        self._nodes = nodes
        #: At least the teams that there is room for on the nodes.
        self.fitting = 0
        #: The shape of a member, and how many there are, for each bit that is in use.
        self._known: dict[int, tuple[Shape, int]] = {}
        #: How many slots offer each of them; no zeros.
        self._users: dict[int, int] = {}
        #: What :attr:`NodeIndex.grown` was when room was looked up last.
        self._grown = -1

    def join(self, member: int, count: int) -> int:
        """Give the bit of a team, from now on in use once more.

        Args:
            member: The bit of the shape of its members.
            count: How many there are.

        Returns:
            Its bit; that of the members if it is only one; :data:`VISIT_BIT` if no quantity
            can be as large as what they need together.
        """
        shape = self._shapes.shapes[member]
        if count == 1:
            return member
        if any(amount * count > MAX_QUANTITY for amount in shape.resources.values()):
            return VISIT_BIT
        together = Resources({name: amount * count for name, amount in shape.resources.items()})
        team = attrs.evolve(shape, resources=together, members=count)
        bit = self._shapes.find(team)
        if bit is None:
            bit = self._shapes.add(team)
        self._shapes.acquire(bit)
        self._users[bit] = self._users.get(bit, 0) + 1
        if bit not in self._known:
            self._known[bit] = (shape, count)
            self._look_up(bit)
        return bit

    def leave(self, bit: int) -> None:
        """Use a team once less; bits of no team do not matter."""
        if bit not in self._known:
            return
        self._shapes.release(bit)
        self._users[bit] -= 1
        if not self._users[bit]:
            del self._users[bit], self._known[bit]
            self.fitting &= ~(1 << bit)

    def refresh(self) -> None:
        """Look up which teams there is room for, if there may be more than before."""
        if self._grown == self._nodes.grown:
            return
        self._grown = self._nodes.grown
        for bit in self._known:
            self._look_up(bit)

    def _look_up(self, bit: int) -> None:
        if self.has_room(bit):
            self.fitting |= 1 << bit
        else:
            self.fitting &= ~(1 << bit)

    def has_room(self, bit: int) -> bool:
        """Say whether there is room for a team on the nodes now."""
        shape, count = self._known[bit]
        member = self._shapes.find(shape)
        return member is not None and self._nodes.room_for(member, count) >= count

    def knows(self, bit: int) -> bool:
        """Say whether a bit is that of a team in use."""
        return bit in self._known

    def shape_of(self, bit: int) -> Shape:
        """Give the shape of a team in use."""
        return self._shapes.shapes[bit]

    def exhaust(self, bit: int) -> None:
        """Take note that there is no room for a team any more."""
        self.fitting &= ~(1 << bit)

    def check(self, users: dict[int, int]) -> None:
        """Assert the invariants, given how many slots offer each team; for tests."""
        assert users == self._users
        assert self._known.keys() == users.keys()
        # Whatever there is room for is known to fit.
        for bit in self._known:
            assert self.fitting >> bit & 1 or not self.has_room(bit)
