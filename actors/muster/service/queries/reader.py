"""Reading the state after a batch, in pages, without holding up or breaking anything.

A cursor holds the place of the last item in an order that never changes, so it stays right when
items come and go, and when the service starts again.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

import attrs

from muster.figures.text import iso_date
from muster.service.endpoints.schemas import Column, ParameterKind, row_of
from muster_core.decisions import seconds
from muster_core.snapshots import ReservationSnapshot, UsageSnapshot
from muster_core.structures.steps import Steps, in_pieces

if TYPE_CHECKING:
    from muster.service.ask_index import AskIndex
    from muster.service.ledger.ledger import Ledger
    from muster.service.state import Service
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.view import DecisionView
    from muster_core.view.tree.queue import ViewQueue


T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class ReadContext:
    """The state between two batches, while one request reads it.

    Attributes:
        machine: The machine; it must not be changed.
        ledger: What was let in and decided.
        ask_index: All asks in the order in which they were added.
    """

    machine: CoordinatorMachine
    ledger: Ledger
    ask_index: AskIndex
    #: What is reserved, once it was read.
    _reserved: list[Mapping[str, ReservationSnapshot]] = attrs.field(
        factory=list["Mapping[str, ReservationSnapshot]"], init=False
    )

    #: The usage of the children of parents, and of the users of leaves, once it was read.
    _usage: dict[int, Sequence[UsageSnapshot]] = attrs.field(
        factory=dict[int, "Sequence[UsageSnapshot]"], init=False
    )

    def usage_in(self, queue: ViewQueue) -> Sequence[UsageSnapshot]:
        """Return what the queues directly below a queue, or the users of a leaf, have used lately."""
        if queue.key not in self._usage:
            self._usage[queue.key] = self.view.usage_in(queue)
        return self._usage[queue.key]

    def reservations(self) -> Mapping[str, ReservationSnapshot]:
        """Return what the last round has left reserved, by ``app/ask``."""
        if not self._reserved:
            self._reserved.append(self.view.reservations())
        return self._reserved[0]

    @property
    def view(self) -> DecisionView:
        """The decision view."""
        return self.machine.view

    @property
    def now_us(self) -> int:
        """The instant of the last batch, in microseconds since the origin."""
        return self.machine.now_us


@final
@attrs.frozen
class ReadResult(Generic[T]):
    """What was read, and after which batch.

    Attributes:
        value: What was read.
        batch: The number of the batch.
        at_us: Its instant, in microseconds since the origin.
    """

    value: T
    batch: int
    at_us: int

    # LISTS-1
    def heading(self, service: Service) -> dict[str, object]:
        """Return the members of an answer that say after which batch it is."""
        return {
            "batch": self.batch,
            "at": seconds(self.at_us),
            "time": iso_date(service.unix_us(self.at_us)),
        }


@final
@attrs.frozen
class _ReadFailure:
    error: Exception


async def read_state(service: Service, read: Callable[[ReadContext], Steps[T]]) -> ReadResult[T]:
    """Read the state after the last batch that was announced.

    Args:
        service: The service.
        read: Reads it in steps.

    Raises:
        Exception: What ``read`` raises; the scheduler goes on.
    """

    def inspect(machine: CoordinatorMachine) -> Steps[ReadResult[T] | _ReadFailure]:
        context = ReadContext(machine, service.ledger, service.ask_index)
        try:
            value = yield from read(context)
        except Exception as error:  # noqa: BLE001 - a bug in a list must not end the scheduler
            return _ReadFailure(error)
        return ReadResult(value, machine.batches, machine.now_us)

    found = await service.inspect(inspect)
    if isinstance(found, _ReadFailure):
        raise found.error
    return found


_LONGEST: Final = 4096
"""The longest cursor, in characters."""

_WRONG: Final = "is no cursor of this list; take the `next` of an earlier page"


def cursor(listed: str, *place: str | int) -> str:
    """Return the cursor behind an item.

    Args:
        listed: The name of the list.
        place: The place of the item in the order of the list.
    """
    written = json.dumps([listed, *place], ensure_ascii=True, separators=(",", ":"))
    return urlsafe_b64encode(written.encode()).decode().rstrip("=")


def cursors(listed: str, *types: type) -> ParameterKind:
    """Return the kind of the cursors of a list.

    Args:
        listed: The name of the list.
        types: The types of the parts of a place.
    """

    def read(written: str) -> tuple[Any, ...]:
        name, *place = _decode_cursor(written)
        if name != listed or [type(part) for part in place] != list(types):
            raise ValueError(_WRONG)
        return tuple(place)

    return ParameterKind({"type": "string", "minLength": 1, "maxLength": _LONGEST}, read)


def either(first: ParameterKind, second: ParameterKind) -> ParameterKind:
    """Return the kind of the cursors of one list or another."""

    def read(written: str) -> object:
        try:
            return first.read(written)
        except ValueError:
            return second.read(written)

    return ParameterKind(first.schema, read)


def _decode_cursor(written: str) -> list[Any]:
    if len(written) > _LONGEST or not written.isascii():
        raise ValueError(_WRONG)
    try:
        found: list[Any] = json.loads(urlsafe_b64decode(written + "=" * (-len(written) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise ValueError(_WRONG) from None
    if not _is_filled_list(found):
        raise ValueError(_WRONG)
    return found


def _is_filled_list(value: object) -> bool:
    return isinstance(value, list) and value != []


R = TypeVar("R")

_A_FEW: Final = 16
"""How many rows are made between two places to pause."""


@final
@attrs.frozen
class ListPage:
    """A page of a list.

    Attributes:
        items: Its items.
        next: The cursor of the next page; None if this is the last.
    """

    items: Sequence[Mapping[str, object]]
    next: str | None


# LISTS-2
def page_of(
    found: Sequence[T],
    limit: int,
    columns: Iterable[Column[R]],
    row: Callable[[T], R],
    cursor: Callable[[T], str],
) -> Steps[ListPage]:
    """Return a page.

    Args:
        found: What it begins with, in order; one more than ``limit`` if there is another page.
        limit: How many items it has at most.
        columns: The fields of its items.
        row: Returns what the fields are read from.
        cursor: Returns the cursor behind an item.
    """
    columns = list(columns)
    items: list[Mapping[str, object]] = []
    for piece in in_pieces(found[:limit], _A_FEW):
        yield
        items += [row_of(columns, row(one)) for one in piece]
    more = cursor(found[limit - 1]) if len(found) > limit else None
    return ListPage(items, more)


def names_behind(names: Iterable[str], behind: str | None, most: int) -> list[str]:
    """Return the first names behind one, in their order.

    Args:
        names: All names, in any order.
        behind: The name, which need not exist any more; None for the first names.
        most: How many at most.
    """
    in_order = sorted(names)
    first = 0 if behind is None else bisect_right(in_order, behind)
    return in_order[first : first + most]
