"""The page: one self-contained HTML file, which begins with the main figures and the cluster over time.

It records nothing and does not know the scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Final

import attrs

from muster._version import __version__
from muster.figures.charts import (
    Chart,
    ChartData,
    Plot,
    PlotRow,
    PointerRow,
    Stroke,
    legend,
    step_line,
)
from muster.figures.text import (
    NOTHING,
    Unit,
    counted,
    duration,
    measured,
    minus,
    number,
    percent,
    safe,
    safe_long,
)
from muster.report._page.content import (
    Content,
    Ending,
    fair_share,
    losses,
    place_of,
    remarks,
    users,
)
from muster.report._page.delays import distributions, jobs, longest
from muster.report._page.gantt import gantt
from muster.report._page.queue_tree import tree
from muster.report._queue_records import QueueRecord
from muster.report._timeline import Series
from muster_core.decisions import MICROSECONDS


def head(content: Content) -> str:
    """Return the title as HTML, with how the replay ended if it is not complete."""
    frame, summary = content.frame, content.summary
    note = ""
    match content.ending:
        case Ending.INTERRUPTED:
            note = f"Interrupted after {_end(content)}: what follows is not told here."
        case Ending.STOPPED:
            first = summary.first_refusals[0] if summary.first_refusals else None
            why = "" if first is None else f": {first.message}"
            place = "" if first is None else f" ({place_of(first)})"
            note = f"Stopped at the first event that was refused{place}{why}"
        case Ending.UNTIL:
            note = f"Ended at {_end(content)}, as was asked for."
        case Ending.COMPLETE:
            pass
    shown = f'<p class="note">{safe_long(note)}</p>' if note else ""
    began = f", from {duration(frame.begin_us)} on" if frame.begin_us else ""
    if content.origin_us is not None:
        began = f", from {content.instant(frame.begin_us)} to {content.instant(frame.end_us)}"
    return (
        f"<header><h1>{safe(content.feed)}</h1>"
        f"<p>{duration(frame.span_us)} of virtual time{began}; "
        f"{counted(summary.events, 'event')}, {counted(summary.decisions, 'decision')}</p>"
        f"{shown}</header>"
    )


def _end(content: Content) -> str:
    """Return the end of the replay as text."""
    end_us = content.frame.end_us
    return duration(end_us) if content.origin_us is None else content.instant(end_us)


def tiles(content: Content) -> str:
    """Return the main figures as HTML."""
    written = list(_tiles(content))
    columns = len(written) if len(written) <= 6 else -(-len(written) // 2)
    return (
        f'<section class="tiles" aria-label="Figures" style="--columns:{columns}">'
        f"{''.join(written)}</section>"
    )


def _tiles(content: Content) -> Iterator[str]:
    summary = content.summary
    for kind in content.kinds[:2]:
        used = content.utilisation(kind)
        there = content.recorder.there.get(kind)
        most = max(there.peaks, default=0) if there is not None else 0
        yield _tile(
            percent(used), f"of {safe(kind)} used", f"of {Unit.of(kind, most).text(most)}", used
        )
    wait = summary.wait
    submitted = sum(queue.jobs for queue in summary.queues)
    without = f", {summary.asks_unbound:,} ended without a node" if summary.asks_unbound else ""
    of_jobs = f"of {counted(submitted, 'application')}{without}"
    yield _tile(f"{summary.asks_bound:,}", "asks bound", of_jobs)
    yield _tile(_time(wait.median_s), "median wait", f"mean {_time(wait.mean_s)}")
    yield _tile(_time(wait.p95_s), "95 % waited at most", f"longest {_time(wait.longest_s)}")
    yield _tile(
        f"{summary.asks_pending:,}", "asks pending at the end", f"{summary.asks_running:,} running"
    )
    slowdown = summary.measures.bounded_slowdown
    if slowdown.mean is not None and slowdown.median is not None:
        yield _tile(
            measured(slowdown.mean),
            "mean bounded slowdown",
            f"median {measured(slowdown.median)}, makespan {_time(summary.makespan_s)}",
        )
    if summary.gangs_satisfied or summary.gangs_timed_out or summary.asks_waiting:
        yield _tile(
            f"{summary.gangs_satisfied:,}",
            "gangs satisfied",
            f"{summary.gangs_timed_out:,} timed out, {counted(summary.asks_waiting, 'ask')} waiting",
        )
    if summary.asks_reclaimed or summary.asks_preempted:
        yield _tile(
            f"{summary.asks_reclaimed + summary.asks_preempted:,}",
            "asks evicted",
            f"{summary.asks_reclaimed:,} reclaimed, {summary.asks_preempted:,} preempted",
        )
    if summary.asks_run_limit:
        yield _tile(f"{summary.asks_run_limit:,}", "asks ended by their run limit", "")
    fairness = summary.fairness
    if fairness.queues is not None or fairness.users is not None:
        yield _tile(
            NOTHING if fairness.queues is None else measured(fairness.queues),
            "fairness of queues",
            f"of users {NOTHING if fairness.users is None else measured(fairness.users)}",
        )
    if summary.refused or summary.warnings:
        yield _tile(f"{summary.refused:,}", "events refused", counted(summary.warnings, "warning"))


def _time(time_s: float | None) -> str:
    return NOTHING if time_s is None else duration(time_s * MICROSECONDS)


def _tile(figure: str, name: str, detail: str, share: float | None = None) -> str:
    bar = "" if share is None else f'<i class="meter"><i style="width:{share * 100:.1f}%"></i></i>'
    return f'<div class="tile"><b>{figure}</b><span>{name}</span><small>{detail}</small>{bar}</div>'


def cluster(content: Content, data: ChartData) -> str:
    """Return the charts of the cluster as HTML: usage, pending asks, priorities."""
    parts = [_usage(content, kind, data) for kind in content.kinds]
    parts += [_pending(content, data), _priorities(content, data)]
    return f'<section id="time"><h2>Over time</h2>{"".join(parts)}</section>'


def _figure(title: str, detail: str, keys: str, chart: str) -> str:
    return f"<figure><figcaption><h3>{title}</h3><p>{detail}</p>{keys}</figcaption>{chart}</figure>"


def _usage(content: Content, kind: str, data: ChartData) -> str:
    frame, recorder = content.frame, content.recorder
    there = recorder.there.get(kind) or Series(recorder.timeline)
    used = recorder.used.get(kind) or Series(recorder.timeline)
    highest = max(*there.peaks, *used.peaks, 1) if there.peaks or used.peaks else 1
    unit = Unit.of(kind, highest)
    means = frame.means(there)
    rows = [(record, frame.means(record.used.get(kind))) for record in content.leaves]
    plot = Plot(
        frame=frame,
        label=f"{kind} in use over time, by queue",
        areas=_areas(content, rows, frame.means(used), highest),
        lines=[PlotRow("there", "limit", means)],
        highest=highest,
        total=frame.means(used),
        unit=unit,
    )
    return _figure(
        f"{safe(kind)} in use",
        f"{percent(content.utilisation(kind))} of what was there"
        + (f", in {unit.name}" if unit.name else ""),
        plot.legend(),
        plot.chart().html(data),
    )


def _pending(content: Content, data: ChartData) -> str:
    frame = content.frame
    rows = [(record, frame.means(record.pending)) for record in content.leaves]
    root = next((record for record in content.queues if record.path == "root"), None)
    total = frame.means(root.pending if root is not None else None)
    peaks = frame.peaks(root.pending) if root is not None else total
    peak = max(peaks)
    plot = Plot(
        frame=frame,
        label="pending asks over time, by queue",
        areas=_areas(content, rows, total, max(peak, 1)),
        lines=[PlotRow("at the most", "limit thin", peaks, "most in each span")],
        highest=max(peak, 1),
        total=total,
    )
    return _figure(
        "Asks pending",
        f"mean of each span of {duration(frame.width_us)}; {peak:,.0f} at the most",
        plot.legend(),
        plot.chart().html(data),
    )


def _areas(
    content: Content,
    rows: Sequence[tuple[QueueRecord, list[float]]],
    total: Sequence[float],
    highest: float,
) -> list[PlotRow]:
    """Return the leaves that have a colour, and the rest of the total on top."""
    colours = content.colours
    shown = [(record.path, some) for record, some in rows if record.path in colours and any(some)]
    found = [PlotRow(path, colours[path], some) for path, some in shown]
    floor = [0.0] * content.frame.buckets
    for _, some in shown:
        floor = [low + value for low, value in zip(floor, some, strict=True)]
    left = [max(value - low, 0.0) for value, low in zip(total, floor, strict=True)]
    if any(value > 1e-6 * highest for value in left):
        found.append(PlotRow("other queues", "qx", left))
    return found


def _priorities(content: Content, data: ChartData) -> str:
    frame = content.frame
    rows = [
        (record, frame.spans(record.priority.spans))
        for record in content.leaves
        if record.path in content.colours and any(record.priority.spans)
    ]
    known = [span for _, spans in rows for span in spans if span is not None]
    if not known:
        return ""
    low, high = min(span.low for span in known), max(span.high for span in known)
    room = max((high - low) * 0.06, 0.5)
    strokes: list[Stroke] = []
    tooltips: list[PointerRow] = []
    for record, spans in rows:
        style = content.colours[record.path]
        last = [None if span is None else float(span.last) for span in spans]
        strokes.append(Stroke(step_line(frame, last, low - room, high + room), f"line {style}"))
        tooltips.append(
            PointerRow(record.path, style, [None if v is None else minus(number(v)) for v in last])
        )
    return _figure(
        "currentPriority of queues",
        "where a queue has anything pending; the last in each span",
        legend([(f"line {row.style}", row.name) for row in tooltips]),
        Chart(
            frame=frame,
            label="currentPriority of queues over time",
            strokes=strokes,
            low=low - room,
            high=high + room,
            tooltips=tooltips,
        ).html(data),
    )


_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The content security policy: the page loads nothing from elsewhere."""

