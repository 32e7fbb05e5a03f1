"""Sums of amounts that are larger than any client of YuniKorn reads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import httpx

from muster.service.yunikorn.app import PATHS
from tests.actors.serving.served import Served

_MOST = 2**63 - 1
_EVENTS: list[dict[str, Any]] = [
    *({"op": "add_node", "node": name, "capacity": {"memory": _MOST}} for name in "nm"),
    {"op": "add_app", "app": "a", "queue": "root.dev", "user": "joe"},
    {"op": "add_ask", "app": "a", "ask": "k", "resources": {"memory": _MOST}, "count": 4},
]


_ROOT = {"name": "root", "queues": [{"name": "dev", "resources": {"max": {"memory": 1}}}]}
_NAMES = {"p": "default", "q": "root.dev", "a": "a", "n": "n", "u": "joe", "g": "x", "s": "active"}


def _is_json(answer: httpx.Response) -> bool:
    return answer.headers["content-type"].startswith("application/json")


def _largest_sample(text: str) -> int:
    """Give the largest value in a text of metrics."""
    values = [line.rpartition(" ")[2] for line in text.splitlines() if not line.startswith("#")]
    return max((abs(int(value)) for value in values if value.lstrip("-").isdigit()), default=0)


def _largest(text: str) -> int:
    """Give the largest integer in a text of JSON, whatever its sign."""
    found = [0]

    def note(written: str) -> int:
        found.append(abs(int(written)))
        return int(written)

    json.loads(text, parse_int=note)
    return max(found)


# REST-4
def test_no_sum_is_too_large(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        answer = served.client.post("/api/v1/events", json=_EVENTS)
        assert all(one["ok"] for one in answer.json())
        config = {"partitions": [{"name": "default", "queues": [_ROOT]}]}
        served.client.post("/api/v1/events", json=[{"op": "configure", "config": config}])
        told = 0
        for form, (method, _) in PATHS.items():
            path = re.sub(r"\{(\w)\w*\}", lambda found: _NAMES[found[1]], form)
            if method == "GET" and not form.endswith(("stream", "stack")):
                found = served.client.get(path, follow_redirects=True)
                assert found.status_code in {200, 404}, found.text
                largest = _largest(found.text) if _is_json(found) else _largest_sample(found.text)
                assert largest <= _MOST, path
                told += largest == _MOST
    assert told >= 15
