"""How asks come to be: in rows, as there may be a million of them."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from muster_core.owners.messages.asks import Ask
from muster_core.structures.shapes import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.owners.messages.to_applications import AddAsks, AddPlaced
    from muster_core.values.resources import Resources

T = TypeVar("T")

_SHAPES: Final = 4_096
"""How many shapes are remembered, so that asks that are alike share one."""

_MANY: Final = 32
"""Beyond how many things it saves time to count those that are alike."""


@lru_cache(_SHAPES)
def _shape(resources: Resources, selector: tuple[tuple[str, str], ...], node: str | None) -> Shape:
    return Shape(resources, selector, node)


def asks_of(request: AddAsks | AddPlaced) -> dict[str, Ask]:
    """Make the asks that come with a request; give them by name and in order."""
    event, origin, priority = request.event, request.origin, request.priority
    selector = tuple(sorted(event.selector.items())) if event.selector else ()
    shape = _shape(event.resources, selector, event.node)
    resources, gang, run_for_us = shape.resources, event.gang, event.run_for_us
    place = (-priority, origin.creation, gang or "", origin.seq)
    # What all asks of one size hold is one object.
    more = (resources, shape, priority, gang, run_for_us, request.preempts, origin.at_us)
    asks: dict[str, Ask] = {}
    for number, name in enumerate(event.names()):
        # Past the ``__new__`` of a NamedTuple, which is Python code and takes as long again.
        ask = (*place, number, name, *more)
        asks[name] = tuple.__new__(Ask, ask)  # pyright: ignore[reportUnknownMemberType]
    return asks


def counted(things: list[T]) -> Iterable[tuple[T, int]]:
    """Give different things, each with how often it comes; of few they need not be different."""
    return Counter(things).items() if len(things) > _MANY else [(thing, 1) for thing in things]