MOST_BYTES: Final = 5_000_000
"""The size of a page, in bytes, above which details are left out."""

_SECTIONS: Final = (
    ("time", "Over time"),
    ("nodes", "Nodes"),
    ("queues", "Queues"),
    ("parts", "Fair share"),
    ("waits", "Waits"),
    ("longest", "Longest waits"),
    ("jobs", "Jobs"),
    ("users", "Users"),
    ("losses", "Lost runs"),
    ("remarks", "Refusals and warnings"),
)


def page(content: Content) -> str:
    """Return the page as HTML; the same content gives the same text.

    If the page is too large, the recorder drops details and keeps less.
    """
    text = _written(content)
    while len(text.encode()) > MOST_BYTES and content.recorder.shrink():
        content = attrs.evolve(content)
        text = _written(content)
    return text


def _written(content: Content) -> str:
    data = ChartData()
    nodes, bars = gantt(content)
    sections = "".join(
        [
            cluster(content, data),
            nodes,
            tree(content, data),
            fair_share(content),
            distributions(content),
            longest(content),
            jobs(content),
            users(content),
            losses(content),
            remarks(content),
        ]
    )
    links = "".join(
        f'<a href="#{name}">{title}</a>' for name, title in _SECTIONS if f'id="{name}"' in sections
    )
    frame = content.frame
    known = {
        "begin": frame.begin_us,
        "end": frame.begin_us + frame.span_us,
        "width": frame.width_us,
        "origin": content.origin_us,
        "charts": data.charts,
        "bars": bars,
    }
    times = "Times are counted from the start of the feed."
    if content.origin_us is not None:
        times = "Times are in UTC."
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="muster {__version__}">\n'
        f"<title>{safe(content.feed)} · Muster</title>\n<style>\n{_styles()}</style>\n"
        f"</head>\n<body>{head(content)}\n<nav>{links}"
        '<span class="tools" hidden><input type="search" id="filter" placeholder="Filter by name" '
        'aria-label="Filter by name"><button type="button" id="reset" hidden>Whole time</button>'
        f"</span></nav>\n<main>{tiles(content)}\n{sections}</main>\n"
        f"<footer>Muster {__version__}. {times}</footer>\n"
        f'<script type="application/json" id="data">{_as_json(known)}</script>\n'
        f"<script>\n{_resource('page.js')}</script>\n</body></html>\n"
    )


def _styles() -> str:
    shared = [
        files("muster.figures").joinpath(name).read_text(encoding="utf-8")
        for name in ("colours.css", "charts.css")
    ]
    return "\n".join([*shared, _resource("page.css")])


def _resource(name: str) -> str:
    return files("muster.report._page").joinpath(name).read_text(encoding="utf-8")


def _as_json(value: object) -> str:
    """Return JSON that is safe inside a script element, whatever names it contains."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
