"""Asks as a list and a single answer say them: those that exist, and those that have ended."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.usage import in_seconds as area_in_seconds
from muster.service.endpoints import schemas
from muster.service.endpoints.schemas import Column, Table
from muster.service.ledger.records import AskEnding, AskEntry, EndedAsk, EndedAskFilter
from muster.service.past.states import EndedAskQuery
from muster.service.queries.reader import ReadContext, ReadResult, in_seconds, read_state
from muster_core.owners.asks import Allocation, Ask
from muster_core.reasons import Code, Passed, PendingReason
from muster_core.snapshots import AskPlace, ReservationSnapshot
from muster_core.structures.steps import Steps
from muster_core.values.event_fields import Work
from muster_core.view.tree.application import ViewApp

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.state import Service


# Looking up a member of an enum takes ten times as long.
_PENDING: Final = AskPlace.PENDING
_PARKED: Final = AskPlace.PARKED
_WAITING: Final = AskPlace.WAITING
_BOUND: Final = AskPlace.BOUND
_NOTHING: Final = Work()


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

    looking: ReadContext
    app: ViewApp
    ask: Ask
    place: AskPlace
    allocation: Allocation | None
    told: AskEntry | None

    def code(self) -> str | None:
        """Return its dominant reason, or None if it is bound."""
        if self.place is _BOUND:
            return None
        return self.looking.view.explainer.dominant(
            self.app, self.ask.name, self.looking.now_us
        ).value

    def dominant(self) -> PendingReason | None:
        """Return its dominant reason with words and facts, or None if it is bound."""
        explained = self.looking.machine.explain(self.app.identity.name, self.ask.name)
        return None if explained is None else explained.dominant

    def message(self) -> str | None:
        """Return its dominant reason in words, or None if it is bound."""
        reason = self.dominant()
        return None if reason is None else reason.message

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

    def reservation(self) -> ReservationSnapshot | None:
        """Return what is reserved for it, or None."""
        name = f"{self.app.identity.name}/{self.ask.name}"
        return self.looking.reservations().get(name)

    # OUTLOOK-9
    def ends_at_us(self, now_us: int) -> int | None:
        """Return when it is expected to end, or None if it is not bound or nobody knows.

        Args:
            now_us: The present instant, in microseconds since the origin. If the last batch is
                later, that counts.
        """
        now_us = max(now_us, self.looking.now_us)
        return self.looking.view.expected_end_us(self.app.identity.key, self.ask.name, now_us)

    # OUTLOOK-8
    def passed(self) -> Sequence[Passed]:
        """Return the reservations that it did not delay when it got the node that it holds."""
        return () if self.told is None else self.told.passed

    def failed_binds(self) -> int:
        """Return how many of its binds have failed in a row."""
        failed = self.app.in_a_row.get(self.ask.name)
        return 0 if failed is None else failed.times

    def devices(self) -> dict[str, list[int]]:
        """Return the numbers of the devices that it holds, by type."""
        held = () if self.allocation is None else self.allocation.devices
        return {kind: [*numbers] for kind, numbers in held}

    @property
    def work(self) -> Work:
        """What is to run for it."""
        said = None if self.told is None else self.told.event.work
        return _NOTHING if said is None else said

    def command(self) -> object:
        """Return its command, or None."""
        return [*self.work.argv] or self.work.shell


_RESERVATION: Final = {
    "type": "object",
    "properties": {
        "node": schemas.TEXT,
        "start": schemas.maybe(schemas.SECONDS),
        "scope": schemas.TEXT,
    },
}


# LISTS-14
def reservation_map(found: ReservationSnapshot | None) -> dict[str, object] | None:
    """Return what is reserved for an ask as a map, or None."""
    if found is None:
        return None
    return {"node": found.node, "start": in_seconds(found.start_us), "scope": found.scope}


# LISTS-7
ASKS: Final = Table[AskRow](
    (
        Column("app", schemas.TEXT, "its application", lambda row: row.app.identity.name),
        Column("ask", schemas.TEXT, "its name within its application", lambda row: row.ask.name),
        Column("queue", schemas.TEXT, "the path of its queue", lambda row: row.app.identity.path),
        Column(
            "user",
            schemas.maybe(schemas.TEXT),
            "the user of its application",
            lambda row: row.app.identity.user[0],
        ),
        Column("place", schemas.word(AskPlace), "its place", lambda row: row.place.value),
        Column(
            "node",
            schemas.maybe(schemas.TEXT),
            "the node that it holds",
            lambda row: None if row.allocation is None else row.allocation.node,
        ),
        Column("priority", schemas.NUMBER, "its priority", lambda row: row.ask.priority),
        Column(
            "resources",
            schemas.AMOUNTS,
            "what it asks for or holds, in base units",
            lambda row: dict(row.ask.resources.amounts),
        ),
        Column(
            "devices",
            schemas.DEVICES,
            "the numbers of the devices that it holds, by type",
            lambda row: row.devices(),
        ),
        Column(
            "gang",
            schemas.maybe(schemas.TEXT),
            "the full name of its gang",
            lambda row: row.ask.gang,
        ),
        Column(
            "came",
            schemas.SECONDS,
            "when it was added, in seconds",
            lambda row: in_seconds(row.ask.came_us),
        ),
        Column(
            "since",
            schemas.maybe(schemas.SECONDS),
            "since when it counts as pending, in seconds; null if it is bound",
            lambda row: in_seconds(row.since_us()),
        ),
        Column(
            "taken",
            schemas.maybe(schemas.SECONDS),
            "when it got the node that it holds, in seconds",
            lambda row: None if row.told is None else in_seconds(row.told.taken_us),
        ),
        Column(
            "bound",
            schemas.maybe(schemas.SECONDS),
            "when it was bound there, in seconds",
            lambda row: None if row.told is None else in_seconds(row.told.bound_us),
        ),
        Column(
            "required_node",
            schemas.maybe(schemas.TEXT),
            "the only node on which it may run",
            lambda row: row.ask.shape.node,
        ),
        Column(
            "selector",
            schemas.WORDS,
            "the attributes that its node must have",
            lambda row: dict(row.ask.shape.selector),
        ),
        Column(
            "run_for",
            schemas.maybe(schemas.SECONDS),
            "how long after its bind it completes by itself, in seconds",
            lambda row: in_seconds(row.ask.run_for_us),
        ),
        Column(
            "estimate",
            schemas.maybe(schemas.SECONDS),
            "how long it is expected to take after its bind, in seconds, as it says itself",
            lambda row: in_seconds(row.ask.estimate_us),
        ),
        Column(
            "retries",
            schemas.NUMBER,
            "how often it is still tried again after its work has failed",
            lambda row: row.ask.retries,
        ),
        Column(
            "preempts",
            schemas.BOOLEAN,
            "whether its priority class lets it preempt",
            lambda row: row.ask.preempts,
        ),
        Column(
            "failed_binds",
            schemas.NUMBER,
            "how many of its binds have failed in a row",
            lambda row: row.failed_binds(),
        ),
        Column(
            "last_failed",
            schemas.maybe(schemas.SECONDS),
            "when the last of these failed, in seconds",
            lambda row: in_seconds(row.last_failed_us()),
        ),
        Column(
            "backs_off_until",
            schemas.maybe(schemas.SECONDS),
            "until when it is not tried, in seconds",
            lambda row: in_seconds(row.back_off_us()),
        ),
        Column(
            "reason",
            schemas.maybe(schemas.word(Code)),
            "its dominant reason; null if it is bound",
            lambda row: row.code(),
        ),
        Column(
            "reservation",
            schemas.maybe(_RESERVATION),
            "the node that is reserved for it, from when on (in seconds; null if it starts with an "
            "end that nobody knows), and the path of the queue with `backfill`; null for none",
            lambda row: reservation_map(row.reservation()),
        ),
        Column(
            "message",
            schemas.maybe(schemas.TEXT),
            "the dominant reason in words",
            lambda row: row.message(),
            single=True,
        ),
        Column(
            "command",
            schemas.maybe({"anyOf": [schemas.TEXT, schemas.TEXTS]}),
            "the command that does its work",
            lambda row: row.command(),
            single=True,
        ),
        Column(
            "env",
            schemas.WORDS,
            "the environment variables of the command",
            lambda row: dict(row.work.env),
            single=True,
        ),
        Column(
            "workdir",
            schemas.maybe(schemas.TEXT),
            "the folder in which the command runs",
            lambda row: row.work.workdir,
            single=True,
        ),
    )
)
"""The fields of asks."""


def row_of_ask(looking: ReadContext, app: ViewApp, name: str) -> AskRow | None:
    """Return an ask of an application by its name, or None."""
    ask = app.find(name)
    if ask is None:
        return None
    held = app.waiting.get(name) or app.bound.get(name)
    if held is not None:
        place = _WAITING if name in app.waiting else _BOUND
    else:
        place = _PARKED if name in app.parked else _PENDING
    told = looking.ledger.ask(app.identity.name, name)
    return AskRow(looking, app, ask, place, None if held is None else held[0], told)


PLACE: Final = "ended"
"""The place of an ask that has ended, beside those of the core."""


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


# LISTS-15, LISTS-17, LISTS-20
ENDED: Final = Table[EndedAsk](
    (
        Column("app", schemas.TEXT, "its application", lambda life: life.app),
        Column("ask", schemas.TEXT, "its name within its application", lambda life: life.ask),
        Column("queue", schemas.TEXT, "the path of its queue", lambda life: life.queue),
        Column(
            "user",
            schemas.maybe(schemas.TEXT),
            "the user of its application",
            lambda life: life.user,
        ),
        Column("place", {"const": PLACE}, "that it has ended", lambda _: PLACE),
        Column(
            "node",
            schemas.maybe(schemas.TEXT),
            "the node that it held at the end",
            lambda life: life.node,
        ),
        Column(
            "resources",
            schemas.AMOUNTS,
            "what it asked for, in base units",
            lambda life: dict(life.amounts),
        ),
        Column(
            "submitted",
            schemas.maybe(schemas.SECONDS),
            "when it was added, in seconds",
            lambda life: in_seconds(life.came_us),
        ),
        Column(
            "started",
            schemas.maybe(schemas.SECONDS),
            "when it was bound last, in seconds; null if it never was",
            lambda life: in_seconds(life.started_us),
        ),
        Column(
            "ended",
            schemas.SECONDS,
            "when it ended, in seconds",
            lambda life: in_seconds(life.ended_us),
        ),
        Column("outcome", schemas.word(AskEnding), "how it ended", lambda life: life.ending),
        Column(
            "message",
            schemas.maybe(schemas.TEXT),
            "what the decision log says about the end",
            lambda life: life.message,
        ),
        Column(
            "exit_status",
            schemas.maybe(schemas.NUMBER),
            "the exit status of its process; null if a signal ended it, or nobody said it",
            lambda life: None if life.exited is None else life.exited.status,
        ),
        Column(
            "signal",
            schemas.maybe(schemas.TEXT),
            "the name of the signal that ended its process, or its number if it has none",
            lambda life: None if life.exited is None else _signal_name(life.exited.signal),
        ),
        Column(
            "wait",
            schemas.maybe(schemas.SECONDS),
            "how long it was there and not bound, in seconds",
            lambda life: in_seconds(life.wait_us),
        ),
        Column(
            "run_time",
            schemas.SECONDS,
            "how long it was bound in all, in seconds",
            lambda life: in_seconds(life.ran_us),
        ),
        Column(
            "used",
            schemas.AMOUNTS,
            "what it held times how long, in base units times whole seconds",
            lambda life: area_in_seconds(life.areas),
        ),
        Column(
            "cpu_time",
            schemas.maybe(schemas.SECONDS),
            "how long its process and their children ran on CPUs, in seconds",
            lambda life: None if life.exited is None else in_seconds(life.exited.cpu_us),
        ),
        Column(
            "max_memory",
            schemas.maybe(schemas.NUMBER),
            "the most memory that one of these had at a time, in bytes",
            lambda life: None if life.exited is None else life.exited.memory,
        ),
        Column(
            "seq", schemas.NUMBER, "the number of the decision that ended it", lambda life: life.seq
        ),
    )
)
"""The fields of asks that have ended."""


@final
@attrs.frozen
class _InMemory:
    """What memory has of the lives that are wanted.

    Attributes:
        found: The lives, latest first.
        after_seq: Lives that ended with this decision or before it are not in memory.
        entered: The number of the last batch, and how many events were let in until then.
    """

    found: list[EndedAsk]
    after_seq: int
    entered: tuple[int, int]


def _in_memory(
    looking: ReadContext, wanted: EndedAskFilter, before_seq: int | None, most: int
) -> Steps[_InMemory]:
    yield
    lives, machine = looking.ledger.book.lives, looking.machine
    found = list(wanted.latest(reversed(lives.kept), before_seq, most))
    return _InMemory(found, lives.after_seq, (machine.batches, machine.requests))


# LISTS-16
async def ended_asks(
    service: Service, request: Request, wanted: EndedAskFilter, before_seq: int | None, most: int
) -> ReadResult[list[EndedAsk]]:
    """Return asks that have ended, the latest first.

    Args:
        service: The service.
        request: The request that it is for.
        wanted: Which asks.
        before_seq: Only those that ended before this decision; None for all.
        most: How many at most.

    Raises:
        StoreError: If the kept history cannot be read.
    """
    there = await read_state(service, lambda looking: _in_memory(looking, wanted, before_seq, most))
    value, past = there.value, service.past.lives
    found = value.found
    if len(found) < most and value.after_seq and past.directory is not None:
        end_seq = value.after_seq + 1
        before = end_seq if before_seq is None else min(before_seq, end_seq)
        asked = EndedAskQuery(wanted, before, most - len(found), value.entered)
        found += await service.past.work(request, lambda gone: past.find(asked, gone))
    return ReadResult(found, there.batch, there.at_us)


# LISTS-18
async def ended_ask(service: Service, request: Request, app: str, ask: str) -> EndedAsk | None:
    """Return the last life of an ask that has ended; None if the history has none.

    Raises:
        StoreError: If the kept history cannot be read.
    """
    wanted = EndedAskFilter(app=app, ask=ask)
    there = (await read_state(service, lambda looking: _in_memory(looking, wanted, None, 1))).value
    if there.found:
        return there.found[0]
    past = service.past.lives
    if not there.after_seq or past.directory is None:
        return None
    asked = EndedAskQuery(wanted, there.after_seq + 1, 1, there.entered)
    return await service.past.work(request, lambda gone: past.last(app, ask, asked, gone))
