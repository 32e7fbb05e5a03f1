"""Asks: what a list and a single one say, and pages of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.endpoints.columns import (
    AMOUNTS,
    BOOLEAN,
    NUMBER,
    SECONDS,
    TEXT,
    TEXTS,
    WORDS,
    Column,
    Table,
    maybe,
    word,
)
from muster.service.reading.apps import leaves_of
from muster.service.reading.looking import Looking, in_seconds
from muster.service.reading.roll import Cell, Entry, ask_of
from muster_core.events import AddAsk
from muster_core.reasons import Code
from muster_core.snapshots import AskPlace

if TYPE_CHECKING:
    from muster.service.reading.told import AskTold
    from muster_core.owners.messages.asks import Allocation, Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp

# Looking up a member of an enum takes ten times as long.
_PENDING: Final = AskPlace.PENDING
_PARKED: Final = AskPlace.PARKED
_WAITING: Final = AskPlace.WAITING
_BOUND: Final = AskPlace.BOUND
_BY_GANG: Final = frozenset({Code.GANG_TIMED_OUT, Code.PERMIT_WAITING})
"""The reasons of parked and waiting asks."""


@final
@attrs.frozen(eq=False)
class AskRow:
    """An ask, and what is known of it.

    Attributes:
        looking: The state.
        app: Its application.
        ask: The ask.
        place: Its place.
        allocation: Its allocation, or None.
        told: What the ledger tells of it, or None.
    """

    looking: Looking
    app: ViewApp
    ask: Ask
    place: AskPlace
    allocation: Allocation | None
    told: AskTold | None

    def code(self) -> str | None:
        """Return its dominant reason, or None if it is bound."""
        if self.place is _BOUND:
            return None
        return self.looking.view.dominant(self.app, self.ask.name, self.looking.now_us).value

    def message(self) -> str | None:
        """Return its dominant reason in words, or None if it is bound."""
        explained = self.looking.machine.explain(self.app.identity.name, self.ask.name)
        return None if explained is None else explained.dominant.message

    def since_us(self) -> int | None:
        """Return since when it is not bound, or None if it is."""
        return None if self.place is _BOUND else self.app.pending_since_us(self.ask)

    def back_off_us(self) -> int | None:
        """Return until when it backs off, or None."""
        name = self.ask.name
        if name not in self.app.backing_off:
            return None
        return self.looking.view.back_off_end_us(self.app, name)

    def last_failed_us(self) -> int | None:
        """Return when its last bind failed, or None."""
        failed = self.app.in_a_row.get(self.ask.name)
        return None if failed is None else failed.last_us

    def failed_binds(self) -> int:
        """Return how many of its binds have failed in a row."""
        failed = self.app.in_a_row.get(self.ask.name)
        return 0 if failed is None else failed.times

    def said(self, field: str) -> object:
        """Return a field of the event that added it, or None."""
        event = None if self.told is None else self.told.event
        return getattr(event, field, None) if isinstance(event, AddAsk) else None

    def environment(self) -> object:
        """Return the environment of its command, or None."""
        env = self.said("env")
        return None if env is None else dict(env)  # type: ignore[call-overload]

    def command(self) -> object:
        """Return its command, or None."""
        command = self.said("command")
        return list(command) if isinstance(command, tuple) else command


# LISTS-7
ASKS: Final = Table[AskRow](
    (
        Column("app", TEXT, "its application", lambda row: row.app.identity.name),
        Column("ask", TEXT, "its name within its application", lambda row: row.ask.name),
        Column("queue", TEXT, "the path of its queue", lambda row: row.app.identity.path),
        Column(
            "user", maybe(TEXT), "the user of its application", lambda row: row.app.identity.user[0]
        ),
        Column("place", word(AskPlace), "its place", lambda row: row.place.value),
        Column(
            "node",
            maybe(TEXT),
            "the node that it holds",
            lambda row: None if row.allocation is None else row.allocation.node,
        ),
        Column("priority", NUMBER, "its priority", lambda row: row.ask.priority),
        Column(
            "resources",
            AMOUNTS,
            "what it asks for or holds, in base units",
            lambda row: dict(row.ask.resources.amounts),
        ),
        Column("gang", maybe(TEXT), "the full name of its gang", lambda row: row.ask.gang),
        Column(
            "came",
            SECONDS,
            "when it was added, in seconds",
            lambda row: in_seconds(row.ask.came_us),
        ),
        Column(
            "since",
            maybe(SECONDS),
            "since when it counts as pending, in seconds; null if it is bound",
            lambda row: in_seconds(row.since_us()),
        ),
        Column(
            "taken",
            maybe(SECONDS),
            "when it got the node that it holds, in seconds",
            lambda row: None if row.told is None else in_seconds(row.told.taken_us),
        ),
        Column(
            "bound",
            maybe(SECONDS),
            "when it was bound there, in seconds",
            lambda row: None if row.told is None else in_seconds(row.told.bound_us),
        ),
        Column(
            "required_node",
            maybe(TEXT),
            "the only node on which it may run",
            lambda row: row.ask.shape.node,
        ),
        Column(
            "selector",
            WORDS,
            "the attributes that its node must have",
            lambda row: dict(row.ask.shape.selector),
        ),
        Column(
            "run_for",
            maybe(SECONDS),
            "how long after its bind it completes by itself, in seconds",
            lambda row: in_seconds(row.ask.run_for_us),
        ),
        Column(
            "retries",
            NUMBER,
            "how often it is still tried again after its work has failed",
            lambda row: row.ask.retries,
        ),
        Column(
            "preempts",
            BOOLEAN,
            "whether its priority class lets it preempt",
            lambda row: row.ask.preempts,
        ),
        Column(
            "failed_binds",
            NUMBER,
            "how many of its binds have failed in a row",
            lambda row: row.failed_binds(),
        ),
        Column(
            "last_failed",
            maybe(SECONDS),
            "when the last of these failed, in seconds",
            lambda row: in_seconds(row.last_failed_us()),
        ),
        Column(
            "backs_off_until",
            maybe(SECONDS),
            "until when it is not tried, in seconds",
            lambda row: in_seconds(row.back_off_us()),
        ),
        Column(
            "reason",
            maybe(word(Code)),
            "its dominant reason; null if it is bound",
            lambda row: row.code(),
        ),
        Column(
            "message",
            maybe(TEXT),
            "the dominant reason in words",
            lambda row: row.message(),
            single=True,
        ),
        Column(
            "command",
            maybe({"anyOf": [TEXT, TEXTS]}),
            "the command that does its work",
            lambda row: row.command(),
            single=True,
        ),
        Column(
            "env",
            maybe(WORDS),
            "the environment variables of the command",
            lambda row: row.environment(),
            single=True,
        ),
        Column(
            "workdir",
            maybe(TEXT),
            "the folder in which the command runs",
            lambda row: row.said("workdir"),
            single=True,
        ),
    )
)
"""The fields of asks."""


def row_of_ask(looking: Looking, app: ViewApp, name: str) -> AskRow | None:
    """Return an ask of an application by its name, or None."""
    ask = app.find(name)
    if ask is None:
        return None
    held = app.waiting.get(name) or app.bound.get(name)
    if held is not None:
        place = _WAITING if name in app.waiting else _BOUND
    else:
        place = _PARKED if name in app.parked else _PENDING
    told = None if looking.told is None else looking.told.ask(app.identity.name, name)
    return AskRow(looking, app, ask, place, None if held is None else held[0], told)


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
    """

    places: frozenset[AskPlace] | None = None
    queue: str | None = None
    app: str | None = None
    user: str | None = None
    gang: str | None = None
    codes: frozenset[Code] | None = None


