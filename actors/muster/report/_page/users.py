"""What users have waited for and used, as a table."""

from __future__ import annotations

from typing import Final

from muster.figures.text import NOTHING, duration, percent, safe
from muster.figures.use import hours_text, share_of
from muster.report._page.content import Content
from muster.report._recording.users import UserRecord
from muster_core.decisions import MICROSECONDS

MOST_ROWS: Final = 60
"""The most rows that are shown."""

_HEADS: Final = ("user", "asks bound", "pending", "mean wait", "longest wait", "used", "share")


# LISTS-24
def users(content: Content) -> str:
    """Return the table as HTML; empty if nobody is known who wanted something."""
    recorder = content.recorder
    pending = recorder.pending_by_user()
    names = {*recorder.users.records, *pending}
    if not names - {""}:
        return ""
    rows = [(name, recorder.users.records.get(name, UserRecord())) for name in names]
    shares = {name: _share(content, record) for name, record in rows}
    rows.sort(key=lambda row: (-shares[row[0]], row[0]))
    titles = "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    written = "".join(
        _row(content, name, record, pending.get(name, 0), shares[name])
        for name, record in rows[:MOST_ROWS]
    )
    cut = f" The {MOST_ROWS} with the largest share." if len(rows) > MOST_ROWS else ""
    return (
        '<section id="users"><h2>Users</h2>'
        "<p>What asks held times how long, and the largest part of what there was of a resource "
        f"that this is.{cut}</p>"
        f"<table><thead><tr>{titles}</tr></thead><tbody>{written}</tbody></table></section>"
    )


def _share(content: Content, record: UserRecord) -> float:
    recorder = content.recorder
    areas = record.account.used(recorder.end_us).areas
    # What there was over time is an area, too: as if it had been there for one unit of time.
    there = {kind: round(sum(series.areas)) for kind, series in recorder.there.items()}
    return share_of(areas, there, 1)


def _row(content: Content, name: str, record: UserRecord, pending: int, share: float) -> str:
    mean_us = record.mean_us
    cells = (
        safe(name or "(none)"),
        f"{record.asks:,}",
        f"{pending:,}",
        NOTHING if mean_us is None else duration(mean_us),
        NOTHING if mean_us is None else duration(record.longest_us),
        safe(hours_text(record.account.used(content.recorder.end_us).areas, MICROSECONDS)),
        percent(share),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
