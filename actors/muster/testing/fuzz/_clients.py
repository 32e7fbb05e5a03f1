"""Clients, the tasks that carry out the steps of a program, and the checks at rest.

At rest every task is blocked: only calls that may wait do so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, final

import attrs
import trio

import muster
from muster.testing import check
from muster.testing.fuzz._binders import ObservedBinder, WatcherLog, faults_of, pause, sleep_us
from muster.testing.fuzz._judges import AskedJudge, BoundJudge, EndJudge, ManyJudge
from muster.testing.fuzz._program import Client, Config, Step
from muster.testing.fuzz._records import Ask, AskLife, Call, CallLog, Judge, Story
from muster_core.decisions import MICROSECONDS

if TYPE_CHECKING:
    from trio.testing import MockClock

    from muster.testing.fuzz._determinism import Steps


_PASSED_ON: Final = frozenset(
    {
        "add_node",
        "update_node",
        "remove_node",
        "add_app",
        "remove_app",
        "add_ask",
        "add_asks",
        "remove_ask",
        "release",
        "add_gang",
        "remove_gang",
        "add_priority_class",
        "set_usage",
        "apply",
        "delete",
        "submit",
        "submit_many",
        "settle",
        "snapshot",
    }
)
"""The steps that call the scheduler's method of the same name, with the step's arguments."""

UNREADABLE: Final[Config] = {"partitions": [{"name": "default", "queues": [{"name": "a b"}]}]}
"""A configuration that is refused."""


class LeftRunningError(Exception):
    """The exception that a body of ``running`` raises by itself."""


@final
@attrs.define(eq=False)
class KeptAllocation:
    """An allocation that a client keeps.

    Attributes:
        allocation: Its handle.
        seq: The decision that bound it, or 0 if it is unknown.
        is_released: Whether it was released by this handle, which does not cancel bodies.
    """

    allocation: muster.Allocation
    seq: int
    is_released: bool = False


@final
@attrs.frozen
class PendingCall:
    """What a call waits for.

    Attributes:
        kind: ``bound``, ``ended``, ``satisfied``, ``running`` or ``watch``.
        ask: The ask, or None.
        seq: The decision that bound the allocation, or 0 if it is unknown.
        gang: The gang, or None.
        kept: The allocation of a body of ``running``, or None.
    """

    kind: str
    ask: Ask | None = None
    seq: int = 0
    gang: str | None = None
    kept: KeptAllocation | None = None


@final
class StepRunner:
    """Carries out the steps of one client.

    Args:
        who: The client's name.
        scheduler: The scheduler.
        clock: The clock, for steps that make it jump.
        call_log: Records all calls.
        steps: Cancels scopes at task steps.
        configs: The configurations to change to.
        story: The decisions so far.
        binder: The binder, or None.
        attempts: How often in a row work may fail, or None.

    Attributes:
        left: The allocations that this client has released, which must have ended.
    """

    def __init__(
        self,
        who: str,
        *,
        scheduler: muster.Scheduler,
        clock: MockClock,
        call_log: CallLog,
        steps: Steps,
        configs: Sequence[Config],
        story: Story,
        binder: ObservedBinder | None,
        attempts: int | None,
    ) -> None:
        self._name = who
        self._scheduler = scheduler
        self._clock = clock
        self._call_log = call_log
        self._steps = steps
        self._configs = configs
        self._story = story
        self._binder = binder
        self._attempts = attempts
        #: The handles of its own asks, each with its ask, or None if it is unknown which it is.
        self._asks: dict[Ask, tuple[muster.Ask, AskLife | None]] = {}
        self._kept: list[KeptAllocation] = []
        #: The allocations that this client has released, which must have ended.
        self.left: list[KeptAllocation] = []
        self._acts: dict[str, Callable[[Step], Awaitable[None]]] = {
            "bound": self._bound,
            "work": self._work,
            "release_mine": self._release_mine,
            "running_mine": self._running_mine,
            "ended_mine": self._ended_mine,
            "satisfied": self._satisfied,
            "watch": self._watch,
            "why": self._why,
            "check": self._check,
            "statistics": self._statistics,
            "configure": self._configure,
            "jump": self._jump,
            "sleep": self._sleep,
        }

    async def work_off(self, client: Client) -> None:
        """Carry out the steps of a client, and wait for its steps aside."""
        scope = trio.CancelScope()
        if client.cancel_at is not None:
            self._steps.at(client.cancel_at, scope)
        with scope:
            async with trio.open_nursery() as aside:
                for step in client.steps:
                    await pause(step.pause)
                    if step.aside:
                        aside.start_soon(self.do, step)
                    else:
                        await self.do(step)

    async def do(self, step: Step) -> None:
        """Carry out one step, and cancel it as it says."""
        with self._disturbed(step):
            if step.op in _PASSED_ON:
                await self._pass_on(step)
            else:
                await self._acts[step.op](step)

    @contextmanager
    def _disturbed(self, step: Step) -> Generator[None]:
        scope = trio.CancelScope()
        if step.within_us is not None:
            scope.deadline = trio.current_time() + step.within_us / MICROSECONDS
        if step.cancel_after is not None:
            self._steps.at(self._steps.count + 1 + step.cancel_after, scope)
        with scope:
            yield

    async def _note(
        self,
        step: Step,
        ask: Callable[[], Awaitable[Any]],
        *,
        waits: PendingCall | None = None,
        what: str | None = None,
        keys: bool = True,
        judge: Judge | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the call returns
        return await self._call_log.note(
            self._name,
            what or step.op,
            str(step) if what is None else f"{what} of {step}",
            ask,
            keys=step.keys if keys else (),
            waits=waits is not None,
            about=waits,
            bad=bool(step.args.get("bad")),
            judge=judge,
        )

    # Calls

    async def _pass_on(self, step: Step) -> None:
        method = getattr(self._scheduler, step.op)
        args = {name: value for name, value in step.args.items() if name != "bad"}
        if step.op == "submit":
            await self._note(step, lambda: method(args["event"]))
        elif step.op == "submit_many":
            await self._submit_many(step, args["events"])
        elif step.op in {"add_ask", "add_asks"}:
            await self._add_asks(step, args)
        elif step.op in {"apply", "delete"}:
            await self._note(step, lambda: method(args["manifest"]))
        else:
            await self._note(step, lambda: method(**args))

    async def _submit_many(self, step: Step, events: Sequence[Mapping[str, object]]) -> None:
        answers = await self._note(
            step,
            lambda: self._scheduler.submit_many(events),
            judge=ManyJudge(self._story, events),
        )
        if answers is not None and len(answers) != len(events):
            self._call_log.faults.append(f"{len(answers)} answers to {step}")

    async def _add_asks(
        self, step: Step, args: Mapping[str, Any], what: str | None = None
    ) -> tuple[muster.Ask, AskLife | None] | None:
        """Add one or more asks; return the first handle, or None if they are refused."""
        method = self._scheduler.add_ask if "count" not in args else self._scheduler.add_asks
        judge = AskedJudge(self._story, args)
        await self._note(step, lambda: method(**args), what=what, judge=judge)
        for ask, life in judge.handles:
            self._asks[ask.app, ask.name] = (ask, life)
        return judge.handles[0] if judge.handles else None

    async def _configure(self, step: Step) -> None:
        which: int | None = step.args["which"]
        config: Config = UNREADABLE if which is None else self._configs[which]
        await self._note(step, lambda: self._scheduler.configure(config))

    async def _why(self, step: Step) -> None:
        ask = self._scheduler.ask(step.args["app"], step.args["ask"])
        await self._note(step, ask.why)

    async def _check(self, step: Step) -> None:
        await self._note(step, lambda: check(self._scheduler))

    async def _statistics(self, step: Step) -> None:
        async def look() -> None:
            await trio.lowlevel.checkpoint()
            self._scheduler.statistics()

        await self._note(step, look)

    # Time

    async def _jump(self, step: Step) -> None:
        self._clock.jump(step.args["by_us"] / MICROSECONDS)
        await trio.lowlevel.checkpoint()

    async def _sleep(self, step: Step) -> None:
        await sleep_us(step.args["for_us"])

    # Asks and allocations

    async def _bound(self, step: Step) -> None:
        name: Ask = (step.args["app"], step.args["ask"])
        ask, life = self._scheduler.ask(*name), None
        if step.args.get("by_handle") and name in self._asks:
            ask, life = self._asks[name]
        kept = await self._wait_bound(step, ask, life)
        if kept is None:
            return
        match step.args["then"]:
            case "keep":
                self._kept.append(kept)
            case "release":
                await self._release(step, kept)
            case "running":
                await self._run(step, kept, 1)
            case _:
                await self._wait_ended(step, kept)

    async def _wait_bound(
        self, step: Step, ask: muster.Ask, life: AskLife | None
    ) -> KeptAllocation | None:
        name = (ask.app, ask.name)
        waits = PendingCall("bound", name)
        judge = BoundJudge(self._story, self._binder, self._attempts, name, life)
        allocation = await self._note(
            step, ask.bound, waits=waits, what="bound", keys=False, judge=judge
        )
        return None if allocation is None else KeptAllocation(allocation, judge.seq)

    async def _work(self, step: Step) -> None:
        args = {
            name: value for name, value in step.args.items() if name not in {"body_us", "holds"}
        }
        made = await self._add_asks(step, args, "add_ask")
        if made is None:
            return
        kept = await self._wait_bound(step, *made)
        if kept is None:
            return
        if step.args["holds"]:
            self._kept.append(kept)
        else:
            await self._run(step, kept, step.args["body_us"])

    async def _release_mine(self, step: Step) -> None:
        kept = self._mine(step)
        if kept is not None:
            await self._release(step, kept)

    async def _running_mine(self, step: Step) -> None:
        kept = self._mine(step)
        if kept is not None:
            await self._run(step, kept, step.args["body_us"])

    async def _ended_mine(self, step: Step) -> None:
        kept = self._mine(step)
        if kept is not None:
            await self._wait_ended(step, kept)

    def _mine(self, step: Step) -> KeptAllocation | None:
        which: int = step.args["which"]
        return self._kept[which % len(self._kept)] if self._kept else None

    async def _release(self, step: Step, kept: KeptAllocation) -> None:
        allocation = kept.allocation
        kept.is_released = True
        bound = self._story.bound.get((allocation.app, allocation.ask))
        was_over = bound is None or bound.seq != kept.seq
        done = await self._note(step, allocation.release, what="release held", keys=False)
        if done is not None:
            self.left.append(kept)
        if done and was_over and kept.seq:
            self._call_log.faults.append(f"{step} of {self._name} has released another allocation")

    async def _wait_ended(self, step: Step, kept: KeptAllocation) -> None:
        name = (kept.allocation.app, kept.allocation.ask)
        waits = PendingCall("ended", name, kept.seq)
        judge = EndJudge(self._story, kept.seq)
        await self._note(
            step, kept.allocation.ended, waits=waits, what="ended", keys=False, judge=judge
        )

    async def _run(self, step: Step, kept: KeptAllocation, body_us: int) -> None:
        """Run a body under an allocation; a body of one microsecond raises at its end."""

        async def run() -> None:
            try:
                async with kept.allocation.running():
                    await sleep_us(body_us)
                    if body_us == 1:
                        raise LeftRunningError
            except LeftRunningError:
                pass
            finally:
                self.left.append(kept)

        name = (kept.allocation.app, kept.allocation.ask)
        waits = PendingCall("running", name, kept.seq, kept=kept)
        judge = EndJudge(self._story, kept.seq)
        await self._note(step, run, waits=waits, what="running", keys=False, judge=judge)

    # Gangs and observers

    async def _satisfied(self, step: Step) -> None:
        gang = self._scheduler.gang(step.args["gang"])
        waits = PendingCall("satisfied", gang=step.args["gang"])
        await self._note(step, gang.satisfied, waits=waits)

    async def _watch(self, step: Step) -> None:
        args = step.args

        async def watch() -> None:
            async with self._scheduler.decisions(buffer=args["buffer"]) as decisions:
                for _ in range(args["readings"]):
                    if args["take"]:
                        await decisions.take()
                    elif await anext(decisions, None) is None:
                        return

        await self._note(step, watch, waits=PendingCall("watch"))


def faults_at_rest(
    call_log: CallLog,
    story: Story,
    binder: ObservedBinder | None,
    runners: Iterable[StepRunner],
    seen: Iterable[WatcherLog],
) -> list[str]:
    """Return all faults while every task is blocked and the block has not ended."""
    faults = [fault for call in call_log.open.values() for fault in _of_call(call, story, binder)]
    for runner in runners:
        for kept in runner.left:
            ask = (kept.allocation.app, kept.allocation.ask)
            if kept.seq and _bound_by(story, ask) == kept.seq:
                faults.append(f"{ask} was released, and is bound by decision {kept.seq} still")
        runner.left.clear()
    if binder is not None:
        faults += _of_binder(binder, story)
    for number, one in enumerate(seen):
        faults += faults_of(number, one, story, at_rest=True)
    return faults


def _bound_by(story: Story, ask: tuple[str, str]) -> int:
    bound = story.bound.get(ask)
    return 0 if bound is None else bound.seq


def _of_call(call: Call, story: Story, binder: ObservedBinder | None) -> Iterator[str]:
    if not call.waits:
        yield f"{call}, and nothing can go on"
        return
    match call.about:
        case PendingCall("bound", (_, _) as ask):
            seq = _bound_by(story, ask)
            active = None if binder is None else binder.active().get(ask)
            if seq and (binder is None or (active is not None and active.started)):
                yield f"{call}, though decision {seq} has bound it"
        case PendingCall("ended" | "running", (_, _) as ask, seq, kept=kept) if seq:
            is_cut_short = kept is None or not kept.is_released
            if is_cut_short and _bound_by(story, ask) != seq:
                yield f"{call}, though the allocation of decision {seq} is over"
        case PendingCall("satisfied", gang=str(gang)):
            if gang in story.satisfied:
                yield f"{call}, though the gang is satisfied"
        case _:
            pass


def _of_binder(binder: ObservedBinder, story: Story) -> Iterator[str]:
    active, cleaning = binder.active(), binder.cleaning()
    for ask, run in active.items():
        seq = _bound_by(story, ask)
        if not seq or (run.seq and run.seq != seq):
            yield f"the binder goes on with {ask}, though its allocation is over"
    for ask, bound in story.bound.items():
        if ask not in active and ask not in cleaning:
            yield f"{ask} is bound by decision {bound.seq}, and the binder is not running for it"
    for ask, times in binder.times_run().items():
        if times > story.times_bound[ask]:
            yield f"the binder was run {times} times for {ask}, bound {story.times_bound[ask]} times"
