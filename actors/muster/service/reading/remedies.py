"""The search for remedies: in a process of its own, one at a time, for a limited time.

A search copies the state again and again, which would hold up everything else in this process for
as long as it takes to copy a large state once. So the facts are written as for a checkpoint, in
steps, and another process makes a state of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

from muster._runtime.clients.calls import TakeFacts
from muster._runtime.pace import Pace
from muster.service.problems import Problem
from muster.store._state import state_in_parts

if TYPE_CHECKING:
    from muster.service.state import Service

LIMIT_S: Final = 10.0
"""How long a search may take, and how long one waits for the search before, in seconds."""

_COMMAND: Final = (sys.executable, "-m", "muster.explain._child")

_TURN: Final = trio.Lock()


@final
@attrs.frozen
class Found:
    """What a search has found.

    Attributes:
        searched: The number of the batch after which the state was searched.
        searched_us: When that was, in microseconds since the origin.
        remedies: The remedies, each as ``muster explain`` gives it in JSON; without the event that
            closes a batch, as events that are sent have one of their own.
        trials: How many trials were made; None if the search was ended.
        exhausted: Whether the search ended early, because the state is large.
    """

    searched: int
    searched_us: int
    remedies: list[dict[str, Any]]
    trials: int | None
    exhausted: bool


# LISTS-11
async def search(service: Service, app: str, ask: str) -> Found:
    """Search for what would help an ask.

    Args:
        service: The service.
        app: The name of its application.
        ask: Its name.

    Raises:
        Problem: 503 if other searches take too long.
    """
    with trio.move_on_after(LIMIT_S) as scope:
        await _TURN.acquire()
    if scope.cancelled_caught:
        raise Problem(
            503,
            "other searches for remedies are under way; ask again later, or without remedies",
            headers={"Retry-After": f"{LIMIT_S:.0f}"},
        )
    try:
        call = TakeFacts()
        facts = await service.call(call, call.answer)
        place = facts.coordinator.batches, facts.coordinator.now_us
        pace = Pace()
        parts = await pace.take(state_in_parts(facts))
        del facts, call
        return await _in_child(place, [_first_line(app, ask), *parts])
    finally:
        _TURN.release()


def _first_line(app: str, ask: str) -> bytes:
    return json.dumps([app, ask]).encode() + b"\n"


async def _in_child(place: tuple[int, int], written: list[bytes]) -> Found:
    """Run the process that searches, and end it when its time is over."""
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
    remedies = [_as_sent(line["remedy"]) for line in lines if "remedy" in line]
    end = lines[-1] if lines and "trials" in lines[-1] else None
    if end is None:
        return Found(*place, remedies, None, exhausted=True)
    return Found(*place, remedies, end["trials"], exhausted=end["exhausted"])


async def _talk(process: trio.Process, written: list[bytes], lines: list[dict[str, Any]]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for part in written:
            await process.stdin.send_all(part)
        await process.stdin.aclose()
    except trio.BrokenResourceError:
        return  # It has ended early, which is told as a search that was ended.
    rest = b""
    async for chunk in process.stdout:
        *whole, rest = (rest + chunk).split(b"\n")
        lines += map(json.loads, whole)


def _as_sent(remedy: dict[str, Any]) -> dict[str, Any]:
    """Return a remedy without the event that closes the batch before it."""
    return {**remedy, "events": [one for one in remedy["events"] if one["op"] != "settle"]}


async def _end(process: trio.Process) -> None:
    process.kill()
