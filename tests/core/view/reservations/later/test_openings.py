"""When a node will have room for a plain ask."""

from __future__ import annotations

from muster_core.events import Release
from muster_core.view.reservations.later.openings import Openings
from muster_core.view.reservations.later.projection import Projection
from muster_core.view.reservations.party import Party
from muster_core.view.reservations.search import Search
from tests.core.view.reservations.site import S, Site, job


def test_the_first_instant_with_room() -> None:
    # BACKFILL-18
    site = Site(4)
    site.tell(job("x", 1, 30), job("y", 1, 20), job("z", 1, 20), job("large", 3))
    node, openings = site.state.nodes.nodes["n1"], Openings(site.state)

    found = openings.look(site.member("a/large"), node, 0, Projection(site.state))

    assert (found.at, found.until_us) == ((False, 20 * S), 20 * S)
    assert found.version == node.version


def test_never() -> None:
    site = Site(4)
    site.tell(job("x", 1), job("large", 5))
    node, openings = site.state.nodes.nodes["n1"], Openings(site.state)

    assert openings.look(site.member("a/large"), node, 0, Projection(site.state)).at is None


def test_what_is_remembered_holds_until_the_node_changes() -> None:
    # BACKFILL-18
    site = Site(4, 4)
    site.tell(job("x", 4, 20, node="n1"), job("y", 4, 30, node="n2"), job("large", 4))
    openings = Openings(site.state)
    large = site.member("a/large")
    party = Party((large,), ())

    def find(now_s: int) -> object:
        return Search(site.state, now_s * S, (), openings).find(party)

    assert find(0) == find(0) == ((False, 20 * S), ((large, "n1"),))
    # It has not ended at 20, and is expected to take twice as long.
    assert find(20) == ((False, 30 * S), ((large, "n2"),))

    site.tell(job("next", 1), Release("a", "y"))
    assert site.placed["a/large"] == "n2"
