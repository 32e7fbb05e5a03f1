"""Copies of the state, in a process of their own and for a limited time.

Whoever tries something on a copy of the state copies it again and again, or lets it run on, which would
hold up everything else in this process. So the facts are written as for a checkpoint, in steps, and
another process makes a state of them.
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
"""How long a process may take, and how long one waits for the one before, in seconds."""

_COMMAND: Final = (sys.executable, "-m", "muster.explain._child")


@final
@attrs.frozen
class Told:
    """What a process has told of a copy.

    Attributes:
        batch: The number of the batch after which the state was copied.
        at_us: When that was, in microseconds since the origin.
        lines: The maps that it wrote before its end, or before its time was over.
    """

    batch: int
    at_us: int
    lines: list[dict[str, Any]]


async def told_by_copy(
    service: Service, turn: trio.Lock, what: str, ask: tuple[str, str], busy: str
) -> Told:
    """Let a process tell something of an ask from a copy of the state.

    Args:
        service: The service.
        turn: Processes with the same turn run one after the other.
        what: What it is to tell; see :mod:`muster.explain._child`.
        ask: The name of the application, and that of the ask.
        busy: What is under way if those before take too long, in words.

    Raises:
        Problem: 503 if those before take too long.
    """
    with trio.move_on_after(LIMIT_S) as scope:
        await turn.acquire()
    if scope.cancelled_caught:
        told = f"{busy} are under way; try again later"
        raise Problem(503, told, headers={"Retry-After": f"{LIMIT_S:.0f}"})
    try:
        call = TakeFacts()
        facts = await service.call(call, call.answer)
        place = facts.coordinator.batches, facts.coordinator.now_us
        parts = await Pace().take(state_in_parts(facts))
        del facts, call
        first = json.dumps([what, *ask]).encode() + b"\n"
        return Told(*place, await _in_child([first, *parts]))
    finally:
        turn.release()


async def _in_child(written: list[bytes]) -> list[dict[str, Any]]:
    """Run the process, and end it when its time is over; return what it told until then."""
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
        return  # It has ended early, which is told as if its time had been over.
    rest = b""
    async for chunk in process.stdout:
        *whole, rest = (rest + chunk).split(b"\n")
        lines += map(json.loads, whole)


async def _end(process: trio.Process) -> None:
    process.kill()
