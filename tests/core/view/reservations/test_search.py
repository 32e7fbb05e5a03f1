"""The search for the first instant at which a party can be placed."""

from __future__ import annotations

from muster_core.events import Configure, Release
from muster_core.view.reservations.capacity import CapacityCache
from muster_core.view.reservations.parties import Party, Reservation
from muster_core.view.reservations.search import StartSearch
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import S, Site, backfill, gang, job


def search(site: Site, *others: Reservation) -> StartSearch:
    return StartSearch(site.state, 0, others)


def test_the_first_instant_that_suffices() -> None:
    # BACKFILL-18
    site = Site(4)
    site.tell(job("x", 1, 10), job("y", 1, 20), job("z", 1, 30), job("large", 3))
    large = site.member("a/large")

    found = search(site).find(Party((large,), ()))

    assert found == ((False, 20 * S), ((large, "n1"),))


def test_never() -> None:
    # BACKFILL-20
    site = Site(4)
    site.tell(job("x", 1, 10), job("large", 5))

    assert search(site).find(Party((site.member("a/large"),), ())) is None


def test_others_hold_their_nodes_whatever_their_starts() -> None:
    # BACKFILL-18
    site = Site(4, 4)
    site.tell(job("x", 3, 10), job("y", 3, 20), job("one", 4), job("two", 4))
    one, two = site.member("a/one"), site.member("a/two")
    mine = Party((two,), ())
    other = Reservation(site.state.root, Party((one,), ()), (True, 99), ((one, "n1"),))

    assert search(site).find(mine) == ((False, 10 * S), ((two, "n1"),))
    assert search(site, other).find(mine) == ((False, 20 * S), ((two, "n2"),))


def test_a_group_keeps_what_it_holds() -> None:
    # BACKFILL-18
    site = Site(2, 2)
    site.tell(job("x", 2, 10, node="n2"))
    site.tell(gang(2, loose=True), job("m", 2, gang="default/g", count=2))
    assert site.placed == {"a/x": "n2", "a/m-0": "n1"}
    member = site.member("a/m-1")

    found = search(site).find(Party((member,), ("default/g",)))

    assert found == ((False, 10 * S), ((member, "n2"),))


def test_who_is_next_in_a_gang_of_two_applications_depends_on_who_is_placed() -> None:
    # BACKFILL-18, BACKFILL-19: n comes last in its application, but before the second of the other.
    site = Site(4, 4, 4)
    site.tell(*(job(f"x-{at}", 3, 10 * at, node=f"n{at}") for at in (1, 2, 3)))
    site.tell(gang(3), job("m", 2, gang="default/g", count=2), job("n", 4, gang="default/g"))
    site.tell(gang(3, name="default/h"), job("m-2", 2, gang="default/h"))
    site.tell(job("m", 2, app="b", gang="default/h"), job("n", 4, app="b", gang="default/h"))

    def nodes(group: str, *names: str) -> tuple[object, list[str]]:
        members = tuple(site.member(name) for name in names)
        found = search(site).find(Party(members, (group,)))
        assert found is not None
        return found[0], sorted(node for _, node in found[1])

    one = nodes("default/g", "a/m-0", "a/m-1", "a/n")
    assert one == ((False, 30 * S), ["n1", "n2", "n3"])
    two = nodes("default/h", "a/m-2", "b/m", "b/n")
    assert two == ((False, 20 * S), ["n1", "n1", "n2"])


def test_a_party_waits_for_headroom_as_well() -> None:
    # BACKFILL-19: at 10 there is room on nodes, at 20 the queue may use enough.
    site = Site(4, 4)
    most = queue("q", resources={"max": {"vcore": 6}})
    site.tell(Configure(configuration(most, queue("r"), props=backfill())))
    site.tell(job("x", 2, 20, node="n1"), job("y", 4, 10, node="n2", app="b"))
    site.tell(job("z", 2, 30, node="n1"), gang(2), job("m", 2, gang="default/g", count=2))
    party = Party((site.member("a/m-0"), site.member("a/m-1")), ("default/g",))

    found = search(site).find(party)

    assert found is not None
    assert found[0] == (False, 20 * S)


def test_what_is_remembered_of_rooms_changes_with_the_nodes() -> None:
    site = Site(4, 4)
    site.tell(job("x", 4, 10, node="n1"), job("y", 2, 20, node="n2"), job("z", 2, 30, node="n2"))
    site.tell(gang(2), job("m", 3, gang="default/g", count=2))
    party, rooms = (
        Party((site.member("a/m-0"), site.member("a/m-1")), ("default/g",)),
        CapacityCache(site.state),
    )

    def start(now_s: int) -> object:
        found = StartSearch(site.state, now_s * S, (), rooms=rooms).find(party)
        return None if found is None else found[0]

    assert start(0) == (False, 30 * S)
    assert start(12) == (False, 30 * S)  # x takes longer than it was to take.
    assert start(25) == (False, 40 * S)  # So does x again, and y.
    site.tell(Release("a", "z"), Release("a", "y"), job("last", 1, 50, node="n2"))
    assert start(26) == (False, 40 * S)
    assert start(45) == (False, 80 * S)


def test_what_has_room_already_needs_a_release() -> None:
    # BACKFILL-18: the start is an instant, so that there is none where nobody holds a node.
    site = Site(4)
    site.tell(gang(2), job("m", 2, gang="default/g"))
    member = site.member("a/m")

    assert search(site).find(Party((member,), ("default/g",))) is None

    site.tell(job("x", 1, 10))
    assert search(site).find(Party((member,), ("default/g",))) == (
        (False, 10 * S),
        ((member, "n1"),),
    )


def test_what_is_remembered_for_an_ask_holds_until_an_end_is_overdue() -> None:
    # BACKFILL-18
    site = Site(4, 4)
    site.tell(job("x", 4, 20, node="n1"), job("y", 4, 30, node="n2"), job("large", 4))
    large, rooms = site.member("a/large"), CapacityCache(site.state)
    party = Party((large,), ())

    def find(now_s: int) -> object:
        return StartSearch(site.state, now_s * S, (), rooms).find(party)

    assert find(0) == find(0) == ((False, 20 * S), ((large, "n1"),))
    # It has not ended at 20, and is expected to take twice as long.
    assert find(20) == ((False, 30 * S), ((large, "n2"),))

    site.tell(job("next", 1), Release("a", "y"))
    assert site.placed["a/large"] == "n2"
