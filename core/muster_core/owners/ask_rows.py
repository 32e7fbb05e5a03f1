"""Creation and counting of many asks at once, as there may be a million of them."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from muster_core.owners.messages.asks import Ask
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import PART

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from muster_core.owners.messages.to_applications import AddAsks, AddPlaced
    from muster_core.structures.steps import Steps
    from muster_core.values.resources import Resources

T = TypeVar("T")

_SHAPES: Final = 4_096
"""How many shapes are cached, so that equal asks share one."""

_MANY: Final = 32
"""With more items than this, counting equal ones saves time."""


@lru_cache(_SHAPES)
def _shape(resources: Resources, selector: tuple[tuple[str, str], ...], node: str | None) -> Shape:
    return Shape(resources, selector, node)


def asks_of(request: AddAsks | AddPlaced) -> dict[str, Ask]:
    """Create the asks of a request; return them by name, in order."""
    event = request.event
    return _create(request, (event.ask,) if event.count is None else event.names(), 0)


def asks_in_steps(request: AddAsks) -> Steps[dict[str, Ask]]:
    """Create the asks of a request like :func:`asks_of`, in steps."""
    event = request.event
    asks: dict[str, Ask] = {}
    for first in range(0, event.count or 1, PART):
        yield
        asks.update(_create(request, event.names(first, first + PART), first))
    return asks


def _create(request: AddAsks | AddPlaced, names: Sequence[str], first: int) -> dict[str, Ask]:
    """Create the asks with these names, of which the first has the number ``first``."""
    event, origin, priority = request.event, request.origin, request.priority
    selector = tuple(sorted(event.selector.items())) if event.selector else ()
    shape = _shape(event.resources, selector, event.node)
    resources, gang, run_for_us = shape.resources, event.gang, event.run_for_us
    # ORDER-18
    place = (-priority, origin.creation, gang or "", origin.seq)
    # All asks of one shape share one object with their resources.
    more = (resources, shape, priority, gang, run_for_us, request.preempts, origin.at_us)
    asks: dict[str, Ask] = {}
    for number, name in enumerate(names, first):
        # The ``__new__`` of a NamedTuple is Python code and would double the time. The ``__new__``
        # of a bare tuple has no type of items, so pyright does not know it.
        ask = (*place, number, name, *more)
        asks[name] = tuple.__new__(Ask, ask)  # pyright: ignore[reportUnknownMemberType] - see above
    return asks


def counted(things: list[T]) -> Iterable[tuple[T, int]]:
    """Return items with their counts; if there are few, equal items may be counted separately."""
    return Counter(things).items() if len(things) > _MANY else [(thing, 1) for thing in things]
