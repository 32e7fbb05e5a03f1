"""The remarks on a page: the first refusals and warnings, with their lines."""

from __future__ import annotations

from collections.abc import Sequence

from muster.replay import Remark
from muster.report._page.content import Content
from muster.report._page.text import safe_long


def place_of(remark: Remark) -> str:
    """Return the place of an event: its line, or its index if the feed has no lines."""
    return f"event {remark.index}" if remark.line is None else f"line {remark.line}"


def remarks(content: Content) -> str:
    """Return the first refusals and warnings as HTML; empty if there are none."""
    summary = content.summary
    rows = _rows("refused", "refused events", summary.first_refusals, summary.refused)
    rows += _rows("warning", "warnings", summary.first_warnings, summary.warnings)
    if not rows:
        return ""
    return (
        '<section id="remarks"><h2>Refusals and warnings</h2>'
        f'<ul class="remarks">{rows}</ul></section>'
    )


def _rows(what: str, many: str, first: Sequence[Remark], number: int) -> str:
    rows = "".join(
        f'<li><b>{place_of(remark)}</b><em class="{what}">{what}</em>'
        f"<span>{safe_long(remark.message)}</span></li>"
        for remark in first
    )
    more = number - len(first)
    return rows + (f'<li class="rest">… {number:,} {many} in all</li>' if more else "")
