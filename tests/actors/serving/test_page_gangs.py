"""Gangs on the page, without a browser."""

from __future__ import annotations

from pathlib import Path

from tests.actors.serving.here import Here
from tests.actors.serving.test_page_asks import found, write_config


# PAGE-49
def test_the_example_of_a_reason_is_the_member_that_was_added_first(tmp_path: Path) -> None:
    member = {"op": "add_ask", "app": "train", "gang": "ns/pair", "resources": {"vcore": 5}}
    with Here(config=write_config(tmp_path)) as here:
        here.post(
            {"op": "add_node", "node": "n1", "capacity": {"vcore": 11}},
            {"op": "add_app", "app": "train", "queue": "root.ml"},
            {"op": "add_gang", "gang": "ns/pair", "min_member": 3, "mode": "NonStrict"},
            # The second one has the higher priority, so it gets its node first.
            {**member, "ask": "worker-9", "priority": 1},
            {**member, "ask": "worker-10", "priority": 2},
            {**member, "ask": "worker-11", "priority": 0},
        )

        said = found(here.client, "/gangs/ns/pair")

        assert "2 members : holds a node and waits for the rest of its gang" in said
        assert "For example train/worker-9 :" in said
