"""A comparison of two configurations as rows for readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, final

import attrs

from muster.figures.text import MINUS, NOTHING, duration, percent

_MICROSECONDS: Final = 1e6

_Writer = Callable[[float], str]


@final
@attrs.frozen
class Row:
    """A figure of both sides.

    Attributes:
        name: What it is.
        before: As it was, as text.
        after: As it would have been.
        change: The second minus the first; empty if they are the same.
        is_same: Whether both are the same.
    """

    name: str
    before: str
    after: str
    change: str
    is_same: bool


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _time(value: float) -> str:
    return duration(value * _MICROSECONDS)


_FIGURES: Final[Sequence[tuple[str, tuple[str, ...], _Writer]]] = (
    ("asks bound", ("asks_bound",), _count),
    ("asks ended without a node", ("asks_unbound",), _count),
    ("asks pending at the end", ("asks_pending",), _count),
    ("asks preempted", ("asks_preempted",), _count),
    ("asks reclaimed", ("asks_reclaimed",), _count),
    ("median wait", ("wait", "median_s"), _time),
    ("95 % waited at most", ("wait", "p95_s"), _time),
    ("longest wait", ("wait", "longest_s"), _time),
)
"""What is shown of each side: its name, where it is in the result, and how it is written."""


@final
class Compared:
    """The result of a comparison, as the API gives it.

    Args:
        found: The result.
        asked_us: How far one wanted to look back, in microseconds.

    Attributes:
        since: From when on history was compared, as a date in UTC.
        until: Until when, likewise.
        length_us: How long that is, in microseconds.
        is_short: Whether less history is kept than one wanted to look back.
        is_same: Whether both sides decide the same.
        decisions: How many decisions are the same before the first that differs.
    """

    def __init__(self, found: Mapping[str, Any], asked_us: int) -> None:
        self._found = found
        self.since: str = found["since"]
        self.until: str = found["until"]
        length = datetime.fromisoformat(self.until) - datetime.fromisoformat(self.since)
        self.length_us = length // timedelta(microseconds=1)
        # It begins with a whole batch, so that it may be longer by a while.
        self.is_short = self.length_us < asked_us
        self.is_same: bool = found["same"]
        self.decisions: int = found["decisions"]

    def whole(self) -> list[Row]:
        """Return the figures of the whole, with the utilisation by resource type."""
        both = self._found["all"]
        rows = [*_rows(both)]
        for kind in sorted({**both["a"]["utilisation"], **both["b"]["utilisation"]}):
            a, b = both["a"]["utilisation"].get(kind), both["b"]["utilisation"].get(kind)
            rows.append(_row(f"{kind} used, on average", a, b, percent, points))
        return rows

    def queues(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield the queues for which something differs, with the figures that do."""
        for queue in self._found["queues"]:
            rows = [row for row in _rows(queue) if not row.is_same]
            if rows:
                yield queue["queue"], rows

    def refused(self) -> list[str]:
        """Return why events of history would be refused with the new configuration only."""
        return [str(one["message"]) for one in self._found["refused"]["first_b"]]

    def refused_count(self) -> int:
        """Return how many events of history would be refused with the new configuration only."""
        count: int = self._found["refused"]["only_b"]
        return count


def _rows(both: Mapping[str, Any]) -> Iterator[Row]:
    for name, path, write in _FIGURES:
        yield _row(name, _at(both["a"], path), _at(both["b"], path), write)


def _at(figures: Any, path: Sequence[str]) -> float | None:  # noqa: ANN401 - a tree of JSON
    for name in path:
        figures = None if figures is None else figures[name]
    value: float | None = figures
    return value


def points(share: float) -> str:
    """Return a difference of two shares, where 1 is everything, in points of percent."""
    return f"{share * 100:.1f} points"


def _row(
    name: str, a: float | None, b: float | None, write: _Writer, by: _Writer | None = None
) -> Row:
    """Return a row.

    Args:
        name: What it is.
        a: As it was; None if there is nothing.
        b: As it would have been, likewise.
        write: Writes a value.
        by: Writes a difference; None for ``write``.
    """
    change = ""
    if a is not None and b is not None and a != b:
        sign = "+" if b > a else MINUS
        change = f"{sign}{(by or write)(abs(b - a))}"
    return Row(name, _text(a, write), _text(b, write), change, a == b)


def _text(value: float | None, write: _Writer) -> str:
    return NOTHING if value is None else write(value)
