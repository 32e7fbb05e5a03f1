"""Asks that have ended: what a list and a single one say, and where they are found."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.figures.use import in_seconds as area_in_seconds
from muster.service.endpoints import schemas
from muster.service.endpoints.columns import Column, Table
from muster.service.ledger.lives import Ending, Life, LifeFilter
from muster.service.past.lives import Wanted
from muster.service.reading.looking import Looking, Seen, in_seconds, seen

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.state import Service
    from muster_core.structures.steps import Steps

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
ENDED: Final = Table[Life](
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
        Column("outcome", schemas.word(Ending), "how it ended", lambda life: life.ending),
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

    found: list[Life]
    after_seq: int
    entered: tuple[int, int]


def _in_memory(
    looking: Looking, wanted: LifeFilter, before_seq: int | None, most: int
) -> Steps[_InMemory]:
    yield
    lives, machine = looking.ledger.book.lives, looking.machine
    found = list(wanted.latest(reversed(lives.kept), before_seq, most))
    return _InMemory(found, lives.after_seq, (machine.batches, machine.requests))


# LISTS-16
async def ended_asks(
    service: Service, request: Request, wanted: LifeFilter, before_seq: int | None, most: int
) -> Seen[list[Life]]:
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
    there = await seen(service, lambda looking: _in_memory(looking, wanted, before_seq, most))
    value, past = there.value, service.past.lives
    found = value.found
    if len(found) < most and value.after_seq and past.directory is not None:
        end_seq = value.after_seq + 1
        before = end_seq if before_seq is None else min(before_seq, end_seq)
        asked = Wanted(wanted, before, most - len(found), value.entered)
        found += await service.past.work(request, lambda gone: past.find(asked, gone))
    return Seen(found, there.batch, there.at_us)


# LISTS-18
async def ended_ask(service: Service, request: Request, app: str, ask: str) -> Life | None:
    """Return the last life of an ask that has ended; None if the history has none.

    Raises:
        StoreError: If the kept history cannot be read.
    """
    wanted = LifeFilter(app=app, ask=ask)
    there = (await seen(service, lambda looking: _in_memory(looking, wanted, None, 1))).value
    if there.found:
        return there.found[0]
    past = service.past.lives
    if not there.after_seq or past.directory is None:
        return None
    asked = Wanted(wanted, there.after_seq + 1, 1, there.entered)
    return await service.past.work(request, lambda gone: past.last(app, ask, asked, gone))


__all__ = ["ENDED", "PLACE", "ended_ask", "ended_asks"]
