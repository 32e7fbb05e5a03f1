"""A live cluster: its objects are mirrored, its pods let into a scheduler and bound as that decides."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Never, cast, final

import trio

from muster._bind_options import SCHEDULER_NAME, BindOptions
from muster._errors import ClosedSchedulerError
from muster._pod_identity import PodCode
from muster.kubernetes._access import Access, in_cluster, kubeconfig_files, read_kubeconfig
from muster.kubernetes._api import Api, Object, Resource
from muster.kubernetes._binder import KubernetesBinder
from muster.kubernetes._cache import Cache, Held, PodEntry
from muster.kubernetes._intake import Intake
from muster.kubernetes._objects import (
    POD_GROUPS,
    VOLCANO_POD_GROUPS,
    MemberCounts,
    claimed_volume,
    read_node,
    read_pod,
    volume_affinity,
)
from muster.kubernetes._reflector import Change, Reflector
from muster.kubernetes._reports import PODS, Reports
from muster_core.reasons import Code

if TYPE_CHECKING:
    from muster._surface.scheduler import Scheduler
    from muster_core.config.model import Configuration
    from muster_core.reasons import Explanation


NODES: Final = Resource("v1", "nodes")
CLASSES: Final = Resource("scheduling.k8s.io/v1", "priorityclasses")
CLAIMS: Final = Resource("v1", "persistentvolumeclaims")
VOLUMES: Final = Resource("v1", "persistentvolumes")
GROUPS: Final = (POD_GROUPS, VOLCANO_POD_GROUPS)

_CONFIG_KEY: Final = "queues.yaml"
_REPORT_PERIOD_S: Final = 0.5
_REPORTS_PER_SECOND: Final = 20
_PAUSE_FACTOR: Final = 9
"""The pause between two reports, as a multiple of the time that the last one took."""

_log: Final = logging.getLogger(__name__)


@final
class Cluster:
    """A cluster of Kubernetes that is followed; :func:`connect` gives it.

    Attributes:
        binder: The binder to pass to :func:`muster.open_scheduler`, with ``bind_timeout=math.inf``
            and ``bind_attempts=None``: it has limits of its own.
    """

    def __init__(
        self,
        api: Api,
        nursery: trio.Nursery,
        *,
        scheduler_name: str,
        options: BindOptions,
        config_map: str | None,
        partition: str | None = None,
    ) -> None:
        self._api = api
        self._scheduler_name = scheduler_name
        self._cache = Cache()
        self._intake = Intake(self._cache, partition)
        self._ready = trio.Event()
        self._config_map = config_map
        #: The PodGroups that there are, by the full names of their gangs.
        self._groups: dict[str, tuple[Resource, Object]] = {}
        self._reports = Reports(api, scheduler_name)
        self._reflectors = self._all_reflectors(config_map)
        self.binder: Final = KubernetesBinder(
            api, self._cache, options, self._reports, self._ready, nursery
        )

    def _all_reflectors(self, config_map: str | None) -> list[Reflector]:
        api = self._api
        made = [
            Reflector(api, CLASSES, self._each(self._take_class)),
            Reflector(api, NODES, self._each(self._take_node), shorten=self._short_node),
            Reflector(api, PODS, self._each(self._take_pod), shorten=self._short_pod),
            Reflector(api, CLAIMS, self._each(self._take_claim)),
            Reflector(api, VOLUMES, self._each(self._take_volume)),
            *(
                Reflector(api, resource, self._each(self._take_group), optional=True)
                for resource in GROUPS
            ),
        ]
        if config_map is not None:
            self._intake.lacks = f"there is no ConfigMap {config_map}"
            namespace, _, name = config_map.partition("/")
            resource = Resource("v1", "configmaps", namespace, name)
            made.append(Reflector(api, resource, self._each(self._take_config)))
        return made

    async def mirror(self, nursery: trio.Nursery) -> None:
        """Mirror all objects that matter; return when all that exist have been read once."""
        nursery.start_soon(self._reports.run)
        async with trio.open_nursery() as starting:
            for reflector in self._reflectors:
                starting.start_soon(nursery.start, reflector.run)

    # Changes of objects

    def _each(self, take: Callable[[Change], None]) -> Callable[[list[Change]], Awaitable[None]]:
        async def deliver(changes: list[Change]) -> None:
            for change in changes:
                take(change)

        return deliver

    def _short_pod(self, whole: Object) -> Object:
        return _shortened(whole, read_pod(whole, self._scheduler_name))

    def _short_node(self, whole: Object) -> Object:
        return _shortened(whole, read_node(whole))

    def _take_pod(self, change: Change) -> None:
        if change.new is not None:
            entry = self._cache.note_pod(change.new["read"])
            if entry.pod.node is not None or entry.is_over:
                self._reports.forget(entry.pod.identity.uid)
        elif change.old is not None:
            uid = change.old["read"].identity.uid
            self._cache.drop_pod(uid)
            self._reports.forget(uid)

    def _take_node(self, change: Change) -> None:
        if change.new is not None:
            node = change.new["read"]
            if node.problem:
                _log.warning(
                    "node %s is closed, since it cannot be read: %s", node.name, node.problem
                )
            self._cache.note_node(node)
        elif change.old is not None:
            self._cache.drop_node(change.old["read"].name)

    def _take_class(self, change: Change) -> None:
        self._intake.take_class(_latest_of(change), is_gone=change.new is None)

    def _take_group(self, change: Change) -> None:
        gang = self._intake.take_group(_latest_of(change), is_gone=change.new is None)
        if change.new is None:
            self._groups.pop(gang, None)
        else:
            self._groups[gang] = (change.resource, change.new)
            self._cache.dirty_gangs.add(gang)

    def _take_claim(self, change: Change) -> None:
        metadata = _latest_of(change)["metadata"]
        volume = None if change.new is None else claimed_volume(change.new)
        self._intake.take_claim(f"{metadata['namespace']}/{metadata['name']}", volume)

    def _take_volume(self, change: Change) -> None:
        one = _latest_of(change)
        name = str(one["metadata"]["name"])
        self._intake.take_volume(name, volume_affinity(one), is_gone=change.new is None)

    def _take_config(self, change: Change) -> None:
        place = f"ConfigMap {self._config_map}"
        if change.new is None:
            self._intake.note_no_configuration(f"{place} is gone")
            return
        text = cast("Mapping[str, Any]", change.new.get("data") or {}).get(_CONFIG_KEY)
        if not isinstance(text, str):
            self._intake.note_no_configuration(f"{place} has no {_CONFIG_KEY}")
            return
        self._intake.take_configuration(text, place)

    # The scheduler

    async def follow(self, scheduler: Scheduler) -> Never:
        """Let the pods and nodes into a scheduler, for ever, and report to the cluster why pods wait.

        Args:
            scheduler: A scheduler that was opened with :attr:`binder`.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """
        await self._intake.adopt(scheduler)
        closed: list[BaseException] = []
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._intake.feed, scheduler, self._ready)
                nursery.start_soon(self._intake.notice_ends, scheduler)
                nursery.start_soon(self._report_reasons, scheduler)
        except* ClosedSchedulerError as group:
            closed += group.exceptions
        raise closed[0] if closed else AssertionError("these tasks do not end")

    async def wait_until_ready(self) -> None:
        """Wait until the scheduler has all that the cluster had at the start."""
        await self._ready.wait()

    # POD-24
    async def _report_reasons(self, scheduler: Scheduler) -> None:
        """Report why pods are not bound, a few at a time, the oldest reports first."""
        await self._ready.wait()
        unexplained, rest_s = self._cache.unexplained, _REPORT_PERIOD_S
        while True:
            await trio.sleep(rest_s)
            self._report_groups()
            began, rest_s = trio.current_time(), _REPORT_PERIOD_S
            for uid in list(islice(unexplained, round(_REPORTS_PER_SECOND * _REPORT_PERIOD_S))):
                unexplained.pop(uid)
                entry = self._cache.pods.get(uid)
                if entry is not None and _needs_reasons(entry):
                    await self._report_pod(scheduler, entry)
                    unexplained[uid] = None
                # An explanation may take a look at thousands of nodes.
                if (rest_s := (trio.current_time() - began) * _PAUSE_FACTOR) > _REPORT_PERIOD_S:
                    break
            rest_s = max(rest_s, _REPORT_PERIOD_S)

    def _report_groups(self) -> None:
        """Report the status of the PodGroups of which a pod has changed."""
        gangs, self._cache.dirty_gangs = self._cache.dirty_gangs, set()
        for gang in gangs & self._groups.keys():
            entries = [self._cache.pods[uid] for uid in self._cache.by_gang.get(gang, ())]
            pods = [one.pod for one in entries if not one.is_gone]
            phases = [one.phase for one in pods]
            counts = MemberCounts(
                scheduled=sum(one.node is not None and not one.is_finished for one in pods),
                running=phases.count("Running"),
                succeeded=phases.count("Succeeded"),
                failed=phases.count("Failed"),
            )
            self._reports.group(*self._groups[gang], counts)

    async def _report_pod(self, scheduler: Scheduler, entry: PodEntry) -> None:
        reasons = self.own_reasons(entry)
        if reasons is None and entry.name is not None:
            explanation = await scheduler.ask(*entry.name).why()
            reasons = [] if explanation is None else _reasons(explanation)
        if not reasons or not _needs_reasons(entry):
            return
        words = PodCode.SCHEDULING_GATED.value if entry.pod.is_gated else "Unschedulable"
        ignored = [("Ignored", text) for text in entry.pod.ignored]
        message = "; ".join(f"{code}: {text}" for code, text in [*reasons, *ignored])
        condition = entry.pod.condition
        seen = None if condition is None else condition.written()
        self._reports.pending(entry.pod.identity, seen, words, message)

    def own_reasons(self, entry: PodEntry) -> list[tuple[str, str]] | None:
        """Return why a pod is not let into the scheduler: codes and sentences; None if it is."""
        pod, request = entry.pod, entry.pod.request
        if not pod.is_ours:
            return [(PodCode.OTHER_SCHEDULER, pod.unsupported)]
        if pod.is_gated:
            return [
                (
                    PodCode.SCHEDULING_GATED,
                    "spec.schedulingGates: it waits until they are taken away",
                )
            ]
        if request is None:
            return [(PodCode.NOT_SUPPORTED, pod.unsupported)]
        if missing := self._intake.surroundings.missing(request):
            return [(PodCode.NOT_SUPPORTED, missing)]
        if pod.node is None and (group := self._intake.surroundings.lacks_group(request)):
            return [(PodCode.NOT_QUEUED, group)]
        if entry.refusal:
            return [(PodCode.NOT_QUEUED, entry.refusal)]
        return None

    def reasons_of(self, namespace: str, name: str) -> Sequence[tuple[str, str]] | None:
        """Return why a pod has no ask: codes and sentences; None if it has one, or is unknown."""
        for entry in self._cache.named(f"{namespace}/{name}"):
            if not entry.is_gone:
                return self.own_reasons(entry)
        return None

    # POD-31
    def without_ask(self) -> dict[str, Sequence[tuple[str, str]]]:
        """Return why pods that wait for this scheduler have no ask, by their full names."""
        entries = [self._cache.pods.get(uid) for uid in self._cache.unexplained]
        return {
            one.pod.identity.full_name: reasons
            for one in entries
            if one is not None and _needs_reasons(one) and (reasons := self.own_reasons(one))
        }

    # Status

    @property
    def configuration(self) -> Configuration | None:
        """The last valid configuration of the ConfigMap, or None."""
        return self._intake.configuration

    @property
    def waits_for(self) -> str:
        """What must exist before anything is let in, as text; empty for nothing."""
        return self._intake.lacks

    @property
    def silent_since(self) -> float | None:
        """Since when the API server does not answer, by trio's clock; None while it does."""
        silences = [one.silent_since for one in self._reflectors if one.silent_since is not None]
        return min(silences, default=None)

    @property
    def trouble(self) -> str | None:
        """The present error, as text; None if there is none."""
        return next((one.trouble for one in self._reflectors if one.trouble), None)

    def counts(self) -> dict[str, int]:
        """Return how many pods and nodes are known, and how many were bound and evicted."""
        return {
            "pods": len(self._cache.pods),
            "nodes": sum(one.node is not None for one in self._cache.nodes.values()),
            "bindings": self.binder.bindings,
            "evictions": self.binder.evictions,
        }


