"""Running the service: the scheduler, and the server in front of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.run import worker_serve

from muster._runtime.clock import WallClock
from muster._surface.binder import BIND_ATTEMPTS, BIND_TIMEOUT_S
from muster._surface.open import open_parts, store_options
from muster._surface.scheduler import Scheduler
from muster.service.access.who import OpenAccess
from muster.service.app import make_app
from muster.service.hearers import Hearers
from muster.service.ledger.ledger import Ledger
from muster.service.local.opening import open_local, running_local, serve_jobs
from muster.service.state import Service
from muster.service.streaming.broadcast import Broadcast

if TYPE_CHECKING:
    from hypercorn.typing import ASGIFramework

    from muster.service.options import ServeOptions


async def serve(
    options: ServeOptions,
    *,
    ends: trio.Event,
    listening: Callable[[Sequence[str]], None],
) -> None:
    """Run the service until it is told to end.

    Args:
        options: What it is started with.
        ends: Set when it is to end: requests under way are answered, then it closes.
        listening: Called with the addresses when requests are taken.

    Raises:
        MusterError: As for :func:`muster.open_scheduler`.
        OSError: If an address cannot be listened on.
    """
    clock = WallClock()
    ledger = Ledger()
    broadcast = Broadcast(options.state, options.limits.streams, options.limits.write_s)
    async with (
        open_local(options) as local,
        open_parts(
            options.config,
            partition=options.partition,
            binder=local,
            bind_timeout=BIND_TIMEOUT_S,
            bind_attempts=BIND_ATTEMPTS,
            clock=clock,
            journal=None,
            record=None,
            store=store_options(
                options.state, options.durability, options.checkpoint_every, options.keep
            ),
            interleave=None,
            companion=Hearers(ledger, broadcast.tail),
        ) as parts,
    ):
        statistics = parts.statistics()
        broadcast.tail.begin(statistics.batches, statistics.decisions)
        service = Service(
            scheduler=Scheduler(parts.statistics, parts.client, parts.observers.admit),
            client=parts.client,
            ledger=ledger,
            access=OpenAccess(),
            options=options,
            broadcast=broadcast,
            local=local,
            origin_us=parts.origin_us,
            started_us=clock.now_us(),
        )

        def told(addresses: Sequence[str]) -> None:
            if local is not None:
                serve_jobs(local, service, addresses[0])
            listening(addresses)

        async with broadcast.running(ends), running_local(local, service):
            await _listen(options, service, ends, told)


async def _listen(
    options: ServeOptions,
    service: Service,
    ends: trio.Event,
    listening: Callable[[Sequence[str]], None],
) -> None:
    """Take requests until the service is to end."""
    config = Config()
    config.bind = list(options.listen)
    config.accesslog = config.errorlog = None
    # Hypercorn names the messages one by one, and Starlette takes any map.
    app = cast("ASGIFramework", make_app(lambda: service))
    async with trio.open_nursery() as nursery:
        bound = await nursery.start(
            lambda task_status: worker_serve(
                ASGIWrapper(app), config, shutdown_trigger=ends.wait, task_status=task_status
            )
        )
        listening(bound)
