"""Gang shapes: a Strict gang that lacks several equal members, as one shape.

A Strict gang that is alone in its group, with equal members in one application, fits
exactly if there is room for as many members as it lacks. So it is offered to a round like
one large ask: its *gang shape* has a bit like any shape. It fits the headroom of a queue if
all its members together do, and it fits the nodes if there is room for all of them, on any
number of nodes. Thousands of such gangs can be pending without a cost for a round, since a
round considers only what could be placed.

A round looks up at its start whether there is room, if there may be more than before.
Room only shrinks during a round, so a gang shape that no longer fits is out until there is
more room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.structures.shapes import VISIT_BIT, Shape
from muster_core.values.resources import MAX_QUANTITY, Resources

if TYPE_CHECKING:
    from muster_core.nodes.node_index import NodeIndex
    from muster_core.structures.shapes import ShapeTable


@final
class GangShapes:
    """The gang shapes that are offered, and which of them there is room for.

    Args:
        shapes: The table of shapes.
        nodes: The nodes.
    """

    def __init__(self, shapes: ShapeTable, nodes: NodeIndex) -> None:
        self._shapes = shapes
        self._nodes = nodes
        #: The gang shapes that the nodes have room for, and perhaps others.
        self.fitting = 0
        #: The shape of a member and their number, for each bit in use.
        self._known: dict[int, tuple[Shape, int]] = {}
        #: The gang shapes in use by the bit of the shape of their members, as masks.
        self._by_member: dict[int, int] = {}
        #: How many slots offer each gang shape; no zeros.
        self._users: dict[int, int] = {}
        #: The value of :attr:`NodeIndex.grown` when room was last looked up.
        self._grown = -1

    def join(self, member: int, count: int) -> int:
        """Return the bit of a gang shape, and count one more use of it.

        Args:
            member: The bit of the shape of its members.
            count: The number of members.

        Returns:
            The bit; the bit of the member's shape if there is only one; :data:`VISIT_BIT` if
            the members together need more than any quantity can be.
        """
        shape = self._shapes.shapes[member]
        if count == 1:
            return member
        if any(amount * count > MAX_QUANTITY for amount in shape.resources.values()):
            return VISIT_BIT
        together = Resources({name: amount * count for name, amount in shape.resources.items()})
        gang_shape = attrs.evolve(shape, resources=together, members=count)
        bit = self._shapes.find(gang_shape)
        if bit is None:
            bit = self._shapes.add(gang_shape)
        self._shapes.acquire(bit)
        self._users[bit] = self._users.get(bit, 0) + 1
        if bit not in self._known:
            self._known[bit] = (shape, count)
            self._by_member[member] = self._by_member.get(member, 0) | 1 << bit
            self._look_up(bit)
        return bit

    def leave(self, bit: int) -> None:
        """Count one use of a gang shape less; other bits are ignored."""
        if bit not in self._known:
            return
        self._shapes.release(bit)
        self._users[bit] -= 1
        if not self._users[bit]:
            del self._users[bit], self._known[bit]
            self.fitting &= ~(1 << bit)
            for member, mask in self._by_member.items():
                if mask >> bit & 1:
                    self._by_member[member] = mask & ~(1 << bit)
                    break

    def without_room(self, mask: int) -> int:
        """Return the gang shapes whose members have a shape that is not in a mask."""
        found = 0
        for member, gangs in self._by_member.items():
            if not mask >> member & 1:
                found |= gangs
        return found

    def refresh(self) -> None:
        """Look up which gang shapes there is room for, if there may be more room than before."""
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
        """Return whether the nodes have room for a gang shape now."""
        shape, count = self._known[bit]
        member = self._shapes.find(shape)
        return member is not None and self._nodes.room_for(member, count) >= count

    def knows(self, bit: int) -> bool:
        """Return whether a bit is that of a gang shape in use."""
        return bit in self._known

    def shape_of(self, bit: int) -> Shape:
        """Return a gang shape in use."""
        return self._shapes.shapes[bit]

    def exhaust(self, bit: int) -> None:
        """Record that there is no more room for a gang shape."""
        self.fitting &= ~(1 << bit)

    def check(self, users: dict[int, int]) -> None:
        """Assert the invariants, given how many slots offer each gang shape; for tests."""
        assert users == self._users
        assert self._known.keys() == users.keys()
        # Every gang shape that there is room for is known to fit.
        for bit in self._known:
            assert self.fitting >> bit & 1 or not self.has_room(bit)
