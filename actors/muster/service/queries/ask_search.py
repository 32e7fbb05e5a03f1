"""The search for asks: those that a filter admits, in the order in which they were added.

If few asks can be meant, they are taken from their applications and sorted. Otherwise the index is
gone through, a thousand entries at a time, by tests that cost some 50 ns for an entry.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, final

import attrs

from muster._pod_identity import PodFilter, PodIdentity
from muster.service.ask_index import IndexEntry, ShapeGroup, ask_of, by_place
from muster.service.queries.apps import leaves_below, leaves_of
from muster.service.queries.asks import AskRow, row_of_ask
from muster.service.queries.reader import ReadContext
from muster_core.owners.asks import Allocation, Ask
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import PART, Steps, in_pieces
from muster_core.values.event_fields import Work
from muster_core.view.tree.application import ViewApp

_EVERYWHERE: Final = frozenset(AskPlace)

_CODE_OF_PLACE: Final = {
    AskPlace.PARKED: Code.GANG_TIMED_OUT,
    AskPlace.WAITING: Code.PERMIT_WAITING,
}
"""The only reasons of asks in these places."""

_FEW: Final = 2_000
"""How many asks are sorted rather than searched for in the index, however short that is."""

_PART: Final = 8
"""How many times longer the index must be than what is sorted instead."""

_MOST_CELLS: Final = 4_096
"""How many cells are looked at before any ask is."""

_A_FEW: Final = 32
"""How many asks are looked at between two places to pause."""

Test = Callable[[list[IndexEntry]], list[IndexEntry]]
"""Keeps the entries of a piece that a part of the filter admits."""


@final
@attrs.frozen
class AskFilter:
    """Which asks are listed; None for all.

    Attributes:
        places: Those in one of these places.
        queue: Those of this queue, a path in lower case, and below it.
        app: Those of this application.
        user: Those of the applications of this user.
        gang: The members of this gang.
        codes: Those that are not bound and have one of these dominant reasons.
        text: Those in whose name, ``app/ask`` or the ``namespace/pod`` of their pod, this text is;
            in lower case.
        pod: Those that stand for such a pod.
    """

    places: frozenset[AskPlace] | None = None
    queue: str | None = None
    app: str | None = None
    user: str | None = None
    gang: str | None = None
    codes: frozenset[Code] | None = None
    text: str | None = None
    pod: PodFilter | None = None

    def where(self) -> frozenset[AskPlace]:
        """Return the places in which the asks can be."""
        places = _EVERYWHERE if self.places is None else self.places
        codes = self.codes
        if codes is None:
            return places
        possible = {place for place, code in _CODE_OF_PLACE.items() if code in codes}
        if codes.difference(_CODE_OF_PLACE.values()):
            possible.add(AskPlace.PENDING)
        return places & possible


# LISTS-3, LISTS-4
def select_asks(
    context: ReadContext, wanted: AskFilter, place: tuple[int, int] | None, most: int
) -> Steps[list[AskRow]]:
    """Return some asks in the order in which they were added.

    Args:
        context: The state.
        wanted: Which asks.
        place: Behind which place they begin; None for the first ones.
        most: How many at most.
    """
    ask_index, places = context.ask_index, wanted.where()
    if not places:
        return []
    pieces = yield from _candidates(context, wanted, places, place)
    if pieces is None:
        yield from ask_index.catch_up(context.machine)
        pieces = ask_index.behind(place)
    selection = _Selection(context, wanted, places)
    found: list[AskRow] = []
    if selection.is_empty:
        return found
    for piece in pieces:
        yield
        for number, entry in enumerate(selection.keep(piece), 1):
            row = selection.row(entry)
            if row is not None:
                found.append(row)
                if len(found) == most:
                    return found
            if not number % _A_FEW:
                yield
    return found


# Few asks


def _candidates(
    context: ReadContext,
    wanted: AskFilter,
    places: frozenset[AskPlace],
    place: tuple[int, int] | None,
) -> Steps[Iterator[list[IndexEntry]] | None]:
    """Return the asks that can be meant, in pieces; None if they are many."""
    yield
    apps = _apps(context, wanted)
    if apps is None and places == _EVERYWHERE:
        return None
    groups = [
        (app, asks)
        for app in (context.view.apps.values() if apps is None else apps)
        for asks in _dicts(app, places)
        if asks
    ]
    ask_index = context.ask_index
    if sum([len(asks) for _, asks in groups]) > max(_FEW, len(ask_index) // _PART):
        return None
    entries: list[IndexEntry] = []
    for app, asks in groups:
        for piece in in_pieces(asks.values(), PART):
            yield
            entries += ask_index.entries_of(app, map(_ask, piece))
    in_order = yield from by_place(entries)
    if place is not None:
        del in_order[: bisect_left(in_order, (place[0], place[1] + 1))]
    return in_pieces(in_order, PART)


def _apps(context: ReadContext, wanted: AskFilter) -> Iterable[ViewApp] | None:
    """Return the applications whose asks can be meant; None for all."""
    view = context.view
    if wanted.app is not None:
        app = context.machine.app(wanted.app)
        return [] if app is None else [app]
    if wanted.gang is not None:
        gang = view.gangs.get(wanted.gang)
        if gang is None:
            return []
        members = chain(gang.backing_off, gang.waiting, gang.parked, gang.bound)
        return [view.apps[key] for key in {*gang.slots, *(key for key, _ in members)}]
    if wanted.queue is not None:
        return [app for leaf in leaves_below(context, wanted.queue) for app in leaf.apps.values()]
    return None


def _dicts(app: ViewApp, places: frozenset[AskPlace]) -> Iterator[Mapping[str, Any]]:
    if AskPlace.PENDING in places:
        yield app.pending
        yield app.backing_off
    if AskPlace.PARKED in places:
        yield app.parked
    if AskPlace.WAITING in places:
        yield app.waiting
    if AskPlace.BOUND in places:
        yield app.bound


def _ask(one: Ask | tuple[Allocation, object]) -> Ask:
    return one if isinstance(one, Ask) else one[0].ask


# Many asks


@final
class _Selection:
    """Selects the entries that are wanted.

    Args:
        context: The state.
        wanted: Which asks.
        places: The places in which they can be.
    """

    def __init__(
        self, context: ReadContext, wanted: AskFilter, places: frozenset[AskPlace]
    ) -> None:
        self._context = context
        self._places = places
        self._codes = wanted.codes
        self._tests = list(_tests(context, wanted))
        #: The cells of which no ask is wanted, as far as that is known.
        self._closed: set[ShapeGroup] = set()
        # Only pending asks can have several reasons.
        self._closes = wanted.codes is not None and places == frozenset({AskPlace.PENDING})
        #: Whether no ask is wanted for sure.
        self.is_empty = False
        if self._closes and len(context.ask_index.cells) <= _MOST_CELLS:
            opened = {cell for cell in context.ask_index.cells if self._may_have(cell)}
            self._tests.insert(0, lambda piece: [one for one in piece if one.cell in opened])
            self.is_empty = not opened
        if places != _EVERYWHERE:
            self._tests.append(_places_test(places))

    def keep(self, piece: list[IndexEntry]) -> Iterator[IndexEntry]:
        """Yield the entries of a piece that may be wanted."""
        for test in self._tests:
            piece = test(piece)
        closed = self._closed
        for entry in piece:
            if entry.cell not in closed:
                yield entry

    def row(self, entry: IndexEntry) -> AskRow | None:
        """Return the ask of an entry if it is wanted, or None."""
        if ask_of(entry) is None:
            return None
        row = row_of_ask(self._context, entry.app, entry.name)
        if row is None or row.place not in self._places:
            return None
        codes = self._codes
        if codes is None or row.place in _CODE_OF_PLACE:
            return row
        if self._closes and not self._may_have(entry.cell):
            self._closed.add(entry.cell)
            return None
        return row if row.code() in codes else None

    def _may_have(self, cell: ShapeGroup) -> bool:
        """Return whether pending asks of a cell may have one of the reasons."""
        app, codes = cell.app, self._codes
        if codes is None or not (app.pending or app.backing_off):
            return False
        possible = self._context.view.explainer.dominants.possible(app, cell.example)
        return possible is None or not possible.isdisjoint(codes)


def _tests(context: ReadContext, wanted: AskFilter) -> Iterator[Test]:
    """Yield the tests of a filter, the quick ones first."""
    if wanted.app is not None:
        yield _app_test(context.machine.app(wanted.app))
    if wanted.queue is not None:
        yield _leaves_test(leaves_of(context, wanted.queue))
    if wanted.gang is not None:
        yield _gang_test(wanted.gang)
    if wanted.user is not None:
        yield _user_test(wanted.user)
    if wanted.pod is not None:
        yield _pods_test(context, wanted.pod)
    if wanted.text is not None:
        yield _text_test(context, wanted.text)


def _app_test(app: ViewApp | None) -> Test:
    return lambda piece: [entry for entry in piece if entry.app is app]


def _leaves_test(leaves: frozenset[int]) -> Test:
    return lambda piece: [entry for entry in piece if entry.app.identity.leaf in leaves]


def _gang_test(gang: str) -> Test:
    return lambda piece: [entry for entry in piece if entry.cell.example.gang == gang]


def _user_test(user: str) -> Test:
    return lambda piece: [entry for entry in piece if entry.app.identity.user[0] == user]


# POD-4
def _pods_test(context: ReadContext, wanted: PodFilter) -> Test:
    return lambda piece: [entry for entry in piece if wanted.finds(_work_of(context, entry))]


def _work_of(context: ReadContext, entry: IndexEntry) -> Work | None:
    known = context.ledger.ask(entry.app.identity.name, entry.name)
    return None if known is None else known.event.work


# PAGE-40, POD-14
def _text_test(context: ReadContext, text: str) -> Test:
    def has_text(entry: IndexEntry) -> bool:
        if text in f"{entry.app.identity.name}/{entry.name}".lower():
            return True
        pod = PodIdentity.of(_work_of(context, entry))
        return pod is not None and text in pod.full_name.lower()

    return lambda piece: [*filter(has_text, piece)]


def _places_test(places: frozenset[AskPlace]) -> Test:
    tests = [_TESTS[place] for place in AskPlace if place in places]
    if len(tests) == 1:
        return tests[0]

    def test(piece: list[IndexEntry]) -> list[IndexEntry]:
        kept = {id(entry) for one in tests for entry in one(piece)}
        return [entry for entry in piece if id(entry) in kept]

    return test


def _keep_pending(piece: list[IndexEntry]) -> list[IndexEntry]:
    return [one for one in piece if one.name in one.app.pending or one.name in one.app.backing_off]


def _keep_parked(piece: list[IndexEntry]) -> list[IndexEntry]:
    return [one for one in piece if one.name in one.app.parked]


def _keep_waiting(piece: list[IndexEntry]) -> list[IndexEntry]:
    return [one for one in piece if one.name in one.app.waiting]


def _keep_bound(piece: list[IndexEntry]) -> list[IndexEntry]:
    return [one for one in piece if one.name in one.app.bound]


_TESTS: Final[dict[AskPlace, Test]] = {
    AskPlace.PENDING: _keep_pending,
    AskPlace.PARKED: _keep_parked,
    AskPlace.WAITING: _keep_waiting,
    AskPlace.BOUND: _keep_bound,
}
