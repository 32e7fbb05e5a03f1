"""The index of asks: all of them in the order in which they were added, for pages of lists.

The state has asks by application and place, in the order in which they came to that place. A page
needs those of all applications in an order that never changes, so the index has them in this
order. It is a list that grows at its end only, since what is added later has a higher number. An
ask that has ended stays in it for a while, and readers look each ask up in the state. So the index
costs nothing until it is read for the first time, and then only what came since.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, cast, final

import attrs

from muster_core.events import AddAsk, Apply, Event, PodObject
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import PART, Steps, in_order, in_pieces

if TYPE_CHECKING:
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.owners.asks import Ask
    from muster_core.structures.shapes import Shape
    from muster_core.view.tree.application import ViewApp


_MOST: Final = 50_000
"""How many names of applications are noted before everything is read anew."""

_SLACK: Final = 4_096
"""How many asks that have ended stay in it, besides a fourth of those that have not."""

_BY_PLACE: Final = itemgetter(0, 1)


_Key: TypeAlias = "tuple[ViewApp, Shape, str | None]"


@final
@attrs.frozen(eq=False)
class ShapeGroup:
    """The asks of an application that have the same shape and the same gang.

    Attributes:
        app: The application.
        example: One of them, which may have ended.
    """

    app: ViewApp
    example: Ask


@final
class IndexEntry(NamedTuple):
    """An ask in the index.

    Attributes:
        seq: The position of the event that added it.
        number: Its number among those of this event.
        name: Its name.
        app: Its application.
        cell: What it shares with others of its application.
    """

    seq: int
    number: int
    name: str
    app: ViewApp
    cell: ShapeGroup


# The ``__new__`` of a NamedTuple is Python code, and there may be a hundred thousand entries.
_make: Final = cast(
    "Callable[[type[IndexEntry], tuple[object, ...]], IndexEntry]", vars(tuple)["__new__"]
)


@final
class AskIndex:
    """All asks in the order in which they were added."""

    def __init__(self) -> None:
        self._entries: list[IndexEntry] = []
        #: The applications to which asks may have been added; None if it was never read, or
        #: they were too many.
        self._noted: set[str] | None = None
        #: How many of the entries were of existing asks when this was counted last.
        self._living = 0
        self._cells: dict[_Key, ShapeGroup] = {}

    def observe(self, events: Sequence[Event]) -> None:
        """Note which applications the events of a batch may have added asks to."""
        noted = self._noted
        if noted is None:
            return
        for event in events:
            if type(event) is AddAsk:
                noted.add(event.app)
            elif type(event) is Apply:
                contents = (one.content for one in event.objects)
                noted.update(pod.app for pod in contents if isinstance(pod, PodObject))
        if len(noted) > _MOST:
            self._noted = None
            self._entries = []

    def catch_up(self, machine: CoordinatorMachine) -> Steps[None]:
        """Add what has come since it was read last."""
        if self._noted is None:
            yield from self._read_anew(machine)
        elif self._noted:
            yield from self._read_on(machine, self._noted)
        if len(self._entries) > self._living + self._living // 4 + _SLACK:
            yield from self._forget_ended()

    def _read_anew(self, machine: CoordinatorMachine) -> Steps[None]:
        self._cells = {}
        found: list[IndexEntry] = []
        for app in list(machine.view.apps.values()):
            for piece in in_pieces(each_ask(app)):
                yield
                found += self.entries_of(app, piece)
        self._entries = yield from in_order(found, _BY_PLACE)
        self._living, self._noted = len(self._entries), set()

    def _read_on(self, machine: CoordinatorMachine, noted: set[str]) -> Steps[None]:
        last = self._entries[-1].seq if self._entries else -1
        found: list[IndexEntry] = []
        for name in list(noted):
            app = machine.app(name)
            if app is None:
                continue
            for piece in in_pieces(each_ask(app), PART):
                yield
                found += self.entries_of(app, [ask for ask in piece if ask.seq > last])
        self._entries += yield from in_order(found, _BY_PLACE)
        self._noted = set()

    def entries_of(self, app: ViewApp, asks: Iterable[Ask]) -> list[IndexEntry]:
        """Return asks of an application as entries, which need not be in the index."""
        cells = self._cells
        found: list[IndexEntry] = []
        for ask in asks:
            key = (app, ask.shape, ask.gang)
            cell = cells.get(key)
            if cell is None:
                cell = cells[key] = ShapeGroup(app, ask)
            found.append(_make(IndexEntry, (ask.seq, ask.number, ask.name, app, cell)))
        return found

    def _forget_ended(self) -> Steps[None]:
        living: list[IndexEntry] = []
        for piece in in_pieces(self._entries, PART):
            yield
            living += [entry for entry in piece if ask_of(entry) is not None]
        self._entries, self._living = living, len(living)
        cells = {entry.cell for entry in living}
        self._cells = {(cell.app, cell.example.shape, cell.example.gang): cell for cell in cells}

    @property
    def cells(self) -> Collection[ShapeGroup]:
        """What asks share; also of asks that have ended."""
        return self._cells.values()

    def __len__(self) -> int:
        """Return how many asks are in it, with some that have ended."""
        return len(self._entries)

    def behind(self, place: tuple[int, int] | None) -> Iterator[list[IndexEntry]]:
        """Yield the asks behind a place in pieces, in order.

        Args:
            place: ``seq`` and ``number`` of an ask, which may have ended; None for the beginning.
        """
        entries = self._entries
        first = 0
        if place is not None:
            first = bisect_left(entries, (place[0], place[1] + 1), key=_BY_PLACE)
        for at in range(first, len(entries), PART):
            yield entries[at : at + PART]


def by_place(entries: Iterable[IndexEntry]) -> Steps[list[IndexEntry]]:
    """Return entries in the order in which their asks were added."""
    return in_order(entries, _BY_PLACE)


def ask_counts(app: ViewApp) -> dict[str, int]:
    """Return how many asks an application has in each place."""
    pending = len(app.pending) + len(app.backing_off)
    counts = (pending, len(app.parked), len(app.waiting), len(app.bound))
    return {place.value: count for place, count in zip(AskPlace, counts, strict=True)}


def each_ask(app: ViewApp) -> Iterator[Ask]:
    """Iterate over all asks of an application."""
    held = chain(app.waiting.values(), app.bound.values())
    return chain(app.each_pending(), app.parked.values(), (one.ask for one, _ in held))


def ask_of(entry: IndexEntry) -> Ask | None:
    """Return the ask of an entry; None if it has ended, even if another one has its name."""
    ask = entry.app.find(entry.name)
    if ask is None or ask.seq != entry.seq or ask.number != entry.number:
        return None
    return ask