def _shortened(whole: Object, read: object) -> Object:
    """Return an object without the fields that are not read."""
    metadata = whole["metadata"]
    kept = {name: metadata[name] for name in ("uid", "resourceVersion")}
    return {"metadata": kept, "read": read}


def _latest_of(change: Change) -> Object:
    one = change.new or change.old
    assert one is not None, "a change of nothing"
    return one


def _needs_reasons(entry: PodEntry) -> bool:
    pod = entry.pod
    is_unbound = pod.node is None and entry.sent_to is None and entry.held is not Held.BOUND
    return pod.is_ours and is_unbound and not (entry.is_over or pod.is_deleted)


def _reasons(explanation: Explanation) -> list[tuple[str, str]]:
    """Return the reasons of an ask without one that counts down: it would change every time."""
    lasting = [one for one in explanation.reasons if one.code is not Code.PREEMPTION_DELAY]
    return [(str(one.code), one.message) for one in lasting or explanation.reasons]


@asynccontextmanager
async def connect(
    kubeconfig: Path | Sequence[Path] | None = None,
    *,
    context: str | None = None,
    scheduler_name: str = SCHEDULER_NAME,
    options: BindOptions = BindOptions(),  # noqa: B008 - immutable
    config_map: str | None = None,
    partition: str | None = None,
    access: Access | None = None,
) -> AsyncGenerator[Cluster, None]:
    """Follow a cluster for the time of an ``async with`` block.

    It begins when all nodes and pods that there are have been seen; an API server that does not
    answer is waited for.

    Args:
        kubeconfig: The kubeconfig file, or several. Default: in a pod its service account, else
            what ``KUBECONFIG`` names, else ``~/.kube/config``.
        context: The context in it; default: the current one.
        scheduler_name: By which ``spec.schedulerName`` pods ask for this scheduler.
        options: How pods are bound and evicted.
        config_map: The ConfigMap whose ``queues.yaml`` is the configuration, as
            ``namespace/name``; None if the program has one of its own.
        partition: The partition in it; None for ``default``, or else the only one.
        access: How the API server is reached, instead of a kubeconfig file.

    Yields:
        The cluster.

    Raises:
        ConfigError: If a kubeconfig file cannot be used.
        AccessError: If there is no credential.
    """
    reached = access or access_of(kubeconfig, context)
    async with (
        Api(reached, connections=options.concurrency + 8) as api,
        trio.open_nursery() as nursery,
    ):
        cluster = Cluster(
            api,
            nursery,
            scheduler_name=scheduler_name,
            options=options,
            config_map=config_map,
            partition=partition,
        )
        await cluster.mirror(nursery)
        yield cluster
        nursery.cancel_scope.cancel()


def access_of(kubeconfig: Path | Sequence[Path] | None, context: str | None = None) -> Access:
    """Return how an API server is reached; see :func:`connect`.

    Raises:
        ConfigError: If a kubeconfig file cannot be used.
        AccessError: If there is no credential.
    """
    if kubeconfig is None:
        files = kubeconfig_files()
        return read_kubeconfig(files, context) if files else in_cluster()
    files = [kubeconfig] if isinstance(kubeconfig, Path) else list(kubeconfig)
    return read_kubeconfig(files, context)
