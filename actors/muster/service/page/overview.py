"""The overview: is it healthy, how full is it, what waits and why, what was decided."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, final

import attrs
from starlette.responses import Response

from muster.figures.charts import Frame, Plot, PlotRow
from muster.figures.text import Unit, percent, shortened
from muster.service.access import Role
from muster.service.api.pods import PodWithoutAsk
from muster.service.decision_log import DecisionsRemovedError
from muster.service.ledger.usage import HOURLY_US, MINUTE_US, WAITS_US, Sample, mean_of
from muster.service.metrics.collectors import ReasonCount, ReasonCounts, reasons_of
from muster.service.page.nodes import reserved_lines
from muster.service.page.renderer import TemplateData, render_page
from muster.service.page.requests import Page, PageRequest
from muster.service.payloads import Problem
from muster.service.queries.reader import ReadContext
from muster_core.decisions import Announced
from muster_core.reasons import Code
from muster_core.structures.steps import Steps, in_pieces

MOST_REFUSED: Final = 10
"""How many of the events that were refused are shown."""

MOST_RESERVED: Final = 10
"""How many asks with a reservation are shown."""


@final
@attrs.frozen
class Period:
    """A length of time that the overview shows.

    Attributes:
        name: How it is written in the address.
        title: How it is written for readers.
        length_us: Its length, in microseconds.
        step_us: How far samples are apart, in microseconds.
    """

    name: str
    title: str
    length_us: int
    step_us: int


# PAGE-12
PERIODS: Final = (
    Period("1h", "1 h", HOURLY_US, MINUTE_US),
    Period("6h", "6 h", 6 * HOURLY_US, MINUTE_US),
    Period("24h", "24 h", 24 * HOURLY_US, MINUTE_US),
    Period("7d", "7 d", 7 * 24 * HOURLY_US, HOURLY_US),
    Period("30d", "30 d", 30 * 24 * HOURLY_US, HOURLY_US),
)
"""The lengths of time to choose from."""


def read_overview(context: ReadContext, now_us: int, period: Period) -> Steps[TemplateData]:
    """Read what the overview shows.

    Args:
        context: The state.
        now_us: The instant that is shown, in microseconds since the origin.
        period: How far back it goes.
    """
    ledger = context.ledger
    unschedulable = 0
    for piece in in_pieces(ledger.book.nodes.values()):
        yield
        unschedulable += sum(not entry.event.schedulable for entry in piece)
    hourly = period.step_us == HOURLY_US
    samples = ledger.samples(now_us, now_us - period.length_us, hourly=hourly)
    latest = ledger.samples(now_us, now_us - HOURLY_US, hourly=False)
    waits = Counter[int]()
    for sample in latest:
        waits.update(sample.waits)
    reserved, more_reserved = yield from reserved_lines(context, MOST_RESERVED)
    return {
        "now": latest[-1]._replace(waits=waits),
        "nodes": len(ledger.book.nodes),
        "unschedulable": unschedulable,
        "apps": len(ledger.book.apps),
        "queues": len(context.machine.registry.queues),
        "gangs": len(context.view.gangs),
        "last": ledger.seq,
        "reservations": context.view.reservation_count,
        "reserved": reserved,
        "more_reserved": more_reserved,
        "refused": [*reversed(ledger.book.refused)][:MOST_REFUSED],
        "samples": samples,
    }


# PAGE-13
def wait_histogram(waits: Mapping[int, int]) -> TemplateData:
    """Return the waits of a sample for readers."""
    found = [place for place, count in waits.items() if count]
    if not found:
        return {"total": 0, "median_us": None, "p95_us": None, "classes": ()}
    limits = [*WAITS_US, None]
    classes: list[TemplateData] = [
        {"most_us": limits[place], "count": waits.get(place, 0)}
        for place in range(min(found), max(found) + 1)
    ]
    total = sum(one["count"] for one in classes)
    return {
        "total": total,
        "median_us": _within(classes, 0.5),
        "p95_us": _within(classes, 0.95),
        "classes": classes,
    }


def _within(classes: Sequence[TemplateData], share: float) -> int | None:
    """Return up to how long a share of the asks have waited."""
    sums: list[int] = []
    for one in classes:
        sums.append(one["count"] + (sums[-1] if sums else 0))
    most_us: int | None = classes[bisect_left(sums, share * sums[-1])]["most_us"]
    return most_us


MOST_KINDS: Final = 6
"""How many resource types are drawn."""

MOST_BUCKETS: Final = 360
"""How many spans a drawing has at most; more samples are summed up."""


# PAGE-12
def draw_charts(samples: Sequence[Sample], period: Period, origin_us: int) -> list[TemplateData]:
    """Return the figures of the overview.

    Args:
        samples: How it was over time, oldest first; the last one is of now.
        period: The time that is shown.
        origin_us: The origin of the samples' time, in microseconds since 1970 in UTC.
    """
    frame = _frame(samples[-1].at_us, period, origin_us)
    buckets = _in_buckets(samples, frame, origin_us)
    kinds = list(samples[-1].capacity)[:MOST_KINDS]
    found = [_usage(kind, buckets, frame, number) for number, kind in enumerate(kinds)]
    return [*found, _asks(buckets, frame)]


def _frame(now_us: int, period: Period, origin_us: int) -> Frame:
    """Return the time that is shown; its spans are those of the samples."""
    steps = period.length_us // period.step_us
    width_us = period.step_us * -(-steps // MOST_BUCKETS)
    end_us = -(-now_us // width_us) * width_us + origin_us
    return Frame(end_us - period.length_us, end_us, width_us, has_dates=True)


def _in_buckets(samples: Iterable[Sample], frame: Frame, origin_us: int) -> Sequence[Sample | None]:
    """Return a sample for each span; None where there is none."""
    some: list[list[Sample]] = [[] for _ in range(frame.buckets)]
    for sample in samples:
        # A sample is of the end of its time.
        place = (sample.at_us + origin_us - 1 - frame.begin_us) // frame.width_us
        if 0 <= place < len(some):
            some[place].append(sample)
    return [mean_of(of_one, of_one[-1].at_us) if of_one else None for of_one in some]


def _row(
    name: str, style: str, buckets: Sequence[Sample | None], value: Callable[[Sample], float]
) -> PlotRow:
    return PlotRow(name, style, [None if one is None else value(one) for one in buckets])


def _usage(kind: str, buckets: Sequence[Sample | None], frame: Frame, number: int) -> TemplateData:
    used = _row("used", "own", buckets, lambda one: one.used.get(kind, 0))
    capacity_row = _row("there", "limit", buckets, lambda one: one.capacity.get(kind, 0))
    capacity = sum(value or 0 for value in capacity_row.values)
    highest = max(*(value or 0 for row in (used, capacity_row) for value in row.values), 1)
    unit = Unit.of(kind, highest)
    share = percent(sum(value or 0 for value in used.values) / capacity if capacity else None)
    name = shortened(kind)
    return {
        "name": f"used-{number}",
        "title": f"{name} in use",
        "detail": f"{share} of what was there" + (f", in {unit.name}" if unit.name else ""),
        "plot": Plot(
            frame=frame,
            label=f"{name} in use over time, and what was there",
            areas=[used],
            lines=[capacity_row],
            unit=unit,
        ),
    }


def _asks(buckets: Sequence[Sample | None], frame: Frame) -> TemplateData:
    return {
        "name": "asks",
        "title": "Asks",
        "detail": "pending, waiting and running",
        "plot": Plot(
            frame=frame,
            label="asks over time: pending, waiting and running",
            lines=[
                _row("pending", "q1", buckets, lambda one: one.pending),
                _row("waiting", "q3", buckets, lambda one: one.waiting),
                _row("running", "q0", buckets, lambda one: one.running),
            ],
        ),
    }


OLD_US: Final = 5_000_000
"""From which age on reasons are counted anew while they are shown, in microseconds."""

PATIENCE_S: Final = 2.0
"""How long a page waits for a new count before it asks again, in seconds."""

MOST_DECISIONS: Final = 20
"""How many decisions are shown."""


# PAGE-15
async def latest_decisions(page: PageRequest, last: int) -> Sequence[Mapping[str, object]]:
    """Return the latest decisions, the latest first.

    Args:
        page: The request.
        last: The number of the last decision at its moment.
    """
    broadcast = page.service.broadcast
    after = max(last - MOST_DECISIONS, 0)
    try:
        found = await _between(page, after, last)
    except DecisionsRemovedError as gone:
        if gone.first > last:
            return ()
        found = await _between(page, gone.first - 1, min(last, broadcast.tail.last))
    return [one.as_map() for one in reversed(found)]


async def _between(page: PageRequest, after: int, last: int) -> list[Announced]:
    """Return the decisions after a number, up to another.

    Raises:
        DecisionsRemovedError: If some of them are not kept any more.
    """
    found: list[Announced] = []
    with page.service.broadcast.cursor(after, lags=False) as cursor:
        while cursor.position < last:
            block = await cursor.next()
            if block is None:
                break
            found += [one for one in block.announced if cursor.position < one.seq <= last]
            cursor.position = block.last
    return found


def _summary(found: ReasonCount, age_us: int, now: Sample) -> TemplateData:
    """Return for how many asks which reason is the dominant one, the most frequent first.

    Args:
        found: What was counted.
        age_us: How long ago, in microseconds.
        now: What there is now.
    """
    order, total = list(Code), sum(found.counts.values())
    counts = [(code, count) for code, count in found.counts.items() if count]
    agrees = total == now.pending + now.waiting
    counts.sort(key=lambda one: (-one[1], order.index(one[0])))
    return {
        "counts": counts,
        "longest": found.longest,
        "age_us": age_us,
        "agrees": agrees,
        "is_old": not agrees or age_us > OLD_US,
        "total": total,
        "most": max((count for _, count in counts), default=0),
    }


# PAGE-14
async def reasons(page: PageRequest, now: Sample) -> TemplateData | None:
    """Return why asks are not running; None if there was no time to count yet.

    Args:
        page: The request.
        now: What there is at its moment.
    """
    if page.moment.is_past:
        found = await page.moment.read(lambda context: reasons_of(context.machine))
        return _summary(found.value, 0, now)
    return _for_readers(await page.service.metrics.reasons(), now)


def _for_readers(latest: ReasonCounts | None, now: Sample) -> TemplateData | None:
    return None if latest is None else _summary(latest.result, latest.age_us(), now)


# PAGE-87
async def recounted_reasons(page: PageRequest) -> Response:
    """Show why asks are not running, once that was counted anew or a while has passed."""
    at_us = page.moment.now_us()
    latest = await page.service.metrics.reasons(PATIENCE_S)

    def read(context: ReadContext) -> Steps[Sample]:
        yield
        return context.ledger.samples(at_us, at_us, hourly=False)[-1]

    now = (await page.moment.read(read)).value
    return render_page(
        page,
        "reasons_counted.html",
        now=now,
        reasons=_for_readers(latest, now),
        words={code: code.summary for code in Code},
        now_us=page.moment.now_us(),
    )


def _period(page: PageRequest) -> Period:
    name = page.text("period", "1h")
    found = next((period for period in PERIODS if period.name == name), None)
    if found is None:
        names = ", ".join(period.name for period in PERIODS)
        raise Problem(400, f"period: {name[:100]!r}: must be one of {names}")
    return found


# PAGE-10, PAGE-11
async def _overview(page: PageRequest) -> Response:
    period = _period(page)
    now_us = page.moment.now_us()

    def read(context: ReadContext) -> Steps[TemplateData]:
        return (yield from read_overview(context, now_us, period))

    found = await page.moment.read(read)
    state = found.value
    return render_page(
        page,
        "overview.html",
        found=found,
        state=state,
        health=page.service.health.life()[1],
        directory=page.service.options.state,
        followers=page.service.leadership.followers.rows(),
        without_ask=PodWithoutAsk.counts(page.service),
        waits=wait_histogram(state["now"].waits),
        reasons=await reasons(page, state["now"]),
        decisions=await latest_decisions(page, state["last"]),
        period=period,
        periods=PERIODS,
        words={code: code.summary for code in Code},
        figures=draw_charts(state["samples"], period, page.service.unix_us(0)),
        now_us=now_us,
    )


OVERVIEW_PAGES: Final = (
    Page("GET", "/", Role.READER, _overview),
    Page("GET", "/reasons", Role.READER, recounted_reasons),
)
"""The overview."""
