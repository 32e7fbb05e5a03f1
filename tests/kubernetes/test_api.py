"""Requests that end in the middle leave nothing open: an open connection fails a test here."""

from __future__ import annotations

import gc
import gzip
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, final

import attrs
import pytest
import trio
import trio.abc
from typing_extensions import override

from muster.kubernetes._access import Access, FixedCredentials, read_kubeconfig
from muster.kubernetes._api import Api, ApiError, Resource, SilenceError, rest_s
from tests.kubernetes.cluster import PATIENCE_S, ControlPlane

MAPS: Final = Resource("v1", "configmaps")
A_LOT: Final = {"data": "x" * 20_000_000}
"""More than the buffers of a connection take that nobody reads from."""


@final
@attrs.define(eq=False)
class CancelAt(trio.abc.Instrument):
    """Cancels the running task at one of its steps."""

    steps: int
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    task: trio.lowlevel.Task = attrs.field(factory=trio.lowlevel.current_task)

    @override
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.steps -= 1
            if self.steps == 0:
                self.scope.cancel()


@pytest.mark.parametrize("kind", ["write", "watch"])
async def test_a_request_may_be_cancelled_at_any_step(plane: ControlPlane, kind: str) -> None:
    name = f"it-{uuid.uuid4().hex[:8]}"
    body = {"metadata": {"name": name, "namespace": "default"}, "data": {"key": "value"}}
    plane.post(MAPS.path(None, "default"), body)

    async def ask(api: Api) -> None:
        if kind == "write":
            await api.replace(MAPS.path(name, "default"), body)
            return
        async with api.watch(MAPS, "", 60) as batches:
            async for _ in batches:
                return

    steps = 0
    is_done = False
    with trio.fail_after(PATIENCE_S):
        while not is_done:
            steps += 1
            cancel = CancelAt(steps)
            async with Api(read_kubeconfig([plane.kubeconfig()])) as api:
                trio.lowlevel.add_instrument(cancel)
                with cancel.scope:
                    await ask(api)
                    is_done = cancel.steps > 0
                trio.lowlevel.remove_instrument(cancel)
            gc.collect()

    assert steps > 10, "a connection, a handshake and a request"


@asynccontextmanager
async def server_of(
    serve: Callable[[trio.SocketStream], Awaitable[None]],
) -> AsyncGenerator[Api]:
    """Start a server, and speak to it."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        with trio.fail_after(PATIENCE_S):
            async with Api(Access(url, "default", FixedCredentials())) as api:
                yield api
        nursery.cancel_scope.cancel()


async def test_a_connection_may_break_while_a_request_is_written() -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(10)
        await stream.aclose()

    async with server_of(serve) as api:
        with pytest.raises(SilenceError):
            await api.replace(MAPS.path("one", "default"), A_LOT)
        gc.collect()


@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")
async def test_an_answer_that_cannot_be_unpacked_is_none() -> None:
    content = b"x" + gzip.compress(b"{}")
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(1_000)
        await stream.send_all(head % len(content) + content)
        await trio.sleep_forever()

    async with server_of(serve) as api:
        with pytest.raises(SilenceError, match="decompressing"):
            await api.get("/version")
        gc.collect()


@pytest.mark.parametrize(
    ("failures", "retry_after", "least", "most"),
    [(0, None, 0.1, 0.2), (3, 1.0, 1.0, 1.6), (3, 86_400.0, 60, 60), (10_000, None, 5, 10)],
)
def test_rests_grow_up_to_a_bound(
    failures: int, retry_after: float | None, least: float, most: float
) -> None:
    assert least <= rest_s(failures, ApiError(429, "", "", retry_after)) <= most
