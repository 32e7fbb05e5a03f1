"""Who has a reservation after a round, and who gets what was reserved."""

from __future__ import annotations

from muster_core.events import FailBind, Release, UpdateNode
from tests.core.view.reservations.site import Site, backfill, gang, job


def test_a_gang_is_bound_where_its_nodes_were_reserved() -> None:
    # BACKFILL-21
    site = Site(2, 2, 2)
    site.tell(job("x", 2, 10, node="n1"), job("y", 2, 10, node="n2"), job("z", 1, 50, node="n3"))
    site.tell(gang(2), job("m", 2, gang="default/g", count=2))
    assert site.reserved == {"a/m-0": ("n1", 10), "a/m-1": ("n2", 10)}

    site.tell(Release("a", "x"), at_s=9)
    assert site.reserved == {"a/m-0": ("n1", 10), "a/m-1": ("n2", 10)}
    site.tell(Release("a", "y"), at_s=10)

    assert (site.placed["a/m-0"], site.placed["a/m-1"]) == ("n1", "n2")


def test_a_failed_bind_seeks_no_reservation() -> None:
    # BACKFILL-15
    site = Site(4)
    site.tell(job("x", 1), FailBind("a", "x", times=1), job("large", 5))

    assert site.reserved == {}


def test_a_member_behind_a_blocked_leaf_has_no_party() -> None:
    # BACKFILL-16
    own = {**backfill(backfill_depth="9"), "application.sort.blocking": "enabled"}
    site = Site(4, properties=own)
    site.tell(job("w", 4, 10))
    site.tell(gang(2), job("first", 4, priority=5), job("m", 1, gang="default/g"))
    site.tell(job("m", 1, gang="default/g", app="b"))

    assert "a/m" not in site.reserved
    assert site.reserved["a/first"] == ("n1", 10)


def test_a_node_that_is_closed_is_reserved_no_longer() -> None:
    # BACKFILL-22
    site = Site(4, 4)
    site.tell(job("x", 4, 10, node="n1"), job("y", 4, 20, node="n2"), job("large", 4))
    assert site.reserved == {"a/large": ("n1", 10)}

    site.tell(UpdateNode("n1", schedulable=False), at_s=1)

    assert site.reserved == {"a/large": ("n2", 20)}
