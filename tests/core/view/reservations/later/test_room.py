"""The room for a party on all nodes together."""

from __future__ import annotations

from muster_core.view.reservations.later.projection import Projection
from muster_core.view.reservations.later.room import Room
from muster_core.view.reservations.party import Party
from tests.core.view.reservations.site import Site, gang, job


def test_there_may_be_room_once_enough_is_released() -> None:
    site = Site(4, 4)
    site.tell(job("x", 3, 10, node="n1"), job("y", 3, 10, node="n2"))
    site.tell(gang(3), job("m", 2, gang="default/g", count=2), job("n", 1, gang="default/g"))
    members = tuple(site.member(f"a/{name}") for name in ("m-0", "m-1", "n"))
    projection = Projection(site.state)
    room = Room(site.state, projection, Party(members, ("default/g",)))
    assert not room.may_suffice()

    app = site.app("a")
    allocation, node = app.bound["x"]
    projection.release(app, allocation, node)
    room.look_at([node])
    assert room.may_suffice()

    projection.place(members[0], node)
    room.look_at([node])
    assert not room.may_suffice()
