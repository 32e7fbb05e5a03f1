"""Running sums of resources: plain dictionaries without zeros and without an upper limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def add_to(total: dict[str, int], amounts: Mapping[str, int], times: int = 1) -> None:
    """Add ``amounts`` to a running sum, once or ``times`` times."""
    for name, amount in amounts.items():
        if name in total:
            total[name] += amount * times
        else:
            total[name] = amount * times


def take_from(total: dict[str, int], amounts: Mapping[str, int], times: int = 1) -> None:
    """Subtract ``amounts``, which were added before, once or ``times`` times."""
    for name, amount in amounts.items():
        left = total[name] - amount * times
        if left:
            total[name] = left
        else:
            del total[name]


def replace_in(total: dict[str, int], before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Replace amounts without zeros, which were added to a running sum before, by others."""
    for name, amount in after.items():
        was = before.get(name, 0)
        if amount != was:
            total[name] = total.get(name, 0) + amount - was
    if before.keys() <= after.keys():
        return
    for name, amount in before.items():
        if name not in after:
            left = total[name] - amount
            if left:
                total[name] = left
            else:
                del total[name]


def sum_of(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sum of amounts; for tests."""
    total: dict[str, int] = {}
    for part in amounts:
        add_to(total, part)
    return total
