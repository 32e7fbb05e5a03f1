"""Callers of a scheduler that is about to close: each of them is answered in the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs

import muster
from muster.testing import check
from muster_core.events import AddAsk
from muster_core.resources import Resources
from tests.actors.program import APP, NODE, ask

Call = Callable[[muster.Scheduler], Awaitable[object]]


async def ended(scheduler: muster.Scheduler) -> None:
    await (await scheduler.ask("a", "stays").bound()).ended()


async def read(scheduler: muster.Scheduler) -> None:
    async for _ in scheduler.decisions():
        pass


CALLS: Final[dict[str, Call]] = {
    "submit": lambda scheduler: scheduler.submit(ask("x")),
    "refused": lambda scheduler: scheduler.submit(ask("x", app="nobody")),
    "many": lambda scheduler: scheduler.submit_many([ask("y"), ask("z")]),
    "add_ask": lambda scheduler: scheduler.add_ask("a", "w", {"vcore": 1}),
    "settle": lambda scheduler: scheduler.settle(),
    "snapshot": lambda scheduler: scheduler.snapshot(),
    "why": lambda scheduler: scheduler.ask("a", "k-4").why(),
    "bound": lambda scheduler: scheduler.ask("a", "k-0").bound(),
    "satisfied": lambda scheduler: scheduler.gang("g").satisfied(),
    "check": check,
}
"""What callers do that need not wait for a decision."""

WAITS: Final[dict[str, Call]] = {
    "never bound": lambda scheduler: scheduler.ask("a", "huge").bound(),
    "never ended": ended,
    "decisions": read,
}
"""What callers wait for that does not come before the scheduler is closed."""


@attrs.define
class Caller:
    """A task outside of the block; it is answered in the end."""

    answers: list[str] = attrs.field(factory=list[str])

    async def call(self, name: str, scheduler: muster.Scheduler) -> None:
        try:
            await (CALLS | WAITS)[name](scheduler)
        except muster.ClosedSchedulerError:
            self.answers.append("closed")
        except (muster.RefusedError, muster.GangRemovedError):
            self.answers.append("refused")
        else:
            self.answers.append("done")


async def prepare(scheduler: muster.Scheduler) -> None:
    """Let in what the callers speak of."""
    huge = Resources({"vcore": 1000})
    await scheduler.submit_many(
        [NODE, APP, ask("stays"), ask("k", count=5), AddAsk("a", "huge", huge)]
    )
