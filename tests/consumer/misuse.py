"""What a type checker has to object to: both say so in every line that is marked, and only there.

A mark that is not needed is an error by itself, so nothing here can be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable

import muster
import muster.asyncio
from muster.subprocesses import SubprocessBinder


def see(value: object) -> None:
    """Take anything."""


class Deaf:
    """A binder that could not say that the work has started."""

    async def run(self, allocation: muster.Allocation) -> None:
        """Do the work."""


class Blocking:
    """A binder that would block the program."""

    def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Do the work."""


class Approximate:
    """A clock that gives seconds."""

    def now_us(self) -> float:
        """Return the present time."""
        return 0.5

    async def wait_until_us(self, at_us: int) -> None:
        """Wait."""


class Forgetful:
    """A record that does not hear when a batch ends."""

    def enter(self, at_us: int, event: object) -> None:
        """Keep an event."""


class Single:
    """A journal that wants decisions one by one."""

    def write(self, batch: muster.Announced) -> None:
        """Keep a decision."""


def opening() -> None:
    """Parts that do not fit."""
    muster.open_scheduler(binder=Deaf())  # type: ignore[arg-type]
    muster.open_scheduler(binder=Blocking())  # type: ignore[arg-type]
    muster.open_scheduler(clock=Approximate())  # type: ignore[arg-type]
    muster.open_scheduler(record=Forgetful())  # type: ignore[arg-type]
    muster.open_scheduler(journal=Single())  # type: ignore[arg-type]
    muster.open_scheduler(bind_timeout="5s")  # type: ignore[arg-type]
    muster.open_scheduler(None, "default")  # type: ignore[call-arg]
    muster.open_scheduler(3)  # type: ignore[arg-type]
    muster.asyncio.open_scheduler(binder=Deaf())  # type: ignore[arg-type]
    with muster.open_scheduler():  # type: ignore[attr-defined]
        pass
    SubprocessBinder("sleep 1")  # type: ignore[arg-type]
    SubprocessBinder(lambda allocation: 1)  # type: ignore[arg-type, return-value]


async def calling(scheduler: muster.Scheduler) -> None:
    """Arguments that do not fit."""
    await scheduler.add_node("a")  # type: ignore[call-arg]
    await scheduler.add_node("a", 4)  # type: ignore[arg-type]
    await scheduler.add_node("a", {"vcore": None})  # type: ignore[dict-item]
    await scheduler.add_node("a", {"vcore": 1}, {"zone": "1"})  # type: ignore[call-arg]
    await scheduler.add_app("app", 1)  # type: ignore[arg-type]
    await scheduler.add_ask("app", "a", {"vcore": 1}, priority="high")  # type: ignore[arg-type]
    await scheduler.add_ask("app", "a", {"vcore": 1}, priorty=1)  # type: ignore[call-arg]
    await scheduler.add_asks("app", "a", {"vcore": 1})  # type: ignore[call-arg]
    await scheduler.add_gang("g", min_members=2)  # type: ignore[call-arg]
    await scheduler.submit("add_node")  # type: ignore[arg-type]
    await scheduler.submit_many({"op": "remove_node"})  # type: ignore[dict-item]
    await scheduler.request({"op": "settle"})  # type: ignore[attr-defined]
    scheduler.decisions(kinds=[1])  # type: ignore[list-item]
    scheduler.decisions(where=lambda announced: announced.node == "a")  # type: ignore[attr-defined]
    muster.Scheduler()  # type: ignore[call-arg]


async def calling_from_asyncio(scheduler: muster.asyncio.Scheduler) -> None:
    """Arguments that do not fit, on their way through the bridge."""
    await scheduler.add_node("a")  # type: ignore[call-arg]
    await scheduler.add_ask("app", "a", {"vcore": 1}, priority="high")  # type: ignore[arg-type]
    await scheduler.app("app").add_ask("a", {"vcore": 1}, priorty=1)  # type: ignore[call-arg]
    await scheduler.submit_many({"op": "remove_node"})  # type: ignore[dict-item]
    scheduler.decisions(kinds=[1])  # type: ignore[list-item]
    see(scheduler.add_app("app", "root").name)  # type: ignore[attr-defined]
    see((await scheduler.ask("app", "a").bound()).place)  # type: ignore[attr-defined]


async def using(scheduler: muster.Scheduler, ask: muster.Ask) -> None:
    """Results that are not what they are taken for."""
    see(ask.bound().node)  # type: ignore[attr-defined]
    node: str = await ask.bound()  # type: ignore[assignment]
    allocation = await ask.bound()
    with allocation.running():  # type: ignore[attr-defined]
        pass
    reason: str | None = await allocation.release()  # type: ignore[assignment]
    for _ in scheduler.decisions():  # type: ignore[attr-defined]
        pass
    see((await scheduler.snapshot()).nodes["a"].free)  # type: ignore[attr-defined]
    (await scheduler.snapshot()).at_us = 0  # type: ignore[misc]
    see(muster.Kind.bound)  # type: ignore[attr-defined]
    see((node, reason))


class Mine(muster.Scheduler):  # type: ignore[misc]
    """A scheduler that is something else as well."""
