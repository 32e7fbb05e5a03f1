"""Amounts and times in their shortest form in a feed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from muster.feeds._encodings.raw import Raw
from muster_core.decisions import MICROSECONDS, seconds
from muster_core.values.quantities import format_quantity

_EXACT: Final = 10**15
"""Times below it, in microseconds, are exact as floats of seconds, which have 15 digits."""

Written: TypeAlias = dict[str, Raw]
"""An event, or a part of one, as written in a feed."""


def quantity(name: str, amount: int) -> int | str:
    """Return an amount of a resource type in its shortest form in a feed."""
    text = format_quantity(name, amount)
    return int(text) if text.isdigit() else text


def amounts(resources: Mapping[str, int]) -> Written:
    """Return amounts of several types in their shortest form in a feed."""
    return {name: quantity(name, amount) for name, amount in resources.items()}


def duration(length_us: int) -> int | float | str:
    """Return an instant or a duration: in seconds if that is exact, else in microseconds."""
    written = seconds(length_us)
    if isinstance(written, int):
        return written
    return written if round(written * MICROSECONDS) == length_us < _EXACT else f"{length_us}us"


def without(fields: Mapping[str, Raw]) -> Written:
    """Return fields without those that are None, an empty list or an empty map."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def words(texts: Mapping[str, str]) -> Written:
    """Return a map of texts."""
    return dict(texts)
