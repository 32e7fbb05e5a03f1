"""Sums of amounts that are larger than any client of YuniKorn reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.actors.serving.served import Served

_MOST = 2**63 - 1
_EVENTS: list[dict[str, Any]] = [
    *({"op": "add_node", "node": name, "capacity": {"memory": _MOST}} for name in "nm"),
    {"op": "add_app", "app": "a", "queue": "root.dev", "user": "joe"},
    {"op": "add_ask", "app": "a", "ask": "k", "resources": {"memory": _MOST}, "count": 4},
]


def _largest(text: str) -> int:
    """Give the largest integer in a text of JSON."""
    found = [0]

    def note(written: str) -> int:
        found.append(int(written))
        return found[-1]

    json.loads(text, parse_int=note)
    return max(found)


# REST-4
def test_no_sum_is_too_large(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        answer = served.client.post("/api/v1/events", json=_EVENTS)
        assert all(one["ok"] for one in answer.json())
        for path in (
            "partitions",
            "partition/default/queues",
            "partition/default/applications/active",
            "partition/default/usage/users",
        ):
            found = served.client.get(f"/ws/v1/{path}")
            assert found.status_code == 200, found.text
            assert _largest(found.text) == _MOST, path
