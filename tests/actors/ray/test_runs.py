"""Any order of what agents say and programs do: each run comes back once, as was said first."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest
import trio
from hypothesis import Phase, given, settings, strategies as st
from trio.testing import MockClock

import muster
from muster import NotStartedError
from muster.ray import RayBinder, RayLostError, Result, RunFailedError, WorkError
from tests.actors.ray.puppets import ONE, Puppet, Stage, connected, followed, node

pytestmark = pytest.mark.usefixtures("watchdog")

RUNS: Final = 3
FAST: Final = 100
"""How many virtual seconds are one second, once nothing more is said."""
ERRORS: Final[dict[str, type[Exception]]] = {
    "work": WorkError,
    "lost": RunFailedError,
    "not_started": RunFailedError,
    "gate": NotStartedError,
}

Step = tuple[str, int, str]

# Starts are said often: then some come twice, and some too late.
steps = st.lists(
    st.tuples(
        st.sampled_from(["started"] * 4 + ["begin", "cancel", "ended", "failed", "cancelled"]),
        st.integers(0, RUNS - 1),
        st.sampled_from(sorted(ERRORS)),
    ),
    min_size=6,
    max_size=16,
)


@attrs.define
class Run:
    """A run, as the test expects it, and as it is.

    Attributes:
        allocation: Its allocation.
        id: The number that the agent has heard; None before it has begun.
        ended: How it is to come back, if that is known.
        is_cancelled: Whether the program has cancelled it.
        begun: How often the start is to be told.
        scope: Cancelled to cancel it.
        told: How often the start was told.
        came: How it has come back.
    """

    allocation: muster.Allocation
    id: int | None = None
    ended: object = None
    is_cancelled: bool = False
    begun: int = 0
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    told: int = 0
    came: list[object] = attrs.field(factory=list[object])

    def tell(self) -> None:
        self.told += 1

    async def go(self, binder: RayBinder, results: dict[str, Result]) -> None:
        with self.scope:
            try:
                await binder.run(self.allocation, self.tell)
            except (muster.MusterError, RuntimeError) as error:
                self.came.append(type(error))
            else:
                self.came.append(results[self.allocation.ask])
        if self.scope.cancelled_caught:
            self.came.append("cancelled")


class World:
    """The runs, and the agent that is told what to say of them."""

    def __init__(
        self,
        stage: Stage,
        nursery: trio.Nursery,
        allocations: Sequence[muster.Allocation],
        clock: MockClock,
    ) -> None:
        self.stage = stage
        self.clock = clock
        self.agent: Puppet = stage.agent
        self.nursery = nursery
        self.runs = [Run(allocation) for allocation in allocations]
        self.results: dict[str, Result] = {}
        self.is_dead = False
        self.binder = RayBinder(
            stage.ray,
            lambda _: "true",
            done=lambda held, result: self.results.update({held.ask: result}),
        )

    async def do(self, step: Step) -> None:
        what, number, how = step
        run = self.runs[number]
        match what:
            case _ if self.is_dead:
                return
            case "begin" if run.id is None:
                self.nursery.start_soon(run.go, self.binder, self.results)
                run.id = (await self.agent.heard("run"))["id"]
            case "cancel" if run.id is not None and not run.is_cancelled:
                run.is_cancelled = True
                run.scope.cancel()
                if run.ended is None:
                    assert (await self.agent.heard("cancel"))["id"] == run.id
            case "die":
                self.is_dead = True
                self.agent.kill()
                self.clock.rate = FAST  # a command that was lost has its grace period
                for one in self.runs:
                    self.end(one, RayLostError)
                return
            case "begin" | "cancel":
                return
            case _:
                await self.say(run, what, how)
        await self.settle()

    async def say(self, run: Run, what: str, how: str) -> None:
        """Let the agent say something of a run, which may not have begun, or be over."""
        about = {"id": 10**6 if run.id is None else run.id}
        match what:
            case "started":
                await self.agent.started(about)
                if run.id is not None and run.ended is None and not run.is_cancelled:
                    run.begun = 1
            case "ended":
                status = len(how) + run.begun
                await self.agent.ended(about, status)
                self.end(run, Result(status=status))
            case "failed":
                await self.agent.failed(about, how)
                has_begun = how != "work" or run.begun
                self.end(run, ERRORS[how] if has_begun else RunFailedError)
            case _:
                await self.agent.cancelled(about)
                self.end(run, RunFailedError)

    def end(self, run: Run, how: object) -> None:
        if run.id is not None and run.ended is None:
            run.ended = "cancelled" if run.is_cancelled else how

    async def settle(self) -> None:
        """Wait until the program has heard all, and look at what has come back."""
        await self.stage.ray.survivors()
        await trio.testing.wait_all_tasks_blocked()
        for run in self.runs:
            assert run.came == ([] if run.ended is None else [run.ended])
            assert run.told == run.begun


# Each example is a process: making a failure smaller would take longer than it is worth.
@settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.integers(0, RUNS), steps)
def test_each_run_comes_back_once_and_as_was_said_first(early: int, plan: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        clock = MockClock()
        trio.run(play, Path(folder), early, plan, clock, clock=clock)


async def play(folder: Path, early: int, plan: list[Step], clock: MockClock) -> None:
    begun = [("begin", number, "") for number in range(RUNS)]
    async with (
        connected(folder, node("a1", resources={"CPU": float(RUNS)})) as stage,
        muster.open_scheduler() as scheduler,
        followed(stage.ray, scheduler),
    ):
        await stage.agent.order(cancels=False)
        app = await scheduler.add_app("a", "q")
        asks = [await app.add_ask(f"k-{number}", ONE) for number in range(RUNS)]
        async with trio.open_nursery() as nursery:
            world = World(stage, nursery, [await ask.bound() for ask in asks], clock)
            for step in begun[:early] + plan:
                await world.do(step)
            await world.do(("die", 0, ""))
        for run in world.runs:
            assert run.came == ([] if run.id is None else [run.ended])
