"""Which reservations an ask did not delay when it got its node."""

from __future__ import annotations

from muster_core.reasons import Passed
from tests.core.view.reservations.site import S, Site, gang, job


def passed(site: Site, ask: str) -> tuple[Passed, ...]:
    app, _, name = ask.partition("/")
    return site.scheduler.machine.view.passed(site.app(app).identity.key, name)


def test_whom_it_passed_and_why() -> None:
    # OUTLOOK-8
    site = Site(4, 4, 1)
    site.tell(job("w", 3, 10, node="n1"), job("x", 3, 20, node="n2"))
    site.tell(gang(2), job("m", 4, gang="default/g", count=2))
    site.tell(job("ends", 1, 15, node="n2"), job("beside", 1, node="n3"), job("none", 1))

    assert passed(site, "a/ends") == (Passed("a/m-0", 1, 20 * S, 15 * S),)
    assert passed(site, "a/beside") == (Passed("a/m-0", 1, 20 * S, None),)
    assert passed(site, "a/none") == passed(site, "a/w") == ()


def test_it_is_known_until_the_next_batch_with_a_round() -> None:
    # OUTLOOK-8
    site = Site(4)
    site.tell(job("w", 3, 10), job("large", 4, 10), job("ends", 1, 10))
    assert passed(site, "a/ends")

    site.tell(job("other", 1, 5))  # It fits nowhere, so that no round is needed.
    assert passed(site, "a/ends")
    site.tell(job("first", 1, 5, priority=1))
    assert passed(site, "a/ends") == ()


def test_a_member_does_not_pass_its_own_group() -> None:
    # OUTLOOK-8
    site = Site(4, 4)
    site.tell(job("w", 4, 10, node="n1"), job("x", 4, 20, node="n2"))
    site.tell(gang(2), job("m", 4, 5, gang="default/g", count=2))
    site.tell(at_s=20)
    site.tell(at_s=21)

    assert passed(site, "a/m-0") == passed(site, "a/m-1") == ()
