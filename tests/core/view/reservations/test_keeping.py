"""Whether what was reserved is kept."""

from __future__ import annotations

from muster_core.events import Configure, Release, RemoveNode
from muster_core.view.reservations.parties import Party, Reservation
from muster_core.view.reservations.reservations import ReservationRenewal
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import S, Site, backfill, job


def test_whether_a_start_is_still_to_come() -> None:
    # BACKFILL-22
    site = Site(4)
    site.tell(job("x", 1), job("y", 1))
    age, keeping = site.app("a").bound["x"][0].age, ReservationRenewal(site.state)

    for _ in range(2):
        assert keeping.is_to_come((True, age), 0)
    assert keeping.is_to_come((False, 1), 0)
    assert not keeping.is_to_come((False, 0), 0)

    site.tell(Release("a", "x"))
    assert not keeping.is_to_come((True, age), 0)


def test_a_start_is_unknown_no_more_once_its_end_is_known() -> None:
    # BACKFILL-12, BACKFILL-22: estimate.default may come later.
    site = Site(4)
    site.tell(job("x", 1))
    allocation, _ = site.app("a").bound["x"]
    keeping, start = ReservationRenewal(site.state), (True, allocation.age)
    assert keeping.is_to_come(start, 0)

    own = backfill(estimate_default="10s")
    site.tell(Configure(configuration(queue("q"), queue("r"), props=own)))

    assert not keeping.is_to_come(start, 0)


def test_whether_a_party_still_fits_its_nodes() -> None:
    # BACKFILL-22
    site = Site(4, 4)
    site.tell(job("x", 3, 10), job("y", 3, 20), job("large", 4))
    large, keeping = site.member("a/large"), ReservationRenewal(site.state)
    party = Party((large,), ())
    before = Reservation(site.state.root, party, (False, 10 * S), ((large, "n1"),))
    later = Reservation(site.state.root, party, (False, 10 * S), ((large, "n2"),))

    assert keeping.still_fits(before, party, (), 0)
    assert not keeping.still_fits(later, party, (), 0)

    site.tell(RemoveNode("n1"))
    assert not keeping.still_fits(before, party, (), 0)
