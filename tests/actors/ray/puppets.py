"""Agents that a test controls, for the tests of the program's side."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import msgpack
import trio
from trio.testing import MockClock

import muster
from muster.ray import Call, Cluster, Command, RayBinder, Result, connect

ONE: Final = {"vcore": 1}

NODE: Final[dict[str, Any]] = {
    "id": "a1",
    "labels": {"zone": "east"},
    "resources": {"CPU": 2.0, "memory": 1000.0, "node:10.0.0.1": 1.0},
    "draining": False,
}


def node(number: str, **changes: object) -> dict[str, Any]:
    """Return a node of Ray."""
    return {**NODE, "id": number, **changes}


STEP_S: Final = 2.0
"""How much time passes at once where a test waits for it: less than an agent may be silent."""


class Puppet:
    """One life of an agent."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._orders = msgpack.Unpacker()
        self.pid = 0
        #: The messages that no test has read, once the program has left it.
        self.rest: list[dict[str, Any]] = []

    async def next(self) -> dict[str, Any]:
        """Wait for its next message; an empty map when it has ended."""
        while True:
            message: dict[str, Any]
            for message in self._orders:
                return message
            try:
                data = await self._stream.receive_some(65536)
            except trio.BrokenResourceError:  # it has ended without reading everything
                data = b""
            if not data:
                return {}
            self._orders.feed(data)

    async def expect(self, do: str) -> dict[str, Any]:
        """Wait for the next message from the program, which must be this one.

        A wish to look at the nodes is passed over if it is not meant.
        """
        received = await self.next()
        while do != "follow" and received.get("received", {}).get("do") == "follow":
            received = await self.next()
        message: dict[str, Any] = received.get("received", received)
        assert message.get("do") == do, received
        return message

    async def close(self) -> None:
        """Read what is left; it has ended."""
        with trio.move_on_after(10, shield=True):
            while message := await self.next():
                if message.get("received", {}).get("do") != "follow":
                    self.rest.append(message)
        with trio.CancelScope(shield=True):
            await self._stream.aclose()

    async def leave(self, *survivors: Mapping[str, Any]) -> None:
        """Set the runs of earlier programs that it reports."""
        await self.order(survivors=survivors)
        await self.order(sync=True)
        assert (await self.next()).get("synced")

    async def order(self, **order: object) -> None:
        await self._stream.send_all(msgpack.packb(order))

    async def say(self, say: str, **fields: object) -> None:
        """Let it send a message to the program."""
        await self.order(say={"say": say, **fields})

    async def started(self, run: Mapping[str, Any]) -> None:
        await self.say("started", id=run["id"], pid=7)

    async def ended(self, run: Mapping[str, Any], status: int | None = 0) -> None:
        await self.say("ended", id=run["id"], status=status, value=None)

    async def failed(self, run: Mapping[str, Any], how: str) -> None:
        await self.say("failed", id=run["id"], how=how, error="SomeError", text="the text")

    async def cancelled(self, run: Mapping[str, Any]) -> None:
        await self.say("cancelled", id=run["id"], gone=True)

    async def begin(self) -> dict[str, Any]:
        """Wait for the order to begin a run, and report its start."""
        run = await self.expect("run")
        await self.started(run)
        return run

    async def greet(self, *nodes: Mapping[str, Any]) -> None:
        """Connect, and list nodes."""
        await self.expect("connect")
        await self.say("connected", ray="2.0", python="3.11")
        await self.expect("follow")
        await self.say("nodes", nodes=nodes)

    def beaten(self) -> AbstractContextManager[None]:
        """Let it beat, and do something before any task of the program goes on."""
        return self.written(msgpack.packb({"say": "beat"}))

    @contextmanager
    def written(self, data: bytes) -> Generator[None]:
        """Let it write something, and do something before any task of the program goes on."""
        number = self._stream.socket.fileno()
        os.write(number, msgpack.packb({"write": data}) + msgpack.packb({"sync": True}))
        assert select.select([number], [], [], 30)[0]
        yield

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.pid, number)


class Agents:
    """The agents that the program starts, one after the other."""

    def __init__(self, folder: Path, listener: trio.SocketListener) -> None:
        self.address = str(folder / "socket")
        self.python = str(folder / "python")
        self._listener = listener
        self._puppets: list[Puppet] = []

    async def next(self) -> Puppet:
        """Wait for the next one."""
        with trio.fail_after(1200):  # of a clock that may be fast; the watchdog has another one
            puppet = Puppet(await self._listener.accept())
            self._puppets.append(puppet)
            puppet.pid = (await puppet.next())["pid"]
        return puppet

    async def close(self) -> None:
        for puppet in self._puppets:
            await puppet.close()


