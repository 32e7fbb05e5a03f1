"""Where bars stand in the row of a node: in slots of equal height, or in a lane for each device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import gcd
from typing import Final, final

from muster.report._recording.nodes import Bar
from muster_core.values.devices import WHOLE

SLOTS: Final = 24
"""How many slots of equal height the row of a node has."""

MOST_LANES: Final = 64
"""The most lanes of a node; with more devices their bars could not be told apart."""

_FINEST: Final = 200
"""The most parts into which the lane of a device is divided."""

_REST: Final = 2
"""How many times as high as that of a device the lane of all asks without devices is."""

_GAP: Final = 0.125
"""Which part of a lane stays empty, so that one sees where a device ends."""

Piece = tuple[float, float]
"""A part of a bar: where it begins in the row of its node, and how high it is, in slots."""


@final
class _Track:
    """Slots of equal height that bars take and release.

    Args:
        top: Where the first slot begins.
        height: How high all slots are together.
        count: How many slots there are.
    """

    def __init__(self, top: float, height: float, count: int) -> None:
        self._top = top
        self._high = height / count
        self._free_at = [-1] * count

    def take(self, share: float, since_us: int, until_us: int) -> list[Piece]:
        """Return where a bar stands, in several pieces if necessary.

        Args:
            share: How much of all slots it takes, from 0 to 1.
            since_us: When it begins, in microseconds; no bar before it began later.
            until_us: When it ends, likewise.
        """
        wanted = max(round(share * len(self._free_at)), 1)
        free = [slot for slot, at_us in enumerate(self._free_at) if at_us <= since_us]
        chosen = next(
            (
                free[begin : begin + wanted]
                for begin in range(len(free) - wanted + 1)
                if free[begin + wanted - 1] - free[begin] == wanted - 1
            ),
            # A bar without a free slot covers another one.
            free[:wanted] or [len(self._free_at) - 1],
        )
        for slot in chosen:
            self._free_at[slot] = until_us
        return [
            (self._top + slot * self._high, count * self._high) for slot, count in _runs(chosen)
        ]


def _runs(slots: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for slot in slots:
        if runs and sum(runs[-1]) == slot:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((slot, 1))
    return runs


# COMMAND-27
def placed(
    bars: Sequence[Bar], devices: Mapping[str, int], end_us: int
) -> Iterator[tuple[Bar, list[Piece]]]:
    """Yield the bars of a node, each with where it stands.

    Args:
        bars: The bars, in the order in which they begin.
        devices: How many devices of each type the node has.
        end_us: When the report ends, in microseconds.
    """
    lanes = _lanes(bars, devices) if is_drawn(devices) else {}
    rest = lanes.pop(None, None) or _Track(0, SLOTS, SLOTS)
    for bar in bars:
        until_us = end_us + 1 if bar.end_us is None else bar.end_us
        pieces = [
            piece
            for kind, numbers, milli in bar.devices
            for number in numbers
            if (kind, number) in lanes
            for piece in lanes[kind, number].take(milli / WHOLE, bar.held_us, until_us)
        ]
        yield bar, pieces or rest.take(bar.share, bar.held_us, until_us)


def is_drawn(devices: Mapping[str, int]) -> bool:
    """Return whether the devices of a node have lanes."""
    return 0 < sum(devices.values()) <= MOST_LANES


def count_of(bars: Sequence[Bar], devices: Mapping[str, int]) -> int:
    """Return how many times as high as the lane of a device the row of a node is."""
    return sum(devices.values()) + _REST * any(not bar.devices for bar in bars)


def _lanes(bars: Sequence[Bar], devices: Mapping[str, int]) -> dict[tuple[str, int] | None, _Track]:
    """Return a track for each device by type and number; None has that for other asks, if any."""
    parts = dict.fromkeys(devices, WHOLE)
    for bar in bars:
        for kind, _, milli in bar.devices:
            parts[kind] = gcd(parts.get(kind, WHOLE), milli)
    names: list[tuple[str, int] | None] = [
        (kind, number) for kind, count in sorted(devices.items()) for number in range(count)
    ]
    high = SLOTS / count_of(bars, devices)
    if any(not bar.devices for bar in bars):
        names.append(None)
    return {
        name: _Track(
            place * high,
            high * ((_REST if name is None else 1) - _GAP),
            SLOTS if name is None else min(WHOLE // parts[name[0]], _FINEST),
        )
        for place, name in enumerate(names)
    }
