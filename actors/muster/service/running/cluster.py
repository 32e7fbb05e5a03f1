"""A cluster of Ray that runs commands: it is connected with the service, and followed meanwhile."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import trio

from muster._errors import ClosedSchedulerError
from muster.ray import RayLostError
from muster.service.ray.binder import RayWork
from muster.service.ray.link import RayLink
from muster.service.running.commands import standing_of
from muster.store._format import NAME
from muster_core.errors import RefusedError

if TYPE_CHECKING:
    from muster.ray import Cluster
    from muster.service.health import Health
    from muster.service.metrics.metrics import Metrics
    from muster.service.options import ServeOptions
    from muster.service.state import Service
    from muster_core.coordinator.coordinator import CoordinatorMachine
    from muster_core.structures.steps import Steps

_LOG: Final = logging.getLogger("muster.service")

_AGAIN_S: Final = 1.0
"""How long to wait until Ray is asked again, in seconds."""

_OF_RAY: Final = "ray.io/node-id"
"""The attribute of each node that comes from Ray."""


@asynccontextmanager
async def open_ray(
    options: ServeOptions, health: Health, metrics: Metrics
) -> AsyncGenerator[RayWork | None, None]:
    """Yield what runs commands on Ray; None if the service does not.

    Args:
        options: What the service is started with.
        health: Tells whether Ray is there.
        metrics: Tell it, too.

    Raises:
        NoRayError: If this is the first start, and Ray cannot be reached.
    """
    if options.run != "ray":
        yield None
        return
    ray, state = options.ray, options.state
    lasts = state is not None and ray.detached is not False
    link = health.ray = metrics.ray = RayLink(ray)
    # RAY-6
    is_first = state is None or not (state / NAME).exists()
    async with trio.open_nursery() as nursery:
        if is_first:
            await nursery.start(_insist, link)
        else:
            nursery.start_soon(_try, link)
        yield RayWork(link, ray, lasts=lasts)
        nursery.cancel_scope.cancel()


async def _insist(link: RayLink, task_status: trio.TaskStatus[None]) -> None:
    await link.run(insists=True, task_status=task_status)


async def _try(link: RayLink) -> None:
    await link.run(insists=False)


@asynccontextmanager
async def running_ray(ray: RayWork | None, service: Service) -> AsyncGenerator[None, None]:
    """Make the nodes of Ray nodes of the service for the time of a block.

    Args:
        ray: What runs commands on Ray; None if the service does not.
        service: The service, whose scheduler runs.
    """
    if ray is None:
        yield
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_follow, ray, service)
        yield
        nursery.cancel_scope.cancel()


# RAY-8
async def _follow(ray: RayWork, service: Service) -> None:
    with suppress(ClosedSchedulerError):
        cluster = await _connected(ray, service)
        if ray.lasts:
            standing = await service.look(standing_of)
            await _end_orphans(cluster, standing.bound, service.options.ray.grace_s)
        ray.let_in()
        await cluster.follow(service.scheduler)


# RAY-6
async def _connected(ray: RayWork, service: Service) -> Cluster:
    """Wait until there is a connection; nodes that are not there for long are removed."""
    patience_s = service.options.ray.patience_s
    with trio.move_on_after(patience_s):
        return await ray.link.connected()
    nodes = await service.look(_nodes)
    if nodes:
        _LOG.warning("Ray has not come for %g s: its nodes are removed", patience_s)
    for name in nodes:
        with suppress(RefusedError):  # somebody else has removed it
            await service.scheduler.remove_node(name)
    return await ray.link.connected()


def _nodes(machine: CoordinatorMachine) -> Steps[list[str]]:
    """Return the names of the nodes that came from Ray."""
    yield
    nodes = machine.view.nodes.nodes.values()
    return [node.name for node in nodes if _OF_RAY in node.attributes]


# RAY-5
async def _end_orphans(cluster: Cluster, bound: set[int], grace_s: float) -> None:
    """End what runs on Ray for allocations that have ended while no service was there."""
    while True:
        try:
            survivors = await cluster.survivors()
            async with trio.open_nursery() as nursery:
                for one in survivors:
                    if one.number not in bound:
                        _LOG.info("%s/%s is ended on Ray: its allocation is over", one.app, one.ask)
                        nursery.start_soon(cluster.end, one, grace_s)
        except* RayLostError as lost:
            _LOG.warning("what is over on Ray is not ended yet: %s", lost.exceptions[0])
        else:
            return
        await trio.sleep(_AGAIN_S)
