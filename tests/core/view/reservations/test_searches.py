"""What was found is found again without a search, as long as it holds."""

from __future__ import annotations

from muster_core.events import Release
from muster_core.view.reservations.parties import Party
from muster_core.view.reservations.search import PartyStart, SearchCache, StartSearch
from tests.core.view.reservations.site import S, Site, gang, job


def found(
    site: Site, searches: SearchCache, party: Party, now_s: int
) -> tuple[PartyStart | None, int | None]:
    """Give what is found for a party, and until when; None for the instant without a search."""
    search = StartSearch(site.state, now_s * S, ())
    what, until_us = searches.find(search, party, (), now_s * S)
    return what, until_us // S if search.until_us == until_us else None


def test_a_plain_ask_is_sought_again_when_something_has_changed_or_ended() -> None:
    site = Site(4)
    site.tell(job("x", 2, 10), job("y", 2, 20), job("large", 4))
    large, searches = site.member("a/large"), SearchCache(site.state)
    party, at_20 = Party((large,), ()), ((False, 20 * S), ((large, "n1"),))

    assert found(site, searches, party, 0) == (at_20, 10)
    assert found(site, searches, party, 9) == (at_20, None)
    assert found(site, searches, party, 10) == (at_20, 20)  # It takes longer than it was to take.

    site.tell(Release("a", "y"), at_s=11)
    assert found(site, searches, party, 11) == (at_20, 20)


def test_a_gang_is_sought_each_time() -> None:
    site = Site(4)
    site.tell(job("x", 4, 10))
    site.tell(gang(2), job("m", 2, gang="default/g", count=2))
    party = Party((site.member("a/m-0"), site.member("a/m-1")), ("default/g",))
    searches = SearchCache(site.state)

    first, again = (found(site, searches, party, 0) for _ in range(2))

    assert first == again
    assert first[0] is not None
    assert (first[0][0], first[1]) == ((False, 10 * S), 10)
