"""The replay of a trace of a real cluster, in jobs per second.

The time is the processor time of ``muster replay``, including its start. Two virtual clusters of
the trace are in the repository; ``make demo`` replays them. The table of the whole trace is not:
see ``examples/philly/README.md`` for its source.
"""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.figures import Better, Figure
from benchmarks.processes import PROJECT, python

PHILLY: Final = PROJECT / "examples" / "philly"
SHIPPED: Final = (("0e4a51", 32, "fifo"), ("0e4a51", 32, "sjf"), ("2869ce", 16, "fifo"))
"""Virtual clusters, each with its number of nodes and its policy."""

WHOLE: Final = ("--no-priority", "--config", PHILLY / "clusters.yaml")
"""How the whole trace is imported, on nodes that all virtual clusters share."""

WHOLE_NODES: Final = 352


def measure(scale: float) -> list[Figure]:
    """Replay the virtual clusters in the repository."""
    figures: list[Figure] = []
    for name, nodes, policy in SHIPPED:
        with tempfile.TemporaryDirectory() as folder:
            table = _some(PHILLY / f"jobs-{name}.csv", Path(folder), scale)
            found = _replay(table, nodes, "--config", PHILLY / f"{policy}.yaml")
            figures.append(_figure(f"cluster {name}, {policy}", *found))
    return figures


def whole(table: str, scale: float) -> list[Figure]:
    """Replay the whole trace, from a table that is not in the repository."""
    with tempfile.TemporaryDirectory() as folder:
        jobs = _some(Path(table), Path(folder), scale)
        return [_figure("whole trace", *_replay(jobs, WHOLE_NODES, *WHOLE))]


def _figure(what: str, jobs: int, took_s: float) -> Figure:
    raw = f"{jobs:,} jobs in {took_s:.1f} s"
    return Figure("philly", what, jobs / took_s, "jobs/s", better=Better.HIGHER, raw=raw)


def _some(table: Path, folder: Path, scale: float) -> Path:
    """Write the first part of a table, with some jobs at least, to a file."""
    raw = table.read_bytes()
    text = gzip.decompress(raw).decode() if table.suffix == ".gz" else raw.decode()
    lines = text.splitlines(keepends=True)
    kept = lines[: 1 + max(50, int((len(lines) - 1) * scale))]
    found = folder / "jobs.csv"
    found.write_text("".join(kept), encoding="utf-8")
    return found


def _replay(table: Path, nodes: int, *options: object) -> tuple[int, float]:
    """Create and replay the feed; return the number of jobs and the processor time in seconds."""
    feed = table.with_suffix(".jsonl")
    given = ("--mapping", PHILLY / "philly.yaml", "--nodes", f"{nodes}x nvidia.com/gpu=8")
    python("-m", "muster", "import", "csv", table, *given, *options, "-o", feed)
    decisions = table.with_suffix(".decisions.jsonl")
    cost = python("-m", "muster", "replay", feed, "--decisions", decisions, "--format", "json")
    with io.StringIO(table.read_text(encoding="utf-8")) as stream:
        jobs = sum(1 for _ in csv.DictReader(stream))
    return jobs, cost.processor_s
