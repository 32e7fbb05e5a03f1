"""The server of the agent, from its first message to the end of the program.

The modules ``_agent_*`` run in the process that is connected to Ray. They are standard library and
msgpack alone, and know Ray by the class ``Engine``, which ``agent.py`` implements: any Python that
has Ray runs them, without Muster. They must not know trio, nor the rest of Muster.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from typing import Any, Final, Literal, NoReturn, Protocol, cast

from muster.ray._agent_interfaces import (
    Engine,
    Handle,
    MessageWriter,
    listen,
    one_line,
    open_output,
    own_output,
)
from muster.ray._agent_runs import AgentRuns
from muster.ray._messages import BEAT_S, NodeMap, Term

_LAST_S: Final = 2.0
"""How long runs may take to end when the program has gone, in seconds."""

_DISCONNECT_S: Final = 5.0
"""How long to wait for the end of the connection, in seconds."""

_WANTED: Final = "must be HOST:PORT of the cluster's head, or auto"

_CONNECT_S: Final = 60.0
"""How long Ray may take to connect, in seconds."""

_AGAIN_S: Final = 1.0
"""How long to wait until Ray's head is asked again, in seconds."""

_LISTEN_S: Final = 10.0
"""The time limit for connecting to the address, in seconds."""

_PROBE_S: Final = 60.0
_WARM_S: Final = 60.0


class _LoadableEngine(Engine, Protocol):
    def load(self) -> None: ...


class _AgentServer:
    """An agent that is connected, or is being connected."""

    def __init__(self, engine: _LoadableEngine, writer: MessageWriter) -> None:
        self._engine = engine
        self._writer = writer
        self._runs = AgentRuns(engine, writer)
        self._nodes: list[NodeMap] | None = None
        self._probed: set[str] = set()
        self._waiting: list[dict[str, Any]] | None = []
        self._following: asyncio.Task[None] | None = None
        self._term: Term | None = None
        self._term_check: asyncio.Task[None] | None = None
        self.is_connected = False
        self.over = asyncio.Event()
        self.status = 0

    def handle_message(self, message: dict[str, Any]) -> None:
        """Handle a message of the program; messages before the connection is made wait for that."""
        if message.get("do") == "connect":
            self._term = message.get("leads")
            self._runs.spawn(self._connect(message))
            return
        if message.get("do") == "lead":
            self._term = {"scheduler": message["scheduler"], "term": message["term"]}
        if self._waiting is not None:
            self._waiting.append(message)
        else:
            self._waiting = [message]
            self._go_on()

    # REPLICA-15
    def _go_on(self) -> None:
        """Handle the waiting messages: at once, or with a term when none is known to be higher."""
        if self._term is None:
            self._handle_waiting()
        else:
            self._term_check = asyncio.ensure_future(self._check_term(self._term))

    async def _check_term(self, own: Term) -> None:
        highest = await self._highest(own)
        if highest > own["term"]:  # neither waiting nor later messages are handled
            self._writer.say({"say": "outdone", "term": highest})
            self.over.set()
        else:
            self._handle_waiting()

    async def _highest(self, own: Term) -> int:
        """Return the highest known term, as soon as Ray's head answers."""
        while True:
            try:
                return await asyncio.to_thread(
                    self._engine.highest_term, own["scheduler"], own["term"]
                )
            except Exception as error:  # noqa: BLE001 - the head is away, for example
                sys.stderr.write(f"muster: who leads is not known yet: {one_line(error)}\n")
                await asyncio.sleep(_AGAIN_S)

    def _handle_waiting(self) -> None:
        waiting, self._waiting = self._waiting or [], None
        for each in waiting:
            self._handle(each)

    def _handle(self, message: dict[str, Any]) -> None:
        match message.get("do"):
            case "lead":
                pass
            case "follow":
                if self._following is not None:
                    self._following.cancel()
                self._following = asyncio.ensure_future(self._follow(message["every_s"]))
            case "warm":
                self._runs.spawn(self._warm(message["node"], message["count"]))
            case what:
                self._handle_run_message(what, message)

    def _handle_run_message(self, what: object, message: dict[str, Any]) -> None:
        runs = self._runs
        match what:
            case "run":
                runs.run(message)
            case "cancel":
                runs.cancel(message["id"], message["grace_s"])
            case "miss":
                runs.miss(message["gate"], message["text"])
            case "adopt":
                runs.adopt(message["id"], message["name"], message["grace_s"])
            case "survivors":
                runs.spawn(runs.survivors())
            case "end":
                runs.end_survivor(message["name"], message["grace_s"])
            case "fetched":
                runs.fetched(message["id"])
            case _:
                sys.stderr.write(f"muster: unknown message {what!r}\n")

    # The connection

    async def _connect(self, message: dict[str, Any]) -> None:
        address: str = message["address"]
        try:
            await asyncio.to_thread(self._engine.load)
        except ImportError as error:
            self._refuse("import", f"{sys.executable} cannot import ray: {error}")
            return
        if address.startswith("ray://"):
            self._refuse("connect", f"{address}: Ray Client is not supported; {_WANTED}")
            return
        try:
            await _check_listens(address)
            connecting = asyncio.to_thread(
                self._engine.connect,
                address,
                message["namespace"],
                log_to_driver=message.get("log_to_driver", True),
            )
            ray, python = await asyncio.wait_for(connecting, _CONNECT_S)
        except asyncio.TimeoutError:  # noqa: UP041 - not the same in Python 3.10
            self._refuse("connect", f"{address} has not answered within {_CONNECT_S:g} s")
            return
        except Exception as error:  # noqa: BLE001 - whatever Ray raises
            differs = "Version mismatch" in str(error)
            self._refuse("python" if differs else "connect", " ".join(str(error).split()))
            return
        self.is_connected = True
        self._writer.say({"say": "connected", "ray": ray, "python": python})
        self._go_on()

    def _refuse(self, reason: Literal["import", "python", "connect"], text: str) -> None:
        self._writer.say({"say": "refused", "reason": reason, "text": text})
        self.status = 1
        self.over.set()

    async def beat(self) -> None:
        """Send a sign of life from time to time, for as long as the agent lives."""
        while True:
            self._writer.say({"say": "beat"})
            await asyncio.sleep(BEAT_S)

    async def close(self) -> None:
        """End what runs, and the connection."""
        if self._term_check is not None:
            await asyncio.wait({self._term_check}, timeout=_LAST_S)
        if self._following is not None:
            self._following.cancel()
        if self.is_connected:
            await self._runs.end_all(_LAST_S)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.to_thread(self._engine.disconnect), _DISCONNECT_S)

    # Nodes

    async def _follow(self, every_s: float) -> None:
        while True:
            try:
                nodes = await asyncio.to_thread(self._engine.nodes)
            except Exception as error:  # noqa: BLE001 - the cluster is away, for example
                sys.stderr.write(f"muster: the nodes of Ray are not known: {one_line(error)}\n")
            else:
                if nodes != self._nodes:
                    self._nodes = nodes
                    self._writer.say({"say": "nodes", "nodes": nodes})
                    self._probe_new(nodes)
            await asyncio.sleep(every_s)

    def _probe_new(self, nodes: list[NodeMap]) -> None:
        for node in nodes:
            if node["id"] not in self._probed and _runs_work(node):
                self._probed.add(node["id"])
                self._runs.spawn(self._probe(node["id"]))

    async def _probe(self, node: str) -> None:
        """Check whether soft cancel can reach the work on a node."""
        with suppress(Exception):
            call = await asyncio.to_thread(self._engine.small, node, "ignores_interrupts")
            if await asyncio.wait_for(_awaited(call), _PROBE_S):
                text = (
                    "SIGINT is ignored on this node, as where its raylet was started in the "
                    "background of a script: a callable that is evicted does not hear of it, and "
                    "is killed after its grace period"
                )
                self._writer.say({"say": "warning", "text": text, "node": node})

    async def _warm(self, node: str, count: int) -> None:
        """Start workers on a node: each holds one until all are there."""
        held = [await asyncio.to_thread(self._engine.warm, node, _WARM_S) for _ in range(count)]
        with suppress(Exception):
            first = asyncio.gather(*(each.__anext__() for each in held))
            await asyncio.wait_for(first, _WARM_S)
        for each in held:
            with suppress(Exception):
                await asyncio.to_thread(self._engine.cancel, each, force=False)


