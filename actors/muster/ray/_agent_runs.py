"""The runs of an agent: each is one task of Ray, or one detached actor, from its start to its end."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from typing import Any, Final, cast

from muster.ray._agent_interfaces import Engine, Group, Handle, MessageWriter, RunMap, one_line
from muster.ray._agent_tasks import (
    DetachedActor,
    GangGate,
    GangGates,
    GangMember,
    GateClosedError,
    RayTask,
    end_detached,
    remove_unused_groups,
)
from muster.ray._messages import LARGEST_BYTES, Failed, GateOf, SurvivorMap
from muster.ray.runner import CLOSED, ENDED, FAILED, PLACED, STARTED, Item

_SURVIVOR: Final = ("node", "state", "cpus", "gpus", "memory", "resources")

_FORCED_S: Final = 5.0
"""How long to wait for the end of a run that was cancelled by force, in seconds."""

_ASK_AGAIN_S: Final = (0.1, 0.3, 1.0, 3.0)
"""After how long a run is asked once more to end, each time, in seconds."""

_FORCES: Final = 10
"""How often it is cancelled by force meanwhile, until it is over."""

_KEEPER_S: Final = 1.0
"""How long a keeper may take after the grace period to end its command, in seconds."""

_AGAIN_S: Final = 1.0
"""How long to wait until the cluster is asked again, in seconds."""

_MOST_BYTES: Final = LARGEST_BYTES - 4096
"""The largest value, in bytes: the rest of its message is small."""

_MOST_TEXT: Final = 1_000_000
"""The most characters of a text about a failure in a message."""

_SOON_S: Final = 0.05
"""The period for checking whether an earlier run has ended, in seconds."""

_ASK_S: Final = 5.0
"""How long to wait for the answer to whether a run has gone, or how it is, in seconds."""

_SILENT: Final[dict[str, Any]] = {
    "state": "silent",
    "cpus": 0.0,
    "gpus": 0.0,
    "memory": 0,
    "resources": {},
}
"""The description of a detached run that does not answer now, without its name and node."""


class AgentRun:
    """One run.

    Attributes:
        message: The message ``Run`` of the program.
        work: Its task or actor in Ray.
        over: Set when Ray says that it is over.
        begun: The process of the work and when it has started, once it has begun.
        wants: Whether the program expects a message when it was cancelled.
        spoiled: Why its gang does not start.
        end: How it has ended by itself.
        error: The error of Ray instead.
        has_node: Whether its node was alive after that.
        adopts: The actor of the run of an earlier agent that it continues, or None.
        absent: Why there is no such run.
    """

    def __init__(
        self, message: RunMap, work: RayTask | DetachedActor, *, adopts: DetachedActor | None = None
    ) -> None:
        self.message = message
        self.work = work
        self.id: int = message["id"]
        self.over = asyncio.Event()
        self.begun: tuple[int, int | None] | None = None
        self.wants = False
        self.spoiled: str | None = None
        self.ending = False
        self.end: Item | None = None
        self.error: BaseException | None = None
        self.has_node = True
        self.adopts = adopts
        self.absent: str | None = None
        self.gate: GangGate | None = None
        self.member: GangMember | None = None

    @property
    def node(self) -> str:
        """The id of the node."""
        node: str = self.message["node"]
        return node

    @property
    def is_command(self) -> bool:
        """Whether it is a command."""
        return bool(self.message["work"]["kind"] == "command")


class AgentRuns:
    """All runs of an agent that are not over.

    Args:
        engine: Ray.
        writer: Sends messages about them to the program.
        ask_s: The time limit for answers of detached runs of earlier agents, in seconds.
    """

    def __init__(self, engine: Engine, writer: MessageWriter, ask_s: float = _ASK_S) -> None:
        self._engine = engine
        self._writer = writer
        self._ask_s = ask_s
        #: The questions to detached runs of earlier agents that are not answered, by their names.
        self._asking: dict[str, asyncio.Future[object]] = {}
        self._runs: dict[int, AgentRun] = {}
        self._tasks: set[asyncio.Future[Any]] = set()
        self._gates = GangGates(engine, self.spawn)
        self._ended: dict[int, DetachedActor] = {}
        #: How many detached runs of earlier agents are being ended, by their asks.
        self._endings = Counter[str]()

    def spawn(self, work: Awaitable[None]) -> None:
        """Run a coroutine in the background; its error is printed."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned)

    def _spawned(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            sys.stderr.write(f"muster: {one_line(error)}\n")

    def run(self, message: RunMap) -> None:
        """Run something."""
        kind = DetachedActor if message["detached"] else RayTask
        self._begin(AgentRun(message, kind(self._engine, message)))

    def _begin(self, run: AgentRun) -> None:
        self._runs[run.id] = run
        self.spawn(self._run_to_end(run))

    def fetched(self, number: int) -> None:
        """Forget a detached run whose end the program has recorded."""
        work = self._ended.pop(number, None)
        if work is not None:
            self.spawn(work.forget())

    def cancel(self, number: int, grace_s: float) -> None:
        """End a run, and report that when nothing of it is left."""
        run = self._runs.get(number)
        if run is None or run.wants:
            return
        run.wants = True
        self._begin_to_end(run, grace_s)

    async def end_all(self, most_s: float) -> None:
        """End all runs but the detached ones, since the program has gone.

        Args:
            most_s: How long they may take at most, in seconds.
        """
        ending = [run for run in self._runs.values() if isinstance(run.work, RayTask)]
        for run in ending:
            self.cancel(run.id, min(run.message["grace_s"], most_s))
        overs = [asyncio.ensure_future(run.over.wait()) for run in ending]
        if overs:
            await asyncio.wait(overs, timeout=most_s)

    # Detached runs of earlier agents

    async def survivors(self) -> None:
        """List them to the program."""
        names = await self._names()
        # Not before: a run that has begun meanwhile would count as one of an earlier agent.
        mine = {run.message["name"] for run in self._runs.values()}
        mine |= {work.name for work in self._ended.values()}
        found = await asyncio.gather(*(self._survivor(name) for name in names if name not in mine))
        there = cast("list[SurvivorMap]", [one for one in found if one is not None])
        if all(one["state"] != "silent" for one in there):
            await self._suppressing_errors(remove_unused_groups(self._engine))
        self._writer.say({"say": "survivors", "survivors": there})

    async def _names(self) -> list[str]:
        """Return the names of all detached runs, as soon as the cluster answers."""
        while True:
            try:
                return await asyncio.to_thread(self._engine.names_of_detached)
            except Exception as error:  # noqa: BLE001 - the head is away, for example
                sys.stderr.write(f"muster: detached runs are not known yet: {one_line(error)}\n")
                await asyncio.sleep(_AGAIN_S)

    async def _survivor(self, name: str) -> dict[str, Any] | None:
        actor = await asyncio.to_thread(self._engine.detached, name)
        if actor is None:
            return None
        question = self._ask(name, actor)
        await asyncio.wait({question}, timeout=self._ask_s)
        if question.done():
            state = self._answered(name, question)
            if state is not None:
                return {**{key: state[key] for key in _SURVIVOR}, "name": name}
            if not self._is_silent(question):
                return None
        return await self._silent(name, actor)

    async def _silent(self, name: str, actor: Handle) -> dict[str, Any] | None:
        """Return the description of a detached run that does not answer: its node may be busy."""
        with suppress(Exception):
            if await asyncio.to_thread(self._engine.is_pending, actor):
                await asyncio.to_thread(self._engine.kill, actor)  # nothing of it has begun
                return None
            if await asyncio.to_thread(self._engine.detached, name) is None:
                return None
            node = await asyncio.to_thread(self._engine.node_of, actor)
            return {**_SILENT, "node": node, "name": name}
        return {**_SILENT, "node": "", "name": name}

    def _ask(self, name: str, actor: Handle) -> asyncio.Future[object]:
        """Ask a detached run for its state, unless an answer is still to come."""
        if name not in self._asking:
            self._asking[name] = asyncio.ensure_future(_answer(actor.about.remote()))
        return self._asking[name]

    def _answered(self, name: str, question: asyncio.Future[object]) -> dict[str, Any] | None:
        """Return the answer of a detached run; None if it cannot answer."""
        if self._asking.get(name) is question:
            del self._asking[name]
        return None if question.exception() else cast("dict[str, Any]", question.result())

    def _is_silent(self, question: asyncio.Future[object]) -> bool:
        """Return whether a detached run that could not answer may live."""
        error = question.exception()
        return error is not None and self._engine.is_away(error)

    async def _about(self, run: AgentRun, name: str, actor: Handle) -> dict[str, Any] | None:
        """Return the state of a detached run, as soon as it answers; None if it is dead, or to end."""
        loop = asyncio.get_running_loop()
        warning_at: float | None = loop.time() + self._ask_s
        while not run.ending:
            question = self._ask(name, actor)
            await asyncio.wait({question}, timeout=_SOON_S)
            if question.done():
                state = self._answered(name, question)
                if state is not None or not self._is_silent(question):
                    return state
                await asyncio.sleep(_SOON_S)
            if warning_at is not None and loop.time() >= warning_at:
                warning_at = None
                text = f"the detached run {name} does not answer; it is waited for"
                self._writer.say({"say": "warning", "text": text})
        return None

    def adopt(self, number: int, name: str, grace_s: float) -> None:
        """Go on with a detached run."""
        message = {"id": number, "name": name, "grace_s": grace_s, "gate": None, "detached": True}
        message |= {"node": "", "work": {"kind": "call"}}  # until its actor says more
        work = DetachedActor(self._engine, message)
        self._begin(AgentRun(message, work, adopts=work))

    async def _find(self, run: AgentRun, work: DetachedActor) -> None:
        """Find a detached run of an earlier agent, and follow its items until the last one."""
        actor = await self._actor(work.name)
        state = None if actor is None else await self._about(run, work.name, actor)
        if run.ending and actor is not None:  # meanwhile
            await self._suppressing_errors(
                end_detached(self._engine, actor, run.message["grace_s"])
            )
            return
        if actor is None or state is None or state["state"] == "placed":
            if actor is not None:
                await self._suppressing_errors(
                    end_detached(self._engine, actor, run.message["grace_s"])
                )
            run.absent = f"the detached run {work.name} is not there, or has not begun"
            return
        run.message |= {**state, "work": {"kind": state["kind"]}}
        work.found(actor, state.get("group"))
        await self._follow_items(run, None, None)

    async def _actor(self, name: str) -> Handle | None:
        """Return the actor of a detached run, as soon as the cluster answers."""
        while True:
            try:
                return await asyncio.to_thread(self._engine.detached, name)
            except Exception as error:  # noqa: BLE001 - the head is away, for example
                sys.stderr.write(f"muster: {name} is not known yet: {one_line(error)}\n")
                await asyncio.sleep(_AGAIN_S)

    def end_survivor(self, name: str, grace_s: float) -> None:
        """End a detached run that was not adopted; a new run of its ask waits for that."""
        self._endings[_ask_of(name)] += 1
        self.spawn(self._end_survivor(name, grace_s))

    async def _end_survivor(self, name: str, grace_s: float) -> None:
        try:
            await self._end_actor(name, grace_s)
        finally:
            self._endings -= Counter([_ask_of(name)])

    async def _end_actor(self, name: str, grace_s: float) -> None:
        """End a detached run, as soon as the cluster can do that."""
        while (actor := await self._actor(name)) is not None:
            try:
                await end_detached(self._engine, actor, grace_s)
            except Exception as error:  # noqa: BLE001 - the head is away, for example
                sys.stderr.write(f"muster: {name} is not ended yet: {one_line(error)}\n")
                await asyncio.sleep(_AGAIN_S)
            else:
                await self._suppressing_errors(remove_unused_groups(self._engine))
                return

    def miss(self, gate: GateOf, why: str) -> None:
        """Record that a member of a gang is not going to be sent."""
        self._gates.miss(gate, why)

    # The life of a run

    async def _run_to_end(self, run: AgentRun) -> None:
        try:
            if run.adopts is None:
                await self._follow(run)
            else:
                await self._find(run, run.adopts)
        except GateClosedError as error:
            run.spoiled = str(error)
        except Exception as error:  # noqa: BLE001 - whatever Ray raises
            run.error = error
        run.over.set()
        await self._conclude(run)

    async def _conclude(self, run: AgentRun) -> None:
        """Report the end of a run that is over in Ray."""
        if run.gate is not None and run.member is not None:
            self._gates.leave(run.gate, run.member, "another member of the gang has not started")
        if run.ending:
            return  # the task that ends it reports that
        if run.error is not None:
            run.has_node = await self._is_alive(run.node)
            if run.begun is not None and run.has_node:
                await self._is_gone(run)
        if isinstance(run.work, DetachedActor):
            self._ended[run.id] = run.work
        self._report_end(run)

    async def _follow(self, run: AgentRun) -> None:
        """Submit a run, and follow its items until the last one."""
        ask = _ask_of(run.message["name"])
        while self._endings[ask] and not run.ending:  # noqa: ASYNC110 - it may last
            await asyncio.sleep(_SOON_S)
        gate = run.message["gate"]
        actor = group = None
        if gate is not None and gate["peers"] > 1:
            run.member = GangMember(run.message, lambda why: self._end_spoiled(run, why))
            run.gate = self._gates.join(run.member)
            if gate["reserve"]:
                group = await self._gates.reserved(run.gate, run.member)
            actor = await self._gates.actor()
        if not run.ending:
            await self._follow_items(run, actor, group)

    async def _follow_items(
        self, run: AgentRun, actor: Handle, group: tuple[Group, int] | None
    ) -> None:
        async for item in run.work.items(actor, group):
            if self._handle_item(run, item):
                return

    def _handle_item(self, run: AgentRun, item: Item) -> bool:
        """Handle an item of a run; return whether it was the last one."""
        what, *values = item
        if what == PLACED:
            if run.gate is not None and run.member is not None:
                self._gates.placed(run.gate, run.member)
            return False
        if what == STARTED:
            run.begun = values[0], values[1]
            if not run.ending:
                self._writer.say({"say": "started", "id": run.id, "pid": values[0]})
            return False
        if what == CLOSED:
            if run.gate is not None and values[1]:
                self._gates.lost(run.gate)
            run.spoiled = run.spoiled or values[0]
            return True
        run.end = item
        return True

    def _report_end(self, run: AgentRun) -> None:
        """Report how a run has ended by itself."""
        if self._runs.pop(run.id, None) is None:
            return
        what, *values = run.end or (None,)
        if what == ENDED and len(values[1] or b"") > _MOST_BYTES:
            text = f"the value has {len(values[1])} bytes, the most are {_MOST_BYTES}"
            self._report_failure(run, "work", text, "")
        elif what == ENDED:
            self._writer.say(
                {"say": "ended", "id": run.id, "status": values[0], "value": values[1]}
            )
        elif what == FAILED:
            self._report_failure(run, "work", values[0], values[1])
        elif run.absent is not None:
            self._report_failure(run, "not_started", run.absent, run.absent)
        elif run.spoiled is not None:
            self._report_failure(run, "gate", run.spoiled, run.spoiled)
        elif run.error is not None:
            how, error, text = self._engine.classify(run.error)
            # To Ray, a node that has gone and one that is too small are the same.
            is_lost = how in {"not_started", "lost"} and not run.has_node
            self._report_failure(run, "node_lost" if is_lost else how, error, text)
        else:
            self._report_failure(run, "lost", "the task has ended without a result", "")

    def _report_failure(self, run: AgentRun, how: str, error: str, text: str) -> None:
        message = {"say": "failed", "id": run.id, "how": how, "error": error[:_MOST_TEXT]}
        message["text"] = text if len(text) <= _MOST_TEXT else f"… {text[-_MOST_TEXT:]}"
        self._writer.say(cast("Failed", message))

    # Ending a run

    def _end_spoiled(self, run: AgentRun, why: str) -> None:
        """End a run since its gang does not start."""
        run.spoiled = run.spoiled or why
        self._begin_to_end(run, run.message["grace_s"])

    def _begin_to_end(self, run: AgentRun, grace_s: float) -> None:
        if not run.ending:
            run.ending = True
            self.spawn(self._end(run, grace_s))

    async def _end(self, run: AgentRun, grace_s: float) -> None:
        """End a run: softly at once, by force after the grace period."""
        if run.gate is not None and run.member is not None:
            self._gates.close(run.gate, "another member of the gang was cancelled")
        gone = await self._request_end(run, grace_s)
        await self._suppressing_errors(run.work.forget())
        if not gone:
            sys.stderr.write(f"muster: {run.message['name']} was cancelled, and may still run\n")
        if run.wants and self._runs.pop(run.id, None) is not None:
            self._writer.say({"say": "cancelled", "id": run.id, "gone": gone})
        else:
            self._report_end(run)

    async def _request_end(self, run: AgentRun, grace_s: float) -> bool:
        """End a run; return whether it has gone."""
        slack = _KEEPER_S if run.is_command else 0.0
        if not await self._cancel_softly(run, grace_s + slack):
            # Ray drops a forced cancel that comes while a soft one is on its way.
            for _ in range(_FORCES):
                await self._suppressing_errors(run.work.end(force=True))
                if await _is_set_within(run.over, _FORCED_S / _FORCES):
                    break
            return await self._is_gone(run)
        if run.error is not None and run.begun is not None and run.is_command:
            return await self._is_gone(run)
        return True

    async def _cancel_softly(self, run: AgentRun, within_s: float) -> bool:
        """Ask a run to end; return whether it is over in time.

        Ray loses a soft cancel that comes while the task begins, and then delivers none of its
        items: so it is sent several times. The runner does not interrupt its work twice.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + within_s
        for pause_s in _ASK_AGAIN_S:
            if run.over.is_set():
                return True
            await self._suppressing_errors(run.work.end(force=False))
            if await _is_set_within(run.over, min(pause_s, max(0.0, until - loop.time()))):
                return True
        return await _is_set_within(run.over, max(0.0, until - loop.time()))

    async def _is_gone(self, run: AgentRun) -> bool:
        """Ask on the node whether a run has gone whose end was not reported.

        A command whose worker was killed may take its grace period. So long the same ask must not
        run again.
        """
        if run.begun is None:
            return run.over.is_set()
        if run.error is not None and self._engine.classify(run.error)[0] == "node_lost":
            return True
        pid, at = run.begun
        grace_s = run.message["grace_s"] if run.is_command else 0.0
        what: tuple[Any, ...] = ("worker_is_over", pid, at)
        if run.is_command:
            what = ("is_over", pid, at, 0.0 if run.ending else grace_s)
        with suppress(Exception):
            # In a thread: the first call registers the function with Ray's head.
            call = await asyncio.to_thread(self._engine.small, run.node, *what)
            return bool(await asyncio.wait_for(_answer(call), grace_s + _ASK_S))
        # The node does not answer. When it has gone, nothing of the run is left.
        return False

    async def _is_alive(self, node: str) -> bool:
        """Return whether a node is alive; True if Ray does not answer."""
        with suppress(Exception):
            nodes = await asyncio.wait_for(asyncio.to_thread(self._engine.nodes), _ASK_S)
            return any(one["id"] == node for one in nodes)
        return True

    async def _suppressing_errors(self, work: Coroutine[Any, Any, None]) -> None:
        """Await something, and ignore its failure: the wait for the end goes on."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever Ray raises
            sys.stderr.write(f"muster: {one_line(error)}\n")


def _ask_of(name: str) -> str:
    """Return application and ask from the name of a run."""
    return name.rpartition("/")[0]


async def _answer(reference: Handle) -> object:
    answer: object = await reference
    return answer


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event; return whether it came in time."""
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()
