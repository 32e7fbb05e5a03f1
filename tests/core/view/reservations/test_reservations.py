"""Reservations, as rounds use them."""

from __future__ import annotations

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.structures.steps import all_at_once
from tests.core.view.reservations.site import Site, job, reserved_lines
from tests.naive.relay import through_bytes


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
