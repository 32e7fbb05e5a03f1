"""Amounts of resources, as a value type.

QUANTITY-1, QUANTITY-4: an amount maps the names of types to non-negative integers in base units
(millicores, bytes, units), at most 2^63-1; a missing type is zero. The class prevents three kinds
of bugs: a negative amount after a repeated release, a sum that overflows in a program that reads
it as int64, and two forms (``{"vcore": 0}`` and ``{}``) of one amount that are not equal.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping
from typing import Final, final

from typing_extensions import override

from muster_core.values.errors import InsufficientError, QuantityError

# QUANTITY-1
MAX_QUANTITY: Final = 2**63 - 1
"""The largest amount of one type, in its base unit."""


# QUANTITY-1
@final
class Resources(Mapping[str, int]):
    """An immutable amount of each resource type, without zeros.

    Looking up a missing type gives 0. Iteration is in the order of the names, so that no result
    depends on how the amount was computed.

    Args:
        amounts: The amount of each type in base units; zeros are dropped.

    Attributes:
        amounts: The amounts as a plain dict, which must not be changed; reading it takes a
            fraction of the time of reading the mapping.

    Raises:
        QuantityError: If an amount is not a whole number, is negative or is more than 2^63-1.
    """

    __slots__ = ("_hash", "amounts")

    def __init__(self, amounts: Mapping[str, int] | None = None) -> None:
        kept: dict[str, int] = {}
        for name in sorted(amounts or ()):
            amount = (amounts or {})[name]
            if type(amount) is not int or amount < 0 or amount > MAX_QUANTITY:
                msg = f"{name}: {amount!r} is not a whole number from 0 to {MAX_QUANTITY}"
                raise QuantityError(msg)
            if amount:
                kept[name] = amount
        self.amounts: Final = kept
        self._hash: int | None = None

    # QUANTITY-3
    @override
    def __getitem__(self, name: str) -> int:
        return self.amounts.get(name, 0)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.amounts)

    @override
    def items(self) -> ItemsView[str, int]:
        return self.amounts.items()

    @override
    def __len__(self) -> int:
        return len(self.amounts)

    @override
    def __contains__(self, name: object) -> bool:
        return name in self.amounts

    @override
    def __eq__(self, other: object) -> bool:
        if isinstance(other, Resources):
            return self.amounts == other.amounts
        return NotImplemented

    @override
    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(tuple(self.amounts.items()))
        return self._hash

    @override
    def __repr__(self) -> str:
        return f"Resources({self.amounts!r})"

    # QUANTITY-4
    def __add__(self, other: Resources) -> Resources:
        """Add type by type.

        Raises:
            QuantityError: If a sum is more than 2^63-1; the message names the type.
        """
        amounts = dict(self.amounts)
        for name, amount in other.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
        return Resources(amounts)

    # QUANTITY-4
    def __sub__(self, other: Resources) -> Resources:
        """Subtract type by type.

        Raises:
            InsufficientError: If a result is below zero; the message names the type.
        """
        amounts = dict(self.amounts)
        for name, amount in other.amounts.items():
            left = amounts.get(name, 0) - amount
            if left < 0:
                msg = f"{name}: {amount} taken, but there is only {amounts.get(name, 0)}"
                raise InsufficientError(msg)
            amounts[name] = left
        return Resources(amounts)

    def fits_in(self, room: Mapping[str, int]) -> bool:
        """Return whether ``room`` has at least this amount of every type."""
        return all(amount <= room.get(name, 0) for name, amount in self.amounts.items())


NOTHING: Final = Resources()
"""No resources at all."""
