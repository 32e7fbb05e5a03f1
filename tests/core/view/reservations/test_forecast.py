"""When a pending ask could start alone."""

from __future__ import annotations

from muster_core.values.reasons import Start
from tests.core.view.reservations.site import S, Site, gang, job


def start_of(site: Site, name: str) -> Start:
    app, ask = site.member(name)
    machine = site.scheduler.machine
    return machine.view.fits_at(app.identity.key, ask, machine.now_us)


def test_a_reservation_of_its_own_whatever_others_have() -> None:
    site = Site(4, properties={})
    site.tell(job("w", 4, 10), job("first", 4, 10), job("second", 4, 10), job("never", 5))

    assert start_of(site, "a/first") == start_of(site, "a/second") == 10 * S
    assert start_of(site, "a/never") is None


def test_a_gang_that_holds_nodes_begins_anew_if_it_is_strict() -> None:
    site = Site(4, 4, properties={})
    site.tell(job("w", 2, 10, node="n1"), job("x", 4, 20, node="n2"))
    site.tell(gang(2, loose=True), job("m", 2, gang="default/g", count=2))
    assert site.placed["a/m-0"] == "n1"

    assert start_of(site, "a/m-1") == 10 * S
    assert site.placed["a/m-0"] == "n1"


def test_a_gang_short_of_children_has_none() -> None:
    site = Site(4, properties={})
    site.tell(gang(3), job("m", 2, gang="default/g", count=2))

    assert start_of(site, "a/m-0") is None