@asynccontextmanager
async def agents(folder: Path) -> AsyncGenerator[Agents]:
    """Listen for the agents of a program."""
    python = folder / "python"
    fake = Path(__file__).with_name("fake_agent.py")
    # It starts for nearly every test: without what it does not need.
    packages = Path(msgpack.__file__).parents[1]
    line = f"exec {sys.executable} -I -S {fake} {packages}"
    python.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    python.chmod(0o755)
    with trio.socket.socket(trio.socket.AF_UNIX) as sock:
        await sock.bind(str(folder / "socket"))
        sock.listen()
        them = Agents(folder, trio.SocketListener(sock))
        try:
            yield them
        finally:
            await them.close()
            os.unlink(folder / "socket")


@attrs.frozen
class Stage:
    """A program that is connected.

    Attributes:
        ray: The cluster.
        agent: The agent.
        agents: Those that come after it.
    """

    ray: Cluster
    agent: Puppet
    agents: Agents


@asynccontextmanager
async def connected(
    folder: Path,
    *nodes: Mapping[str, Any],
    **options: Any,  # noqa: ANN401 - those of `connect`
) -> AsyncGenerator[Stage]:
    """Connect to an agent that has listed nodes."""
    found: list[Puppet] = []

    async def greet(them: Agents) -> None:
        found.append(await them.next())
        await found[0].greet(*nodes)
        greeted.set()

    greeted = trio.Event()
    async with agents(folder) as them, trio.open_nursery() as nursery:
        nursery.start_soon(greet, them)
        async with connect(them.address, python=them.python, **options) as ray:
            await greeted.wait()
            yield Stage(ray, found[0], them)


@asynccontextmanager
async def passing(stage: Stage, clock: MockClock) -> AsyncGenerator[None]:
    """Let time pass during a block, in steps, so that the agent's messages are read."""

    async def pass_time() -> None:
        while True:
            clock.jump(STEP_S)
            await stage.ray.survivors()

    rate, clock.rate = clock.rate, 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pass_time)
        yield
        nursery.cancel_scope.cancel()
    clock.rate = rate


async def begun(stage: Stage, clock: MockClock, agent: Puppet) -> dict[str, Any]:
    """Wait for the order to begin a run, whose time has come, and report its start."""
    async with passing(stage, clock):
        return await agent.begin()


Work = Call | Command | str


@asynccontextmanager
async def followed(cluster: Cluster, scheduler: muster.Scheduler) -> AsyncGenerator[None]:
    """Follow the nodes during a block."""
    async with trio.open_nursery() as nursery:
        await nursery.start(cluster.follow, scheduler)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def scheduled(
    folder: Path,
    work: Work | Callable[[muster.Allocation], Work] = "true",
    *,
    nodes: int = 1,
    scheduler: Mapping[str, Any] | None = None,
    done: Callable[[muster.Allocation, Result], None] | None = None,
    **options: Any,  # noqa: ANN401 - those of the binder
) -> AsyncGenerator[tuple[muster.Scheduler, Puppet, Stage]]:
    """Have a scheduler whose binder uses an agent, with nodes ``a1``, ``a2`` and so on."""
    listed = [node(f"a{number}") for number in range(1, nodes + 1)]
    async with connected(folder, *listed) as stage:

        def works(held: muster.Allocation) -> Work:
            return work(held) if callable(work) else work

        binder = RayBinder(stage.ray, works, done=done, **options)
        async with (
            muster.open_scheduler(binder=binder, **scheduler or {}) as running,
            followed(stage.ray, running),
        ):
            yield running, stage.agent, stage


async def add_ask(scheduler: muster.Scheduler, ask: str = "k") -> muster.Ask:
    """Ask for a core, of an application that comes with the first one."""
    if "a" not in (await scheduler.snapshot()).apps:
        await scheduler.add_app("a", "root.q")
    return await scheduler.add_ask("a", ask, ONE)


async def running(scheduler: muster.Scheduler, agent: Puppet) -> muster.Allocation:
    """Have an ask whose work runs."""
    ask = await add_ask(scheduler)
    await agent.begin()
    return await ask.bound()
