"""The runs that were cut short and have to be run again, by queue, as a table."""

from __future__ import annotations

from typing import Final

from muster.figures.text import NOTHING, duration, resource_time, safe
from muster.figures.words import cause
from muster.replay import LostRuns
from muster.report._page.content import Content
from muster_core.decisions import MICROSECONDS

MOST_ROWS: Final = 60
"""The most rows that are shown."""


# COMMAND-22
def losses(content: Content) -> str:
    """Return the table as HTML; empty if nothing was lost."""
    summary = content.summary
    rows = [
        (queue.queue, why, lost) for queue in summary.queues for why, lost in queue.lost.items()
    ]
    if not rows:
        return ""
    rows.sort(key=lambda row: -row[2].run_s)
    kinds = [kind for kind in content.kinds if any(kind in lost.resource_s for *_, lost in rows)]
    heads = ("queue", "cut short", "runs", "lost run time", *kinds)
    titles = "".join(f'<th scope="col">{safe(head)}</th>' for head in heads)
    written = "".join(_row(safe(queue), why, lost, kinds) for queue, why, lost in rows[:MOST_ROWS])
    if len(rows) > 1:
        written += "".join(_row("all", why, lost, kinds) for why, lost in summary.lost.items())
    return (
        '<section id="losses"><h2>Lost runs</h2>'
        "<p>Runs that were cut short and have to be run again, and what they held for how long.</p>"
        f"<table><thead><tr>{titles}</tr></thead><tbody>{written}</tbody></table></section>"
    )


def _row(queue: str, why: str, lost: LostRuns, kinds: list[str]) -> str:
    cells = [queue, safe(cause(why)), f"{lost.runs:,}", duration(lost.run_s * MICROSECONDS)]
    for kind in kinds:
        held = lost.resource_s.get(kind)
        cells.append(NOTHING if held is None else resource_time(kind, held))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
