"""Checks of a configuration: the quotas of queues against those of their parents.

CONFIG-28 to CONFIG-32. A queue whose ``guaranteed`` does not name a type counts with the sum of
its children's ``guaranteed``; without a ``max`` for a type, the smallest ``max`` above it counts. A
``guaranteed`` of 0 is the same as none; a ``max`` of 0 allows nothing.

It is enough to compare each sum with the ``max`` of the queue itself: a sum that is over a ``max``
further up is found there too, or is over a ``guaranteed`` between the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from muster_core.values.quantities import format_quantity


class Place(Protocol):
    """A field that may be refused."""

    def refuse(self, message: str, /) -> None:
        """Report a problem with the field."""


class Amounts(Protocol):
    """A map of quantities."""

    @property
    def amounts(self) -> Mapping[str, int]:
        """The amounts in base units."""
        ...

    @property
    def fields(self) -> Mapping[str, Place]:
        """The field of each amount."""
        ...


class LimitedQueue(Protocol):
    """A queue with its quotas and its children."""

    @property
    def guaranteed(self) -> Amounts:
        """Its ``guaranteed``."""
        ...

    @property
    def max(self) -> Amounts:
        """Its ``max``."""
        ...

    @property
    def max_applications(self) -> int:
        """Its ``maxapplications``; 0 means no limit."""
        ...

    @property
    def applications_field(self) -> Place:
        """The field of ``maxapplications``, or of the queue if it has none."""
        ...

    @property
    def children(self) -> Sequence[LimitedQueue]:
        """Its children."""
        ...


def check_quotas(root: LimitedQueue) -> None:
    """Report all contradictions between the quotas of a tree of queues."""
    _check_guaranteed(root)
    _check_max(root, {})
    _check_applications(root)


# CONFIG-29, CONFIG-32
def _check_guaranteed(queue: LimitedQueue) -> dict[str, int]:
    """Check the sums of ``guaranteed``, bottom up; return what counts for the queue itself."""
    total: dict[str, int] = {}
    for child in queue.children:
        for name, amount in _check_guaranteed(child).items():
            total[name] = total.get(name, 0) + amount
    # CONFIG-26
    own = {name: amount for name, amount in queue.guaranteed.amounts.items() if amount}
    _compare(total, own, queue.guaranteed, "guaranteed")
    _compare(total, queue.max.amounts, queue.max, "max")
    return total | own


def _compare(
    total: Mapping[str, int], bounds: Mapping[str, int], quota: Amounts, what: str
) -> None:
    """Report each type whose sum over the children's ``guaranteed`` exceeds the parent's bound."""
    for name, bound in bounds.items():
        if total.get(name, 0) > bound:
            guaranteed = format_quantity(name, total[name])
            quota.fields[name].refuse(
                f"the children's guaranteed {name}, {guaranteed} together,"
                f" is over {what} {format_quantity(name, bound)}"
            )


# CONFIG-30, CONFIG-32
def _check_max(queue: LimitedQueue, above: Mapping[str, int]) -> None:
    """Check each ``max`` against the smallest one above it, top down."""
    smallest = dict(above)
    for name, amount in queue.max.amounts.items():
        bound = above.get(name)
        if bound is not None and amount > bound:
            queue.max.fields[name].refuse(
                f"max {format_quantity(name, amount)} of {name}"
                f" is over the {format_quantity(name, bound)} of a queue above"
            )
        smallest[name] = amount if bound is None else min(amount, bound)
    for child in queue.children:
        _check_max(child, smallest)


# CONFIG-31
def _check_applications(queue: LimitedQueue) -> None:
    """Check each ``maxapplications`` against that of the parent, if the parent has a limit."""
    limit = queue.max_applications
    for child in queue.children:
        own = child.max_applications
        if limit and not own:
            child.applications_field.refuse(
                f"maxapplications is not limited, but that of the parent is ({limit})"
            )
        elif limit and own > limit:
            child.applications_field.refuse(f"maxapplications {own} is over the parent's {limit}")
        _check_applications(child)
