"""Figures and names as a reason says them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from muster_core.values.quantities import format_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster_core.owners.messages.asks import Ask
    from muster_core.view.tree.application import ViewApp

_SECOND_US: Final = 1_000_000


def amount(kind: str, number: int) -> str:
    """Write an amount of a type, given in base units: ``2 vcore``."""
    return f"{format_quantity(kind, number)} {kind}"


def amounts(numbers: Mapping[str, int]) -> str:
    """Write amounts of several types, given in base units."""
    return listed(amount(kind, number) for kind, number in sorted(numbers.items()))


def listed(parts: Iterable[str]) -> str:
    """Write parts of a sentence one after the other, with an "and" before the last."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def counted(number: int, one: str, more: str) -> str:
    """Write how many do something: ``1 is full``, ``2 are full``."""
    return f"{number} {one if number == 1 else more}"


def seconds(span_us: int) -> str:
    """Write a span of time, given in microseconds, as seconds without needless zeros."""
    whole, rest = divmod(span_us, _SECOND_US)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".") + " s"


def named(app: ViewApp, ask: Ask) -> str:
    """Write an ask with its application."""
    return f"{app.identity.name}/{ask.name}"
