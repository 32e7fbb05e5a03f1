"""Reservations as others see them."""

from __future__ import annotations

from muster_core.view.reservations.told import facts_of, loaded, reserved_by, snapshot_of
from tests.core.view.reservations.site import S, Site, backfill, gang, job


def test_what_is_told_and_loaded() -> None:
    site = Site(4, 4, properties=backfill(backfill_depth="3"))
    site.tell(job("w", 3, 10, node="n1"), job("x", 3, node="n2"))
    site.tell(gang(2), job("m", 2, gang="default/g", count=2), job("large", 4))
    reservations = vars(site.scheduler.machine.view)["_rounds"].reservations.in_force.reservations

    again = [loaded(site.state, one) for one in facts_of(reservations)]

    assert facts_of(again) == facts_of(reservations)
    assert [one.party.keys for one in again] == [one.party.keys for one in reservations]
    assert reserved_by(again) == {
        ("a", "m-0"): ("n1", 10 * S),
        ("a", "m-1"): ("n1", 10 * S),
        ("a", "large"): ("n2", None),
    }
    assert list(snapshot_of(again)) == ["a/m-0", "a/m-1", "a/large"]
    assert {one.scope for one in snapshot_of(again).values()} == {"root"}