Test = Callable[[list[Entry]], list[Entry]]
"""Keeps the entries of a piece of the roll that may be listed."""


# LISTS-3
def select_asks(
    looking: Looking, wanted: AskFilter, place: tuple[int, int] | None, most: int
) -> Steps[list[AskRow]]:
    """Return some asks in the order in which they were added.

    Args:
        looking: The state.
        wanted: Which asks.
        place: Behind which place they begin; None for the first ones.
        most: How many at most.
    """
    roll = looking.ledger.roll
    yield from roll.catch_up(looking.machine)
    tests = list(_tests(looking, wanted))
    closed: set[Cell] = set()
    found: list[AskRow] = []
    for piece in roll.behind(place):
        yield
        left = piece
        for test in tests:
            left = test(left)
        if closed:
            left = [entry for entry in left if entry.cell not in closed]
        for number, entry in enumerate(left, 1):
            row = _row(looking, wanted, entry, closed)
            if row is not None:
                found.append(row)
                if len(found) == most:
                    return found
            if not number % _A_FEW:
                yield
    return found


_A_FEW: Final = 32
"""How many asks are looked at between two places to pause."""


def _row(looking: Looking, wanted: AskFilter, entry: Entry, closed: set[Cell]) -> AskRow | None:
    """Return the ask of an entry if it is wanted, or None."""
    codes = wanted.codes
    if entry.cell in closed or ask_of(entry) is None:
        return None
    row = row_of_ask(looking, entry.app, entry.name)
    if row is None or codes is None:
        return row
    if row.place is _PENDING and not codes & _BY_GANG:
        possible = looking.view.possible_reasons(entry.app, row.ask)
        if possible is not None and not possible & codes:
            closed.add(entry.cell)
            return None
    return row if row.code() in codes else None


