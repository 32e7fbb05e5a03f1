"""The order of pending asks, as it is and as it would be."""

from __future__ import annotations

from muster_core.events import AddApp, AddNode, Configure
from muster_core.view.reservations.projection import Projection
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import Site, backfill, job, vcores


def names(site: Site, projection: Projection, *asks: str) -> list[str]:
    order = projection.order().sorted([site.member(ask) for ask in asks])
    return [f"{member.app.identity.name}/{member.ask.name}" for member in order]


def test_asks_of_an_application() -> None:
    # BACKFILL-16
    site = Site(1)
    site.tell(job("x", 2), job("y", 2, priority=3), job("z", 2))

    assert names(site, Projection(site.state), "a/z", "a/x", "a/y") == ["a/y", "a/x", "a/z"]


def test_queues_by_what_is_used_in_the_projection() -> None:
    # BACKFILL-19
    site = Site(4)
    site.tell(job("w", 2), job("v", 1, app="b"), job("x", 5), job("x", 5, app="b"))
    projection = Projection(site.state)
    assert names(site, projection, "a/x", "b/x") == ["b/x", "a/x"]

    app = site.app("a")
    allocation, node = app.bound["w"]
    projection.release(app, allocation, node)

    assert names(site, projection, "a/x", "b/x") == ["a/x", "b/x"]


def test_who_is_placed_is_not_pending() -> None:
    # BACKFILL-19
    site = Site(4)
    site.tell(job("x", 5, priority=3), job("y", 5), job("z", 5, app="b", priority=1))
    projection, node = Projection(site.state), site.state.nodes.nodes["n1"]
    assert names(site, projection, "a/y", "b/z") == ["a/y", "b/z"]

    projection.place(site.member("a/x"), node)

    assert names(site, projection, "a/y", "b/z") == ["b/z", "a/y"]


def test_applications_of_a_leaf_by_usage() -> None:
    # BACKFILL-19
    site = Site(4)
    fair = {"application.sort.policy": "fair"}
    site.tell(Configure(configuration(queue("q", properties=fair), queue("r"), props=backfill())))
    site.tell(AddApp("c", "root.q"), AddNode("n2", vcores(1)))
    site.tell(job("w", 2), job("x", 5), job("x", 5, app="c"))
    projection = Projection(site.state)
    assert names(site, projection, "a/x", "c/x") == ["c/x", "a/x"]

    app = site.app("a")
    allocation, node = app.bound["w"]
    projection.release(app, allocation, node)

    assert names(site, projection, "a/x", "c/x") == ["a/x", "c/x"]
