"""Amounts of resources: a value type, so that nobody adds bare numbers.

QUANTITY-1, QUANTITY-4: a resource is a map from a type name to a non-negative integer
in base units (millicores, bytes, units), at most 2^63-1; a type that is missing
is zero. The bugs that the type prevents: a negative amount after a release that
came twice, a sum that wraps where another program reads it as int64, and two
spellings (``{"vcore": 0}`` and ``{}``) of one amount that do not compare equal.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Final, final

from typing_extensions import override

from muster_core.values.errors import InsufficientError, QuantityError

MAX_QUANTITY: Final = 2**63 - 1
"""The largest amount of one type, in its base unit."""


@final
class Resources(Mapping[str, int]):
    """An immutable amount of each resource type; types of which there is none are left out.

    Looking up a type that is missing gives 0. Iteration is in the order of the names,
    so that nothing computed from it depends on how the amount came about.

    Args:
        amounts: The amount of each type in base units; zeros are dropped.

    Raises:
        QuantityError: If an amount is no whole number, negative or more than 2^63-1.
    """

    __slots__ = ("_amounts", "_hash")

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        kept: dict[str, int] = {}
        for name in sorted(amounts or ()):
            amount = (amounts or {})[name]
            if type(amount) is not int or amount < 0 or amount > MAX_QUANTITY:
                msg = f"{name}: {amount!r} is not a whole number from 0 to {MAX_QUANTITY}"
                raise QuantityError(msg)
            if amount:
                kept[name] = amount
        self._amounts = kept
        self._hash: int | None = None

    @override
    def __getitem__(self, name: str) -> int:
        return self._amounts.get(name, 0)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._amounts)

    @override
    def items(self) -> ItemsView[str, int]:
        return self._amounts.items()

    @override
    def __len__(self) -> int:
        return len(self._amounts)

    @override
    def __contains__(self, name: object) -> bool:
        return name in self._amounts

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resources):
            return self._amounts == other._amounts
        return NotImplemented

    @override
    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self._amounts.items()))
        return self._hash

    @override
    def __repr__(self) -> str:
        return f"Resources({self._amounts!r})"

    def __add__(self, other: Resources) -> Resources:
        """Add type by type.

        Raises:
            QuantityError: If a sum is more than 2^63-1; the message names the type.
        """
        amounts = dict(self._amounts)
        for name, amount in other._amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        return Resources(amounts)

    def __sub__(self, other: Resources) -> Resources:
        """Take away type by type.

        Raises:
            InsufficientError: If there is less of a type than is taken; the message names it.
        """
        amounts = dict(self._amounts)
        for name, amount in other._amounts.items():
            left = amounts.get(name, 0) - amount
            if left < 0:
                msg = f"{name}: {amount} taken, but there is only {amounts.get(name, 0)}"
                raise InsufficientError(msg)
            amounts[name] = left
        return Resources(amounts)

    def fits_in(self, room: Mapping[str, int]) -> bool:
        """Say whether there is at least this much of every type in ``room``."""
        return all(amount <= room.get(name, 0) for name, amount in self._amounts.items())


NOTHING: Final = Resources()
"""No resources at all."""
