"""A feed with reservations, for those who show them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

RESERVED: Final = """\
- op: configure
  config:
    partitions:
      - name: default
        queues:
          - name: root
            queues:
              - {name: q, properties: {scheduling.order: backfill, backfill.depth: 2}}
- {op: add_node, node: n1, capacity: {vcore: 5}}
- {op: add_node, node: n2, capacity: {vcore: 4}}
- {op: add_app, app: old, queue: q}
- {op: add_ask, app: old, ask: long, resources: {vcore: 3}, run_for: 100}
- {op: add_ask, app: old, ask: open, resources: {vcore: 3}}
- {op: add_app, app: new, queue: q, at: 10}
- {op: add_ask, app: new, ask: wide, resources: {vcore: 5}, run_for: 50}
- {op: add_ask, app: new, ask: next, resources: {vcore: 4}, run_for: 20}
- {op: add_ask, app: new, ask: held, resources: {vcore: 1}, node: n1}
- {op: add_ask, app: new, ask: small, resources: {vcore: 1}, node: n1, run_for: 30}
"""
"""At 10 s n1 is reserved for new/wide from 100 s on, and n2 for new/next from an end that is not known
on. So new/held, of which no end is known, is held back, and new/small runs on n1 meanwhile."""


LATER: Final = """\
- op: configure
  config:
    partitions:
      - {name: default, queues: [{name: root, queues: [{name: q, properties: {scheduling.order: backfill}}]}]}
- {op: add_node, node: n1, capacity: {vcore: 4}}
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: long, resources: {vcore: 3}, estimate: 40}
- {op: add_ask, app: a, ask: short, resources: {vcore: 1}, estimate: 20}
- {op: add_ask, app: a, ask: wide, resources: {vcore: 4}, estimate: 80}
- {op: add_ask, app: a, ask: later, resources: {vcore: 1}, estimate: 90}
- {op: add_ask, app: a, ask: half, resources: {vcore: 2}, estimate: 20}
- {op: add_ask, app: a, ask: large, resources: {vcore: 5}, estimate: 20}
"""
"""At 20 s a/later has room, but it would still run when a/wide has all of n1 at 40 s."""


def reserved(folder: Path, more: str = "") -> Path:
    """Write the feed into a folder, with more events."""
    path = folder / "reserved.yaml"
    path.write_text(RESERVED + more, encoding="utf-8")
    return path
