"""What differs from the view if asks are placed and others released."""

from __future__ import annotations

import pytest

from muster_core.events import Configure
from muster_core.view.placement_diff import PlacementDiff
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import Site, backfill, gang, job


@pytest.mark.parametrize(
    "fields",
    [
        {"resources": {"max": {"vcore": 4}}},
        {"limits": [{"users": ["*"], "maxresources": {"vcore": 4}}]},
    ],
)
def test_headroom_is_what_asks_leave_that_are_counted(fields: dict[str, object]) -> None:
    # CONFIG-25, LIMIT-9
    site = Site(1)
    site.tell(Configure(configuration(queue("q", **fields), queue("r"), props=backfill())))
    site.tell(job("x", 2))
    difference, (app, ask) = PlacementDiff(site.state), site.member("a/x")
    assert difference.has_headroom(app, ask)

    difference.count(app, ask, 1)
    assert difference.has_headroom(app, ask)
    difference.count(app, ask, 1)
    assert not difference.has_headroom(app, ask)
    difference.count(app, ask, -1)
    assert difference.has_headroom(app, ask)


def test_who_holds_nodes() -> None:
    # BACKFILL-19
    site = Site(2, 1, 4)
    site.tell(gang(2, loose=True), gang(2, name="default/h", loose=True))
    site.tell(job("m", 1, gang="default/g", count=2, node="n1"), job("o", 5, gang="default/g"))
    site.tell(job("h", 3, gang="default/h", node="n3"), job("p", 5, gang="default/h"))
    state, difference = site.state, PlacementDiff(site.state)
    bound, waiting = state.gangs["default/g"], state.gangs["default/h"]

    difference.released.add(site.member("a/m-0").holder)
    difference.place(site.member("a/o"), state.nodes.nodes["n2"])
    difference.place(site.member("a/p"), state.nodes.nodes["n3"])

    held = sorted(difference.held_by(bound))
    assert [node.name for _, node in held] == ["n1", "n2"]
    assert [node.name for _, node in sorted(difference.held_by(waiting))] == ["n3", "n3"]
    difference.released.add(site.member("a/h").holder)
    difference.undo(site.member("a/p"))
    assert not list(difference.held_by(waiting))
