"""Open a scheduler from asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import copy_context
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING

import muster
from muster._surface.binder import BIND_ATTEMPTS, BIND_TIMEOUT_S, Binder
from muster._surface.context import opens_in
from muster._surface.open import CHECKPOINT_EVERY, open_parts, store_options
from muster.asyncio._binding import binder_for_trio, journal_for_trio
from muster.asyncio._block import open_bridge
from muster.asyncio._bridge import Bridge
from muster.asyncio._link import Mode
from muster.asyncio._scheduler import Scheduler
from muster_core.errors import EventError

if TYPE_CHECKING:
    from muster._runtime.announcing.journal import Journal, Record
    from muster._runtime.clock import Clock
    from muster._runtime.mailbox import Interleave
    from muster._runtime.storing.options import Durability
    from muster._surface.conversion import Config


@opens_in("asyncio", "muster.asyncio.open_scheduler", elsewhere="muster.open_scheduler")
async def open_scheduler(  # noqa: PLR0913 - all that a program may choose
    config: Config | None = None,
    *,
    mode: Mode | str = Mode.THREAD,
    partition: str | None = None,
    binder: Binder | None = None,
    bind_timeout: float = BIND_TIMEOUT_S,
    bind_attempts: int | None = BIND_ATTEMPTS,
    clock: Clock | None = None,
    journal: Journal | None = None,
    record: Record | None = None,
    store: str | PathLike[str] | None = None,
    durability: Durability = "full",
    checkpoint_every: int = CHECKPOINT_EVERY,
    keep: float | str | None = None,
    interleave: Interleave | None = None,
) -> AsyncGenerator[Scheduler, None]:
    """Run a scheduler for the time of an ``async with`` block of asyncio.

    When the block ends normally, the scheduler first carries out all calls that it has accepted.
    When the block ends by an exception or by cancellation, the scheduler is cancelled. In both
    cases calls that still wait raise :class:`~muster.ClosedSchedulerError`, and the thread or
    the guest run has ended when the block has.

    If the scheduler fails while the block is open, the task in the block is cancelled, as by
    :class:`asyncio.TaskGroup`, and the block raises the error.

    Args:
        config: As for :func:`muster.open_scheduler`.
        mode: Where the scheduler runs: in a thread of its own, or as a guest in the loop.
        partition: As for :func:`muster.open_scheduler`.
        binder: Does the work of bound asks, in this loop; default: none, the program does the
            work itself.
        bind_timeout: As for :func:`muster.open_scheduler`.
        bind_attempts: As for :func:`muster.open_scheduler`.
        clock: The source of the time, used on the scheduler's side; default: trio's clock.
        journal: As for :func:`muster.open_scheduler`. If ``write`` is asynchronous, it runs in
            this loop. Otherwise it is called on the scheduler's side, with :attr:`Mode.THREAD` in
            another thread.
        record: As for :func:`muster.open_scheduler`. It is called on the scheduler's side.
        store: As for :func:`muster.open_scheduler`.
        durability: As for :func:`muster.open_scheduler`.
        checkpoint_every: As for :func:`muster.open_scheduler`.
        keep: As for :func:`muster.open_scheduler`.
        interleave: As for :func:`muster.open_scheduler`.

    Yields:
        The scheduler.

    Raises:
        OSError: If the configuration is a file that cannot be read.
        ConfigError: If the configuration is refused.
        EventError: If there is no such mode, or another argument is invalid.
        RefusedError: As for :func:`muster.open_scheduler`.
        StoreError: As for :func:`muster.open_scheduler`.
        BrokenSchedulerError: If an owner of state fails because of a bug.
    """
    if mode not in set(Mode):
        msg = f"mode: {mode!r}: there are {', '.join(Mode)}"
        raise EventError(msg)
    context = copy_context()

    @asynccontextmanager
    async def open_block(bridge: Bridge) -> AsyncGenerator[muster.Scheduler, None]:
        async with open_parts(
            config,
            partition=partition,
            binder=None if binder is None else binder_for_trio(bridge, binder, context),
            bind_timeout=bind_timeout,
            bind_attempts=bind_attempts,
            clock=clock,
            journal=None if journal is None else journal_for_trio(bridge, journal, context),
            record=record,
            store=store_options(store, durability, checkpoint_every, keep),
            interleave=interleave,
        ) as parts:

            def admit(observer: muster.Decisions) -> None:
                # This runs in the host, which creates the observer.
                bridge.check()
                bridge.post(partial(parts.observers.admit, observer))

            yield muster.Scheduler(parts.statistics, parts.client, admit)

    async with open_bridge(Mode(mode), open_block) as (bridge, inner):
        yield Scheduler(bridge, inner)
