"""Reasons why asks are not running, as readers want them: with dates, and amounts in their units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from muster.figures.instants import INSTANTS
from muster.figures.text import amount_text, duration
from muster_core.values.quantities import MEMORY, has_parts

if TYPE_CHECKING:
    from muster_core.reasons import Fact


def facts_of(facts: Mapping[str, Fact], date: Callable[[int], str]) -> list[tuple[str, str]]:
    """Return the facts of a reason in words, each with its name.

    Args:
        facts: The facts.
        date: Returns an instant in microseconds since the origin as a date.
    """
    return [_named(name, fact, date) for name, fact in facts.items()]


def _named(name: str, fact: Fact, date: Callable[[int], str]) -> tuple[str, str]:
    if isinstance(fact, int) and name == "left_us":
        return "left", duration(fact)
    if isinstance(fact, int) and name in INSTANTS:
        return INSTANTS[name], date(fact)
    return name.replace("_", " "), _fact(name, fact)


def _fact(name: str, fact: Fact) -> str:
    match fact:
        case None:
            return "none"
        case bool():
            return "yes" if fact else "no"
        case int() | float():
            return f"{fact:,}"
        case str():
            return fact
        case tuple():
            return ", ".join(fact) or "none"
        case _:
            return ", ".join(_amount(name, key, amount) for key, amount in fact.items()) or "none"


def _amount(name: str, key: str, amount: int) -> str:
    """Return an amount; its key ends with the type of the resource where it is one."""
    before, _, kind = key.rpartition(" ")
    if name == "lacking" or not (kind == MEMORY or has_parts(kind)):
        return f"{key} {amount:,}"
    text = amount_text(kind, amount)
    return f"{before} {text}".strip() + ("" if kind == "vcore" else f" {kind}")