async def _check_listens(address: str) -> None:
    """Check that an address accepts connections: Ray itself would try for minutes.

    Raises:
        ConnectionError: If not.
    """
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "")
    if address in ("", "local"):
        return  # Ray looks for it, or starts it
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        msg = f"{address}: {_WANTED}"
        raise ConnectionError(msg)
    try:
        opening = asyncio.open_connection(host.strip("[]"), int(port))
        _, writer = await asyncio.wait_for(opening, _LISTEN_S)
    except (OSError, asyncio.TimeoutError) as error:  # noqa: UP041 - not the same in Python 3.10
        msg = f"no cluster of Ray listens at {address}: {str(error) or 'no answer'}"
        raise ConnectionError(msg) from None
    writer.close()


def _runs_work(node: NodeMap) -> bool:
    return any(
        name in ("CPU", "GPU") or not name.startswith(("node:", "memory", "object_store_memory"))
        for name in node["resources"]
    )


async def _awaited(reference: Handle) -> object:
    answer: object = await reference
    return answer


async def serve(engine: object) -> NoReturn:
    """Serve a program through the standard input and output; end this process when it has gone.

    Args:
        engine: Ray.
    """
    writer = await open_output(own_output())
    serving = _AgentServer(cast("_LoadableEngine", engine), writer)
    beats = asyncio.ensure_future(serving.beat())
    program = asyncio.ensure_future(listen(sys.stdin.buffer, serving.handle_message))
    over = asyncio.ensure_future(serving.over.wait())
    await asyncio.wait({program, over}, return_when=asyncio.FIRST_COMPLETED)
    await serving.close()
    beats.cancel()
    await writer.drain(_LAST_S)
    sys.stderr.flush()
    os._exit(serving.status)  # a thread may be in a call of Ray that does not return
