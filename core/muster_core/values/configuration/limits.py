"""Limits by type: what the ``max`` of a queue and the ``maxresources`` of a limit say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs


# CONFIG-25
@final
@attrs.frozen
class Limits:
    """A ``max``: types that it does not name have no limit, and types with 0 are not allowed.

    Attributes:
        amounts: Pairs of a type and its limit in base units, sorted by type.
    """

    amounts: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, amounts: Mapping[str, int]) -> Limits:
        """Create limits from the amount of each named type; zeros are kept."""
        return cls(tuple(sorted(amounts.items())))

    def __bool__(self) -> bool:
        """Return whether it limits any type."""
        return bool(self.amounts)
