"""Backends: what runs the commands of asks, on this machine or on a cluster of Ray.

A backend is opened with the service, and has work of its own while the service runs: it finds old
jobs again, removes old output, and keeps its nodes in step with the scheduler.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from muster._errors import ClosedSchedulerError
from muster._surface.allocation import Allocation
from muster._surface.open import store_options
from muster.ray import Cluster, RayLostError
from muster.service.local.binder import BinderSettings, CommandContext, LocalBinder, identities
from muster.service.local.cgroups import open_cgroups
from muster.service.local.machine import GPU, Gpus, capacity, find_gpus, node_name
from muster.service.options import ServeOptions
from muster.service.ray import RayLink, RayWork
from muster.store._file import NAME
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.errors import RefusedError
from muster_core.nodes.node import Node
from muster_core.structures.steps import Steps
from muster_core.values.devices import NO_STOCKS, DeviceStock

if TYPE_CHECKING:
    from muster.service.health import Health
    from muster.service.metrics.scrape import Metrics
    from muster.service.state import Service


_LOG: Final = logging.getLogger("muster.service")

_PRUNES_S: Final = 600.0
"""How often output that is too old is looked for, in seconds."""


@asynccontextmanager
async def open_local(options: ServeOptions) -> AsyncGenerator[LocalBinder | None, None]:
    """Yield the binder that runs commands; None if the service runs nothing.

    Raises:
        RunAsError: If commands cannot run as the users that were named.
    """
    if options.run != "local":
        yield None
        return
    known = identities(options.run_as)
    with ExitStack() as cleaning:
        lasts = options.state is not None
        folder = options.state or Path(
            cleaning.enter_context(TemporaryDirectory(prefix="muster-", ignore_cleanup_errors=True))
        )
        cgroups = open_cgroups(folder.absolute()) if options.local.uses_cgroups else None
        binder = LocalBinder(
            BinderSettings(folder.absolute(), lasts, options.local, known, cgroups)
        )
        cleaning.callback(binder.close)
        yield binder


@final
@attrs.frozen
class StandingWork:
    """What stands when the service starts.

    Attributes:
        bound: The numbers of all allocations of bound asks.
        has_nodes: Whether there is a node.
        gpus: How many GPUs the node of this machine has; None if it is no node.
    """

    bound: set[int]
    has_nodes: bool
    gpus: int | None


def standing_of(machine: CoordinatorMachine) -> Steps[StandingWork]:
    """Return what stands."""
    bound: set[int] = set()
    for app in machine.view.apps.values():
        yield
        bound.update(held.number for held, _ in app.bound.values())
    nodes = machine.view.nodes.nodes
    own = nodes.get(node_name())
    stock = _stocks(own).get(GPU)
    gpus = None if own is None else 0 if stock is None else stock.count
    return StandingWork(bound, bool(nodes), gpus)


def _stocks(node: Node | None) -> Mapping[str, DeviceStock]:
    """Return the devices of a node by type, which may have none, or be gone."""
    return NO_STOCKS if node is None or node.devices is None else node.devices.stocks


@asynccontextmanager
async def running_local(binder: LocalBinder | None, service: Service) -> AsyncGenerator[None, None]:
    """Do for the time of a block what there is to do besides: old jobs, old output, the node.

    Args:
        binder: The binder; None if the service runs nothing.
        service: The service, whose scheduler runs; it takes no requests yet.
    """
    if binder is None:
        yield
        return
    async with trio.open_nursery() as nursery:
        await _begin(binder, service, nursery)
        store = store_options(service.options.state, "full", 1, service.options.keep)
        nursery.start_soon(_prune_always, binder, None if store is None else store.keep_us)
        yield
        nursery.cancel_scope.cancel()


async def _begin(binder: LocalBinder, service: Service, nursery: trio.Nursery) -> None:
    """Do what there is to do before the service takes requests."""
    is_first = not binder.was_here
    standing = await service.look(standing_of)
    nursery.start_soon(binder.end_orphans, standing.bound)
    given = service.options.local.gpus
    if is_first and not standing.has_nodes and service.options.local.adds_node:
        await _add_machine(service, given)
    elif given is not None and standing.gpus is not None and standing.gpus != given:
        told = (
            "--gpus counts when this machine becomes a node: %s has %d, and update_node changes it"
        )
        _LOG.warning(told, node_name(), standing.gpus)


# LOCAL-11, LOCAL-13
async def _add_machine(service: Service, gpus: int | None) -> None:
    """Add this machine as a node.

    Args:
        service: The service.
        gpus: How many GPUs it has; None to look for them.
    """
    name, resources = node_name(), capacity()
    found = await find_gpus() if gpus is None else Gpus.of(gpus)
    await service.scheduler.add_node(name, resources, devices=found.devices or None)
    told = [f"{kind} {amount:,}" for kind, amount in resources.items()]
    if found.each:
        told.append(f"{GPU} {len(found.each)} ({found.told})")
    _LOG.info("this machine is the node %s: %s", name, ", ".join(told))


def serve_jobs(binder: LocalBinder, service: Service, server: str) -> None:
    """Let jobs start: the service can be reached under this address."""

    async def surroundings(allocation: Allocation) -> CommandContext:
        def read(machine: CoordinatorMachine) -> Steps[CommandContext]:
            yield
            key = machine.registry.locate(allocation.app)
            submitter = None if key is None else machine.view.apps[key].identity.user[0]
            return CommandContext(submitter, _stocks(machine.view.nodes.nodes.get(allocation.node)))

        return await service.look(read)

    binder.serve(server, surroundings)


async def _prune_always(binder: LocalBinder, keep_us: int | None) -> None:
    """Remove output that is older than the history that is kept, as long as the service runs."""
    while keep_us is not None:
        try:
            await binder.prune(keep_us)
        except OSError as error:
            _LOG.warning("output that is too old cannot be removed: %s", error)
        await trio.sleep(_PRUNES_S)


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
