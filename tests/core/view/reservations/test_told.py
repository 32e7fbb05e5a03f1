"""Reservations as others see them."""

from __future__ import annotations

from muster_core.events import RemoveAsk
from muster_core.view.reservations.reservations import (
    reservation_facts,
    reservation_from_facts,
    reservation_snapshots,
    reserved_by,
)
from tests.core.view.reservations.site import S, Site, backfill, gang, job, reserved_lines


def test_what_is_told_and_loaded() -> None:
    site = Site(4, 4, properties=backfill(backfill_depth="3"))
    site.tell(job("w", 3, 10, node="n1"), job("x", 3, node="n2"))
    site.tell(gang(2), job("m", 2, gang="default/g", count=2), job("large", 4))
    reservations = vars(site.scheduler.machine.view)["_rounds"].reservations.in_force.reservations

    again = [reservation_from_facts(site.state, one) for one in reservation_facts(reservations)]

    assert reservation_facts(again) == reservation_facts(reservations)
    assert [one.party.keys for one in again] == [one.party.keys for one in reservations]
    assert reserved_by(again) == {
        ("a", "m-0"): ("n1", 10 * S),
        ("a", "m-1"): ("n1", 10 * S),
        ("a", "large"): ("n2", None),
    }
    assert list(reservation_snapshots(again)) == ["a/m-0", "a/m-1", "a/large"]
    assert {one.scope for one in reservation_snapshots(again).values()} == {"root"}


def test_the_log_tells_what_is_new_or_changed() -> None:
    # BACKFILL-30
    site = Site(4)
    site.tell(job("x", 3, 10))
    site.tell(job("large", 4))
    site.tell(job("late", 4), at_s=5)
    assert reserved_lines(site) == [(0, "a/large", "n1", 10)]

    site.tell(at_s=10)  # It has not ended, and is expected to take twice as long.
    site.tell(RemoveAsk("a", "large"), at_s=11)

    assert reserved_lines(site)[1:] == [
        (10, "a/large", "n1", 20),
        (11, "a/late", "n1", 20),
    ]


def test_a_start_that_is_not_known_is_null_in_the_log() -> None:
    # BACKFILL-30
    site = Site(4)
    site.tell(job("x", 3))
    site.tell(job("large", 4))

    assert reserved_lines(site) == [(0, "a/large", "n1", None)]
    assert site.reserved == {"a/large": ("n1", None)}
