"""The queue tree of a page: the settings and charts of each queue."""

from __future__ import annotations

from collections.abc import Iterator

from muster.figures.charts import (
    Chart,
    ChartData,
    PointerRow,
    Stroke,
    limit_line,
    step_area,
    step_line,
)
from muster.figures.text import Unit, amount_text, counted, duration, minus, number, percent, safe
from muster.report._page.content import Content
from muster.report._queue_records import MOST_QUEUES, OTHER_QUEUES, QueueRecord, StepLine
from muster_core.config.model import QueueConfig, Settings


def tree(content: Content, data: ChartData) -> str:
    """Return all queues as HTML, one row each."""
    kinds = content.kinds
    tabs = ""
    if len(kinds) > 1:
        tabs = '<div class="tabs" role="group" aria-label="Resource">' + "".join(
            f'<label><input type="radio" name="kind" id="k{number}"'
            f"{' checked' if number == 0 else ''}>{safe(kind)}</label>"
            for number, kind in enumerate(kinds)
        )
        tabs += "</div>"
    rows = "".join(_row(content, record, data) for record in content.queues)
    cut = (
        f"<p>Of more than {MOST_QUEUES} queues the first are shown; what happened in the others "
        "is counted together.</p>"
        if any(record.path == OTHER_QUEUES for record in content.queues)
        else ""
    )
    keys = (
        '<div class="legend"><span class="key"><i class="area own"></i>in use</span>'
        '<span class="key"><i class="line guaranteed"></i>guaranteed</span>'
        '<span class="key"><i class="line max"></i>max</span>'
        '<span class="key"><i class="area wait"></i>pending</span>'
        '<span class="key"><i class="line prio"></i>currentPriority</span></div>'
    )
    return f'<section id="queues"><h2>Queues</h2>{cut}{tabs}{keys}<div class="tree">{rows}</div></section>'


def _row(content: Content, record: QueueRecord, data: ChartData) -> str:
    depth = 0 if record.path == OTHER_QUEUES else record.path.count(".")
    name = record.path.rpartition(".")[2] if depth else record.path
    colour = content.colours.get(record.path)
    dot = f'<i class="dot {colour}"></i>' if colour else ""
    bound = sum(record.waits.counts) - record.unbound
    facts = (
        f"{counted(record.jobs, 'application')}, {counted(bound, 'ask')} bound"
        if record.jobs
        else "not used"
    )
    charts = "".join(_charts(content, record, data))
    return (
        f'<div class="queue" data-name="{safe(record.path)}" style="--depth:{min(depth, 5)}">'
        f'<div class="about"><h3 title="{safe(record.path)}">{dot}{safe(name)}</h3>'
        f"<p>{facts}</p>{_settings(record)}</div>{charts}</div>"
    )


def _charts(content: Content, record: QueueRecord, data: ChartData) -> Iterator[str]:
    if not record.jobs and not any(record.priority.spans):
        return
    usages = [_usage(content, record, kind, data) for kind in content.kinds]
    yield '<div class="cell">' + "".join(
        f'<div class="kind k{number}">{usage}</div>' for number, usage in enumerate(usages)
    )
    yield f'</div><div class="cell">{_pending(content, record, data)}</div>'
    yield f'<div class="cell">{_priority(content, record, data)}</div>'
    due = content.due_part(record)
    if due is not None:
        yield f'<div class="cell part">{_part(content, record, due, data)}</div>'


def _cell(title: str, detail: str, chart: str) -> str:
    return f"<h4>{title} <small>{detail}</small></h4>{chart}"


def _usage(content: Content, record: QueueRecord, kind: str, data: ChartData) -> str:
    frame, there = content.frame, content.recorder.there.get(kind)
    series = record.used.get(kind)
    means = frame.means(series)
    peaks = frame.peaks(series) if series is not None else means
    offered = max(there.peaks, default=0) if there is not None else 0
    guaranteed, most = record.guaranteed.get(kind), record.max.get(kind)
    # A max above the capacity is not shown: it would flatten the rest of the chart.
    limits = [value for value in (*_values(most),) if value <= max(offered, *peaks)]
    top = max(*peaks, *limits, *_values(guaranteed), 1)
    high = top * 1.08
    unit = Unit.of(kind, high)
    strokes = [Stroke(step_area(frame, [0.0] * len(means), means, 0, high), "area own")]
    tooltips = [PointerRow("in use", "own", [value / unit.scale for value in means])]
    for line, style in ((guaranteed, "guaranteed"), (most, "max")):
        if line is None:
            continue
        path = limit_line(frame, line.steps, 0, high, 1)
        strokes.append(Stroke(path, f"line {style}"))
        tooltips.append(PointerRow(style, style, _configured(content, line, kind)))
    return _cell(
        safe(kind),
        f"{percent(content.share(record, kind))} of all",
        Chart(
            frame=frame,
            label=f"{kind} in use in {record.path}, with guaranteed and max",
            strokes=strokes,
            high=high / unit.scale,
            top=top / unit.scale,
            unit=unit.name,
            tooltips=tooltips,
            style="mini",
        ).html(data),
    )


def _values(line: StepLine | None) -> list[int]:
    steps = [] if line is None else line.steps
    return [value for _, value in steps if value is not None]


def _configured(content: Content, line: StepLine, kind: str) -> list[str | None]:
    """Return the configured amount at the end of each bucket."""
    frame, steps = content.frame, line.steps
    found: list[str | None] = []
    place, value = 0, None
    for bucket in range(frame.buckets):
        end_us = frame.begin_us + (bucket + 1) * frame.width_us
        while place < len(steps) and steps[place][0] < end_us:
            value = steps[place][1]
            place += 1
        found.append(None if value is None else amount_text(kind, value))
    return found


