"""The order of nodes for the ask at hand: openb's GPU nodes filled up with its pods.

The pods and the nodes are those of ``examples/openb``, in the first of its random orders. All asks
come in one batch; the time is that of the rounds, in processor time.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.figures import Better, Figure
from benchmarks.processes import PROJECT, python
from muster.feeds import read_feed
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import AddAsk, Configure, Event

FEED: Final = PROJECT / "examples" / "openb" / "openb.py"
POLICIES: Final = ("fair", "bestfit", "fgd")

TARGET: Final = 2_000
"""How many allocations a second ``fgd`` should reach."""


def measure(scale: float) -> list[Figure]:
    """Fill the nodes once with each order of nodes."""
    return [_measure(policy, scale) for policy in POLICIES]


def _measure(policy: str, scale: float) -> Figure:
    with tempfile.TemporaryDirectory() as folder:
        feed = Path(folder, "feed.jsonl")
        python(FEED, feed, "--policy", policy)
        events = [item.content for item in read_feed(feed)]
    scheduler = PlainScheduler()
    asks = [event for event in events if isinstance(event, AddAsk)]
    for event in events:
        assert isinstance(event, Event), f"{json.dumps(str(event))} is refused"
        if isinstance(event, Configure) or not isinstance(event, AddAsk):
            scheduler.submit(event)
    for ask in asks[: max(1, int(len(asks) * scale))]:
        scheduler.submit(ask)
    began = time.process_time()
    scheduler.settle()
    took_s = time.process_time() - began
    binds = sum(one.decision.kind is Kind.BOUND for one in scheduler.announced)
    return Figure(
        "devices",
        f"1,213 nodes with GPUs, {policy}",
        binds / took_s,
        "asks/s",
        target=TARGET if policy == "fgd" else None,
        better=Better.HIGHER,
        raw=f"{binds:,} asks in {took_s:.2f} s",
    )
