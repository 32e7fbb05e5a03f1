"""The view at the start of a reservation."""

from __future__ import annotations

from muster_core.events import Configure
from muster_core.view.reservations.backfill import StartView
from muster_core.view.reservations.parties import Party, Reservation
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import S, Site, backfill, job


def reservation(site: Site, ask: str, node: str, start_s: int) -> Reservation:
    member = site.member(ask)
    start = (False, start_s * S)
    return Reservation(site.state.root, Party((member,), ()), start, ((member, node),))


def admits(site: Site, ahead: StartView, ask: str, node: str) -> bool:
    return ahead.admits(site.member(ask), site.state.nodes.nodes[node])


def test_who_fits_beside_the_party() -> None:
    # BACKFILL-26
    site = Site(4, 4)
    site.tell(job("x", 3, 10, node="n1"), job("y", 4, 90, node="n2"))
    site.tell(job("large", 3), job("one", 1, app="b", node="n2"), job("two", 2, node="n1"))
    mine = reservation(site, "a/large", "n1", 10)
    ahead = StartView(site.state, 0, mine, [mine])

    assert not admits(site, ahead, "b/one", "n2")
    assert not admits(site, ahead, "a/two", "n1")
    assert admits(site, StartView(site.state, 0, mine, []), "a/two", "n1")


def test_only_parties_with_no_later_start_hold_their_nodes() -> None:
    # BACKFILL-26
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 4), job("other", 3), job("two", 2))
    mine, later = (
        reservation(site, "a/large", "n9", 10),
        reservation(site, "a/other", "n1", 20),
    )
    soon = reservation(site, "a/other", "n1", 10)

    assert admits(site, StartView(site.state, 0, mine, [mine, later]), "a/two", "n1")
    assert not admits(site, StartView(site.state, 0, mine, [mine, soon]), "a/two", "n1")


def test_an_ask_does_not_stand_in_its_own_way() -> None:
    # BACKFILL-26
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 3))
    mine = reservation(site, "a/large", "n1", 10)
    _, large = site.member("a/large")

    assert not admits(site, StartView(site.state, 0, mine, [mine]), "a/large", "n1")
    assert admits(site, StartView(site.state, 0, mine, [mine], large), "a/large", "n1")


def test_the_headroom_at_the_start() -> None:
    # BACKFILL-26
    site = Site(9, 9)
    most = {"max": {"vcore": 5}}
    site.tell(Configure(configuration(queue("q", resources=most), queue("r"), props=backfill())))
    site.tell(job("x", 3, 10, node="n1"), job("large", 4), job("one", 1), job("two", 2))
    mine = reservation(site, "a/large", "n1", 10)
    ahead = StartView(site.state, 0, mine, [mine])

    assert admits(site, StartView(site.state, 0, mine, []), "a/two", "n2")
    assert not admits(site, ahead, "a/two", "n2")
