"""How a store is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias, final

import attrs

Durability: TypeAlias = Literal["full", "process"]
"""What an announced batch survives: a power cut, or the end of the process."""


@final
@attrs.frozen
class StoreOptions:
    """How a store is kept.

    Attributes:
        directory: The state directory.
        durability: ``full`` to survive a power cut, ``process`` to survive the end of the process.
        checkpoint_every: After how many events a checkpoint is taken at the earliest.
        keep_us: How long history is kept, in microseconds; None for ever.
    """

    directory: Path
    durability: Durability
    checkpoint_every: int
    keep_us: int | None
