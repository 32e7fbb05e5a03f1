"""Which reservations an ask did not delay when it got its node."""

from __future__ import annotations

import pytest

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.reasons import Passed
from tests.core.view.reservations.site import S, Site, gang, job


def passed(scheduler: PlainScheduler, ask: str) -> tuple[Passed, ...]:
    app, _, name = ask.partition("/")
    machine = scheduler.machine
    held = machine.view.apps[machine.registry.app_key(app)].allocation(name)
    return () if held is None else held.passed


def test_whom_it_passed_and_why() -> None:
    # OUTLOOK-8
    site = Site(4, 4, 1)
    site.tell(job("w", 3, 10, node="n1"), job("x", 3, 20, node="n2"))
    site.tell(gang(2), job("m", 4, gang="default/g", count=2))
    site.tell(job("ends", 1, 15, node="n2"), job("beside", 1, node="n3"), job("none", 1))

    assert passed(site.scheduler, "a/ends") == (Passed("a/m-0", 1, 20 * S, 15 * S),)
    assert passed(site.scheduler, "a/beside") == (Passed("a/m-0", 1, 20 * S, None),)
    assert passed(site.scheduler, "a/none") == passed(site.scheduler, "a/w") == ()


@pytest.mark.parametrize("is_loaded", [False, True])
def test_it_is_known_while_the_ask_holds_its_node(is_loaded: bool) -> None:
    # OUTLOOK-8, CHECKPOINT-5
    site = Site(4)
    site.tell(job("w", 3, 10), job("large", 4, 10), job("ends", 1, 10))
    site.tell(job("first", 1, 5, priority=1))
    scheduler = PlainScheduler(facts=site.scheduler.facts()) if is_loaded else site.scheduler

    assert [one.ask for one in passed(scheduler, "a/ends")] == ["a/large"]


def test_a_member_does_not_pass_its_own_group() -> None:
    # OUTLOOK-8
    site = Site(4, 4)
    site.tell(job("w", 4, 10, node="n1"), job("x", 4, 20, node="n2"))
    site.tell(gang(2), job("m", 4, 5, gang="default/g", count=2))
    site.tell(at_s=20)
    site.tell(at_s=21)

    assert passed(site.scheduler, "a/m-0") == passed(site.scheduler, "a/m-1") == ()
