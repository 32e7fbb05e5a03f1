"""Group priorities into the rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.compare._result import MOST_PRIORITIES


def ranges(asks: Mapping[int, int], most: int = MOST_PRIORITIES) -> Iterator[tuple[int, int]]:
    """Group priorities into a few rows with about the same number of asks.

    Args:
        asks: How many asks each priority has.
        most: The most rows.

    Yields:
        The lowest and the highest priority of each row, highest row first.
    """
    if len(asks) <= most:
        for priority in sorted(asks, reverse=True):
            yield priority, priority
        return
    whole, done, row = sum(asks.values()), 0, 1
    members: list[int] = []
    for priority in sorted(asks, reverse=True):
        members.append(priority)
        done += asks[priority]
        if done * most >= whole * row:
            yield members[-1], members[0]
            members.clear()
            row = done * most // whole + 1
    assert not members, "some priorities are in no row"
