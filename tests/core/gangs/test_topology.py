"""What a topology says, in a feed and in messages."""

from __future__ import annotations

import pytest

from muster_core.gangs import Topology, TopologyRule


@pytest.mark.parametrize(
    ("topology", "written", "shown"),
    [
        (Topology(TopologyRule.SAME, "rack"), {"same": "rack"}, "same: rack"),
        (Topology(TopologyRule.PREFER, "rack"), {"prefer": "rack"}, "prefer: rack"),
        (Topology(TopologyRule.SPREAD, "zone"), {"spread": "zone"}, "spread: zone"),
        (
            Topology(TopologyRule.SPREAD, "zone", 2),
            {"spread": "zone", "max": 2},
            "spread: zone, max: 2",
        ),
    ],
)
def test_as_written_and_as_shown(
    topology: Topology, written: dict[str, str | int], shown: str
) -> None:
    assert topology.written() == written
    assert str(topology) == shown
