"""Clients of a life: they make the calls of their steps, and tell of each and of its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, final

import attrs
import trio

import muster
from muster.testing import check
from muster.testing.fuzz import Step
from muster.testing.fuzz._binders import pause, sleep_us
from muster.testing.fuzz._clients import UNREADABLE
from muster.testing.fuzz._program import Config
from muster_core.decisions import MICROSECONDS
from muster_core.errors import ConfigError, EventError, MusterError, RefusedError
from tests.crash.reports import Answered, Called, Key, Teller


@final
class Calls:
    """Makes the calls of all clients of a life.

    Args:
        scheduler: The scheduler.
        configs: The configurations to change to.
        teller: Tells of calls and answers.
    """

    def __init__(
        self, scheduler: muster.Scheduler, configs: Sequence[Config], teller: Teller
    ) -> None:
        self._scheduler = scheduler
        self._configs = configs
        self._teller = teller
        self._made = 0

    async def work_off(self, steps: Sequence[Step]) -> None:
        """Carry out the steps of one client."""
        kept: list[muster.Allocation] = []
        async with trio.open_nursery() as aside:
            for step in steps:
                await pause(step.pause)
                if step.aside:
                    aside.start_soon(self._do, step, kept)
                else:
                    await self._do(step, kept)

    async def _do(self, step: Step, kept: list[muster.Allocation]) -> None:
        """Carry out a step, and cancel it as it says."""
        with trio.CancelScope() as scope:
            if step.within_us is not None:
                scope.deadline = trio.current_time() + step.within_us / MICROSECONDS
            async with trio.open_nursery() as nursery:
                if step.cancel_after is not None:
                    nursery.start_soon(_cancel, scope, step.cancel_after)
                await self._act(step, kept)
                nursery.cancel_scope.cancel()

    async def _act(self, step: Step, kept: list[muster.Allocation]) -> None:
        args = {name: said for name, said in step.args.items() if name != "bad"}
        match step.op:
            case "jump" | "sleep":
                await sleep_us(next(iter(args.values())))
            case "watch":
                await pause(args["readings"])
            case "bound":
                await self._until_bound(step, kept)
            case "work":
                await self._work(step, kept)
            case "release_mine" | "running_mine" | "ended_mine":
                if kept:
                    await self._note(step, kept.pop().release)
            case _:
                await self._note(step, self._call_of(step.op, args))

    def _call_of(self, op: str, args: dict[str, Any]) -> Callable[[], Awaitable[object]]:
        """Return what makes the call of a step."""
        scheduler = self._scheduler
        if op in {"submit", "submit_many", "apply", "delete"}:
            (only,) = args.values()
            return lambda: getattr(scheduler, op)(only)
        match op:
            case "check":
                return lambda: check(scheduler)
            case "why":
                return scheduler.ask(**args).why
            case "satisfied":
                return scheduler.gang(args["gang"]).satisfied
            case "statistics":
                return self._statistics
            case "configure":
                which: int | None = args["which"]
                config = UNREADABLE if which is None else self._configs[which]
                return lambda: scheduler.configure(config)
            case _:
                return lambda: getattr(scheduler, op)(**args)

    async def _statistics(self) -> None:
        await trio.lowlevel.checkpoint()
        self._scheduler.statistics()

    async def _work(self, step: Step, kept: list[muster.Allocation]) -> None:
        """Add an ask, wait until it is bound, and end its allocation."""
        said = {name: one for name, one in step.args.items() if name not in {"body_us", "holds"}}
        await self._note(step, lambda: self._scheduler.add_ask(**said))
        later = attrs.evolve(step, keys=())
        await self._until_bound(later, kept)
        if kept and not step.args["holds"]:
            await self._note(later, kept.pop().release)

    async def _until_bound(self, step: Step, kept: list[muster.Allocation]) -> None:
        ask = self._scheduler.ask(step.args["app"], step.args["ask"])

        async def wait() -> None:
            kept.append(await ask.bound())

        await self._note(step, wait)

    async def _note(self, step: Step, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call, and tell of it and of its answer."""
        number, keys = self._made, _plain(step.keys)
        self._made += 1
        self._teller.tell(Called(number, str(step), keys))
        done: bool | None = True
        refusal: str | None = None
        try:
            await call()
        except trio.Cancelled:
            done = False
            raise
        except (EventError, ConfigError):
            done = False
        except muster.ClosedSchedulerError:
            done = None
        except RefusedError as error:
            refusal = str(error) if keys else None
        except MusterError:
            pass  # What it waited for will not come.
        finally:
            self._teller.tell(Answered(number, done, refusal))


def steps_of(life: int, caller: int) -> list[Step]:
    """Return the steps of a caller whose application and asks nobody else names."""
    app = f"life{life}-{caller}"
    steps = [Step("add_app", {"app": app, "queue": f"root.own{caller % 3}"}, (("AddApp", app),))]
    for name in ("u0", "u1")[: 1 + caller % 2]:
        said = {"app": app, "ask": name, "resources": {"vcore": 1}, "run_for": 1}
        steps.append(Step("add_ask", said, (("AddAsk", app, name),)))
    steps.append(Step("release", {"app": app, "ask": "u0"}, (("Release", app, "u0"),)))
    return steps


def _plain(keys: tuple[tuple[str, ...], ...]) -> tuple[Key, ...]:
    """Return keys of texts alone, where there may be members of enums, which are equal to texts."""
    return tuple(tuple(map(str, key)) for key in keys)


async def _cancel(scope: trio.CancelScope, after: int) -> None:
    await pause(after)
    scope.cancel()
