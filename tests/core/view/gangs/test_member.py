"""Pending asks with their applications."""

from __future__ import annotations

from muster_core.events import RemoveAsk
from muster_core.view.gangs import pending_members
from tests.core.view.reservations.site import Site, gang, job


def test_an_ask_of_the_same_name_is_another_one() -> None:
    site = Site(1)
    site.tell(job("x", 2))
    before = site.member("a/x").key
    site.tell(RemoveAsk("a", "x"), job("x", 2))

    assert site.member("a/x").key != before


def test_who_is_pending_may_hold_what_is_reserved() -> None:
    site = Site(1)
    site.tell(job("x", 1), job("y", 1))

    assert not site.member("a/x").is_pending()
    assert site.member("a/y").is_pending()


def test_the_pending_members_of_a_gang() -> None:
    site = Site(1)
    site.tell(gang(9), job("m", 2, gang="default/g", count=2))
    site.tell(job("n", 2, gang="default/g", app="b"), job("plain", 2))
    found = pending_members(site.state.gangs["default/g"])

    assert sorted(one.ask.name for one in found) == ["m-0", "m-1", "n"]
    assert {one.app.identity.name for one in found} == {"a", "b"}
