"""Running sums of resources: plain dictionaries of the owner, without zeros and without limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def add_to(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    """Add ``amounts`` to a running sum."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def take_from(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    """Take ``amounts``, which were added before, from a running sum."""
    for name, amount in amounts.items():
        left = total[name] - amount
        if left:
            total[name] = left
        else:
            del total[name]
