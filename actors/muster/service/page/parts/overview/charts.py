"""The figures of the overview over time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.frame import Frame
from muster.figures.series import Plot, Row
from muster.figures.text import Unit, percent, shortened
from muster.service.ledger.series import Sample, mean_of

if TYPE_CHECKING:
    from muster.service.page.parts.overview.state import Period

MOST_KINDS: Final = 6
"""How many resource types are drawn."""

MOST_BUCKETS: Final = 360
"""How many spans a drawing has at most; more samples are summed up."""


@final
@attrs.frozen
class Drawn:
    """A figure of the overview.

    Attributes:
        name: Its name, for addresses within the page.
        title: Its title.
        detail: What is said beside it.
        plot: What it shows.
    """

    name: str
    title: str
    detail: str
    plot: Plot


# PAGE-12
def drawn(samples: Sequence[Sample], period: Period, origin_us: int) -> list[Drawn]:
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
) -> Row:
    return Row(name, style, [None if one is None else value(one) for one in buckets])


def _usage(kind: str, buckets: Sequence[Sample | None], frame: Frame, number: int) -> Drawn:
    used = _row("used", "own", buckets, lambda one: one.used.get(kind, 0))
    there = _row("there", "limit", buckets, lambda one: one.capacity.get(kind, 0))
    capacity = sum(value or 0 for value in there.values)
    highest = max(*(value or 0 for row in (used, there) for value in row.values), 1)
    unit = Unit.of(kind, highest)
    share = percent(sum(value or 0 for value in used.values) / capacity if capacity else None)
    name = shortened(kind)
    return Drawn(
        name=f"used-{number}",
        title=f"{name} in use",
        detail=f"{share} of what was there" + (f", in {unit.name}" if unit.name else ""),
        plot=Plot(
            frame=frame,
            label=f"{name} in use over time, and what was there",
            areas=[used],
            lines=[there],
            unit=unit,
        ),
    )


def _asks(buckets: Sequence[Sample | None], frame: Frame) -> Drawn:
    return Drawn(
        name="asks",
        title="Asks",
        detail="pending, waiting and running",
        plot=Plot(
            frame=frame,
            label="asks over time: pending, waiting and running",
            lines=[
                _row("pending", "q1", buckets, lambda one: one.pending),
                _row("waiting", "q3", buckets, lambda one: one.waiting),
                _row("running", "q0", buckets, lambda one: one.running),
            ],
        ),
    )
