"""GangShapes: Strict gangs that need so many equal members, as shapes of their own."""

from __future__ import annotations

from muster_core.nodes.node_index import NodeIndex
from muster_core.resources import MAX_QUANTITY, Resources
from muster_core.structures.shapes import VISIT_BIT, Shape, ShapeTable
from muster_core.structures.steps import all_at_once
from muster_core.view.gang_index import GangShapes
from tests.core.building import shape


class World:
    """Nodes of some millicores, and teams of members that each need two."""

    def __init__(self, *nodes: int) -> None:
        self.shapes = ShapeTable()
        self.nodes = NodeIndex(self.shapes)
        self.gang_shapes = GangShapes(self.shapes, self.nodes)
        for vcore in nodes:
            self.add(vcore)
        self.member = self.known(shape(vcore=2))

    def add(self, vcore: int) -> None:
        name = f"n{len(self.nodes.nodes)}"
        self.nodes.add(name, Resources({"vcore": vcore}), {}, schedulable=True)

    def known(self, of: Shape) -> int:
        """Give the bit of a shape of which an ask is pending."""
        bit = self.shapes.add(of)
        self.shapes.acquire(bit)
        self.nodes.shape_added(bit)
        all_at_once(self.nodes.place_shapes())
        return bit

    def fits(self, bit: int) -> bool:
        return bool(self.gang_shapes.fitting >> bit & 1)


def test_a_team_fits_if_all_of_its_members_do_on_however_many_nodes() -> None:
    world = World(5, 3, 1)
    three, four = world.gang_shapes.join(world.member, 3), world.gang_shapes.join(world.member, 4)

    assert (world.fits(three), world.fits(four)) == (True, False)
    # No single node is asked for it, however large.
    world.add(100)
    assert world.nodes.find(three) is None
    world.gang_shapes.refresh()
    assert world.fits(four)


def test_a_team_needs_the_headroom_for_all_of_its_members() -> None:
    world = World(9)
    bit = world.gang_shapes.join(world.member, 3)

    assert world.shapes.fitting_headroom({"vcore": 6}) >> bit & 1
    assert not world.shapes.fitting_headroom({"vcore": 5}) >> bit & 1


def test_a_team_of_one_is_its_member() -> None:
    world = World(9)

    assert world.gang_shapes.join(world.member, 1) == world.member
    assert not world.gang_shapes.knows(world.member)


def test_what_no_quantity_can_be_is_no_team() -> None:
    world = World(9)
    huge = world.known(shape(memory=MAX_QUANTITY // 2))

    assert world.gang_shapes.join(huge, 2) != VISIT_BIT
    assert world.gang_shapes.join(huge, 3) == VISIT_BIT


def test_a_team_lasts_as_long_as_it_is_in_use() -> None:
    world = World(9)
    bit = world.gang_shapes.join(world.member, 2)
    assert world.gang_shapes.join(world.member, 2) == bit
    world.gang_shapes.leave(bit)
    assert world.gang_shapes.knows(bit)
    world.gang_shapes.leave(bit)
    world.gang_shapes.leave(world.member)

    assert not world.gang_shapes.knows(bit)
    assert world.gang_shapes.fitting == 0


def test_a_team_that_was_found_not_to_fit_is_out_until_there_is_more_room() -> None:
    world = World(4)
    bit = world.gang_shapes.join(world.member, 2)
    world.nodes.take(world.nodes.nodes["n0"], Resources({"vcore": 1}), (1, "x"))
    assert world.fits(bit)
    assert not world.gang_shapes.has_room(bit)
    world.gang_shapes.exhaust(bit)
    world.gang_shapes.refresh()
    assert not world.fits(bit)

    world.add(2)
    world.gang_shapes.refresh()
    assert world.fits(bit)
