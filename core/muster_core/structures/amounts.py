"""Arithmetic of amounts: rows of numbers, running sums, and shares of an entitlement.

A row is an amount of all resource types of a partition, by the numbers of the types. Every
allocation changes the sums of each queue on its path, and the shares that follow from them. To find
an amount in a list by its number takes half the time of finding it in a dict by its name. Running
sums are plain dictionaries without zeros and without an upper limit.

ORDER-8, ORDER-9, ORDER-27 to ORDER-29. A share is usage divided by an entitlement, for queues,
applications and nodes. Shares are IEEE doubles: each one is a correctly rounded quotient of two
integers, and each sum is rounded once (``math.fsum``). So every computer and every order of
computation gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum, inf
from typing import Final, final

from muster_core.values.configuration import QueueConfig

Row = list[int]
"""An amount of each type, in the order of their numbers."""

Numbered = tuple[tuple[int, int], ...]
"""Amounts of a few types, each with the number of its type; no zeros."""


@final
class Types:
    """The numbers of the resource types of a partition, from 0, in the order of their appearance.

    A type keeps its number. A keeper of rows extends them when types are added.
    """

    __slots__ = ("_keepers", "_numbers", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._keepers: list[Callable[[], None]] = []

    def call_when_grown(self, keeper: Callable[[], None]) -> None:
        """Call a function whenever there are more types, before their numbers are used."""
        self._keepers.append(keeper)

    def find(self, name: str) -> int | None:
        """Return the number of a type, or None if it has none."""
        return self._numbers.get(name)

    def learn(self, names: Iterable[str]) -> None:
        """Give a number to each type that has none."""
        new = [name for name in names if name not in self._numbers]
        for name in new:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        if new:
            for keeper in self._keepers:
                keeper()

    def row(self, amounts: Mapping[str, int]) -> Row:
        """Return the row of some amounts; new types get numbers."""
        row, numbers = [0] * len(self.names), self._numbers
        try:
            for name, amount in amounts.items():
                row[numbers[name]] = amount
        except KeyError:
            self.learn(amounts)
            return self.row(amounts)
        return row

    def numbered(self, amounts: Mapping[str, int]) -> Numbered:
        """Return some amounts with the numbers of their types; new types get numbers."""
        self.learn(amounts)
        return tuple((self._numbers[name], amount) for name, amount in amounts.items())

    def change(self, before: Mapping[str, int], after: Mapping[str, int]) -> Numbered:
        """Return the change of a row with which some amounts replace others."""
        self.learn(after)
        return tuple(
            (self._numbers[name], after.get(name, 0) - before.get(name, 0))
            for name in {**before, **after}
        )

    def amounts(self, row: Row) -> dict[str, int]:
        """Return the amounts in a row by name, without zeros."""
        return {name: amount for name, amount in zip(self.names, row) if amount}  # noqa: B905 - quicker

    def lengthen(self, row: Row) -> None:
        """Make an older row as long as there are types now."""
        row += [0] * (len(self.names) - len(row))


def add_to_row(row: Row, amounts: Numbered) -> None:
    """Add amounts to a row."""
    for number, amount in amounts:
        row[number] += amount


def take_from_row(row: Row, amounts: Numbered) -> None:
    """Subtract amounts from a row."""
    for number, amount in amounts:
        row[number] -= amount


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


Divisors = tuple[tuple[int, float], ...]
"""What the amounts of a row are divided by: the number of each type, and an amount or
:data:`NOTHING_THERE`."""

# ORDER-29
NOTHING_THERE: Final = 5e-324
"""The divisor used instead of 0. It is the least positive double, so that any amount divided by it
is infinite, and 0 divided by it is 0."""


# ORDER-27, ORDER-29
def share(used: int, whole: int) -> float:
    """Return ``used / whole``; if ``whole`` is 0, infinity if anything is used, otherwise 0."""
    if whole:
        return used / whole
    return inf if used else 0.0


BothDivisors = tuple[tuple[int, float, float], ...]
"""What the amounts of two rows are divided by: the number of each type, and both divisors."""


# ORDER-8, ORDER-10, ORDER-27
def both_shares(allocated: Row, asked: Row, divisors: BothDivisors) -> tuple[float, float]:
    """Return the largest share over all types of what is allocated, and of what is pending.

    The fair share of a queue is that of what it uses, divided by its :func:`queue_divisors`; the
    dominant share of its pending asks is that of what they ask for, divided by the
    :func:`total_divisors`. Every queue on a path needs both for each ask that is placed. Without any
    type, both are 0.

    Args:
        allocated: What is allocated.
        asked: What all asks come to, those included that are allocated.
        divisors: What allocated amounts are divided by, and what pending ones are.
    """
    share = pending = 0.0
    for number, own, whole in divisors:
        used = allocated[number]
        part = used / own
        if part > share:  # noqa: PLR1730 - a call of max() would double the time
            share = part
        part = (asked[number] - used) / whole
        if part > pending:  # noqa: PLR1730 - as above
            pending = part
    return share, pending


# USAGE-7
def past_share_of(used: Row, allocated: Row, tick_us: int, wholes: Numbered) -> float:
    """Return the past share of a queue or a user: the largest over the types, each rounded once.

    Args:
        used: Its usage, in base units times microseconds.
        allocated: What is allocated, which counts as if it had been held for one tick.
        tick_us: The length of a tick, in microseconds.
        wholes: What each type is divided by; a type that is not there has none.
    """
    most = 0.0
    for number, whole in wholes:
        part = (used[number] + allocated[number] * tick_us) / whole
        if part > most:  # noqa: PLR1730 - as above
            most = part
    return most


# ORDER-10
def total_divisors(total: Mapping[str, int], names: Iterable[str]) -> Divisors:
    """Return the capacity of all nodes, including unschedulable ones, for each type."""
    return tuple((number, total.get(name, 0) or NOTHING_THERE) for number, name in enumerate(names))


# ORDER-9
def queue_divisors(
    path: Sequence[QueueConfig], total: Mapping[str, int], names: Iterable[str]
) -> Divisors:
    """Return what the usage of a queue is divided by, for each type.

    A type counts against the queue's ``guaranteed``; if that does not name it, against the
    smallest ``max`` of the queue and its ancestors; otherwise against the total of all nodes.

    Args:
        path: The queue's configuration and those of its ancestors, nearest first.
        total: The capacity of all nodes, including unschedulable ones.
        names: The types, in the order of their numbers.
    """
    smallest: dict[str, int] = {}
    for queue in path:
        for name, most in queue.max.amounts:
            smallest[name] = min(most, smallest.get(name, most))
    wholes = {**total, **smallest, **path[0].guaranteed}
    return total_divisors(wholes, names)


# SHARE-11
def divide(
    whole: int, weights: Sequence[int], floors: Sequence[int], ceilings: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Divide an amount of one type among queues by their weights.

    Args:
        whole: The amount.
        weights: The weight of each queue, at least 1, in the order of the paths.
        floors: The least that each queue gets, even if these are together more than the amount.
        ceilings: The most that each queue gets, at least its floor.

    Returns:
        What each queue gets, and the most that it had on the way, before it was cut to its ceiling.
        Another ceiling of a queue changes nothing if it had no more than the old and the new one.
    """
    if sum(ceilings) <= whole:  # Whatever is given back goes to the others until all have that.
        return list(ceilings), [most + 1 for most in ceilings]
    found, peaks = list(floors), [0] * len(weights)
    left: list[int] = list(range(len(weights)))
    while left:
        amounts = _fill(whole, left, weights, ceilings, peaks)
        short = {queue for queue in left if amounts[queue] < floors[queue]}
        if not short:
            for queue in left:
                found[queue] = amounts[queue]
            break
        whole = max(0, whole - sum(floors[queue] for queue in short))
        left = [queue for queue in left if queue not in short]
    return found, peaks


