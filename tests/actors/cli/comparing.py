"""A feed and two configurations to compare it under."""

from __future__ import annotations

from pathlib import Path

FEED = """\
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.east}
- {op: add_ask, app: a, ask: x, resources: {vcore: 2}, run_for: 10}
- {op: add_app, app: b, queue: root.west}
- {op: add_ask, app: b, ask: y, resources: {vcore: 2}, run_for: 1500}
"""
QUEUES = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: east}
          - {name: west}
"""
RANKED = QUEUES.replace("west}", 'west, properties: {queue.priority: "5"}}')
PARTITIONS = QUEUES + RANKED.replace("partitions:\n", "").replace("default", "other")


def under(files: dict[str, Path]) -> list[str | Path]:
    """Give the arguments for the feed under both configurations."""
    return ["compare", files["feed"], "--config", files["a"], "--config", files["b"]]
