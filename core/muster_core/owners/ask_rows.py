"""Creation and counting of many asks at once, as there may be a million of them."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar, cast

from muster_core.owners.messages.asks import Ask
from muster_core.structures.shapes import Shape
from muster_core.structures.steps import PART

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from muster_core.owners.messages.to_applications import AddAsks, AddPlaced
    from muster_core.structures.steps import Steps
    from muster_core.values.resources import Resources

T = TypeVar("T")

_SHAPES: Final = 4_096
"""How many shapes are cached, so that equal asks share one."""

_MANY: Final = 32
"""With more items than this, counting equal ones saves time."""


# The ``__new__`` of a NamedTuple is Python code and would double the time. That of a bare tuple has
# no type of items, so the type checkers must be told.
_make: Final = cast("Callable[[type[Ask], tuple[object, ...]], Ask]", vars(tuple)["__new__"])


@lru_cache(_SHAPES)
def _shape(resources: Resources, selector: tuple[tuple[str, str], ...], node: str | None) -> Shape:
    return Shape(resources, selector, node)


def asks_of(request: AddAsks | AddPlaced, first: int = 0, end: int | None = None) -> dict[str, Ask]:
    """Create the asks of a request, from one number up to another; return them by name, in order."""
    event, origin, priority = request.event, request.origin, request.priority
    selector = tuple(sorted(event.selector.items())) if event.selector else ()
    shape = _shape(event.resources, selector, event.node)
    resources, gang, run_for_us = shape.resources, event.gang, event.run_for_us
    # ORDER-18
    place = (-priority, origin.creation, gang or "", origin.seq)
    # All asks of one shape share one object with their resources.
    more = (
        resources,
        shape,
        priority,
        gang,
        run_for_us,
        request.preempts,
        origin.at_us,
        event.retries,
        event.work,
        event.estimate_us,
    )
    if event.count is None:
        return {event.ask: _make(Ask, (*place, 0, event.ask, *more))}
    numbered = enumerate(event.names(first, end), first)
    return {name: _make(Ask, (*place, number, name, *more)) for number, name in numbered}


def asks_in_steps(request: AddAsks) -> Steps[dict[str, Ask]]:
    """Create the asks of a request like :func:`asks_of`, in steps."""
    event = request.event
    asks: dict[str, Ask] = {}
    for first in range(0, event.count or 1, PART):
        yield
        asks.update(asks_of(request, first, first + PART))
    return asks


# CHECKPOINT-5
def shared(ask: Ask) -> Ask:
    """Return an ask that was loaded, with the one object that equal shapes share."""
    own = ask.shape
    shape = _shape(own.resources, own.selector, own.node)
    if shape is own and ask.resources is shape.resources:
        return ask
    return ask._replace(shape=shape, resources=shape.resources)


def counted(things: list[T]) -> Iterable[tuple[T, int]]:
    """Return items with their counts; if there are few, equal items may be counted separately."""
    return Counter(things).items() if len(things) > _MANY else [(thing, 1) for thing in things]
