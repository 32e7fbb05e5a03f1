"""Runs of allocations: begun, followed to their ends, ended, left alone and adopted."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster._errors import (
    BrokenSchedulerError,
    ClosedSchedulerError,
    NotStartedError,
    StoreError,
    WorkFailedError,
)
from muster._gang_runs import Gangs
from muster.ray import _messages as messages
from muster.ray._link import Link, LostWork, NodeList, latest_end, latest_end_after_program
from muster.ray._messages import NEVER_S, NodeMap, SurvivorMap
from muster.ray._nodes import NodeDescriptions, RayRequest
from muster.ray._process import Agent, RunHandle
from muster.ray._work import (
    NodeGoneError,
    RayLostError,
    Result,
    RunFailedError,
    RunTerms,
    Work,
    WorkError,
    gate_of,
    name_of,
    parsed_name,
    result_of,
    run_message,
)
from muster_core.events import Exit, Outcome as OutcomeOfWork

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation

_LOG: Final = logging.getLogger("muster.ray")

_ENDING_S: Final = 30.0
"""How long Ray may take to end a run, beside its grace period, in seconds."""

_POLL_S: Final = 0.2
"""The period for checking whether a run has ended, in seconds."""

_HOLD_S: Final = 20.0
"""How long a run whose node has gone waits for the removal of the node, in seconds."""


Release = Callable[[OutcomeOfWork, str | None, Exit | None], Awaitable[object]]
"""Releases an allocation, with the outcome, what the decision log says of it, and how a process ended."""


@final
@attrs.frozen
class RunOutcome:
    """The end of a run that has ended by itself.

    Attributes:
        result: The result for the program; the error of a callable that has raised.
        name: The name of the run.
        agent: The agent that knows it.
        run: The run.
    """

    result: Result | WorkError
    name: str
    agent: Agent
    run: RunHandle


@final
class Runs:
    """All runs on one cluster.

    Args:
        link: The link to the agent.
        naming: Describes nodes.
        nursery: The nursery of the cluster, for what goes on beside the runs.

    Attributes:
        link: The link to the agent.
        naming: Describes nodes.
        begun: Set when a scheduler runs that may adopt runs of an earlier program.
    """

    def __init__(self, link: Link, naming: NodeDescriptions, nursery: trio.Nursery) -> None:
        self.link = link
        self.naming = naming
        self.begun = trio.Event()
        self._nursery = nursery
        self._gangs = Gangs(nursery)
        #: For each task that follows the nodes, the version of the list that its scheduler knows.
        self._known_versions: dict[object, int] = {}
        #: The nodes by name, with the list from which they are.
        self._nodes: tuple[NodeList, Mapping[str, NodeMap]] | None = None
        #: The detached runs that go on when their scheduler has closed, by name.
        self._left: dict[str, tuple[Agent, RunHandle]] = {}
        #: The detached runs of earlier programs that were listed, by application and ask.
        self._listed: dict[tuple[str, str], SurvivorMap] = {}
        #: The names of those that were adopted or ended.
        self._claimed: set[str] = set()

    # Nodes

    def note_version(self, follower: object, version: int | None) -> None:
        """Record which list of nodes a scheduler knows; None if it does not follow any more."""
        if version is None:
            self._known_versions.pop(follower, None)
        else:
            self._known_versions[follower] = version
        self.link.notify()

    def name_of_node(self, number: str) -> str | None:
        """Return the name of a node, or None if it has gone."""
        found = self._by_name(self.link.node_list)
        return next((name for name, node in found.items() if node["id"] == number), None)

    def _by_name(self, seen: NodeList) -> Mapping[str, NodeMap]:
        if self._nodes is None or self._nodes[0] is not seen:
            self._nodes = seen, self.naming.selected(seen.nodes or ())
        return self._nodes[1]

    async def _node(self, name: str) -> str:
        """Return the id of a node.

        If it has gone, this waits until the scheduler knows that, which ends the run.

        Raises:
            RayLostError: If there is no agent.
            RunFailedError: If it is no node of Ray.
        """
        with trio.move_on_after(_HOLD_S):
            while True:
                await self.link.agent()
                seen = self.link.node_list
                node = self._by_name(seen).get(name)
                if node is not None:
                    return node["id"]
                versions = self._known_versions.values()
                if seen.nodes is not None and versions and min(versions) >= seen.version:
                    break
                await self.link.changed()
        msg = f"{name} is not a node of Ray"
        raise RunFailedError(msg)

    # Runs

    async def run(
        self, allocation: Allocation, work: Work, terms: RunTerms, started: Callable[[], None]
    ) -> RunOutcome:
        """Run the work of an allocation, and wait for its end.

        If the caller is cancelled, the work is ended, and this waits until it has.

        Raises:
            EventError: If Ray cannot count the amounts.
            NotStartedError: If another member of the gang could not be started.
            RayLostError: If the agent was lost.
            RunFailedError: If Ray has not started it, or has lost it.
        """
        self.begun.set()
        with self._gangs.member(allocation) as member:
            if member is None or not terms.has_gates:
                return await self._run(allocation, work, terms, started)
            await member.admit()
            try:
                return await self._run(
                    allocation, work, terms, _calling_both(member.begin, started)
                )
            except Exception:
                await member.fail()
                raise

    async def _run(
        self, allocation: Allocation, work: Work, terms: RunTerms, started: Callable[[], None]
    ) -> RunOutcome:
        try:
            declared = self.naming.amounts.declared(allocation.resources)
            node = await self._node(allocation.node)
            number = self.link.number()
            message = run_message(number, allocation, node, declared, work, terms)
            agent = await self.link.agent()
        except BaseException as error:
            await self.miss(allocation, terms, error)
            raise
        if terms.is_detached and await self._claim(agent, allocation, message):
            name = self._listed.pop((allocation.app, allocation.ask))["name"]
            return await self._adopt(allocation, name, terms, started)
        run = agent.open_run(number)
        return await self._run_to_end(allocation, agent, run, terms, started, message)

    async def miss(self, allocation: Allocation, terms: RunTerms, error: BaseException) -> None:
        """Stop the other members of a gang from waiting for one that cannot be sent."""
        gate = gate_of(allocation, terms)
        if gate is None:
            return
        why = f"{allocation.app}/{allocation.ask} cannot be started: {type(error).__name__}"
        with trio.CancelScope(shield=True), suppress(RayLostError):
            agent = await self.link.agent(0)
            await agent.send({"do": "miss", "gate": gate, "text": why})

    async def resume(
        self, allocation: Allocation, terms: RunTerms, started: Callable[[], None]
    ) -> RunOutcome:
        """Go on with the run of an allocation from an earlier program; see :meth:`run`.

        Raises:
            NotStartedError: If it is not there, or these runs are not detached.
        """
        self.begun.set()
        with self._gangs.member(allocation) as member:
            if member is None:
                return await self._resume(allocation, terms, started)
            try:
                return await self._resume(allocation, terms, _calling_both(member.begin, started))
            except Exception:
                await member.fail()
                raise

    async def _resume(
        self, allocation: Allocation, terms: RunTerms, started: Callable[[], None]
    ) -> RunOutcome:
        name = name_of(allocation.app, allocation.ask, allocation.number)
        over_at = latest_end_after_program(terms.sent_grace_s)
        if not terms.is_detached:
            # The earlier program may have had other terms.
            with suppress(RayLostError):
                await self._end(await self.link.agent(0), name, terms.sent_grace_s)
            await self._wait_for_lost_work(allocation, terms, over_at)
            msg = "its work has ended with the program that had started it"
            raise NotStartedError(msg)
        agent, run = self._left.pop(name, (None, None))
        if agent is not None and run is not None and agent.lost is None:
            if run.has_started:
                started()
            return await self._run_to_end(allocation, agent, run, terms, started, None)
        try:
            return await self._adopt(allocation, name, terms, started)
        except RayLostError:
            raise
        except NotStartedError:
            # The earlier program may have had other terms.
            await self._wait_for_lost_work(allocation, terms, over_at)
            raise

    async def _adopt(
        self, allocation: Allocation, name: str, terms: RunTerms, started: Callable[[], None]
    ) -> RunOutcome:
        agent = await self.link.agent()
        self._claimed.add(name)
        message: messages.Adopt = {
            "do": "adopt",
            "id": self.link.number(),
            "name": name,
            "grace_s": terms.sent_grace_s,
        }
        run = agent.open_run(message["id"])
        return await self._run_to_end(allocation, agent, run, terms, started, message)

    async def _run_to_end(
        self,
        allocation: Allocation,
        agent: Agent,
        run: RunHandle,
        terms: RunTerms,
        started: Callable[[], None],
        message: messages.Run | messages.Adopt | None,
    ) -> RunOutcome:
        """Begin a run, and wait for its end."""
        name = name_of(allocation.app, allocation.ask, allocation.number)
        is_adopted = message is not None and message["do"] == "adopt"
        has_ended = is_left = False
        try:
            if message is not None:
                name = message["name"]
                await agent.send(message, run)
            result = await _result(agent, run, started, is_adopted=is_adopted)
            has_ended = True
            return RunOutcome(result, name, agent, run)
        except NodeGoneError:
            # The scheduler will know it soon, and cancel this: no failed attempt.
            await trio.sleep(_HOLD_S)
            raise
        except BaseException as error:
            if not run.is_sent and not is_adopted:
                await self.miss(allocation, terms, error)
            is_left = terms.is_detached and allocation.kept and allocation.ending == "closing"
            if not is_left:
                await agent.end_run(run, terms.grace_when(closing=allocation.ending == "closing"))
                if message is not None and message["do"] == "run" and not terms.is_detached:
                    await self._wait_for_lost_work(
                        allocation, terms, latest_end(agent, run, message)
                    )
            raise
        finally:
            if is_left:
                self._left[name] = agent, run
            else:
                agent.close_run(run)
                if terms.is_detached and not has_ended:
                    await self._drop(name, agent, run, terms.sent_grace_s)

    async def _wait_for_lost_work(
        self, allocation: Allocation, terms: RunTerms, over_at: Callable[[], float] | None
    ) -> None:
        """Wait until lost work has ended, also if this is cancelled."""
        if over_at is None:
            return
        closing_s = terms.grace_when(closing=True)
        ending = LostWork(self.link, over_at, lambda: bool(self._known_versions), closing_s)
        try:
            await ending.over()
        except trio.Cancelled:
            if allocation.ending == "closing":
                ending.close()
            with trio.CancelScope(shield=True):
                await ending.over()
            raise

    async def _drop(self, name: str, agent: Agent, run: RunHandle, grace_s: float) -> None:
        """End the rest of a detached run that was given up."""
        if run.is_sent and run.end is None:
            self.link.to_end[name] = grace_s
        elif run.end is not None and run.end["say"] != "cancelled":
            await self._send_fetched(agent, run)

    async def conclude(
        self,
        outcome: RunOutcome,
        done: Callable[[Result], Awaitable[None]],
        release: Release | None,
        *,
        is_detached: bool,
    ) -> None:
        """Pass the end of a run to the program; drop that of a detached one when it is recorded.

        Args:
            outcome: How it has ended.
            done: Called with the result.
            release: Releases the allocation, if the scheduler has a store.
            is_detached: Whether the run is detached.

        Raises:
            WorkFailedError: If a callable has raised, or the program says that the work has failed.
        """
        failure: WorkFailedError | None = None
        status: int | None = None
        is_recorded = True
        with trio.CancelScope(shield=True):  # short; otherwise the end could get lost
            try:
                if isinstance(outcome.result, WorkError):
                    failure = outcome.result
                else:
                    status = outcome.result.status
                    await done(outcome.result)
            except WorkFailedError as error:
                failure = error
            except BaseException:
                if is_detached:
                    await self._send_fetched(outcome.agent, outcome.run)
                raise
            if is_detached and release is not None:
                is_recorded = await _record(release, failure, status)
            if is_detached and is_recorded:
                await self._send_fetched(outcome.agent, outcome.run)
        if not is_recorded:
            self._left[outcome.name] = outcome.agent, outcome.run
            await trio.sleep_forever()  # until the scheduler has closed
        if failure is not None:
            raise failure

    async def _send_fetched(self, agent: Agent, run: RunHandle) -> None:
        with trio.CancelScope(shield=True), suppress(RayLostError):
            await agent.send({"do": "fetched", "id": run.id})

    # Runs of earlier programs

    async def survivors(self) -> list[tuple[tuple[str, str, int], SurvivorMap]]:
        """Return the detached runs of earlier programs that were not adopted, with their names.

        Raises:
            RayLostError: If the agent was lost.
        """
        agent = await self.link.agent()
        found: list[tuple[tuple[str, str, int], SurvivorMap]] = []
        for one in await agent.survivors():
            parts = parsed_name(one["name"])
            if parts is not None and one["name"] not in self._claimed:
                found.append((parts, one))
                self._listed[parts[:2]] = one
        return found

    def end_forgotten_later(self, within_s: float, grace_s: float) -> None:
        """End the detached runs of earlier programs that are not adopted in time.

        Args:
            within_s: How long to wait, in seconds since a scheduler has begun.
            grace_s: How long they may take to end, in seconds.
        """
        self._nursery.start_soon(self._end_forgotten, within_s, grace_s)

    async def _end_forgotten(self, within_s: float, grace_s: float) -> None:
        await self.begun.wait()
        await trio.sleep(within_s)
        while True:
            try:
                agent = await self.link.agent(inf)
                for (app, ask, _), one in await self.survivors():
                    _LOG.warning("%s/%s of an earlier program is ended: nobody wants it", app, ask)
                    await self._end(agent, one["name"], grace_s)
            except RayLostError:
                continue
            return

    async def end(self, name: str, grace_s: float) -> None:
        """End a detached run of an earlier program, and wait until it is not listed any more.

        Args:
            name: Its name.
            grace_s: How long it may take to end, in seconds.

        Raises:
            RayLostError: If the agent was lost, or the run has not ended in time.
        """
        agent = await self.link.agent()
        await self._end(agent, name, min(grace_s, NEVER_S))
        self._listed = {key: one for key, one in self._listed.items() if one["name"] != name}
        with trio.move_on_after(grace_s + _ENDING_S):
            while any(one["name"] == name for one in await agent.survivors()):  # noqa: ASYNC110 - nobody tells
                await trio.sleep(_POLL_S)
            return
        msg = f"{name} was to end, and Ray says that it has not"
        raise RayLostError(msg)

    async def _end(self, agent: Agent, name: str, grace_s: float) -> None:
        self._claimed.add(name)
        await agent.send({"do": "end", "name": name, "grace_s": grace_s})

    async def _claim(self, agent: Agent, allocation: Allocation, message: messages.Run) -> bool:
        """Return whether an earlier program has begun the very run of a message; end another one."""
        listed = await self._listed_run((allocation.app, allocation.ask))
        if listed is None:
            return False
        if listed["name"] not in self._claimed:
            is_there = listed["state"] != "placed" and listed["node"] == message["node"]
            if is_there and declared_in(listed) == declared_in(message):
                return True
            await self._end(agent, listed["name"], message["grace_s"])
        self._listed.pop((allocation.app, allocation.ask), None)
        return False

    async def _listed_run(self, key: tuple[str, str]) -> SurvivorMap | None:
        """Return the listed run of an ask, as soon as it answers; None if there is none."""
        while (listed := self._listed.get(key)) is not None and listed["state"] == "silent":
            there = {one["name"] for _, one in await self.survivors()}
            if listed["name"] not in there:
                self._listed.pop(key, None)
            await trio.sleep(_POLL_S)
        return listed


def _calling_both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call


async def _record(release: Release, failure: WorkFailedError | None, status: int | None) -> bool:
    """Release an allocation; return whether that is kept."""
    exited = None if status is None else Exit.of(status)
    outcome = OutcomeOfWork.COMPLETED if failure is None else OutcomeOfWork.FAILED
    try:
        await release(outcome, None if failure is None else failure.message, exited)
    except (ClosedSchedulerError, BrokenSchedulerError, StoreError):
        return False
    return True


def declared_in(message: messages.Run | SurvivorMap) -> RayRequest:
    """Return the amounts that a run has declared."""
    return RayRequest(
        float(message["cpus"]),
        float(message["gpus"]),
        message["memory"],
        {name: float(amount) for name, amount in message["resources"].items()},
    )


async def _result(
    agent: Agent, run: RunHandle, started: Callable[[], None], *, is_adopted: bool
) -> Result | WorkError:
    """Wait for the end of a run.

    Raises:
        MusterError: If it has not ended by itself.
    """
    while True:
        message = await run.next()
        if message is None:
            agent.check()
            msg = "the agent was closed"
            raise RayLostError(msg)
        if message["say"] == "started":
            started()
        elif message["say"] == "ended":
            return result_of(message)
        elif message["say"] == "failed":
            error = _failure(message, has_started=run.has_started, is_adopted=is_adopted)
            if isinstance(error, WorkError):
                return error
            raise error
        else:
            msg = "the agent has cancelled it by itself"
            raise RunFailedError(msg)


def _failure(failed: messages.Failed, *, has_started: bool, is_adopted: bool) -> Exception:
    """Return the error that says why a run has failed."""
    text, details = failed["error"], failed["text"]
    if details and details != text:
        # Messages of one line have the first line of the error.
        text = f"{text}{': ' if len(details.splitlines()) == 1 else chr(10)}{details}"
    match failed["how"]:
        case "work" if has_started:
            return WorkError(failed["error"], text)
        case "gate":
            return NotStartedError(text)
        case "node_lost":
            return NodeGoneError(text)
        case "not_started" if is_adopted:
            return NotStartedError(text)
        case _:
            return RunFailedError(text)
