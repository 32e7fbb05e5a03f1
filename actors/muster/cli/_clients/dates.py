"""Instants of a server as dates, as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from muster.cli._clients.output import Item, list_of, map_of
from muster.cli._options import printable
from muster.cli._progress import instant
from muster.figures.instants import dated, instant_of
from muster_core.decisions import MICROSECONDS

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


def dates_of(answer: Mapping[str, Any]) -> Callable[[int], str]:
    """Return what writes the instants of an answer as dates.

    Args:
        answer: The answer, which has the instant of its batch as ``at`` and as ``time``.

    Returns:
        A function that takes an instant in microseconds since the origin of time.
    """
    unix_us = (datetime.fromisoformat(answer["time"]) - _EPOCH) // timedelta(microseconds=1)
    return partial(_date, unix_us - in_us(answer["at"]))


def _date(origin_us: int, at_us: int) -> str:
    """Return an instant as a date with whole seconds, not before the instant."""
    unix_us = -(-(origin_us + at_us) // MICROSECONDS) * MICROSECONDS
    return instant(unix_us, 0)


def in_us(at: float) -> int:
    """Return seconds in microseconds."""
    return round(at * MICROSECONDS)


def reason_text(reason: Mapping[str, Any], date: Callable[[int], str]) -> str:
    """Return a reason why an ask waits, with its code, and with its instant as a date.

    Args:
        reason: The reason, as the server gives it.
        date: Writes an instant, given in microseconds.
    """
    message = dated(reason["message"], instant_of(reason["facts"]), date)
    return f"{reason['code']}: {printable(message)}"


# CLIENT-3
def with_dates(item: Item, instants: Iterable[str], date: Callable[[int], str]) -> Item:
    """Return a thing with its instants as dates.

    Args:
        item: The thing.
        instants: The fields that have instants in seconds since the origin; after a point, the
            field within a map, or within each map of a list.
        date: Writes an instant, given in microseconds.
    """
    found = dict(item)
    for path in instants:
        field, _, rest = path.partition(".")
        if field in found:
            found[field] = _with_dates(found[field], rest, date)
    return found


def _with_dates(value: object, rest: str, date: Callable[[int], str]) -> object:
    if not rest:
        return date(in_us(value)) if isinstance(value, (int, float)) else value
    inner, several = map_of(value), list_of(value)
    if several is not None:
        return [_with_dates(one, rest, date) for one in several]
    return value if inner is None else with_dates(inner, [rest], date)
