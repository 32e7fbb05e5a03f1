"""Simulations on copies of the state: when an ask starts, and which remedies help it.

A simulation copies the state again and again, or lets it run on, which would hold up everything
else in this process. So the facts are written as for a checkpoint, in steps, and another process
makes a state of them, for a limited time and one at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

from muster._runtime.clock import Pace
from muster.explain._output import reason_of
from muster.service.input.dry_runs import OneAtATime
from muster.service.payloads import Problem
from muster.store._codec import state_in_parts
from muster_core.reasons import Forecast, PendingReason

if TYPE_CHECKING:
    from muster.service.state import Service


LIMIT_S: Final = 10.0
"""How long a process may take, and how long one waits for the one before, in seconds."""

_COMMAND: Final = (sys.executable, "-m", "muster.explain._child")


@final
@attrs.frozen
class ChildAnswer:
    """The answer of a process that worked on a copy of the state.

    Attributes:
        batch: The number of the batch after which the state was copied.
        at_us: When that was, in microseconds since the origin.
        lines: The maps that it wrote before its end, or before its time was over.
    """

    batch: int
    at_us: int
    lines: list[dict[str, Any]]


async def run_in_child(
    service: Service, runs: OneAtATime, what: str, ask: tuple[str, str]
) -> ChildAnswer:
    """Run a query about an ask in another process, on a copy of the state.

    Args:
        service: The service.
        runs: Lets one process after the other go on.
        what: The query; see :mod:`muster.explain._child`.
        ask: The name of the application, and that of the ask.

    Raises:
        Problem: 503 if those before take too long.
    """

    async def work() -> ChildAnswer:
        facts = await service.facts()
        place = facts.coordinator.batches, facts.coordinator.now_us
        parts = await Pace().take(state_in_parts(facts))
        del facts
        first = json.dumps([what, *ask]).encode() + b"\n"
        return ChildAnswer(*place, await _in_child([first, *parts]))

    return await runs.run(work)


async def _in_child(written: list[bytes]) -> list[dict[str, Any]]:
    """Run the process, and end it when its time is over; return what it wrote until then."""
    lines: list[dict[str, Any]] = []
    async with trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(
                trio.run_process,
                _COMMAND,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=False,
                deliver_cancel=_end,
                start_new_session=True,
            )
        )
        with trio.move_on_after(LIMIT_S):
            await _talk(process, written, lines)
        nursery.cancel_scope.cancel()
    return lines


async def _talk(process: trio.Process, written: list[bytes], lines: list[dict[str, Any]]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for part in written:
            await process.stdin.send_all(part)
        await process.stdin.aclose()
    except trio.BrokenResourceError:
        return  # It has ended early, which counts as if its time had been over.
    rest = b""
    async for chunk in process.stdout:
        *whole, rest = (rest + chunk).split(b"\n")
        lines += map(json.loads, whole)


async def _end(process: trio.Process) -> None:
    process.kill()


def _one_at_a_time(what: str) -> OneAtATime:
    busy = f"other {what} are under way; try again later"
    return OneAtATime(busy, round(LIMIT_S), most=inf, patience_s=LIMIT_S)


_FORECASTS: Final = _one_at_a_time("forecasts")


@final
@attrs.frozen
class StartForecast:
    """What a copy of the state says about the start of an ask.

    Attributes:
        foretold: The number of the batch after which the state was copied.
        foretold_us: When that was, in microseconds since the origin.
        forecast: What it says; None if the ask is not pending.
        held_back_later: Why the ask is held back when it would fit alone; None if it is not, or if
            the time was over before that was known.
    """

    foretold: int
    foretold_us: int
    forecast: Forecast | None
    held_back_later: PendingReason | None = None


# LISTS-13
async def forecast_start(service: Service, app: str, ask: str) -> StartForecast:
    """Find out when an ask starts.

    Args:
        service: The service.
        app: The name of its application.
        ask: Its name.

    Raises:
        Problem: 503 if this, or other forecasts before it, take too long.
    """
    answer = await run_in_child(service, _FORECASTS, "forecast", (app, ask))
    if not answer.lines:
        detail = f"the state is too large to be copied and run on within {LIMIT_S:.0f} s"
        raise Problem(503, detail)
    line, *more = answer.lines
    forecast = None if line["forecast"] is None else Forecast(**line["forecast"])
    later = reason_of(more[0]["held_back_later"]) if more else None
    return StartForecast(answer.batch, answer.at_us, forecast, later)


_SEARCHES: Final = _one_at_a_time("searches for remedies")


@final
@attrs.frozen
class RemedySearch:
    """What a search has found.

    Attributes:
        searched: The number of the batch after which the state was searched.
        searched_us: When that was, in microseconds since the origin.
        remedies: The remedies, each as ``muster explain`` gives it in JSON; without the event that
            closes a batch, as events that are sent have one of their own, and without any event if it
            is not applicable.
        trials: How many trials were made; None if the search was ended.
        exhausted: Whether the search ended early, because the state is large.
    """

    searched: int
    searched_us: int
    remedies: list[dict[str, Any]]
    trials: int | None
    exhausted: bool


# LISTS-11
async def search_remedies(service: Service, app: str, ask: str) -> RemedySearch:
    """Search for what would help an ask.

    Args:
        service: The service.
        app: The name of its application.
        ask: Its name.

    Raises:
        Problem: 503 if other searches take too long.
    """
    answer = await run_in_child(service, _SEARCHES, "remedies", (app, ask))
    remedies = [_sendable(line["remedy"]) for line in answer.lines if "remedy" in line]
    end = answer.lines[-1] if answer.lines and "trials" in answer.lines[-1] else None
    if end is None:
        return RemedySearch(answer.batch, answer.at_us, remedies, None, exhausted=True)
    return RemedySearch(
        answer.batch, answer.at_us, remedies, end["trials"], exhausted=end["exhausted"]
    )


# OUTLOOK-33
def _sendable(remedy: dict[str, Any]) -> dict[str, Any]:
    """Return a remedy with the events that can be sent; ``settle`` is not one of them."""
    events = remedy["events"] if remedy["applicable"] else ()
    return {**remedy, "events": [one for one in events if one["op"] != "settle"]}
