"""Estimates, expected ends, and the order of releases."""

from __future__ import annotations

import attrs
import pytest

from muster_core.events import Configure
from muster_core.view.reservations.projection import expected_end_us, releases
from muster_core.view.tree.leaf import estimate_us
from tests.core.building import allocation, ask, configuration, queue
from tests.core.view.reservations.site import S, Site, backfill, gang, job


@pytest.mark.parametrize(
    ("estimate_s", "run_for_s", "default", "found_s"),
    [
        (7, 5, "3s", 7),
        (None, 5, "3s", 5),
        (None, None, "3s", 3),
        (None, None, None, None),
    ],
)
def test_what_counts_as_an_estimate(
    estimate_s: int | None, run_for_s: int | None, default: str | None, found_s: int | None
) -> None:
    # BACKFILL-10
    own = backfill() if default is None else backfill(estimate_default=default)
    site = Site(1, properties=own)
    run_for_us = None if run_for_s is None else run_for_s * S
    site.tell(attrs.evolve(job("x", 2, estimate_s), run_for_us=run_for_us))

    app, found = site.member("a/x")

    assert estimate_us(site.state.leaf_of(app).config.settings, found) == (
        None if found_s is None else found_s * S
    )


def test_the_default_is_that_of_now() -> None:
    # BACKFILL-10
    site = Site(1, properties=backfill(estimate_default="3s"))
    site.tell(job("x", 1), job("next", 1))
    assert site.reserved == {"a/next": ("n1", 3)}

    own = backfill(estimate_default="9s")
    site.tell(Configure(configuration(queue("q"), queue("r"), props=own)))

    assert site.reserved == {"a/next": ("n1", 9)}


@pytest.mark.parametrize(
    ("now_s", "end_s"), [(100, 110), (109, 110), (110, 120), (120, 140), (139, 140), (140, 180)]
)
def test_the_expected_end_is_after_now(now_s: int, end_s: int) -> None:
    # BACKFILL-12
    site = Site(1)
    leaf = site.state.leaf_of(site.app("a"))
    held = attrs.evolve(allocation(ask()._replace(estimate_us=10 * S)), bound_us=100 * S)

    assert expected_end_us(leaf, held, now_s * S) == end_s * S


def test_known_ends_come_before_unknown_ones() -> None:
    # BACKFILL-13, BACKFILL-14
    site = Site(9, properties={})
    site.tell(job("first", 1))
    site.tell(job("late", 1, 30), job("soon", 1, 20), job("as-soon", 1, 20))
    site.tell(gang(2, loose=True), job("m", 1, 1, gang="default/g"), job("n", 7, gang="default/g"))
    site.tell(job("last", 1))

    found = releases(site.state, 0)

    names = [release.allocation.ask.name for release in found]
    assert sorted(names[:2]) == ["as-soon", "soon"]
    assert names[2:] == ["late", "first", "m", "last"]
    assert [release.at for release in found[:3]] == [(False, 20 * S)] * 2 + [(False, 30 * S)]
    assert len({release.at for release in found[3:]}) == 3
