"""The link to the agent, which is started again whenever it was lost.

When the agent is lost, Ray kills the workers of its job, within a fraction of a second. A callable
dies with its worker. A command does not: its keeper gives it the grace period, and its end is not
reported. But the keeper knows the grace period, so the latest end is known: the ask of lost work
does not begin again before.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from math import inf
from pathlib import Path
from typing import Final, Never, NoReturn, final

import attrs
import trio

from muster.ray._messages import (
    NEVER_S,
    Connect,
    Connected,
    NodeMap,
    Notice,
    Run as RunMessage,
    Term,
)
from muster.ray._process import Agent, AgentListeners, RunHandle
from muster.ray._work import RayLostError, RayUnreachableError

_LOG: Final = logging.getLogger("muster.ray")

_AGENT: Final = Path(__file__).resolve().parent / "agent.py"

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
"""How long to wait before the agent is started again, in seconds; each time twice as long."""

_STABLE_S: Final = 10.0
"""How long the agent must have lived for the pauses to begin again, in seconds."""

_AWAY_S: Final = 5.0
"""How long a run waits for the agent to be connected again, in seconds."""

_EVERY_S: Final = 0.5
"""The period for listing nodes, in seconds."""

_LAST_WORDS_S: Final = 1.0
"""How long the last lines of the agent's error output may take, in seconds."""

_EXTRA: Final = "pip install 'muster-scheduler[ray]'"


@final
@attrs.frozen
class RayTarget:
    """The target of the connection of the agent.

    Attributes:
        address: The address of Ray.
        namespace: The namespace of detached runs.
        python: The interpreter of the agent.
        log_to_driver: Whether what workers print is logged here, too.
    """

    address: str
    namespace: str
    python: str
    log_to_driver: bool


@final
@attrs.frozen
class NodeList:
    """The nodes of Ray, as the agent has listed them last.

    Attributes:
        version: How many lists there were before.
        nodes: The nodes; None before the first list.
    """

    version: int
    nodes: tuple[NodeMap, ...] | None


