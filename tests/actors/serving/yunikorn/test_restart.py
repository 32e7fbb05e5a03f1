"""A start of the service changes no answer."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.actors.serving.served import Served

_APPS: Final = "/ws/v1/partition/default/applications/active"
_PATHS: Final = (_APPS, "/ws/v1/partition/default/nodes", "/ws/v1/partition/default/queues")


def _submit(served: Served, *events: dict[str, object]) -> None:
    answer = served.client.post("/api/v1/events", json=list(events))
    assert [one["error"] for one in answer.json()] == [None] * len(events)


def _ask(name: str) -> dict[str, object]:
    return {"op": "add_ask", "app": "a", "ask": name, "resources": {"vcore": 1}}


def _node(name: str, vcore: int) -> dict[str, object]:
    return {"op": "add_node", "node": name, "capacity": {"vcore": vcore}}


# REST-10, REST-11
def test_asks_have_one_order_also_after_a_start(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    with Served(tmp_path, *state) as served:
        _submit(served, _node("n", 2), {"op": "add_app", "app": "a", "queue": "root.dev"})
        _submit(served, *map(_ask, "zyxwv"))
        # Those that ran are pending again, behind the others; two of them get another node.
        _submit(served, {"op": "remove_node", "node": "n"})
        waiting = [one["allocationKey"] for one in served.client.get(_APPS).json()[0]["requests"]]
        _submit(served, _node("m", 2))
        before = [served.client.get(path).text for path in _PATHS]
        assert served.stop() == 0
    with Served(tmp_path, *state) as served:
        after = [served.client.get(path).text for path in _PATHS]

    assert waiting == [*"zyxwv"]
    assert after == before
