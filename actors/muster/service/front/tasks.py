"""The tasks that answer requests, and what a connection hands to them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, final

import trio
from hypercorn.trio.task_group import TaskGroup
from typing_extensions import override

if TYPE_CHECKING:
    from hypercorn.config import Config
    from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, Scope

_LOG: Final = logging.getLogger("muster.service")


@final
class Tasks(TaskGroup):
    """The tasks of a connection.

    Pieces of a request go to their task without a turn of trio's scheduler, as long as none has
    to wait: a small request has two of them, and each would take a turn on both sides.
    """

    @override
    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        """Start the task of a request; return what takes the pieces of the request."""
        giving: trio.MemorySendChannel[ASGIReceiveEvent]
        taking: trio.MemoryReceiveChannel[ASGIReceiveEvent]
        giving, taking = trio.open_memory_channel(config.max_app_queue_size)

        async def give(event: ASGIReceiveEvent) -> None:
            try:
                giving.send_nowait(event)
            except trio.WouldBlock:
                await giving.send(event)

        async def take() -> ASGIReceiveEvent:
            try:
                return taking.receive_nowait()
            except trio.WouldBlock:
                return await taking.receive()

        async def answer() -> None:
            try:
                await app(scope, take, send, trio.to_thread.run_sync, trio.from_thread.run)
            except BaseExceptionGroup as group:
                if group.split(trio.Cancelled)[1] is None:
                    raise
                _LOG.exception("an answer has ended by a bug")
            except Exception:  # noqa: BLE001 - a bug in one answer must not end the others
                _LOG.exception("an answer has ended by a bug")
            finally:
                await send(None)

        untyped: Any = self  # Hypercorn says no type of `spawn`.
        untyped.spawn(answer)
        return give
