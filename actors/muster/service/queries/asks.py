"""Asks, as lists and single answers have them: those that exist, and those that have ended."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, final

import attrs

from muster._pod_identity import PodFilter, PodIdentity
from muster.feeds._affinity import AFFINITY, TOLERATIONS
from muster.figures.usage import in_seconds as area_in_seconds
from muster.service.endpoints.schemas import (
    DEVICES,
    SECONDS,
    TEXT,
    TEXTS,
    Column,
    Table,
    amounts,
    array,
    flag,
    in_seconds,
    instant,
    maybe,
    maybe_number,
    maybe_text,
    number,
    record,
    seconds,
    shape,
    text,
    word,
    words,
)
from muster.service.ledger.records import AskEnding, AskEntry, EndedAsk, EndedAskFilter
from muster.service.past.states import EndedAskQuery
from muster.service.queries.reader import ReadContext, ReadResult, read_state
from muster_core.owners.asks import Allocation, Ask
from muster_core.reasons import Code, Passed, PendingReason
from muster_core.snapshots import AskPlace, ReservationSnapshot
from muster_core.structures.steps import Steps
from muster_core.values.affinity import Operator, TaintEffect, TolerationOperator
from muster_core.values.event_fields import Work
from muster_core.view.tree.application import ViewApp

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.state import Service


R = TypeVar("R")

_NOTHING: Final = Work()


@final
@attrs.frozen(eq=False)
class AskRow:
    """An ask, and what is known of it.

    Attributes:
        context: The state.
        app: Its application.
        ask: The ask.
        place: Its place.
        allocation: Its allocation, or None.
        ledger_entry: Its entry in the ledger, or None.
    """

    context: ReadContext
    app: ViewApp
    ask: Ask
    place: AskPlace
    allocation: Allocation | None
    ledger_entry: AskEntry | None

    def code(self) -> str | None:
        """Return its dominant reason, or None if it is bound."""
        if self.place is AskPlace.BOUND:
            return None
        return self.context.view.explainer.dominant(
            self.app, self.ask.name, self.context.now_us
        ).value

    def dominant(self) -> PendingReason | None:
        """Return its dominant reason with words and facts, or None if it is bound."""
        explained = self.context.machine.explain(self.app.identity.name, self.ask.name)
        return None if explained is None else explained.dominant

    def message(self) -> str | None:
        """Return its dominant reason in words, or None if it is bound."""
        reason = self.dominant()
        return None if reason is None else reason.message

    def since_us(self) -> int | None:
        """Return since when it is not bound, or None if it is."""
        return None if self.place is AskPlace.BOUND else self.app.pending_since_us(self.ask)

    def back_off_us(self) -> int | None:
        """Return until when it backs off, or None."""
        name = self.ask.name
        if name not in self.app.backing_off:
            return None
        return self.context.view.back_off_end_us(self.app, name)

    def last_failed_us(self) -> int | None:
        """Return when its last bind failed, or None."""
        failed = self.app.in_a_row.get(self.ask.name)
        return None if failed is None else failed.last_us

    def reservation(self) -> ReservationSnapshot | None:
        """Return what is reserved for it, or None."""
        name = f"{self.app.identity.name}/{self.ask.name}"
        return self.context.reservations().get(name)

    # OUTLOOK-9
    def ends_at_us(self, now_us: int) -> int | None:
        """Return when it is expected to end, or None if it is not bound or if unknown.

        Args:
            now_us: The present instant, in microseconds since the origin. If the last batch is
                later, that counts.
        """
        now_us = max(now_us, self.context.now_us)
        return self.context.view.expected_end_us(self.app.identity.key, self.ask.name, now_us)

    # TIME-12
    def gone_at_us(self) -> int | None:
        """Return when it is gone because of its times, or None if it is not."""
        return self.context.view.gone_at_us(self.app.identity.key, self.ask.name)

    def taken_us(self) -> int | None:
        """Return when it got the node that it holds, or None if unknown."""
        return None if self.ledger_entry is None else self.ledger_entry.taken_us

    def bound_us(self) -> int | None:
        """Return when it was bound there, or None if unknown."""
        return None if self.ledger_entry is None else self.ledger_entry.bound_us

    # OUTLOOK-8
    def passed(self) -> Sequence[Passed]:
        """Return the reservations that it did not delay when it got the node that it holds."""
        return () if self.allocation is None else self.allocation.passed

    def failed_binds(self) -> int:
        """Return how many of its binds have failed in a row."""
        failed = self.app.in_a_row.get(self.ask.name)
        return 0 if failed is None else failed.times

    def devices(self) -> dict[str, list[int]]:
        """Return the numbers of the devices that it holds, by type."""
        held = () if self.allocation is None else self.allocation.devices
        return {kind: [*numbers] for kind, numbers in held}

    @property
    def pod(self) -> PodIdentity | None:
        """The pod for which it stands, or None."""
        return None if self.ledger_entry is None else self.ledger_entry.pod

    @property
    def work(self) -> Work:
        """What is to run for it."""
        event_work = None if self.ledger_entry is None else self.ledger_entry.event.work
        return _NOTHING if event_work is None else event_work

    def run_limit_us(self) -> int | None:
        """Return how long it may be bound, in microseconds, or None."""
        held = self.allocation
        return self.ask.run_limit_us if held is None or not held.bound_us else held.limit_us

    def command(self) -> object:
        """Return its command, or None."""
        return [*self.work.argv] or self.work.shell


_POD: Final = record(namespace=TEXT, name=TEXT, uid=TEXT, owner=maybe(TEXT))


# POD-2
def pod_column(read: Callable[[R], PodIdentity | None]) -> Column[R]:
    """Return the column with the pod of Kubernetes for which an ask stands, or stood."""

    def parts(row: R) -> dict[str, object] | None:
        pod = read(row)
        return None if pod is None else {**attrs.asdict(pod), "owner": pod.owner or None}

    about = "the pod of Kubernetes for which it stands, and what controls that; absent for none"
    return Column("pod", _POD, about, parts, if_any=True)


_RESERVATION: Final = shape(node=TEXT, start=maybe(SECONDS), scope=TEXT)


# LISTS-14
def reservation_map(found: ReservationSnapshot | None) -> dict[str, object] | None:
    """Return what is reserved for an ask as a map, or None."""
    if found is None:
        return None
    return {"node": found.node, "start": in_seconds(found.start_us), "scope": found.scope}


# LISTS-7
ASKS: Final = Table[AskRow](
    text("app", "its application", lambda a: a.app.identity.name),
    text("ask", "its name within its application", lambda a: a.ask.name),
    pod_column(lambda a: a.pod),
    text("queue", "the path of its queue", lambda a: a.app.identity.path),
    maybe_text("user", "the user of its application", lambda a: a.app.identity.user[0]),
    Column("place", word(AskPlace), "its place", lambda a: a.place.value),
    maybe_text(
        "node",
        "the node that it holds",
        lambda a: None if a.allocation is None else a.allocation.node,
    ),
    number("priority", "its priority", lambda a: a.ask.priority),
    maybe_number(
        "aged",
        "its priority with its age; null if it is bound or its queue has no `priority.aging`",
        lambda a: a.context.view.aged(a.app, a.ask.name),
    ),
    amounts(
        "resources", "what it asks for or holds, in base units", lambda a: a.ask.resources.amounts
    ),
    Column("devices", DEVICES, "the numbers of the devices that it holds, by type", AskRow.devices),
    maybe_text("gang", "the full name of its gang", lambda a: a.ask.gang),
    seconds("came", "when it was added, in seconds", lambda a: a.ask.came_us),
    instant(
        "since", "since when it counts as pending, in seconds; null if it is bound", AskRow.since_us
    ),
    instant("taken", "when it got the node that it holds, in seconds", AskRow.taken_us),
    instant("bound", "when it was bound there, in seconds", AskRow.bound_us),
    maybe_text("required_node", "the only node on which it may run", lambda a: a.ask.shape.node),
    words("selector", "the attributes that its node must have", lambda a: a.ask.shape.selector),
    Column(
        "tolerations",
        array(
            shape(
                key=TEXT,
                operator=word(TolerationOperator),
                value=TEXT,
                effect=word(TaintEffect),
            )
        ),
        "the taints of nodes that it tolerates",
        lambda a: TOLERATIONS.write(a.ask.shape.tolerations),
    ),
    Column(
        "affinity",
        maybe(array(array(shape(key=TEXT, operator=word(Operator), values=TEXTS)))),
        "the terms of which its node must match one; null for any node",
        lambda a: None if a.ask.shape.affinity is None else AFFINITY.write(a.ask.shape.affinity),
    ),
    instant(
        "run_for",
        "how long after its bind it completes by itself, in seconds",
        lambda a: a.ask.run_for_us,
    ),
    instant(
        "estimate",
        "how long it is expected to take after its bind, in seconds, as it says itself",
        lambda a: a.ask.estimate_us,
    ),
    instant(
        "run_limit",
        "how long after its bind it is released and gone, in seconds: of a bound ask what counts, "
        "of others what it says itself",
        AskRow.run_limit_us,
    ),
    instant(
        "start_by",
        "when it is gone if it is not bound by then, in seconds",
        lambda a: a.ask.start_by_us,
    ),
    number(
        "retries",
        "how often it is still tried again after its work has failed",
        lambda a: a.ask.retries,
    ),
    flag(
        "once",
        "whether it is gone after it was bound, whatever takes its node from it",
        lambda a: a.ask.once,
    ),
    flag("preempts", "whether its priority class lets it preempt", lambda a: a.ask.preempts),
    number("failed_binds", "how many of its binds have failed in a row", AskRow.failed_binds),
    instant("last_failed", "when the last of these failed, in seconds", AskRow.last_failed_us),
    instant("backs_off_until", "until when it is not tried, in seconds", AskRow.back_off_us),
    Column("reason", maybe(word(Code)), "its dominant reason; null if it is bound", AskRow.code),
    Column(
        "reservation",
        maybe(_RESERVATION),
        "the node that is reserved for it, from when on (in seconds; null if it starts with an "
        "end that nobody knows), and the path of the queue with `backfill`; null for none",
        lambda a: reservation_map(a.reservation()),
    ),
    maybe_text("message", "the dominant reason in words", AskRow.message, single=True),
    Column(
        "command",
        maybe({"anyOf": [TEXT, TEXTS]}),
        "the command that does its work",
        AskRow.command,
        single=True,
    ),
    words("env", "the environment variables of the command", lambda a: a.work.env, single=True),
    maybe_text(
        "workdir", "the folder in which the command runs", lambda a: a.work.workdir, single=True
    ),
)
"""The fields of asks."""


def place_of_ask(row: AskRow) -> tuple[int, int]:
    """Return the place of an ask in the order in which they were added."""
    return row.ask.seq, row.ask.number


def row_of_ask(context: ReadContext, app: ViewApp, name: str) -> AskRow | None:
    """Return an ask of an application by its name, or None."""
    ask, place = app.find(name), app.place(name)
    if ask is None or place is None:
        return None
    entry = context.ledger.ask(app.identity.name, name)
    return AskRow(context, app, ask, place, app.allocation(name), entry)


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
    text("app", "its application", lambda e: e.app),
    text("ask", "its name within its application", lambda e: e.ask),
    pod_column(lambda e: e.pod),
    text("queue", "the path of its queue", lambda e: e.queue),
    maybe_text("user", "the user of its application", lambda e: e.user),
    Column("place", {"const": PLACE}, "that it has ended", lambda _: PLACE),
    maybe_text("node", "the node that it held at the end", lambda e: e.node),
    amounts("resources", "what it asked for, in base units", lambda e: e.amounts),
    instant("submitted", "when it was added, in seconds", lambda e: e.came_us),
    instant(
        "started",
        "when it was bound last, in seconds; null if it never was",
        lambda e: e.started_us,
    ),
    seconds("ended", "when it ended, in seconds", lambda e: e.ended_us),
    Column("outcome", word(AskEnding), "how it ended", lambda e: e.ending),
    maybe_text("message", "what the decision log says about the end", lambda e: e.message),
    maybe_number(
        "exit_status",
        "the exit status of its process; null if a signal ended it, or nobody said it",
        lambda e: None if e.exited is None else e.exited.status,
    ),
    maybe_text(
        "signal",
        "the name of the signal that ended its process, or its number if it has none",
        lambda e: None if e.exited is None else _signal_name(e.exited.signal),
    ),
    instant("wait", "how long it was there and not bound, in seconds", lambda e: e.wait_us),
    seconds("run_time", "how long it was bound in all, in seconds", lambda e: e.ran_us),
    amounts(
        "used",
        "what it held times how long, in base units times whole seconds",
        lambda e: area_in_seconds(e.areas),
    ),
    instant(
        "cpu_time",
        "how long its process and their children ran on CPUs, in seconds",
        lambda e: None if e.exited is None else e.exited.cpu_us,
    ),
    maybe_number(
        "max_memory",
        "the most memory that one of these had at a time, in bytes",
        lambda e: None if e.exited is None else e.exited.memory,
    ),
    number("seq", "the number of the decision that ended it", lambda e: e.seq),
)
"""The fields of asks that have ended."""


@final
@attrs.frozen
class _RecentLives:
    """The wanted lives that are in memory.

    Attributes:
        found: The lives, latest first.
        after_seq: Lives that ended with this decision or before it are not in memory.
        entered: The number of the last batch, and how many events were let in until then.
    """

    found: list[EndedAsk]
    after_seq: int
    entered: tuple[int, int]


def _find_in_memory(
    context: ReadContext, wanted: EndedAskFilter, before_seq: int | None, most: int
) -> Steps[_RecentLives]:
    yield
    lives, machine = context.ledger.book.lives, context.machine
    found = list(wanted.latest(reversed(lives.kept), before_seq, most))
    return _RecentLives(found, lives.after_seq, (machine.batches, machine.requests))


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
    memory = await read_state(
        service, lambda context: _find_in_memory(context, wanted, before_seq, most)
    )
    value, past = memory.value, service.past.lives
    found = value.found
    if len(found) < most and value.after_seq and past.directory is not None:
        end_seq = value.after_seq + 1
        before = end_seq if before_seq is None else min(before_seq, end_seq)
        query = EndedAskQuery(wanted, before, most - len(found), value.entered)
        found += await service.past.work(request, lambda gone: past.find(query, gone))
    return ReadResult(found, memory.batch, memory.at_us)


# LISTS-18
async def ended_ask(service: Service, request: Request, app: str, ask: str) -> EndedAsk | None:
    """Return the last life of an ask that has ended; None if the history has none.

    Raises:
        StoreError: If the kept history cannot be read.
    """
    wanted = EndedAskFilter(app=app, ask=ask)
    memory = (
        await read_state(service, lambda context: _find_in_memory(context, wanted, None, 1))
    ).value
    if memory.found:
        return memory.found[0]
    past = service.past.lives
    if not memory.after_seq or past.directory is None:
        return None
    query = EndedAskQuery(wanted, memory.after_seq + 1, 1, memory.entered)
    return await service.past.work(request, lambda gone: past.last(app, ask, query, gone))


# POD-10
async def ended_pod(service: Service, pod: PodFilter) -> EndedAsk | None:
    """Return the last life in memory that stood for a pod, or None."""
    wanted = EndedAskFilter(pod=pod)
    memory = await read_state(service, lambda context: _find_in_memory(context, wanted, None, 1))
    return next(iter(memory.value.found), None)
