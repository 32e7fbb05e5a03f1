"""Amounts of resources, and the texts of quantities, durations and numbers.

QUANTITY-1, QUANTITY-4: an amount maps the names of types to non-negative integers in base units
(millicores, bytes, units), at most 2^63-1; a missing type is zero. :class:`Resources` prevents
three kinds of bugs: a negative amount after a repeated release, a sum that overflows in a program
that reads it as int64, and two forms (``{"vcore": 0}`` and ``{}``) of one amount that are not
equal.

QUANTITY-5 to QUANTITY-17. Parsing is exact: a text becomes a fraction and a fraction becomes an
integer in base units, without floats in between. (A float in a JSON or msgpack feed counts as its
shortest text, which is what was written there.)
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, Final, final

from typing_extensions import override

from muster_core.values.errors import InsufficientError, QuantityError

# QUANTITY-1
MAX_QUANTITY: Final = 2**63 - 1
"""The largest amount of one type, in its base unit."""


# QUANTITY-1
class Resources(Mapping[str, int]):
    """An immutable amount of each resource type, without zeros.

    Looking up a missing type gives 0. Iteration is in the order of the names, so that no result
    depends on how the amount was computed.

    Args:
        amounts: The amount of each type in base units; zeros are dropped.

    Attributes:
        amounts: The amounts as a plain dict, which must not be changed; reading it takes a
            fraction of the time of reading the mapping.

    Raises:
        QuantityError: If an amount is not a whole number, is negative or is more than 2^63-1.
    """

    __slots__ = ("_hash", "amounts")

    MOST: ClassVar = MAX_QUANTITY

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        kept: dict[str, int] = {}
        for name in sorted(amounts or ()):
            amount = (amounts or {})[name]
            if type(amount) is not int or amount < 0 or amount > self.MOST:
                msg = f"{name}: {amount!r} is not a whole number from 0 to {self.MOST}"
                raise QuantityError(msg)
            if amount:
                kept[name] = amount
        self.amounts: Final = kept
        self._hash: int | None = None

    # QUANTITY-3
    @override
    def __getitem__(self, name: str) -> int:
        return self.amounts.get(name, 0)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.amounts)

    @override
    def items(self) -> ItemsView[str, int]:
        return self.amounts.items()

    @override
    def __len__(self) -> int:
        return len(self.amounts)

    @override
    def __contains__(self, name: object) -> bool:
        return name in self.amounts

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resources):
            return self.amounts == other.amounts
        return NotImplemented

    @override
    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self.amounts.items()))
        return self._hash

    @override
    def __repr__(self) -> str:
        return f"Resources({self.amounts!r})"

    # QUANTITY-4
    def __add__(self, other: Resources) -> Resources:
        """Add type by type.

        Raises:
            QuantityError: If a sum is more than 2^63-1; the message names the type.
        """
        amounts = dict(self.amounts)
        for name, amount in other.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        return Resources(amounts)

    # QUANTITY-4
    def __sub__(self, other: Resources) -> Resources:
        """Subtract type by type.

        Raises:
            InsufficientError: If a result is below zero; the message names the type.
        """
        amounts = dict(self.amounts)
        for name, amount in other.amounts.items():
            left = amounts.get(name, 0) - amount
            if left < 0:
                msg = f"{name}: {amount} taken, but there is only {amounts.get(name, 0)}"
                raise InsufficientError(msg)
            amounts[name] = left
        return Resources(amounts)

    def fits_in(self, room: Mapping[str, int]) -> bool:
        """Return whether ``room`` has at least this amount of every type."""
        return all(amount <= room.get(name, 0) for name, amount in self.amounts.items())


# USAGE-14
@final
class UnitSeconds(Resources):
    """The usage over time: base units times seconds, of each type at most 2^127-1."""

    __slots__ = ()

    MOST: ClassVar = 2**127 - 1


NOTHING: Final = Resources()
"""No resources at all."""


# QUANTITY-5
VCORE: Final = "vcore"
"""The type that is written in cores and counted in millicores."""

DEVICE_PREFIX: Final = "device/"
"""The prefix of the names of resource types of devices, which are counted in thousandths."""

MEMORY: Final = "memory"
"""The type that is counted in bytes."""

MAX_INT32: Final = 2**31 - 1
MIN_INT32: Final = -(2**31)

# QUANTITY-6, QUANTITY-7
_SUFFIXES: Final[Mapping[str, int]] = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "Pi": 2**50,
    "Ei": 2**60,
}

# QUANTITY-8, QUANTITY-10, QUANTITY-11, QUANTITY-13
# A suffix is tried before an exponent: "1E" is an exa, "1E3" has an exponent, as in Kubernetes.
_QUANTITY: Final = re.compile(
    r"\s*([0-9]+)(?:\.([0-9]+))?\s*(?:(m|[kMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?\s*", re.ASCII
)
_SECONDS: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_DURATION_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
# Forms of durations that are refused, and that are common elsewhere: those with days, with the
# names of units, and those of clocks, such as Slurm's 1-12, 1-12:30:00 and 90:00.
_LONGEST_MEANT: Final = 40
_IN_WORDS: Final = re.compile(
    r"(?:([0-9]+) *d(?:ays?)?)?,? *(?:([0-9]+) *h(?:(?:ou)?rs?)?)? *"
    r"(?:([0-9]+) *m(?:in(?:ute)?s?)?)? *(?:([0-9]+) *s(?:ec(?:ond)?s?)?)?",
    re.ASCII,
)
_CLOCK: Final = re.compile(
    r"(?:([0-9]+)(?:-| *d(?:ays?)?,? *))?([0-9]+):([0-5]?[0-9]):([0-5]?[0-9])", re.ASCII
)
_DAYS_HOURS: Final = re.compile(r"([0-9]+)-([0-9]{1,2})(?::([0-5]?[0-9]))?", re.ASCII)
_TWO_PARTS: Final = re.compile(r"([0-9]+):([0-5]?[0-9])", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NEGATIVE: Final = re.compile(r"\s*-\s*[0-9.]", re.ASCII)

_NANOSECONDS: Final[Mapping[str, int]] = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # the micro sign; Go accepts both
    "μs": 10**3,  # the Greek letter
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}

# Longer texts are refused without parsing: they are mistakes, and the arithmetic would take long.
_LONGEST_TEXT: Final = 1000
_LARGEST_EXPONENT: Final = 2 * _LONGEST_TEXT


def shown(written: object) -> str:
    """Quote a value for a message, shortened if it is long."""
    if isinstance(written, int) and abs(written) > 10**40:
        return "a number of more than 40 digits"  # Python refuses to print very long ones
    text = repr(written)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def parse_quantity(type_name: str, written: object, most: int = MAX_QUANTITY) -> int:
    """Parse the quantity of one resource type.

    Args:
        type_name: The type, which decides the base unit: ``vcore`` is written in cores.
        written: The text, or a number from JSON or msgpack.
        most: The largest amount.

    Returns:
        The amount in base units: millicores, bytes, or units.

    Raises:
        QuantityError: If it is not a quantity, is negative, is not a whole number of base
            units, or is more than ``most``. The message contains the value, not the type.
    """
    text = _as_text(written)
    if text is None:
        msg = f"{shown(written)} is not a quantity: write a number, with a suffix where needed"
        raise QuantityError(msg)
    if type_name == VCORE:
        return _parse_amount(text, "millicores", most)
    # DEVICE-4
    parts = "thousandths of a device" if type_name.startswith(DEVICE_PREFIX) else None
    return _parse_amount(text, parts, most)


def has_parts(type_name: str) -> bool:
    """Return whether a type is counted in thousandths, and written like ``vcore``."""
    return type_name == VCORE or type_name.startswith(DEVICE_PREFIX)


# QUANTITY-2, QUANTITY-17
# CONFIG-55
def parse_duration(written: object, *, seconds: bool = True) -> int:
    """Parse a duration such as ``1m30s``, ``500ms`` or ``1.5h``.

    Args:
        written: The text, or a number from JSON or msgpack.
        seconds: Whether a number without a unit counts as seconds. Otherwise only ``0``
            needs no unit, as in Go's ``time.ParseDuration``.

    Returns:
        The duration in microseconds, rounded to the nearest one.

    Raises:
        QuantityError: If it is not a duration, is negative, or is more than 2^63-1 microseconds.
    """
    text = _as_text(written)
    exact = None if text is None else _duration_ns(text.strip(), seconds=seconds)
    if exact is None:
        kind = "negative" if text is not None and _NEGATIVE.match(text) else "not a duration"
        hint = "seconds or a duration" if seconds else "a duration"
        right = f"write {hint} such as '1m30s', '500ms' or '1.5h'"
        if text is not None:
            right = _meant_duration(text) or right
        msg = f"{shown(written)} is {kind}: {right}"
        raise QuantityError(msg)
    microseconds = (exact + 500) // 1000
    if microseconds > MAX_QUANTITY:
        msg = f"{shown(written)} is longer than {MAX_QUANTITY} microseconds"
        raise QuantityError(msg)
    return microseconds


_DAYS: Final = re.compile(r"([0-9]{1,6})d")
_DAY_US: Final = 86_400_000_000


def parse_age(written: object) -> int:
    """Parse how long ago something was: days such as ``7d``, or a duration.

    Returns:
        The duration in microseconds.

    Raises:
        QuantityError: As for :func:`parse_duration`.
    """
    days = _DAYS.fullmatch(written) if isinstance(written, str) else None
    return parse_duration(written) if days is None else int(days[1]) * _DAY_US


# CONFIG-55
def format_duration(span_us: int) -> str:
    """Format a duration so that :func:`parse_duration` returns the same one."""
    parts: list[str] = []
    for unit_us, name in _UNITS_US:
        number, span_us = divmod(span_us, unit_us)
        if number:
            parts.append(f"{number}{name}")
    return "".join(parts) or "0s"


_UNITS_US: Final = (
    (3_600_000_000, "h"),
    (60_000_000, "m"),
    (1_000_000, "s"),
    (1_000, "ms"),
    (1, "us"),
)
"""The units of durations in microseconds, the largest first."""


# CONFIG-47
def parse_go_int32(text: str) -> int | None:
    """Parse a number as Go's ``strconv.ParseInt(text, 10, 32)`` does.

    The text consists of digits with at most one sign before them: no blanks, no underscores, no
    prefix.

    Returns:
        The number, or None if Go reports an error.
    """
    if len(text) > _LONGEST_TEXT or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if MIN_INT32 <= number <= MAX_INT32 else None


def parse_integer(written: object, lowest: int, highest: int) -> int:
    """Parse a whole number between two bounds, both included.

    Args:
        written: The text (digits, with at most one sign before them), or an int.
        lowest: The lowest valid number.
        highest: The highest valid number.

    Raises:
        QuantityError: If it is not a whole number, or out of bounds.
    """
    number: int | None = None
    if isinstance(written, int) and not isinstance(written, bool):
        number = written
    elif isinstance(written, str) and len(written) <= _LONGEST_TEXT:
        number = int(written) if _INTEGER.fullmatch(written) else None
    if number is None or not lowest <= number <= highest:
        msg = f"{shown(written)} is not a whole number between {lowest} and {highest}"
        raise QuantityError(msg)
    return number


def format_quantity(type_name: str, amount: int) -> str:
    """Format an amount for people, so that :func:`parse_quantity` returns the same amount.

    Args:
        type_name: The type, which decides the base unit; only ``memory`` gets a suffix.
        amount: The amount in base units.
    """
    if has_parts(type_name):
        return f"{amount}m" if amount % 1000 else f"{amount // 1000}"
    if type_name != MEMORY or amount == 0:
        return f"{amount}"
    fitting = {"": 1} | {name: unit for name, unit in _SUFFIXES.items() if amount % unit == 0}
    return min((f"{amount // unit}{name}" for name, unit in fitting.items()), key=len)


# QUANTITY-8
def _as_text(written: object) -> str | None:
    """Return a value as text, or None if it is neither a text nor a number."""
    if isinstance(written, str):
        return written
    if isinstance(written, bool) or not isinstance(written, int | float):
        return None
    if isinstance(written, int) and abs(written) >= 10**_LONGEST_TEXT:
        return None
    return repr(written)


@lru_cache(maxsize=4096)  # feeds repeat the same few quantities
def _parse_amount(text: str, parts: str | None, most: int) -> int:
    """Parse one quantity from its text.

    Args:
        text: The text.
        parts: What its base unit is called if it is a thousandth of the unit that is written.
        most: The largest amount.

    Raises:
        QuantityError: If it is invalid.
    """
    match = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST_TEXT else None
    # QUANTITY-9, QUANTITY-13, QUANTITY-16
    if match is None or (match[3] == "m" and not parts):
        raise QuantityError(_why_no_quantity(text, has_parts=parts is not None))
    whole, fraction, suffix, exponent = match.groups()
    # QUANTITY-5, QUANTITY-7
    unit = Fraction(1000 if parts else 1)
    unit *= Fraction(1, 1000) if suffix == "m" else _SUFFIXES.get(suffix or "", 1)
    amount = _exact(whole, fraction, exponent) * unit
    # QUANTITY-14
    if amount.denominator != 1:
        base = parts or "base units: this type has no parts of a unit, so write a whole number"
        msg = f"{shown(text)} is not a whole number of {base}"
        raise QuantityError(msg)
    # QUANTITY-15
    if amount > most:
        msg = f"{shown(text)} is too large: the most is {most} {parts or 'base units'}"
        raise QuantityError(msg)
    return amount.numerator


def _why_no_quantity(text: str, *, has_parts: bool) -> str:
    """Return the message for an invalid text, with the valid forms."""
    if _NEGATIVE.match(text):
        return f"{shown(text)} is negative"
    suffixes = ", ".join((*(("m",) if has_parts else ()), *_SUFFIXES))
    return f"{shown(text)} is not a quantity: write a number, alone or with one of {suffixes}"


# QUANTITY-10, QUANTITY-15
def _exact(whole: str, fraction: str | None, exponent: str | None) -> Fraction:
    """Compute the number from the digits before and after the point, and the exponent."""
    digits = fraction or ""
    number = int((whole + digits) or "0")
    # A huge exponent gives the same error as a large one, without huge arithmetic.
    power = max(-_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, int(exponent or "0"))) - len(digits)
    return Fraction(number) * Fraction(10) ** power


def _duration_ns(text: str, *, seconds: bool) -> Fraction | None:
    """Parse a duration to nanoseconds; return None if the text is not a duration."""
    if len(text) > _LONGEST_TEXT:
        return None
    number = _SECONDS.fullmatch(text)
    if number is not None:
        return _exact(*number.groups()) * 10**9 if seconds or text == "0" else None
    total, end = Fraction(0), 0
    while end < len(text):
        part = _DURATION_PART.match(text, end)
        if part is None or not (part[1] or part[2]):
            return None
        total += _exact(part[1], part[2], None) * _NANOSECONDS[part[3]]
        end = part.end()
    return total if text else None


def _meant_duration(text: str) -> str:
    """Return how a duration is written that has another common form, or an empty text."""
    text = text.strip().lower()
    if len(text) > _LONGEST_MEANT:
        return ""
    two = _TWO_PARTS.fullmatch(text)
    if two is not None:
        first, second = int(two[1]), int(two[2])
        return f"write {_in_units(0, first, second, 0)} or {_in_units(0, 0, first, second)}"
    match = next(
        (found for form in (_IN_WORDS, _CLOCK, _DAYS_HOURS) if (found := form.fullmatch(text))),
        None,
    )
    if match is None or not any(match.groups()):
        return ""
    parts = [int(part or 0) for part in match.groups()]
    days, hours, minutes, seconds = (*parts, 0)[:4]
    why = "the largest unit is h: " if match[1] else ""
    return f"{why}write {_in_units(days, hours, minutes, seconds)}"


def _in_units(days: int, hours: int, minutes: int, seconds: int) -> str:
    """Return a duration as :func:`parse_duration` reads it."""
    parts = ((24 * days + hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
