"""Dry runs: events tried on a copy, and a configuration compared over the history.

Both run in threads, one at a time, and end when their client goes away.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import attrs
import outcome
import trio

from muster._runtime import answers
from muster._runtime.answers import DryRunResult
from muster._runtime.calls import Guard
from muster.compare import Comparison, LeftOut, Warned, as_map, sides_of_kept
from muster.feeds import FeedError, KeptFeed
from muster.figures.text import iso_date, parse_iso_date
from muster.service.payloads import Problem
from muster_core.config.model import Configuration
from muster_core.errors import MusterError, RefusedError
from muster_core.events import Event
from muster_core.values.resources import parse_age

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.input.submission import RunningService


T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class OneAtATime:
    """Runs work on a copy of the state, or of history, one at a time.

    Attributes:
        busy: The message if it cannot be done now.
        retry_s: After how many seconds one may try again.
        most: How many may wait.
        patience_s: How long one waits at most, in seconds.
    """

    busy: str
    retry_s: int = 5
    most: float = 8
    patience_s: float = inf
    _turn: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def run(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do work when nothing else is being done.

        Raises:
            Problem: 503 if too many wait already, or those before take too long.
        """
        with trio.move_on_after(self.patience_s) as waiting:
            if self._turn.statistics().tasks_waiting >= self.most:
                waiting.cancel()
            await self._turn.acquire()
        if waiting.cancelled_caught:
            raise Problem(503, self.busy, headers={"Retry-After": f"{self.retry_s}"})
        try:
            return await work()
        finally:
            self._turn.release()


# INPUT-8
async def try_events(
    service: RunningService, runs: OneAtATime, events: Sequence[Event], guard: Guard | None
) -> DryRunResult:
    """Return what events would lead to if they were let in now.

    Args:
        service: The service, which does not change.
        runs: Lets one dry run after the other go on.
        events: The events.
        guard: Judges which of them are let in, or None.

    Raises:
        Problem: 503 if too many dry runs wait already.
        ClosedSchedulerError: If the scheduler is closed.
    """

    async def work() -> DryRunResult:
        facts = await service.facts()
        now_us = max(service.now_us(), facts.coordinator.now_us)
        return await trio.to_thread.run_sync(answers.try_events, facts, now_us, events, guard)

    return await runs.run(work)


_DATE: Final = re.compile(r"[0-9]{4}-")


@final
@attrs.frozen
class HistoryStart:
    """Where a look back begins.

    Attributes:
        back_us: How long ago, in microseconds; None for an instant.
        at_us: The instant, in microseconds since 1970 in UTC; None for a time ago.
    """

    back_us: int | None = None
    at_us: int | None = None


DAY: Final = HistoryStart(back_us=parse_age("1d"))


def history_start(written: str) -> HistoryStart:
    """Return where to begin.

    Args:
        written: A duration such as ``7d`` or ``12h``, or a date.

    Raises:
        ValueError: If it is neither.
    """
    if _DATE.match(written):
        try:
            return HistoryStart(at_us=parse_iso_date(written))
        except ValueError:
            msg = "must be a date such as 2026-01-31 or 2026-01-31T18:30:00Z"
            raise ValueError(msg) from None
    try:
        return HistoryStart(back_us=parse_age(written))
    except MusterError:
        msg = "must be a duration such as 7d or 12h, or a date such as 2026-01-31T18:30:00Z"
        raise ValueError(msg) from None


@final
class ClientGoneError(Exception):
    """The client no longer waits for the result."""


# INPUT-15
def compare_history(
    directory: Path, since: HistoryStart, now_us: int, configuration: Configuration, gone: Flag
) -> dict[str, Any]:
    """Return what a configuration would have changed, as ``muster compare`` says it.

    Args:
        directory: The state directory.
        since: Where to begin; if that is before everything that is kept, it begins there.
        now_us: The present instant, in microseconds since 1970 in UTC, where the comparison ends.
        configuration: The configuration.
        gone: Set when the client has gone.

    Raises:
        Problem: 409 if it could not have been in force then, or history cannot be read.
        ClientGoneError: If the client has gone.
    """

    def check() -> None:
        if gone.is_set():
            raise ClientGoneError

    left_out: list[LeftOut] = []
    try:
        with _open_history(directory, since, now_us) as kept:
            sides = sides_of_kept(kept, (None, configuration), left_out)
            end_us = now_us - kept.origin_us
            result = Comparison(*sides, in_step=True).run(look=check, until_us=end_us)
            names = ("as it was", "with the new configuration")
            begins_us = kept.origin_us + _begin_us(kept)
    except RefusedError as error:
        message = f"it could not have come into force at the beginning of this history: {error}"
        raise Problem(409, message) from None
    except FeedError as error:
        raise Problem(409, f"the history cannot be compared: {error.problem}") from None
    warnings = [
        Warned("", one.line, one.path, one.message) for one in configuration.located_warnings
    ]
    span = {"since": iso_date(begins_us), "until": iso_date(now_us)}
    return {**span, **as_map([result], names, {"": left_out}, warnings)}


def _open_history(directory: Path, since: HistoryStart, now_us: int) -> KeptFeed:
    """Open the history from an instant on, or all of it if the instant comes before."""
    begin = since.at_us if since.back_us is None else now_us - since.back_us
    assert begin is not None, "it has one of the two"
    whole = KeptFeed(directory)
    begin -= whole.origin_us
    if begin <= _begin_us(whole):
        return whole
    whole.close()
    return KeptFeed(directory, since_us=begin)


def _begin_us(kept: KeptFeed) -> int:
    """Return the instant at which a history begins, in microseconds since the origin."""
    return 0 if kept.facts is None else kept.facts.coordinator.now_us


async def in_thread(
    request: Request, work: Callable[[Flag], T], limiter: trio.CapacityLimiter | None = None
) -> T:
    """Do work in a thread until the client goes away.

    Args:
        request: The request, whose body was read, or has none.
        work: The work; it ends soon after its flag was set.
        limiter: Limits how many threads work at the same time; None for that of all of trio.

    Raises:
        Problem: 503 if the client went away.
    """
    gone = Flag()

    async def watch() -> None:
        try:
            while (await request.receive())["type"] != "http.disconnect":
                pass
        finally:
            gone.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        done = await trio.to_thread.run_sync(lambda: outcome.capture(work, gone), limiter=limiter)
        nursery.cancel_scope.cancel()
    try:
        return done.unwrap()
    except ClientGoneError:
        raise Problem(503, "it was given up, as nobody waits for it") from None
