"""Looking at the state, where what the ledger hears does not say everything."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from muster._errors import ClosedSchedulerError
from muster._runtime.clients.calls import Inspect
from muster.service.ledger.reconcile import note_queues, reconcile
from muster.service.ledger.telling import tell_reasons

if TYPE_CHECKING:
    from muster._runtime.clients.client import Client
    from muster.service.ledger.ledger import Ledger
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps

_PAUSE_S: Final = 0.1
"""How long it is at least from one look to the next, in seconds."""

_TELLING_S: Final = 1.0
"""How long it is from one look at the reasons of asks to the next, in seconds."""


@asynccontextmanager
async def following(ledger: Ledger, client: Client, ends: trio.Event) -> AsyncGenerator[None, None]:
    """Keep the ledger complete, and its ring open, for the time of a block.

    Args:
        ledger: The ledger of a scheduler that has begun.
        client: Sends calls to that scheduler.
        ends: Set when the service is to end: no event follows then.
    """
    ledger.ring.is_open = True
    await _look(ledger, client, whole=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_follow, ledger, client)
        nursery.start_soon(_tell, ledger, client)
        nursery.start_soon(_close, ledger, ends)
        yield
        nursery.cancel_scope.cancel()


async def _look(ledger: Ledger, client: Client, *, whole: bool) -> None:
    """Compare the ledger with the state.

    Args:
        ledger: The ledger.
        client: Sends calls to the scheduler.
        whole: Whether applications, asks and nodes are compared, and not only queues.
    """

    def read(machine: CoordinatorMachine) -> Steps[None]:
        if whole:
            yield from reconcile(ledger, machine)
        yield
        note_queues(ledger, machine)

    call = Inspect(read)
    await client.call(call, call.answer)


async def _follow(ledger: Ledger, client: Client) -> None:
    while True:
        await ledger.needs_look()
        try:
            await _look(ledger, client, whole=ledger.book.is_stale)
        except ClosedSchedulerError:
            return
        await trio.sleep(_PAUSE_S)


async def _tell(ledger: Ledger, client: Client) -> None:
    """Tell those who follow the ring why asks are not running."""
    while True:
        await trio.sleep(_TELLING_S)
        if ledger.ring.readers and ledger.book.told_at != ledger.batch:
            call = Inspect(partial(tell_reasons, ledger))
            try:
                await client.call(call, call.answer)
            except ClosedSchedulerError:
                return


async def _close(ledger: Ledger, ends: trio.Event) -> None:
    await ends.wait()
    ledger.ring.close()
