"""Requests that make sense, from which those that do not are made."""

from __future__ import annotations

import json
from random import Random
from typing import Final

import msgpack

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
MSGPACK: Final = "application/msgpack"
YAML: Final = "application/yaml"

GETS: Final = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/api/v1/config",
    "/api/v1/queues",
    "/api/v1/queues/root.dev",
    "/api/v1/apps",
    "/api/v1/apps/a1",
    "/api/v1/asks",
    "/api/v1/asks/a1/k",
    "/api/v1/asks/a1/k/why",
    "/api/v1/gangs",
    "/api/v1/nodes",
    "/api/v1/nodes/n1",
    "/api/v1/decisions",
    "/ws/v1/queues",
    "/ws/v1/partitions",
    "/ws/v1/partition/default/queues",
    "/ws/v1/partition/default/nodes",
    "/ws/v1/partition/default/applications/active",
)

PARAMETERS: Final = (
    "after",
    "until",
    "limit",
    "kinds",
    "queue",
    "app",
    "gang",
    "fields",
    "state",
    "user",
    "reason",
    "remedies",
    "since",
    "dry_run",
    "count",
    "start",
)

CONFIG: Final = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: prod, resources: {guaranteed: {vcore: 4}, max: {vcore: 8}}}
          - {name: dev}
"""


def events(random: Random) -> list[dict[str, object]]:
    """Return some events; most of them are possible."""
    app, node = f"a{random.randrange(50)}", f"n{random.randrange(20)}"
    return random.choice(
        [
            [{"op": "add_node", "node": node, "capacity": {"vcore": 2, "memory": "1Gi"}}],
            [{"op": "remove_node", "node": node}],
            [
                {"op": "add_app", "app": app, "queue": "root.dev", "user": "u"},
                {"op": "add_ask", "app": app, "ask": "k", "resources": {"vcore": 1}, "count": 2},
            ],
            [{"op": "release", "app": app, "ask": "k-0"}, {"op": "remove_app", "app": app}],
            [{"op": "add_gang", "gang": "g", "min_member": 2, "wait_time": "10s"}],
            [{"op": "add_priority_class", "name": "high", "value": 10}],
        ]
    )


def body(random: Random) -> tuple[str, bytes]:
    """Return the body of a request with events, and its media type."""
    made = events(random)
    match random.randrange(4):
        case 0:
            return LINES, b"".join(json.dumps(one).encode() + b"\n" for one in made)
        case 1:
            packed: bytes = msgpack.packb(made)
            return MSGPACK, packed
        case _:
            return JSON, json.dumps(made).encode()