# SHARE-7, SHARE-8, SHARE-9, SHARE-10
def _fill(
    whole: int,
    queues: Sequence[int],
    weights: Sequence[int],
    ceilings: Sequence[int],
    peaks: list[int],
) -> dict[int, int]:
    """Divide an amount among some queues, as if there were no floors."""
    amounts = dict.fromkeys(queues, 0)
    while whole and queues:
        heaviness, rest, remainders = sum(weights[queue] for queue in queues), whole, list[int]()
        for queue in queues:
            part, remainder = divmod(whole * weights[queue], heaviness)
            amounts[queue] += part
            rest -= part
            remainders.append(remainder)
        if rest:
            largest = sorted(range(len(queues)), key=remainders.__getitem__, reverse=True)
            for place in largest[:rest]:  # Equal ones are still in the order of the paths.
                amounts[queues[place]] += 1
        whole, still_open = 0, list[int]()
        for queue in queues:
            amount, most = amounts[queue], ceilings[queue]
            peaks[queue] = max(peaks[queue], amount)
            if amount > most:
                amounts[queue] = most
                whole += amount - most
            else:
                still_open.append(queue)
        queues = still_open
    return amounts


# ORDER-14
def usage_key(
    allocated: Mapping[str, int], guaranteed: Mapping[str, int], total: Mapping[str, int]
) -> tuple[float, ...]:
    """Return an application's usage for the policy ``fair``: its shares, largest first.

    Types that it does not use are left out: their share 0 at the end of the tuple would change
    no comparison.
    """
    shares = [
        share(used, guaranteed.get(name, 0) or total.get(name, 0))
        for name, used in allocated.items()
        if used
    ]
    shares.sort(reverse=True)
    return tuple(shares)


@final
class WeightedShare:
    """Computes the weighted utilisation of a node."""

    __slots__ = ("_parts", "_whole")

    # ORDER-25
    def __init__(self, capacity: Mapping[str, int], weights: Iterable[tuple[str, float]]) -> None:
        self._parts = [
            (name, weight, capacity[name]) for name, weight in weights if name in capacity
        ]
        self._whole = fsum(weight for _, weight, _ in self._parts)

    # ORDER-22, ORDER-28
    def utilisation(self, used: Mapping[str, int]) -> float:
        """Return the weighted average of the utilisation over the node's types with a weight."""
        if not self._whole:
            return 0.0
        if len(self._parts) == 2:  # A single addition is rounded once, like ``fsum``.
            (first, weight, there), (second, other_weight, other) = self._parts
            part = weight * (used.get(first, 0) / there)
            return (part + other_weight * (used.get(second, 0) / other)) / self._whole
        return self._utilisation_of_many(used)

    def _utilisation_of_many(self, used: Mapping[str, int]) -> float:
        try:
            parts = (weight * (used.get(name, 0) / there) for name, weight, there in self._parts)
            return fsum(parts) / self._whole
        except OverflowError:  # More is used than there is, with weights near the largest double.
            return inf