@final
class Link:
    """Keeps an agent alive, and has its latest reports.

    Args:
        target: The target of its connection.

    Attributes:
        node_list: The nodes of Ray. When the agent is lost, there are none.
        to_end: The detached runs that were lost with an agent, with their grace periods: they are
            ended as soon as there is an agent again.
        restarts: How often the agent was started again.
        trouble: Why there is no connection, if that is known; None while there is one.
        is_over: Whether another program leads: then there is no agent any more.
    """

    def __init__(self, target: RayTarget) -> None:
        self._target = target
        self._numbers = count(1)
        self._agent: Agent | None = None
        self._changed = trio.Event()
        self._every_s = _EVERY_S
        self.node_list = NodeList(0, None)
        self.to_end: dict[str, float] = {}
        self.restarts = 0
        self.trouble: str | None = None
        self.is_over = False
        self._term: Term | None = None
        self._outdone: Callable[[int], object] = _ignore

    # For other tasks

    @property
    def is_connected(self) -> bool:
        """Whether there is an agent that is connected to Ray."""
        return self._agent is not None

    def number(self) -> int:
        """Return a number for a run; no two runs have the same one."""
        return next(self._numbers)

    async def changed(self) -> None:
        """Wait until the agent is connected, lost or at its end, or has listed other nodes."""
        await self._changed.wait()

    def notify(self) -> None:
        """Wake the tasks that wait for a change."""
        self._changed.set()
        self._changed = trio.Event()

    async def agent(self, patience_s: float = _AWAY_S) -> Agent:
        """Return the agent; while it is away, wait for it.

        Args:
            patience_s: How long to wait, in seconds.

        Raises:
            RayLostError: If it does not come in time.
        """
        with trio.move_on_after(patience_s):
            while self._agent is None or self._agent.lost is not None:
                await self.changed()
        if self._agent is None or self._agent.lost is not None:
            msg = f"there is no connection to Ray at {self._target.address!r} now"
            raise RayLostError(msg)
        return self._agent

    async def look(self, every_s: float) -> None:
        """Set the period for listing the nodes."""
        self._every_s = every_s
        if self._agent is not None:
            try:
                await self._agent.send({"do": "follow", "every_s": every_s})
            except RayLostError:
                return  # the next one gets it when it is connected

    # REPLICA-15
    async def lead(self, term: Term, outdone: Callable[[int], object]) -> None:
        """Give all orders a term, as soon as there is an agent.

        Args:
            term: The term.
            outdone: Called with a higher one, by which the agent has refused orders.
        """
        self._term, self._outdone = term, outdone
        while True:
            with suppress(RayLostError):  # the next one gets it when it connects
                agent = await self.agent(inf)
                await agent.send({"do": "lead", **term})
                return

    # The life of agents

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> Never:
        """Start the agent, and start it again whenever it was lost.

        The task has started when the agent is connected for the first time.

        Raises:
            ImportError: If the agent has no Ray, at first.
            RayUnreachableError: If it cannot be connected, at first.
        """
        began_at = trio.current_time()
        agent = await self._run_once(task_status.started)
        if not agent.is_connected:
            self._raise_refused(agent)
        pause_s = _FIRST_PAUSE_S
        while True:
            if _has_lasted(agent, began_at):
                pause_s = _FIRST_PAUSE_S
            self.trouble = _loss_reason(agent)
            if self.is_over:
                await trio.sleep_forever()
            _LOG.warning(
                "no connection to Ray at %r: %s; it is tried again in %g s",
                self._target.address,
                self.trouble,
                pause_s,
            )
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            began_at = trio.current_time()
            self.restarts += 1
            try:
                agent = await self._run_once(lambda: None)
            except RayUnreachableError as error:  # the interpreter has gone meanwhile
                _LOG.warning("%s", error)

    async def _run_once(self, connected: Callable[[], None]) -> Agent:
        """Run the agent once, until it is lost."""
        process = await self._start()

        def when_connected(message: Connected) -> None:
            _LOG.info("connected to Ray %s at %r", message["ray"], self._target.address)
            self._agent = agent
            self.trouble = None
            self.notify()
            greeting.set()
            connected()

        greeting = trio.Event()
        agent = Agent(
            process,
            AgentListeners(self._set_nodes, when_connected, self._warn, self._handle_outdone),
        )
        try:
            async with trio.open_nursery() as nursery:
                logged = trio.Event()
                nursery.start_soon(agent.watch)
                nursery.start_soon(self._greet, agent, greeting)
                nursery.start_soon(self._log_errors, agent, logged)
                try:
                    await agent.listen()
                finally:
                    self._detach(agent)
                    await agent.hang_up()  # tasks that write to it must not wait any more
                with trio.move_on_after(_LAST_WORDS_S):
                    await logged.wait()
                nursery.cancel_scope.cancel()
        finally:
            await agent.end()
            self.notify()
        return agent

    def _detach(self, agent: Agent) -> None:
        agent.lose("it was closed")
        self._agent = None
        if self.node_list.nodes is not None:
            self._set_nodes([])
        self.notify()

    async def _start(self) -> trio.Process:
        """Start the agent in a session of its own, so that no terminal ends it with this program.

        Raises:
            RayUnreachableError: If it cannot be started.
        """
        try:
            return await trio.lowlevel.open_process(
                [self._target.python, str(_AGENT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            msg = f"python: {self._target.python!r} cannot be started: {error}"
            raise RayUnreachableError(msg) from error

    async def _log_errors(self, agent: Agent, logged: trio.Event) -> None:
        await agent.log_errors()
        logged.set()

    async def _greet(self, agent: Agent, connected: trio.Event) -> None:
        """Send the settings to a new agent."""
        target = self._target
        try:
            connect: Connect = {
                "do": "connect",
                "address": target.address,
                "namespace": target.namespace,
                "log_to_driver": target.log_to_driver,
            }
            if self._term is not None:
                connect["leads"] = self._term
            await agent.send(connect)
            await connected.wait()
            for name, grace_s in tuple(self.to_end.items()):
                await agent.send({"do": "end", "name": name, "grace_s": grace_s})
                self.to_end.pop(name, None)
            await agent.send({"do": "follow", "every_s": self._every_s})
        except RayLostError:
            return

    def _set_nodes(self, nodes: list[NodeMap]) -> None:
        self.node_list = NodeList(self.node_list.version + 1, tuple(nodes))
        self.notify()

    def _warn(self, notice: Notice) -> None:
        node = notice.get("node")
        _LOG.warning("%s", notice["text"] if node is None else f"node {node}: {notice['text']}")

    def _handle_outdone(self, term: int) -> None:
        self.is_over = True
        self._outdone(term)

    def _raise_refused(self, agent: Agent) -> NoReturn:
        """Raise the error of an agent that could not be connected.

        Raises:
            ImportError: If it has no Ray.
            RayUnreachableError: Otherwise.
        """
        refused = agent.refused
        if refused is not None and refused["reason"] == "import":
            msg = f"{self._target.python} cannot import ray ({refused['text']}): {_EXTRA}"
            raise ImportError(msg, name="ray")
        msg = f"there is no Ray at the address {self._target.address!r}: {_loss_reason(agent)}"
        raise RayUnreachableError(msg)


def _ignore(_term: int) -> None:
    """Do nothing."""


def _has_lasted(agent: Agent, began_at: float) -> bool:
    """Return whether an agent was connected for long."""
    return agent.is_connected and trio.current_time() >= began_at + _STABLE_S


def _loss_reason(agent: Agent) -> str | None:
    """Return why the agent is not connected any more, or was not."""
    return agent.lost if agent.refused is None else agent.refused["text"]


_KEEPER_S: Final = 1.5
"""The time beside the grace period until a command has ended whose agent has ended, in seconds:
Ray ends its worker, its keeper notices that, and in the end kills it."""

_EARLIER_S: Final = 2.0
"""The same for work of a program that has ended, in seconds: its agent ends it first."""


def latest_end(agent: Agent, run: RunHandle, message: RunMessage) -> Callable[[], float] | None:
    """Return the latest end of the work of a run that was lost with its agent.

    Args:
        agent: The agent.
        run: The run.
        message: The message that began it.

    Returns:
        A function that returns the time, of trio's clock, as far as it is known; None if there is
        nothing to wait for.
    """
    if agent.lost is None or not run.is_sent or run.end is not None:
        return None
    grace_s = message["grace_s"]
    if message["work"]["kind"] != "command" or grace_s >= NEVER_S:
        return None
    return lambda: agent.ended_at + grace_s + _KEEPER_S


def latest_end_after_program(grace_s: float) -> Callable[[], float] | None:
    """Return the latest end of work whose program ended before this one; see :func:`latest_end`.

    Args:
        grace_s: How long it may take to end, in seconds.
    """
    if grace_s >= NEVER_S:
        return None
    over_at = trio.current_time() + grace_s + _EARLIER_S
    return lambda: over_at


@final
class LostWork:
    """Work that was lost with its agent and is ending.

    Args:
        link: Wakes it when something has changed.
        over_at: Returns its latest end.
        is_followed: Returns whether a scheduler follows the nodes.
        closing_s: How long a scheduler that is being closed waits for it at most, in seconds.
    """

    def __init__(
        self,
        link: Link,
        over_at: Callable[[], float],
        is_followed: Callable[[], bool],
        closing_s: float,
    ) -> None:
        self._link = link
        self._over_at = over_at
        self._is_followed = is_followed
        self._was_followed = False
        self._closing_s = closing_s
        self._limit = inf

    def close(self) -> None:
        """Wait no longer than a scheduler may that is being closed."""
        self._limit = min(self._limit, trio.current_time() + self._closing_s)

    async def over(self) -> None:
        """Wait until it has ended."""
        while True:
            # An allocation that is over does not show that its scheduler is being closed.
            before, self._was_followed = self._was_followed, self._is_followed()
            if before and not self._was_followed:
                self.close()
            until = min(self._over_at(), self._limit)
            if trio.current_time() >= until:
                return
            with trio.CancelScope(deadline=until):
                await self._link.changed()
