"""Amounts, counts and names as reasons contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.values.quantities import format_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.tree.application import ViewApp

_SECOND_US: Final = 1_000_000


def amount(kind: str, number: int) -> str:
    """Format an amount of a type, given in base units: ``2 vcore``."""
    return f"{format_quantity(kind, number)} {kind}"


def amounts(numbers: Mapping[str, int]) -> str:
    """Format amounts of several types, given in base units."""
    return listed(amount(kind, number) for kind, number in sorted(numbers.items()))


def listed(parts: Iterable[str]) -> str:
    """Join parts of a sentence with commas, and with "and" before the last."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def counted(number: int, one: str, more: str) -> str:
    """Format a count with its verb or noun: ``1 is full``, ``2 are full``."""
    return f"{number} {one if number == 1 else more}"


def seconds(span_us: int) -> str:
    """Format a duration, given in microseconds, as seconds without trailing zeros."""
    whole, rest = divmod(span_us, _SECOND_US)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".") + " s"


def named(app: ViewApp, ask: Ask) -> str:
    """Format an ask with its application."""
    return f"{app.identity.name}/{ask.name}"
