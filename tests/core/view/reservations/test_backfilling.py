"""What reservations allow."""

from __future__ import annotations

from tests.core.view.reservations.site import S, Site, job


def test_an_ask_that_takes_longer_passes_beside_the_party() -> None:
    # BACKFILL-26
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 3), job("small", 1, 1000), job("other", 1, 1000))

    assert site.placed == {"a/x": "n1", "a/small": "n1"}
    assert site.scheduler.machine.now_us < S


def test_who_fits_but_would_delay_another_is_held_back() -> None:
    # BACKFILL-24, BACKFILL-25, BACKFILL-28
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 4), job("short", 1, 10), job("long", 1, 11))

    assert site.placed == {"a/x": "n1", "a/short": "n1"}
    assert site.reserved == {"a/large": ("n1", 10)}
