"""Amounts of a job, divided among its asks; no amount becomes more or less by that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

Sizes = list[tuple[Mapping[str, int], int]]
"""What asks need, each with the number of such asks, the largest first."""


# IMPORT-9
def divide_evenly(amounts: Mapping[str, int], tasks: int) -> Sizes:
    """Divide amounts among tasks, as evenly as whole numbers allow.

    Tasks for which nothing is left are not among the sizes.
    """
    return list(_even(amounts, tasks))


def _even(amounts: Mapping[str, int], tasks: int) -> Iterator[tuple[Mapping[str, int], int]]:
    shares = {name: divmod(amount, tasks) for name, amount in amounts.items()}
    places = sorted({more for _, more in shares.values()} | {0, tasks})
    for first, end in pairwise(places):
        size = {name: least + (first < more) for name, (least, more) in shares.items()}
        size = {name: amount for name, amount in size.items() if amount}
        if size:
            yield size, end - first


def divide_within(amounts: Mapping[str, int], limits: Mapping[str, int]) -> Sizes:
    """Divide amounts so that none is above its limit: full ones, then one with the rest.

    What is not limited is divided evenly.
    """
    members = max(
        [-(-amounts[name] // limit) for name, limit in limits.items() if name in amounts] or [1]
    )
    if members == 1:
        return [(amounts, 1)]
    full: dict[str, int] = {}
    rest: dict[str, int] = {}
    few: dict[str, int] = {}
    for name, amount in amounts.items():
        limit = limits.get(name)
        is_binding = limit is not None and -(-amount // limit) == members
        each = limit if is_binding and limit is not None else -(-amount // members)
        if each * (members - 1) > amount:
            few[name] = amount  # rounded up, there would be more than the job needs
        else:
            full[name], rest[name] = each, amount - each * (members - 1)
    wholes: Sizes = [(full, members)] if rest == full else [(full, members - 1), (rest, 1)]
    return list(_joined(wholes, _shared(few, members)))


def _shared(amounts: Mapping[str, int], members: int) -> Sizes:
    """Divide amounts evenly, with the members that get nothing."""
    sizes = list(_even(amounts, members))
    left = members - sum(count for _, count in sizes)
    return [*sizes, ({}, left)] if left else sizes


def _joined(one: Sizes, other: Sizes) -> Iterator[tuple[Mapping[str, int], int]]:
    """Yield the sizes of members that have what both say, member by member."""
    first, second = iter(one), iter(other)
    size, count = next(first)
    more, times = next(second)
    while True:
        both = min(count, times)
        joined = {name: amount for name, amount in {**size, **more}.items() if amount}
        if joined:
            yield joined, both
        count, times = count - both, times - both
        if not count:
            following = next(first, None)
            if following is None:
                return
            size, count = following
        if not times:
            more, times = next(second)
