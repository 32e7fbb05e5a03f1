"""Projections: the view without some asks, and with others."""

from __future__ import annotations

import pytest

from muster_core.events import Configure, UpdateNode
from muster_core.view.reservations.projection import Projection
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import Site, backfill, job, vcores


def test_what_is_released_is_free() -> None:
    site = Site(4)
    site.tell(job("x", 3), job("large", 4))
    projection, large = Projection(site.state), site.member("a/large")
    app = large.app
    assert projection.find_node(large) is None

    allocation, node = app.bound["x"]
    projection.release(app, allocation, node)

    assert projection.find_node(large) is node
    assert projection.used_on(node) == {"vcore": 0}
    assert node.used == {"vcore": 3000}


def test_what_is_placed_takes_room_until_it_is_undone() -> None:
    site = Site(4)
    site.tell(job("one", 5), job("two", 5))
    site.state.nodes.update("n1", vcores(9), None, schedulable=None)
    projection, one, two = Projection(site.state), site.member("a/one"), site.member("a/two")
    node = site.state.nodes.nodes["n1"]
    assert projection.fits_on(two, node)

    with projection.trying():
        projection.place(one, node)
        assert not projection.fits_on(two, node)
        assert set(projection.difference.placed) == {(one.app.identity.key, "one")}

    assert projection.fits_on(two, node)
    assert not projection.difference.placed


@pytest.mark.parametrize(
    "fields",
    [
        {"resources": {"max": {"vcore": 4}}},
        {"limits": [{"users": ["*"], "maxresources": {"vcore": 4}}]},
    ],
)
def test_the_headroom_of_queues_and_limits(fields: dict[str, object]) -> None:
    site = Site(9)
    site.tell(Configure(configuration(queue("q", **fields), queue("r"), props=backfill())))
    site.tell(job("x", 3), job("y", 2))
    projection, (app, y) = Projection(site.state), site.member("a/y")
    assert not projection.difference.has_headroom(app, y)

    allocation, node = app.bound["x"]
    projection.release(app, allocation, node)

    assert projection.difference.has_headroom(app, y)


def test_nodes_have_the_order_of_the_projection() -> None:
    site = Site(4, 4)
    site.tell(job("x", 2, node="n1"), job("y", 1, node="n2"), job("large", 5))
    site.state.nodes.update("n1", vcores(6), None, schedulable=None)
    site.state.nodes.update("n2", vcores(6), None, schedulable=None)
    projection, large = Projection(site.state), site.member("a/large")
    app, found = large.app, projection.find_node(large)
    assert found is not None
    assert found.name == "n2"

    allocation, node = app.bound["x"]
    projection.release(app, allocation, node)

    assert projection.find_node(large) is node


def test_a_node_that_is_closed_has_no_room() -> None:
    site = Site(4)
    site.tell(UpdateNode("n1", schedulable=False), job("x", 1))

    assert Projection(site.state).find_node(site.member("a/x")) is None
