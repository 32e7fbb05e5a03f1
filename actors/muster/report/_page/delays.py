"""The waits on a page: their distribution, the longest ones, and the reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from muster.figures.text import (
    DAY,
    HOUR,
    MINUTE,
    NOTHING,
    SECOND,
    counted,
    dated,
    duration,
    measured,
    percent,
    safe,
    safe_long,
)
from muster.replay import JobGroup, SlowdownSummary, WaitSummary
from muster.replay._measures import titled
from muster.report._page.content import MOST_ROWS, Content
from muster.report._timeline import EDGES_US, Histogram, Wait
from muster_core.decisions import MICROSECONDS

_TICKS_US: Final = (
    1_000,
    10_000,
    100_000,
    SECOND,
    10 * SECOND,
    MINUTE,
    10 * MINUTE,
    HOUR,
    6 * HOUR,
    DAY,
    7 * DAY,
    30 * DAY,
    365 * DAY,
    3650 * DAY,
    36500 * DAY,
)


def distributions(content: Content) -> str:
    """Return the waits of all asks and of each queue as HTML, on one logarithmic axis."""
    recorder, summary = content.recorder, content.summary
    waits = {queue.queue: queue.wait for queue in summary.queues}
    shown = [record for record in content.leaves if any(record.waits.counts)]
    if not shown:
        return ""
    first, last = _range(recorder.waits)
    rows = [_row("all", "", recorder.waits, summary.wait, first, last)] * (len(shown) != 1)
    rows += [
        _row(
            record.path,
            content.colours.get(record.path, "qx"),
            record.waits,
            waits.get(record.path),
            first,
            last,
        )
        for record in shown
    ]
    marks = "".join(
        f'<span{_fine(place)} style="left:{_left(at_us, first, last):.2f}%">{duration(at_us)}</span>'
        for place, at_us in enumerate(
            tick for tick in _TICKS_US if EDGES_US[first - 1] <= tick <= EDGES_US[last]
        )
    )
    axis = f'<div class="xs log"><span class="none" style="left:0">none</span>{marks}</div>'
    return (
        '<section id="waits"><h2>How long asks waited</h2><p>from when they came until they were '
        "bound for the first time, or ended without: how many did not wait, and a column for the others; "
        '<i class="rule median"></i> median, <i class="rule p95"></i> 95 % waited no longer</p>'
        f'<div class="waits">{"".join(rows)}<div class="wrow axis"><div></div>{axis}</div></div>'
        "</section>"
    )


def _fine(place: int) -> str:
    return ' class="t1"' if place % 2 else ""


def _range(histogram: Histogram) -> tuple[int, int]:
    """Return the first and the last bin to show, apart from the bin of no wait."""
    used = [number for number, count in enumerate(histogram.counts) if count and number]
    if not used:
        return 15, 25  # from a second to a minute or two, if no ask waited
    first, last = min(used), max(used)
    return (first, last) if last - first >= 10 else (max(last - 10, 1), last)


def _left(wait_us: float, first: int, last: int) -> float:
    """Return the place of a wait on the axis, in percent; the first tenth is for no wait."""
    begin, end = math.log10(EDGES_US[first - 1]), math.log10(_edge(last))
    share = (math.log10(max(wait_us, 1)) - begin) / (end - begin)
    return 10 + 90 * min(max(share, 0.0), 1.0)


def _edge(number: int) -> int:
    """Return the end of a bin, in microseconds."""
    return EDGES_US[min(number, len(EDGES_US) - 1)]


def _row(
    name: str,
    colour: str,
    histogram: Histogram,
    wait: WaitSummary | None,
    first: int,
    last: int,
) -> str:
    counts = histogram.counts
    total, none = sum(counts), sum(counts[:first])
    highest = max(counts[first:], default=0)
    columns = [f'<b class="at-once">{_part(none, total)}</b>']
    for number in range(first, last + 1):
        if counts[number]:
            left = _left(EDGES_US[number - 1], first, last)
            width = _left(_edge(number), first, last) - left
            span = f"{duration(EDGES_US[number - 1])} to {duration(_edge(number))}"
            columns.append(_column(left, width, counts[number], highest, total, span))
    rules = ""
    caption = counted(total, "ask")
    if wait is not None and wait.median_s is not None and wait.p95_s is not None:
        for style, value_s in (("median", wait.median_s), ("p95", wait.p95_s)):
            value_us = value_s * MICROSECONDS
            if value_us < EDGES_US[first - 1]:
                continue
            left = _left(value_us, first, last)
            rules += f'<i class="rule {style}" style="left:{left:.2f}%"></i>'
        caption += (
            f" · median {duration(wait.median_s * MICROSECONDS)}"
            f" · 95 % {duration(wait.p95_s * MICROSECONDS)}"
        )
    return (
        f'<div class="wrow" data-name="{safe(name)}"><div class="wname"><b>{safe(name)}</b>'
        f'<small>{caption}</small></div><div class="bins {colour}">{"".join(columns)}{rules}</div></div>'
    )


def _part(count: int, total: int) -> str:
    """Return a share of asks in percent; it says 100% only for all of them."""
    return "&gt;99%" if total > count > 0.995 * total else f"{count / total:.0%}"


def _column(left: float, width: float, count: int, highest: int, total: int, span: str) -> str:
    height = max(count / highest * 100, 2)
    title = f"{span}: {counted(count, 'ask')}, {percent(count / total)}"
    return (
        f'<i class="bin" style="left:{left:.2f}%;width:{width:.2f}%;height:{height:.1f}%" '
        f'title="{title}"></i>'
    )


_JOB_HEADS: Final = ("jobs", *titled(WaitSummary(0)), *titled(SlowdownSummary()))


# COMMAND-36
def jobs(content: Content) -> str:
    """Return the measures of jobs as HTML; empty if none ran and is over."""
    summary, measures = content.summary, content.summary.measures
    if not measures.ended:
        return ""
    until, weighted = summary.utilisation_to_last_arrival, measures.weighted_wait_s
    ran = f"{counted(measures.ended, 'job')} ran and ended; {measures.never_ran:,} never ran, "
    sentences = [
        f"{ran}{measures.unfinished:,} had not ended. Makespan: {_time(summary.makespan_s)}."
    ]
    sentences += [
        f"Of {safe(kind)} {percent(until[kind])} was used before the drain"
        + (f"; waits weighted by it: {_time(weighted[kind])}." if kind in weighted else ".")
        for kind in content.kinds
        if kind in until
    ]
    all_jobs = {"all": JobGroup(measures.wait, measures.bounded_slowdown)}
    tables = [_jobs("which", all_jobs)]
    for what, groups in (
        (safe(f"by {measures.size_resource}"), measures.by_size),
        ("by queue", measures.by_queue),
        ("by user", measures.by_user),
    ):
        if len(groups) > 1:
            tables.append(_jobs(what, groups))
    return (
        f'<section id="jobs"><h2>Jobs</h2><p>{" ".join(sentences)}</p>{"".join(tables)}</section>'
    )


def _jobs(what: str, groups: Mapping[str, JobGroup]) -> str:
    """Return a table of the groups of jobs; of very many, those with the most jobs."""
    titles = "".join(f'<th scope="col">{head}</th>' for head in (what, *_JOB_HEADS))
    most = sorted(groups, key=lambda name: -groups[name].wait.count)[:MOST_ROWS]
    shown = set(most)
    rows = "".join(_job_row(what, name, groups[name]) for name in groups if name in shown)
    rest = f'<p class="rest">… {len(groups):,} in all</p>' if len(shown) < len(groups) else ""
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table>{rest}"


def _job_row(what: str, name: str, group: JobGroup) -> str:
    slowdowns = titled(group.bounded_slowdown).values()
    cells = (
        safe(name or "(none)"),
        f"{group.wait.count:,}",
        *map(_time, titled(group.wait).values()),
        *(NOTHING if value is None else measured(value) for value in slowdowns),
    )
    named = zip((what, *_JOB_HEADS), cells, strict=True)
    written = "".join(f'<td data-l="{head}">{cell}</td>' for head, cell in named)
    return f"<tr>{written}</tr>"


def _time(time_s: float | None) -> str:
    return NOTHING if time_s is None else duration(time_s * MICROSECONDS)


def longest(content: Content) -> str:
    """Return the longest waits, with their reasons, as HTML."""
    waits = [wait for wait in content.recorder.longest_waits() if wait.wait_us]
    if not waits:
        return ""
    rows = "".join(_wait(content, wait, waits[0].wait_us) for wait in waits)
    return (
        '<section id="longest"><h2>The longest waits</h2>'
        "<p>Why: what was said of the ask now and then while it waited, the code with how often; "
        "in grey what was said of others in its queue then.</p>"
        f"{_codes(content)}"
        '<table><thead><tr><th scope="col">ask</th><th scope="col">queue</th>'
        '<th scope="col">waited</th><th scope="col">since</th><th scope="col">why</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></section>"
    )


def _codes(content: Content) -> str:
    """Return the most frequent codes as HTML."""
    reasons = content.recorder.reasons
    parts = [
        ("Of the oldest pending asks, over time", reasons.codes),
        ("Of asks that are pending at the end", reasons.at_end),
    ]
    shown = "".join(
        f"<div><h4>{title}</h4>{_bars(counts)}</div>" for title, counts in parts if counts
    )
    return f'<div class="codes">{shown}</div>' if shown else ""


def _bars(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "".join(
        f'<div class="code"><span>{safe(code)}</span><i style="--part:{count / total:.4f}"></i>'
        f"<b>{count / total:.0%}</b></div>"
        for code, count in ordered
    )


def _wait(content: Content, wait: Wait, highest_us: int) -> str:
    app, ask = wait.key
    gang = f"<small>gang {safe(wait.gang)}</small>" if wait.gang else ""
    state = "" if wait.bound else '<em class="still">still pending</em>'
    if not wait.bound:
        state += _reservation(content, wait)
    name = f"{safe(app)}/{safe(ask)}"
    filtered = " ".join(part for part in (app, ask, wait.queue, wait.gang) if part)
    return (
        f'<tr data-name="{safe(filtered)}"><td data-l="ask">{name}{gang}</td>'
        f'<td data-l="queue">{safe(wait.queue)}</td>'
        f'<td data-l="waited" class="num"><i class="meter"><i '
        f'style="width:{wait.wait_us / highest_us * 100:.1f}%"></i></i>{duration(wait.wait_us)} {state}'
        f'</td><td data-l="since" class="num">{content.instant(wait.came_us)}</td>'
        f'<td data-l="why">{_why(content, wait)}</td></tr>'
    )


def _reservation(content: Content, wait: Wait) -> str:
    """Return the reservation of an ask that is still pending, as HTML."""
    found = content.recorder.reserved.present.get(wait.key)
    if found is None:
        return ""
    start = "an end that is not known"
    if found.start_us is not None:
        start = content.instant(found.start_us)
    return f"<small>reserved: {safe(found.node)} from {start}</small>"


def _why(content: Content, wait: Wait) -> str:
    reasons = content.recorder.reasons
    found_reasons = reasons.reasons_of(wait.key)
    if found_reasons is not None:
        words = dated(found_reasons.last, found_reasons.names_us, content.instant)
        past = (
            "" if found_reasons.past is None else f"<small>{safe_long(found_reasons.past)}</small>"
        )
        return f"{_counted(found_reasons.codes)}<small>{safe_long(words)}</small>{past}"
    others = reasons.code_counts(wait.queue, wait.came_us, wait.came_us + wait.wait_us)
    return f'<span class="others">{_counted(others)}</span>' if others else NOTHING


def _counted(codes: Mapping[str, int]) -> str:
    ordered: Sequence[tuple[str, int]] = sorted(codes.items(), key=lambda item: (-item[1], item[0]))
    return "".join(
        f'<span class="chip">{safe(code)}{f" × {count:,}" if count > 1 else ""}</span> '
        for code, count in ordered[:3]
    )
