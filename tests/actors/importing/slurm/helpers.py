"""Dumps of sacct for tests, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.actors.importing.helpers import Event, imported, of

NODES = "4x vcore=8,memory=16Gi"
COLUMNS = (
    "JobID", "JobName", "Submit", "Eligible", "Start", "End", "ElapsedRaw", "State", "ReqTRES", "AllocTRES",
    "NNodes", "Account", "User",
)  # fmt: skip
USUAL = {
    "Submit": "2026-01-31T10:00:00",
    "Eligible": "2026-01-31T10:00:00",
    "Start": "2026-01-31T10:00:05",
    "End": "2026-01-31T10:01:45",
    "ElapsedRaw": "100",
    "State": "COMPLETED",
    "ReqTRES": "cpu=2,mem=4G,node=1",
    "NNodes": "1",
    "Account": "phys",
    "TimelimitRaw": "60",
    "User": "al",
}


def row(job: object = 1, **values: str) -> dict[str, str]:
    """Return a job of one node that ran for 100 s."""
    return {"JobID": str(job)} | USUAL | values


def dump_of(*rows: dict[str, str]) -> str:
    """Return a dump of sacct with the columns of these rows."""
    names = list(dict.fromkeys([*COLUMNS, *(name for each in rows for name in each)]))
    lines = ["|".join(each.get(name, "") for name in names) for each in rows]
    return "\n".join(["|".join(names), *lines, ""])


def of_text(
    folder: Path, text: str, *options: object, nodes: object = NODES
) -> tuple[list[Event], dict[str, Any]]:
    """Import a dump; return the events of the feed, and the summary."""
    file = folder / "sacct.txt"
    file.write_text(text, encoding="utf-8")
    return imported("slurm", file, "--nodes", nodes, *options)


def of_rows(
    folder: Path, *rows: dict[str, str], options: tuple[object, ...] = (), nodes: object = NODES
) -> tuple[list[Event], dict[str, Any]]:
    """Import jobs; return the events of the feed, and the summary."""
    return of_text(folder, dump_of(*rows), *options, nodes=nodes)


def ask_of(folder: Path, nodes: object = NODES, **values: str) -> Event:
    """Import one job that has one ask, and return that."""
    events, _ = of_rows(folder, row(**values), nodes=nodes)
    (ask,) = of(events, "add_ask")
    return ask


def causes(summary: dict[str, Any], where: str = "left_out") -> dict[str, int]:
    """Return what was left out, or another list of the summary, with its count."""
    return {cause["cause"]: cause["count"] for cause in summary[where]}
