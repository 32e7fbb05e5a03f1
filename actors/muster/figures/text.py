"""Texts for readers: numbers, amounts, times, decisions, reasons and devices, safe for a page."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from itertools import groupby
from typing import Final, TypeVar, final

import attrs

from muster_core.decisions import MICROSECONDS, Reason
from muster_core.reasons import Fact
from muster_core.values.devices import WHOLE, resource_type
from muster_core.values.resources import MEMORY, VCORE, has_parts
from muster_core.view.reasons.shortfalls import seconds

NOTHING: Final = "\N{EN DASH}"
"""The text for a figure that does not exist."""

_CORES: Final = "cores"
_CORE: Final = "core"

MINUS: Final = "\N{MINUS SIGN}"

LONGEST_NAME: Final = 80
"""The most characters of a name that are shown."""

LONGEST_SENTENCE: Final = 600
"""The most characters of a sentence that are shown."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)

SECOND: Final = MICROSECONDS
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR

_SHORT: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**4, "k"))
_BINARY: Final = tuple((1024**power, f"{'KMGTPE'[power - 1]}iB") for power in range(6, 0, -1))

_STEPS_US: Final[tuple[int, ...]] = (
    *(count * 10**power for power in range(6) for count in (1, 2, 5)),
    *(count * SECOND for count in (1, 2, 5, 10, 15, 30)),
    *(count * MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * HOUR for count in (1, 2, 3, 6, 12)),
    *(count * 10**power * DAY for power in range(7) for count in (1, 2, 5)),
)


def shortened(text: str) -> str:
    """Return a name, cut if it is too long to show."""
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def safe(text: str) -> str:
    """Return a text of a feed, cut and escaped for HTML and for quoted attributes."""
    # Characters that UTF-8 cannot encode or HTML forbids become replacement characters.
    plain = "".join(
        char if char.isprintable() or char in " \u00ad" else "\ufffd" for char in shortened(text)
    )
    return escape(plain, quote=True)


def safe_long(text: str) -> str:
    """Return a sentence escaped for HTML; it may be longer than a name."""
    shown = text if len(text) <= LONGEST_SENTENCE else f"{text[: LONGEST_SENTENCE - 1]}…"
    return "".join(safe(shown[begin : begin + 60]) for begin in range(0, len(shown), 60))


def number(value: float) -> str:
    """Return a number with about three digits: ``0.25``, ``12.5``, ``1,234``, ``56.7 k``."""
    size = abs(value)
    for factor, letter in _SHORT:
        if size >= factor:
            scale = 1_000 if letter == "k" else factor
            return f"{_digits(value / scale)} {letter}"
    return _digits(value)


def _digits(value: float) -> str:
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if decimals else text
    return "0" if text == "-0" else text


def minus(text: str) -> str:
    """Replace a leading hyphen with a minus sign."""
    return text.replace("-", MINUS, 1) if text.startswith("-") else text


@final
@attrs.frozen
class Unit:
    """The unit in which amounts of a resource type are shown.

    Attributes:
        scale: How many base units it has.
        name: Its name; empty for plain counts.
    """

    scale: int
    name: str

    @classmethod
    def of(cls, kind: str, highest: float) -> Unit:
        """Return the unit for a resource type and its highest amount, in base units."""
        if has_parts(kind):
            return cls(1000, _CORES if kind == VCORE else "")
        if kind != MEMORY:
            return cls(1, "")
        return next((cls(*unit) for unit in _BINARY if highest >= unit[0]), cls(1, "B"))

    def text(self, amount: float) -> str:
        """Return an amount, given in base units, with the unit."""
        text = number(amount / self.scale)
        return f"{text} {_CORE if (text, self.name) == ('1', _CORES) else self.name}".rstrip()


def amount_text(kind: str, amount: int) -> str:
    """Return one amount of a resource type in the unit that suits it."""
    return Unit.of(kind, amount).text(amount)


def part_text(kind: str, part: int, whole: int) -> str:
    """Return an amount and what it is a part of: ``99 of 175 cores``, ``160 GiB of 1.5 TiB``."""
    unit, of_whole = Unit.of(kind, part), Unit.of(kind, whole)
    part_words = number(part / unit.scale) if unit == of_whole else unit.text(part)
    return f"{part_words} of {of_whole.text(whole)}"


def counted(count: int, what: str, many: str = "") -> str:
    """Return a count with its noun, in the plural if needed.

    Args:
        count: The count.
        what: The noun in the singular.
        many: The noun in the plural; by default with an ``s``, or ``es`` after an ``s``.
    """
    ending = "es" if what.endswith("s") else "s"
    return f"{count:,} {what if count == 1 else many or f'{what}{ending}'}"


