"""Reasons why asks are not running, as readers want them: with dates, and amounts in their units."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from muster.figures.text import amount_text, duration
from muster_core.view.reasons.words import seconds

if TYPE_CHECKING:
    from muster_core.reasons import Fact

INSTANTS: Final[Mapping[str, str]] = {"until_us": "until", "start_us": "start"}
"""The facts that are instants, in microseconds since the origin, and what readers call them: until when
an ask backs off, and when the reservation starts that one would delay. No reason has two of them."""


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
        rf"\b(before|at) {written}(?![\w.])", lambda at: f"{at[1]} {date(at_us)}", message
    )


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
    if name == "lacking" or kind not in {"vcore", "memory"}:
        return f"{key} {amount:,}"
    text = amount_text(kind, amount)
    return f"{before} {text}".strip() + ("" if kind == "vcore" else f" {kind}")
