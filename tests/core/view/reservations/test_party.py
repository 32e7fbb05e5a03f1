"""Parties: who is reserved for together."""

from __future__ import annotations

from muster_core.view.reservations.parties import Party, group_of
from tests.core.view.reservations.site import Site, gang, job


def test_a_plain_ask_is_a_party_by_itself() -> None:
    site = Site(1)
    site.tell(job("x", 2), job("y", 2))
    one, other = Party((site.member("a/x"),), ()), Party((site.member("a/y"),), ())

    assert one.is_that_of(Party((site.member("a/x"),), ()))
    assert not one.is_that_of(other)


def test_the_party_of_a_group_is_the_same_whatever_it_lacks() -> None:
    site = Site(1)
    site.tell(gang(1), job("m", 2, gang="default/g", count=2))
    first, second = site.member("a/m-0"), site.member("a/m-1")
    one, other = Party((first,), ("default/g",)), Party((second,), ("default/g",))

    assert one.is_that_of(other)
    assert one.keys != other.keys


# BACKFILL-15
def test_a_member_has_one_reservation_whether_its_gang_is_satisfied_or_not() -> None:
    site = Site(1)
    site.tell(gang(1), job("m", 2, gang="default/g", count=2))
    first, second = site.member("a/m-0"), site.member("a/m-1")
    alone, group = Party((first,), ()), Party((first, second), ("default/g",))

    assert alone.is_that_of(group)
    assert group.is_that_of(alone)
    assert not alone.is_that_of(Party((second,), ("default/g",)))


def test_a_satisfied_gang_makes_no_group() -> None:
    site = Site(2)
    site.tell(gang(1), job("m", 2, gang="default/g", count=2))
    site.tell(gang(2, name="default/h"), job("n", 2, gang="default/h"))
    group = group_of(site.state, site.member("a/n").ask)

    assert group_of(site.state, site.member("a/m-1").ask) is None
    assert group is not None
    assert group.names == ("default/h",)
