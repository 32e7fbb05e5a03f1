"""A round with scopes tries a few asks, and decides as if it tried all."""

from __future__ import annotations

from muster_core.events import AddNode, Release
from tests.core.view.reservations.site import Site, backfill, gang, job, vcores


def steps(site: Site) -> int:
    return site.scheduler.machine.statistics().steps


def test_equal_asks_are_not_tried_once_everything_is_reserved() -> None:
    # ROUND-10
    site = Site(4)
    site.tell(job("w", 3, 100), job("large", 4), *(job(f"k{n}", 2, 50) for n in range(50)))
    before = steps(site)

    site.tell(AddNode("n2", vcores(1)))

    assert steps(site) - before < 20
    assert site.placed == {"a/w": "n1"}


def test_among_many_that_are_held_back_a_short_one_passes() -> None:
    # ROUND-10, BACKFILL-25
    site = Site(4)
    long = [job(f"k{n}", 1, 500) for n in range(50)]
    site.tell(job("w", 3, 100), job("large", 4), *long, job("short", 1, 50), job("late", 1, 60))

    assert site.placed == {"a/w": "n1", "a/short": "n1"}
    assert steps(site) < 30

    site.tell(Release("a", "short"))
    assert site.placed == {"a/w": "n1", "a/late": "n1"}


def test_nothing_is_tried_again_while_nothing_changes() -> None:
    # BACKFILL-23
    site = Site(4)
    site.tell(job("w", 3, 100), job("large", 4), job("long", 1, 500))
    site.tell(at_s=1)
    before = steps(site)

    site.tell(at_s=2)
    assert steps(site) == before
    assert site.reserved == {"a/large": ("n1", 100)}

    site.tell(at_s=100)
    assert steps(site) > before
    assert site.reserved == {"a/large": ("n1", 200)}


def test_asks_outside_the_scope_are_placed() -> None:
    # BACKFILL-7
    site = Site(4, properties={"scheduling.order": "greedy"})
    site.tell(job("w", 3), *(job(f"k{n}", 2) for n in range(9)), job("small", 1, app="b"))

    assert site.placed == {"a/w": "n1", "b/small": "n1"}


def test_a_strict_gang_is_tried_though_its_members_fit_nowhere() -> None:
    # ROUND-10
    site = Site(4, properties=backfill())
    site.tell(job("w", 3, 100), job("large", 4))
    site.tell(gang(1), job("m", 2, 10, gang="default/g"))

    assert not site.scheduler.snapshot().gangs["default/g"].cycle_valid
