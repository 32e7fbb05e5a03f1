"""The search for the first instant at which a party can be placed."""

from __future__ import annotations

from muster_core.events import Release, RemoveNode
from muster_core.view.reservations.party import Party
from muster_core.view.reservations.search import Reservation, Search
from tests.core.view.reservations.site import S, Site, gang, job


def search(site: Site, *others: Reservation) -> Search:
    return Search(site.state, 0, others)


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


def test_whether_a_start_is_still_to_come() -> None:
    # BACKFILL-22
    site = Site(4)
    site.tell(job("x", 1), job("y", 1))
    age = site.app("a").bound["x"][0].age

    assert search(site).is_to_come((True, age))
    assert search(site).is_to_come((False, 1))
    assert not search(site).is_to_come((False, 0))

    site.tell(Release("a", "x"))
    assert not search(site).is_to_come((True, age))


def test_whether_a_party_still_fits_its_nodes() -> None:
    # BACKFILL-22
    site = Site(4, 4)
    site.tell(job("x", 3, 10), job("y", 3, 20), job("large", 4))
    large = site.member("a/large")
    party = Party((large,), ())
    before = Reservation(site.state.root, party, (False, 10 * S), ((large, "n1"),))
    later = Reservation(site.state.root, party, (False, 10 * S), ((large, "n2"),))

    assert search(site).still_fits(before, party)
    assert not search(site).still_fits(later, party)

    site.tell(RemoveNode("n1"))
    assert not search(site).still_fits(before, party)
