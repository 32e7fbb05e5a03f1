"""Rows: amounts of all resource types of a partition, by the numbers of the types.

Every allocation changes the sums of each queue on its path, and the shares that follow from them.
To find an amount in a list by its number takes half the time of finding it in a dict by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Row = list[int]
"""An amount of each type, in the order of their numbers."""

Numbered = tuple[tuple[int, int], ...]
"""Amounts of a few types, each with the number of its type; no zeros."""


@final
class Types:
    """The numbers of the resource types of a partition, from 0, in the order of their appearance.

    A type keeps its number. Whoever keeps rows makes them longer when types are added.

    Attributes:
        names: The names of all types, each at its number.
    """

    __slots__ = ("_keepers", "_numbers", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._keepers: list[Callable[[], None]] = []

    def call_when_grown(self, keeper: Callable[[], None]) -> None:
        """Call a function whenever there are more types, before anybody uses their numbers."""
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