def _tests(looking: Looking, wanted: AskFilter) -> Iterator[Test]:
    """Yield the tests of a filter, the quick ones first."""
    machine = looking.machine
    if wanted.app is not None:
        key = machine.registry.locate(wanted.app)
        yield _of_app(None if key is None else looking.view.apps.get(key))
    if wanted.queue is not None:
        yield _in_leaves(leaves_of(looking, wanted.queue))
    if wanted.gang is not None:
        yield _of_gang(wanted.gang)
    if wanted.user is not None:
        yield _of_user(wanted.user)
    places = wanted.places
    if wanted.codes is not None:
        places = (frozenset(AskPlace) if places is None else places) - {_BOUND}
    if places is not None and len(places) < len(AskPlace):
        yield _in_places(places)


def _of_app(app: ViewApp | None) -> Test:
    return lambda piece: [entry for entry in piece if entry.app is app]


def _in_leaves(leaves: frozenset[int]) -> Test:
    return lambda piece: [entry for entry in piece if entry.app.identity.leaf in leaves]


def _of_gang(gang: str) -> Test:
    return lambda piece: [entry for entry in piece if entry.cell.gang == gang]


def _of_user(user: str) -> Test:
    return lambda piece: [entry for entry in piece if entry.app.identity.user[0] == user]


def _in_places(places: frozenset[AskPlace]) -> Test:
    tests = [_TESTS[place] for place in AskPlace if place in places]
    if len(tests) == 1:
        return tests[0]

    def test(piece: list[Entry]) -> list[Entry]:
        kept = {entry for one in tests for entry in map(id, one(piece))}
        return [entry for entry in piece if id(entry) in kept]

    return test


def _pending(piece: list[Entry]) -> list[Entry]:
    return [one for one in piece if one.name in one.app.pending or one.name in one.app.backing_off]


def _parked(piece: list[Entry]) -> list[Entry]:
    return [one for one in piece if one.name in one.app.parked]


def _waiting(piece: list[Entry]) -> list[Entry]:
    return [one for one in piece if one.name in one.app.waiting]


def _bound(piece: list[Entry]) -> list[Entry]:
    return [one for one in piece if one.name in one.app.bound]


_TESTS: Final[dict[AskPlace, Test]] = {
    _PENDING: _pending,
    _PARKED: _parked,
    _WAITING: _waiting,
    _BOUND: _bound,
}
