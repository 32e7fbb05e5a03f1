"""A journal in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from muster_core.decisions import Announced


@final
class Recording:
    """A journal in memory, for tests and for small feeds.

    Attributes:
        decisions: All decisions that were announced so far, in order.
    """

    def __init__(self) -> None:
        self.decisions: list[Announced] = []

    def write(self, batch: Sequence[Announced], /) -> None:
        """Keep the decisions of a batch."""
        self.decisions.extend(batch)
