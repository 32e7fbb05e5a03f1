"""The remarks on a page: the first refusals and warnings, with their lines."""

from __future__ import annotations

from collections.abc import Sequence

from muster.figures.text import safe_long
from muster.replay import FeedWarning, Remark
from muster.report._page.content import Content


def place_of(remark: Remark | FeedWarning) -> str:
    """Return the place of an event: its line, or its index if the feed has no lines."""
    if remark.line is None:
        return "" if remark.index is None else f"event {remark.index}"
    return f"line {remark.line}"


def _of_warning(warning: FeedWarning) -> tuple[str, str]:
    """Return the place of a warning, and its message with the path of the field."""
    place = ", ".join(part for part in (warning.file, place_of(warning)) if part)
    return place, ": ".join(part for part in (warning.path, warning.message) if part)


def remarks(content: Content) -> str:
    """Return the first refusals and warnings as HTML; empty if there are none."""
    summary = content.summary
    refused = [(place_of(remark), remark.message) for remark in summary.first_refusals]
    warned = [_of_warning(warning) for warning in summary.first_warnings]
    rows = _rows("refused", "refused events", refused, summary.refused)
    rows += _rows("warning", "warnings", warned, summary.warnings)
    if not rows:
        return ""
    return (
        '<section id="remarks"><h2>Refusals and warnings</h2>'
        f'<ul class="remarks">{rows}</ul></section>'
    )


def _rows(what: str, many: str, first: Sequence[tuple[str, str]], number: int) -> str:
    rows = "".join(
        f'<li><b>{safe_long(place)}</b><em class="{what}">{what}</em>'
        f"<span>{safe_long(message)}</span></li>"
        for place, message in first
    )
    more = number - len(first)
    return rows + (f'<li class="rest">… {number:,} {many} in all</li>' if more else "")
