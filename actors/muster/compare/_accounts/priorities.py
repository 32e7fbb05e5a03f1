"""Which priorities stand in a row together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.compare._result import MOST_PRIORITIES


def ranges(asks: Mapping[int, int], most: int = MOST_PRIORITIES) -> Iterator[tuple[int, int]]:
    """Put priorities together so that there are few rows, with about as many asks in each.

    Args:
        asks: How many asks there are of each priority; of at least one.
        most: How many rows there may be.

    Yields:
        The lowest and the highest priority of each row, the row of the highest first.
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
