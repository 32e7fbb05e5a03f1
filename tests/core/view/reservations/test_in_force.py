"""The reservations in force, from round to round."""

from __future__ import annotations

from muster_core.view.reservations.backfill import ActiveReservations
from muster_core.view.reservations.parties import Party, Reservation
from tests.core.view.reservations.site import S, Site, job


def site_with(*asks: str) -> Site:
    site = Site(1)
    site.tell(*(job(name, 2) for name in asks))
    return site


def reserve(site: Site, name: str, start_s: int = 10, node: str = "n1") -> Reservation:
    member = site.member(name)
    party = Party((member,), ())
    return Reservation(site.state.root, party, (False, start_s * S), ((member, node),))


def run(in_force: ActiveReservations, now_s: int, *reservations: Reservation) -> None:
    """Carry out a round that finds some reservations."""
    in_force.start_round(now_s * S)
    in_force.reservations.extend(reservations)
    in_force.end_round()


def test_nothing_is_reserved_when_a_round_begins_but_what_was_is_known() -> None:
    # BACKFILL-22, BACKFILL-23
    site, in_force = site_with("x", "y"), ActiveReservations()
    one = reserve(site, "a/x")
    run(in_force, 0, one)
    assert in_force.has_one_for(site.member("a/x").ask)
    in_force.start_round(S)

    assert not in_force.reservations
    assert in_force.before(one.party) is one
    assert in_force.before(reserve(site, "a/y").party) is None
    assert not in_force.has_one_for(site.member("a/x").ask)


def test_a_round_would_find_the_same_after_two_that_did_until_a_start_or_an_end() -> None:
    site, in_force = site_with("x", "y"), ActiveReservations()
    run(in_force, 0, reserve(site, "a/x"))
    assert not in_force.holds_at(1 * S)
    run(in_force, 1, reserve(site, "a/x"))
    assert in_force.holds_at(9 * S)
    assert not in_force.holds_at(10 * S)
    for other in (reserve(site, "a/x", 11), reserve(site, "a/x", 11, "n2"), reserve(site, "a/y")):
        run(in_force, 2, other)
        assert not in_force.holds_at(3 * S)

    in_force.start_round(3 * S)
    in_force.reservations.append(reserve(site, "a/y"))
    in_force.hold_until(7 * S)
    in_force.end_round()

    assert in_force.holds_at(6 * S)
    assert not in_force.holds_at(7 * S)


def test_a_scope_has_as_many_reservations_as_its_depth() -> None:
    # BACKFILL-15
    site, in_force = site_with("x"), ActiveReservations()
    root = site.state.root
    assert (in_force.of(root), in_force.is_saturated(root)) == ([], False)
    one = reserve(site, "a/x")
    in_force.load([one], 5 * S)

    assert (in_force.of(root), in_force.is_saturated(root)) == ([one], True)
    assert in_force.now_us == 5 * S
