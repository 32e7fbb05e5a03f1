"""How much room there will be for a party on all nodes together."""

from __future__ import annotations

from muster_core.events import Configure, RemoveNode
from muster_core.view.reservations.capacity import NOW, Amounts, CapacityCache
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import S, Site, backfill, gang, job, vcores


def waiting() -> Site:
    """Give a site whose nodes are too full for a gang."""
    site = Site(4, 4)
    site.tell(job("x", 3, 10, node="n1"), job("y", 3, 20, node="n2"))
    site.tell(gang(3), job("m", 2, gang="default/g", count=2), job("n", 1, gang="default/g"))
    return site


def instants(
    site: Site, rooms: CapacityCache, now_s: int = 0, held: dict[str, Amounts] | None = None
) -> object:
    """Give the instants in seconds at which there may be room, and the nodes with room then."""
    members = [site.member(f"a/{name}") for name in ("m-0", "m-1", "n")]
    found = rooms.timeline(members, ("default/g",), now_s * S, held or {})
    return [(at if at == NOW else at[1] // S, sorted(nodes)) for at, nodes in found]


def test_there_may_be_room_once_enough_is_released() -> None:
    # BACKFILL-18
    site = waiting()

    assert instants(site, CapacityCache(site.state)) == [(10, ["n1", "n2"]), (20, ["n1", "n2"])]


def test_what_others_hold_is_no_room() -> None:
    # BACKFILL-18
    site = waiting()

    held: dict[str, Amounts] = {"n1": (("vcore", 2000),)}
    assert instants(site, CapacityCache(site.state), held=held) == [(20, ["n1", "n2"])]


def test_there_may_be_room_already_if_others_hold_back_the_party() -> None:
    site = waiting()
    site.state.nodes.update("n1", vcores(8), None, schedulable=None)

    assert instants(site, CapacityCache(site.state)) == [
        (NOW, ["n1", "n2"]),
        (10, ["n1", "n2"]),
        (20, ["n1", "n2"]),
    ]


def test_what_is_remembered_holds_until_a_node_changes_or_an_end_is_overdue() -> None:
    site = waiting()
    rooms = CapacityCache(site.state)
    assert (
        instants(site, rooms) == instants(site, rooms) == instants(site, CapacityCache(site.state))
    )

    assert instants(site, rooms, 10) == [(20, ["n1", "n2"])]
    assert instants(site, rooms, 20) == [(40, ["n1", "n2"])]
    site.tell(RemoveNode("n1"))
    assert instants(site, rooms, 20) == instants(site, CapacityCache(site.state), 20)


def test_asks_of_all_leaves_share_what_is_remembered_of_their_shape() -> None:
    site = Site(4)
    site.tell(job("x", 4, 10), job("y", 2), job("z", 2, app="b"))
    rooms = CapacityCache(site.state)

    for name in ("a/y", "b/z"):
        assert [at for at, _ in rooms.timeline([site.member(name)], (), 0)] == [(False, 10 * S)]

    assert len(vars(rooms)["_known"]) == 1


def test_a_kept_node_has_room_for_node_services_alone() -> None:
    # SERVICE-10: those of a leaf with the property, not those of another one with the same shape.
    site = Site(4)
    serving = queue("q", properties={"preemption.required.node": "enabled"})
    site.tell(Configure(configuration(serving, queue("r"), props=backfill())))
    site.tell(job("x", 4, 10, priority=1))
    site.tell(job("y", 2, node="n1"), job("z", 2, node="n1", app="b"))
    assert site.state.nodes.nodes["n1"].kept
    rooms = CapacityCache(site.state)

    found = {
        name: [at for at, _ in rooms.timeline([site.member(name)], (), 0)]
        for name in ("a/y", "b/z")
    }

    assert found == {"a/y": [(False, 10 * S)], "b/z": []}
