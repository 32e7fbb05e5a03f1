"""What is reserved in rounds, and what that allows."""

from __future__ import annotations

from muster_core.coordinator.plain import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import FailBind, Release, RemoveAsk, UpdateNode
from muster_core.structures.steps import all_at_once
from tests.core.view.reservations.site import S, Site, backfill, gang, job
from tests.naive.relay import through_bytes


def reserved_lines(site: Site) -> list[tuple[object, ...]]:
    """Give what the log says of reservations: instant, ask, node, start."""
    return [
        (line["at"], f"{line['app']}/{line['ask']}", line["node"], line["start"])
        for line in (one.as_map() for one in site.scheduler.announced)
        if line["kind"] == Kind.RESERVED.value
    ]


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


def test_what_was_reserved_goes_on_after_a_checkpoint() -> None:
    site = Site(5, 4)
    site.tell(job("x", 4, 30, node="n1"), job("y", 4, 30, node="n2"), job("large", 4))
    site.tell(job("small", 1, 100), at_s=1)
    assert site.reserved == {"a/large": ("n1", 30)}

    facts = through_bytes(site.scheduler.facts())
    site.scheduler = PlainScheduler(facts=facts)
    site.tell(at_s=2)

    assert site.reserved == {"a/large": ("n1", 30)}
    assert reserved_lines(site) == []
    view = site.scheduler.machine.view
    assert all_at_once(view.facts()).last_round.reservations == (
        facts.coordinator.view.last_round.reservations
    )


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


def test_an_ask_that_takes_longer_passes_beside_the_party() -> None:
    # BACKFILL-26
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 3), job("small", 1, 1000), job("other", 1, 1000))

    assert site.placed == {"a/x": "n1", "a/small": "n1"}
    assert site.scheduler.machine.now_us < S