# COMMAND-24
def measured(value: float) -> str:
    """Return a number with no more than three digits that matter: ``0.017``, ``28.3``, ``2,040``."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:g}"


# COMMAND-24
def seconds_text(span_s: float) -> str:
    """Return a time in seconds, from an hour on also in larger units.

    Such as ``28.3 s``, ``12,960 s (3.6 h)``, ``1,067,752 s (12 d 9 h)``.
    """
    text = f"{span_s:,.0f}" if abs(span_s) >= 1000 else measured(span_s)
    if abs(span_s) < 3600:
        return f"{text} s"
    if abs(span_s) < 24 * 3600:
        return f"{text} s ({measured(span_s / 3600)} h)"
    return f"{text} s ({'-' if span_s < 0 else ''}{duration(abs(span_s) * SECOND)})"


# COMMAND-24
def points(share: float) -> str:
    """Return the difference of two shares, where 1 is everything, in points of percent."""
    return f"{share * 100:.1f} points"


def resource_time(kind: str, amount_s: float) -> str:
    """Return an amount times the time for which it was held: ``1.5 core h``, ``12 GiB h``, ``3 h``.

    Args:
        kind: The resource type.
        amount_s: Cores of ``vcore``, bytes of ``memory``, devices or units, times seconds.
    """
    hours = amount_s / 3600
    if kind == VCORE:
        return f"{measured(hours)} core h"
    if kind == MEMORY:
        return f"{measured(hours / 1024**3)} GiB h"
    return f"{measured(hours)} h"


def percent(share: float | None) -> str:
    """Return a share, where 1 is everything, in percent."""
    return NOTHING if share is None else f"{share * 100:.1f} %"


def duration(span_us: float) -> str:
    """Return a duration with its two largest units: ``3 d 4 h``, ``2 min 5 s``, ``1.5 s``."""
    span_us = round(span_us)
    if span_us >= SECOND * 60:
        for unit_us, name, part_us, part in (
            (DAY, "d", HOUR, "h"),
            (HOUR, "h", MINUTE, "min"),
            (MINUTE, "min", SECOND, "s"),
        ):
            rounded = (span_us + part_us // 2) // part_us * part_us
            if rounded >= unit_us:
                whole, rest = divmod(rounded, unit_us)
                return f"{whole:,} {name} {rest // part_us} {part}" if rest else f"{whole:,} {name}"
    for unit_us, name in ((SECOND, "s"), (1000, "ms")):
        if span_us >= unit_us:
            return f"{number(span_us / unit_us)} {name}"
    return f"{span_us} µs" if span_us else "0 s"


def instant(at_us: int, step_us: int) -> str:
    """Return an instant since the start, with the precision of an axis step."""
    days, rest = divmod(at_us, DAY)
    if step_us >= DAY:
        return f"{days} d"
    hours, rest = divmod(rest, HOUR)
    day = f"{days} d " if days else ""
    if step_us >= HOUR:
        return f"{day}{hours} h"
    minutes, rest = divmod(rest, MINUTE)
    clock = f"{hours}:{minutes:02}"
    if step_us >= MINUTE:
        return f"{day}{clock} h" if days or hours else f"{minutes} min"
    if days or hours:
        return f"{day}{clock}:{_seconds(rest, step_us, pad=True)}"
    if minutes:
        return f"{minutes}:{_seconds(rest, step_us, pad=True)} min"
    return f"{_seconds(rest, step_us, pad=False)} s"


def _seconds(rest_us: int, step_us: int, *, pad: bool) -> str:
    decimals = 0
    while decimals < 6 and step_us % 10 ** (6 - decimals):
        decimals += 1
    text = f"{rest_us / SECOND:.{decimals}f}"
    return text.zfill(2 + (decimals + 1 if decimals else 0)) if pad else text


def time_step(span_us: int, most: int) -> int:
    """Return the step of a time axis with at most about ``most`` ticks, in microseconds."""
    return next((step for step in _STEPS_US if span_us <= step * most), _STEPS_US[-1])


def time_ticks(begin_us: int, end_us: int, most: int) -> Iterator[tuple[int, str]]:
    """Yield the ticks of a time axis with their labels."""
    step_us = time_step(max(end_us - begin_us, 1), most)
    for at_us in range(-(-begin_us // step_us) * step_us, end_us + 1, step_us):
        yield at_us, instant(at_us, step_us)


def date_ticks(begin_us: int, end_us: int, most: int) -> Iterator[tuple[int, str]]:
    """Yield the ticks of a time axis between two instants since 1970 in UTC, with their labels."""
    step_us = time_step(max(end_us - begin_us, 1), most)
    for at_us in range(-(-begin_us // step_us) * step_us, end_us + 1, step_us):
        yield at_us, date_text(at_us, step_us)


def date_text(at_us: int, step_us: int) -> str:
    """Return an instant since 1970 in UTC with the precision of an axis step: a day or a time."""
    instant = datetime.fromtimestamp(at_us / SECOND, UTC)
    if step_us >= DAY or at_us % DAY == 0:
        return f"{instant:%b} {instant.day}"
    return f"{instant:%H:%M}" if step_us >= MINUTE else f"{instant:%H:%M:%S}"


def iso_date(unix_us: int, timespec: str = "auto") -> str:
    """Return an instant in microseconds since 1970 as ISO text in UTC: ``2026-01-31T18:30:00Z``."""
    instant = _EPOCH + unix_us * _MICROSECOND
    return instant.isoformat(timespec=timespec).replace("+00:00", "Z")


def parse_iso_date(written: str) -> int:
    """Return an ISO date, in UTC unless it says otherwise, in microseconds since 1970.

    Raises:
        ValueError: If it is none.
    """
    date = datetime.fromisoformat(written)
    return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def whole_date(at_us: int, step_us: int) -> str:
    """Return an instant since 1970 in UTC with its day, as precise as an axis step.

    The texts are ``2017-10-03``, ``2017-10-03 12:00`` and ``2017-10-03 12:00:30.5``.
    """
    days, rest = divmod(at_us, DAY)
    try:
        day = (_EPOCH + timedelta(days=days)).strftime("%Y-%m-%d").zfill(10)
    except OverflowError:
        return instant(at_us, step_us)
    if step_us >= DAY:
        return day
    minutes, rest = divmod(rest, MINUTE)
    clock = f"{day} {minutes // 60:02}:{minutes % 60:02}"
    return clock if step_us >= MINUTE else f"{clock}:{_seconds(rest, step_us, pad=True)}"


def whole_date_ticks(
    begin_us: int, end_us: int, most: int, origin_us: int
) -> Iterator[tuple[int, str]]:
    """Yield the ticks of a time axis with whole dates.

    Args:
        begin_us: Its first instant, in microseconds since the origin.
        end_us: Its last instant, likewise.
        most: About how many ticks there may be.
        origin_us: The origin, in microseconds since 1970 in UTC.
    """
    step_us = time_step(max(end_us - begin_us, 1), most)
    first_us = -(-(begin_us + origin_us) // step_us) * step_us
    for date_us in range(first_us, end_us + origin_us + 1, step_us):
        yield date_us - origin_us, whole_date(date_us, step_us)


def level_ticks(low: float, high: float, most: int, *, whole: bool) -> list[float]:
    """Return about ``most`` round numbers from ``low`` to ``high``; integers if ``whole``."""
    span = max(high - low, 1e-9)
    power = 10.0 ** (len(f"{span:.0f}") - 3 if span >= 1 else -3)
    step = power
    for factor in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000):
        step = power * factor
        if span / step <= most and (step >= 1 or not whole):
            break
    first = -(-low // step)
    return [tick * step for tick in _range(first, high / step)]


def _range(first: float, last: float) -> Iterator[int]:
    value = int(first)
    while value <= last + 1e-9:
        yield value
        value += 1


INSTANTS: Final[Mapping[str, str]] = {"until_us": "until", "start_us": "start"}
"""The facts that are instants, in microseconds since the origin: until when an ask backs off, and when
the reservation starts that an ask would delay, or that is for its group. No reason has two of
them."""


def instant_of(facts: Mapping[str, Fact]) -> int | None:
    """Return the instant that the message of a reason names, or None."""
    found = (facts.get(name) for name in INSTANTS)
    return next((fact for fact in found if isinstance(fact, int)), None)


# PAGE-42
def dated(message: str, at_us: object, date: Callable[[int], str]) -> str:
    """Return the message of a reason with a date where it counts seconds since the origin.

    Args:
        message: The message.
        at_us: The instant that it names, as :func:`instant_of` gives it; or None.
        date: Returns an instant in microseconds since the origin as a date.
    """
    if not isinstance(at_us, int):
        return message
    written = re.escape(seconds(at_us))
    return re.sub(
        rf"\b(before|at|from) {written}(?![\w.])", lambda at: f"{at[1]} {date(at_us)}", message
    )


CAUSES: Final[Mapping[str, str]] = {
    Reason.PREEMPTED: "preempted",
    Reason.RECLAIMED: "reclaimed",
    Reason.NODE_LOST: "node lost",
    Reason.BIND_FAILED: "bind failed",
    Reason.FAILED: "work failed",
}
"""Each common reason why a run is cut short and run again, in a few words."""


def cause(reason: str) -> str:
    """Return why a run was cut short, in a few words."""
    return CAUSES.get(reason, reason.replace("_", " "))


def as_words(decision: Mapping[str, object]) -> str:
    """Return a decision in the form of the log as one line of text."""
    what = "/".join(str(decision[name]) for name in ("app", "ask") if name in decision)
    others = (str(decision[name]) for name in ("gang", "queue") if name in decision)
    words = [str(decision["kind"]).replace("_", " "), what or next(others, "")]
    if "state" in decision:
        words.append(f"is {decision['state']}")
    if "priority" in decision:
        priority = decision["priority"]
        words.append("has none" if priority is None else f"is {priority}")
    if "reason" in decision:
        words.append(f"({str(decision['reason']).replace('_', ' ')})")
    if "node" in decision:
        words.append(f"on {decision['node']}")
    if "message" in decision:
        words.append(str(decision["message"]))
    return " ".join(word for word in words if word)


Holder = TypeVar("Holder")


def milli_held(kind: str, resources: Mapping[str, int]) -> int:
    """Return how much of each of its devices an ask holds, in milli.

    Args:
        kind: The type of the devices.
        resources: What the ask asks for, in base units.
    """
    return min(resources.get(resource_type(kind), WHOLE), WHOLE)


def held_words(devices: Mapping[str, Sequence[int]], resources: Mapping[str, int]) -> str:
    """Return the devices of an ask as text: ``gpu 0, 2; nic 1``, or ``250 milli of gpu 3``.

    Args:
        devices: The numbers of the devices that it holds, by type.
        resources: What it asks for, in base units.
    """
    return "; ".join(
        _held(kind, numbers, milli_held(kind, resources))
        for kind, numbers in sorted(devices.items())
        if numbers
    )


def _held(kind: str, numbers: Sequence[int], milli: int) -> str:
    held = f"{kind} {_numbers(numbers)}"
    return held if milli == WHOLE else f"{milli} milli of {held}"


def _numbers(numbers: Sequence[int]) -> str:
    """Return numbers in ascending order, of which more than two in a row are a range."""
    texts: list[str] = []
    for _, run in groupby(enumerate(sorted(numbers)), lambda pair: pair[1] - pair[0]):
        found = [one for _, one in run]
        if len(found) > 2:
            texts.append(f"{found[0]}\N{EN DASH}{found[-1]}")
        else:
            texts += map(str, found)
    return ", ".join(texts)


def free_words(kind: str, free: Sequence[int]) -> str:
    """Return the free devices as text: ``2 of 4 gpu wholly free``, and ``0.55 in parts`` of shares.

    Args:
        kind: The type of the devices.
        free: What is free of each, in milli.
    """
    return sum_words(kind, len(free), *free_sums(free))


def free_sums(free: Sequence[int]) -> tuple[int, int]:
    """Return how many devices are wholly free, and how many milli are free on the others."""
    whole = free.count(WHOLE)
    return whole, sum(free) - whole * WHOLE


def sum_words(kind: str, count: int, whole: int, parts: int) -> str:
    """Return how many devices of a type are free, as text.

    Args:
        kind: The type.
        count: How many devices there are.
        whole: How many of them are wholly free.
        parts: How many milli are free on the others.
    """
    text = f"{whole:,} of {count:,} {kind} wholly free"
    return f"{text}, {parts / WHOLE:,.10g} in parts" if parts else text


def holders_of(
    held: Iterable[tuple[Holder, Mapping[str, Sequence[int]], Mapping[str, int]]],
) -> dict[tuple[str, int], list[tuple[Holder, int]]]:
    """Return the holders of each device, each with the milli that it holds.

    Args:
        held: The holders in order, each with its devices by type and what it asks for.
    """
    found: dict[tuple[str, int], list[tuple[Holder, int]]] = {}
    for holder, devices, resources in held:
        for kind, numbers in devices.items():
            milli = milli_held(kind, resources)
            for one in numbers:
                found.setdefault((kind, one), []).append((holder, milli))
    return found