def _pending(content: Content, record: QueueRecord, data: ChartData) -> str:
    frame = content.frame
    means, peaks = frame.means(record.pending), frame.peaks(record.pending)
    top = max(*peaks, 1)
    high = top * 1.08
    waiting = frame.means(record.waiting)
    tooltips = [
        PointerRow("pending", "wait", means),
        PointerRow("running", "", frame.means(record.running)),
    ]
    if any(waiting):
        tooltips.insert(1, PointerRow("waiting on nodes", "", waiting))
    return _cell(
        "pending",
        f"at the most {max(peaks):,.0f}",
        Chart(
            frame=frame,
            label=f"asks pending in {record.path}",
            strokes=[
                Stroke(step_area(frame, [0.0] * len(means), means, 0, high), "area wait"),
                Stroke(step_line(frame, peaks, 0, high), "line wait thin"),
            ],
            high=high,
            top=top,
            tooltips=tooltips,
            style="mini",
        ).html(data),
    )


def _priority(content: Content, record: QueueRecord, data: ChartData) -> str:
    frame = content.frame
    spans = frame.spans(record.priority.spans)
    known = [span for span in spans if span is not None]
    if not known:
        return _cell("currentPriority", "none", "")
    low, high = min(span.low for span in known), max(span.high for span in known)
    room = max((high - low) * 0.08, 0.5)
    bottom, ceiling = low - room, high + room
    last = [None if span is None else float(span.last) for span in spans]
    lows = [0.0 if span is None else float(span.low) for span in spans]
    highs = [0.0 if span is None else float(span.high) for span in spans]
    between = (
        minus(number(low)) if low == high else f"{minus(number(low))} to {minus(number(high))}"
    )
    return _cell(
        "currentPriority",
        between,
        Chart(
            frame=frame,
            label=f"currentPriority of {record.path}",
            strokes=[
                Stroke(step_area(frame, lows, highs, bottom, ceiling), "area prio"),
                Stroke(step_line(frame, last, bottom, ceiling), "line prio"),
            ],
            low=bottom,
            high=ceiling,
            top=high,
            tooltips=[
                PointerRow(
                    "priority", "prio", [_range(span and (span.low, span.high)) for span in spans]
                )
            ],
            style="mini",
        ).html(data),
    )


# COMMAND-33
def _part(content: Content, record: QueueRecord, due: float, data: ChartData) -> str:
    """Draw the part of its siblings that a queue had in the half-life until each bucket."""
    frame = content.frame
    parts = content.parts_over_time(record)
    high = 1.08
    strokes = [
        Stroke(step_line(frame, [due] * frame.buckets, 0, high), "line guaranteed"),
        Stroke(step_line(frame, parts, 0, high), "line prio"),
    ]
    return _cell(
        "part of its siblings",
        f"{percent(due)} are its due",
        Chart(
            frame=frame,
            label=f"The part that {record.path} had of what it and its siblings had in the last half-life",
            strokes=strokes,
            high=high,
            top=1,
            tooltips=[
                PointerRow("had", "prio", [part and percent(part) for part in parts]),
                PointerRow("due", "guaranteed", [percent(due)] * frame.buckets),
            ],
            style="mini",
        ).html(data),
    )


def _range(span: tuple[int, int] | None) -> str | None:
    if span is None:
        return None
    low, high = span
    return minus(f"{low:,}") if low == high else f"{minus(f'{low:,}')} to {minus(f'{high:,}')}"


def _settings(record: QueueRecord) -> str:
    config = record.config
    if config is None:
        return ""
    items = [f"<span>{text}</span>" for text in _setting_texts(config)]
    if record.gone:
        items.append("<span>gone at the end</span>")
    return f'<div class="settings">{"".join(items)}</div>' if items else ""


def _setting_texts(config: QueueConfig) -> Iterator[str]:
    """Yield the settings that differ from the defaults, as HTML."""
    for kind, amount in sorted(config.guaranteed.items()):
        yield f"guaranteed {amount_text(kind, amount)} <em>{safe(kind)}</em>"
    for kind, amount in config.max.amounts:
        yield f"max {amount_text(kind, amount)} <em>{safe(kind)}</em>"
    if config.max_applications:
        yield f"max {counted(config.max_applications, 'application')}"
    settings, usual = config.settings, Settings()
    texts: list[tuple[int | str, int | str, str]] = [
        (settings.queue_priority, usual.queue_priority, "queue.priority"),
        (settings.weight, usual.weight, "queue.weight"),
        (settings.share_by_weight, usual.share_by_weight, "share.policy weight"),
        (settings.offset, usual.offset, "priority.offset"),
        (settings.fence, usual.fence, "priority.policy fence"),
        (settings.sort_by_priority, usual.sort_by_priority, "application.sort.priority disabled"),
        (settings.reclaimable, usual.reclaimable, "queue.reclaimable false"),
        (settings.preemption_policy, usual.preemption_policy, "preemption.policy"),
        (settings.required_node, usual.required_node, "preemption.required.node enabled"),
    ]
    if not config.is_parent:  # On a parent they order nothing, and are handed down.
        texts.append((settings.blocking, usual.blocking, "application.sort.blocking enabled"))
        texts.append((settings.sort_policy, usual.sort_policy, "application.sort.policy"))
    for value, default, text in texts:
        if value != default:
            yield text if isinstance(value, bool) else f"{text} {_value(value)}"
    if settings.preemption_delay_us != usual.preemption_delay_us:
        yield f"preemption.delay {duration(settings.preemption_delay_us)}"


def _value(value: int | str) -> str:
    return minus(f"{value:,}") if isinstance(value, int) else str(value)
