"""One node, and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.structures.ranking import Ranked
from muster_core.structures.shares import Weighing

if TYPE_CHECKING:
    from collections.abc import Mapping


Holder = tuple[int, str]
"""Whose an allocation is: the key of its application, and the name of its ask."""


Weights = tuple[tuple[str, float], ...]


@final
@attrs.define(eq=False)
class Node(Ranked):
    """One node, altered by the index alone.

    Attributes:
        name: Its name.
        capacity: What it has, in base units.
        used: What is taken of it; may be above the capacity after an update.
        held: What is placed on it: applications by their keys, and the names of their asks.
            Each counts once, but while an ask of that name goes as another one comes.
        attributes: What selectors look at.
        schedulable: Whether anything new may be placed on it.
        weighing: How its utilisation is computed.
        matching: The shapes that may use it, whatever is free; it is ranked with those of
            them that it could take now.
        present: Whether it is still in the index.
        version: Another number whenever anything about it has changed.
    """

    name: str
    capacity: Mapping[str, int]
    attributes: Mapping[str, str]
    schedulable: bool
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    held: dict[Holder, int] = attrs.field(factory=dict["Holder", int])
    weighing: Weighing = attrs.field(factory=lambda: Weighing({}, ()), repr=False)
    matching: int = 0
    present: bool = True
    version: int = 0
