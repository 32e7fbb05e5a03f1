"""``--run kubernetes``: pods of a live cluster are asks; :mod:`muster.kubernetes` follows the cluster."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast, final, get_args

import attrs
import trio
from typing_extensions import override

from muster._bind_options import SCHEDULER_NAME, BindOptions, Eviction
from muster._errors import ClosedSchedulerError
from muster._pod_identity import WAITING, PodReasons
from muster._runtime.clock import WallClock
from muster.figures.text import iso_date
from muster.service.options import BackendMetric, BackendOptions, NoOutputError, StartOutput, option
from muster_core.errors import MusterError

if TYPE_CHECKING:
    from muster._surface.allocation import Binder
    from muster.kubernetes import Access, Cluster, Lease
    from muster.service.options import Backend, BackendHost, Measure, ServeOptions
    from muster_core.config.model import Configuration

_CONFIG_MAP: Final = "configmap:"
_DEFAULT_MAP: Final = "yunikorn-configs"
_BIND: Final = BindOptions()

_LOG: Final = logging.getLogger("muster.service")


@final
class LeaseLostError(MusterError):
    """The lease was lost: another replica decides."""


@final
@attrs.frozen
class KubernetesOptions(BackendOptions):
    """How a cluster of Kubernetes is followed.

    Attributes:
        kubeconfig: The kubeconfig file; None for what ``KUBECONFIG`` or the pod says.
        scheduler_name: By which name pods ask for Muster.
        bind_concurrency: How many bindings may be under way at once.
        bind_timeout: How long a binding may take, in seconds.
        eviction: How pods are taken from their nodes.
        eviction_timeout: How long a binding waits for an eviction that is refused, in seconds.
        lease: The Lease that only one replica holds, as ``namespace/name``, or None.
        config_map: The ConfigMap with the configuration, as ``namespace/name``; None for the
            default; empty if ``--config`` names a file.
    """

    run = "kubernetes"
    place = "the kubelets of a cluster of Kubernetes"
    runs_as_service = False
    runs_commands = False
    # POD-20
    health: ClassVar[Mapping[str, Any] | None] = {
        "type": "object",
        "required": ["connected"],
        "properties": {
            "connected": {"type": "boolean"},
            "since": {"type": "string"},
            "detail": {"type": "string"},
            "waits_for": {"type": "string"},
        },
    }
    metrics: ClassVar[tuple[BackendMetric, ...]] = (
        BackendMetric(
            "muster_kubernetes_connected",
            "gauge",
            "1 while the API server answers, else 0; without it nothing is bound or evicted.",
        ),
        BackendMetric("muster_kubernetes_pods", "gauge", "How many pods of the cluster are known."),
        BackendMetric("muster_kubernetes_nodes", "gauge", "How many nodes the cluster has."),
        BackendMetric(
            "muster_kubernetes_bindings_total",
            "counter",
            "How many pods were bound, since the start.",
        ),
        BackendMetric(
            "muster_kubernetes_evictions_total",
            "counter",
            "How many pods were taken from their nodes, since the start.",
        ),
        # POD-31
        BackendMetric(
            "muster_kubernetes_pods_without_ask",
            "gauge",
            "How many pods wait for Muster and have no ask, by the reason.",
            "reason",
        ),
    )

    kubeconfig: Path | None = option(  # noqa: RUF009 - a field of attrs
        "--kubeconfig",
        "path",
        "FILE",
        "how the API server is reached. [default: KUBECONFIG, else ~/.kube/config, else the service "
        "account of the pod]",
    )
    scheduler_name: str = option(
        "--scheduler-name",
        "text",
        "NAME",
        "the spec.schedulerName of the pods that it decides for. [default: muster]",
        default=SCHEDULER_NAME,
    )
    bind_concurrency: int = option(
        "--bind-concurrency",
        "count",
        "N",
        "how many bindings may be under way at once.",
        default=_BIND.concurrency,
        most=1_000,
    )
    bind_timeout: float = option(
        "--bind-timeout",
        "time",
        "TIME",
        "how long a binding may take; longer while evicted pods still end.",
        default=_BIND.timeout_s,
    )
    eviction: str = option(
        "--eviction",
        "text",
        "delete|evict",
        "how pods are taken from their nodes: deleted, or by the eviction API, which disruption "
        "budgets can refuse. [default: delete]",
        default=_BIND.eviction,
    )
    eviction_timeout: float = option(
        "--eviction-timeout",
        "time",
        "TIME",
        "how long a binding waits for an eviction that is refused.",
        default=_BIND.eviction_timeout_s,
    )
    lease: str | None = None
    config_map: str | None = None

    @override
    def problems(self, options: ServeOptions) -> Iterator[str]:
        if self.eviction not in get_args(Eviction):
            yield f"--eviction: {self.eviction}: must be {' or '.join(get_args(Eviction))}"
        if not self.bind_concurrency:
            yield "--bind-concurrency: 0: must be 1 or more"
        for flag, seconds in (
            ("--bind-timeout", self.bind_timeout),
            ("--eviction-timeout", self.eviction_timeout),
        ):
            if not seconds > 0:
                yield f"{flag}: {seconds:g}: must be above 0"
        if not self.scheduler_name:
            yield "--scheduler-name: must not be empty"
        for flag, written in (("--lease", self.lease), ("--config configmap:", self.config_map)):
            if written and not _is_full_name(written):
                yield f"{flag}: {written}: must be NAMESPACE/NAME"
        if self.kubeconfig is not None and not self.kubeconfig.is_file():
            yield f"--kubeconfig: {self.kubeconfig} is no file"

    @override
    def take_config(self, config: Path | None) -> tuple[BackendOptions, Path | None]:
        if config is None:
            return self, None
        written = str(config)
        if not written.startswith(_CONFIG_MAP):
            return attrs.evolve(self, config_map=""), config
        return attrs.evolve(self, config_map=written.removeprefix(_CONFIG_MAP)), None

    @override
    def take_lease(self, lease: str | None) -> tuple[BackendOptions, str | None]:
        # Several replicas with stores of their own follow the cluster, and the Lease says who decides.
        if lease is None or lease.startswith("file:"):
            return self, lease
        return attrs.evolve(self, lease=lease.removeprefix("kubernetes:")), None

    @override
    def backend(self, options: ServeOptions) -> Backend:
        return KubernetesBackend(self, options.partition)


def _is_full_name(written: str) -> bool:
    namespace, slash, name = written.partition("/")
    return bool(namespace and slash and name and "/" not in name)


@final
class KubernetesBackend:
    """Follows a cluster, and binds its pods.

    Args:
        options: How it is followed.
        partition: The partition of the configuration in a ConfigMap, or None.
    """

    def __init__(self, options: KubernetesOptions, partition: str | None) -> None:
        self._options = options
        self._partition = partition
        self._cluster: Cluster | None = None
        self._config_map = ""
        self._waits_for: str | None = "the pods and nodes of the cluster are being listed"

    @property
    def bind_timeout_s(self) -> float:
        """How long a pod may take to be bound: the binder has limits of its own."""
        return inf

    # The connection

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Binder, None]:
        """Follow the cluster for the time of a block, which begins when the lease is held.

        Raises:
            MusterError: If there is no credential, or a kubeconfig file cannot be used.
            LeaseLostError: If the lease is lost.
        """
        from muster.kubernetes import access_of, connect  # noqa: PLC0415 - of an extra

        own = self._options
        access = access_of(own.kubeconfig)
        config_map = self._config_map = (
            f"{access.namespace}/{_DEFAULT_MAP}" if own.config_map is None else own.config_map
        )
        bind = BindOptions(
            own.bind_timeout,
            own.bind_concurrency,
            cast("Eviction", own.eviction),
            own.eviction_timeout,
        )
        async with (
            connect(
                scheduler_name=own.scheduler_name,
                options=bind,
                config_map=config_map or None,
                partition=self._partition,
                access=access,
            ) as cluster,
            self._holding(access, cluster),
        ):
            self._waits_for = "the pods and nodes of the cluster are being let in"
            yield cluster.binder

    @asynccontextmanager
    async def _holding(self, access: Access, cluster: Cluster) -> AsyncGenerator[None, None]:
        """Hold the lease for the time of a block, if there is one."""
        self._cluster = cluster
        if self._options.lease is None:
            yield
            return
        from muster.kubernetes import Lease  # noqa: PLC0415 - of an extra

        namespace, _, name = self._options.lease.partition("/")
        self._waits_for = f"another replica holds the lease {namespace}/{name}"
        over, lost = trio.Event(), trio.Event()
        async with (
            Lease.of(access, namespace, name, _own_name()) as lease,
            trio.open_nursery() as nursery,
        ):
            await nursery.start(_hold, lease, over, lost)
            nursery.start_soon(_raise_when, lost, over)
            yield
            over.set()

    # What is followed

    @asynccontextmanager
    async def running(self, host: BackendHost, server: str) -> AsyncGenerator[None, None]:
        """Follow the cluster for the time of a block.

        The block begins when all its objects have been let in.
        """
        cluster = self._cluster
        assert cluster is not None, "it is opened before"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, cluster, host)
            await cluster.wait_until_ready()
            self._waits_for = None
            yield
            nursery.cancel_scope.cancel()

    async def _follow(self, cluster: Cluster, host: BackendHost) -> None:
        with suppress(ClosedSchedulerError):
            await cluster.follow(host.scheduler)

    # Status

    def followed_configuration(self) -> tuple[str, Configuration] | None:
        """Return the ConfigMap that is followed, and its last configuration; or None."""
        known = None if self._cluster is None else self._cluster.configuration
        return None if known is None else (f"{_CONFIG_MAP}{self._config_map}", known)

    def waits_for(self) -> str | None:
        """Return what the service waits for before it decides."""
        lacks = "" if self._cluster is None else self._cluster.waits_for
        return self._waits_for and (lacks or self._waits_for)

    def health(self) -> Mapping[str, object]:
        """Return the state of the connection to the API server, for ``/healthz``."""
        cluster = self._cluster
        since = None if cluster is None else cluster.silent_since
        report: dict[str, object] = {"connected": cluster is not None and since is None}
        if since is not None:
            age_s = trio.current_time() - since
            report["since"] = iso_date(WallClock().now_us() - round(age_s * 1_000_000))
        if cluster is not None and cluster.trouble is not None:
            report["detail"] = cluster.trouble
        if (awaited := self.waits_for()) is not None:
            report["waits_for"] = awaited
        return report

    def measures(self) -> Mapping[str, Measure]:
        """Return the values of its metrics."""
        cluster = self._cluster
        refused = Counter(reasons[0][0] for reasons in self.pods_without_ask().values())
        counts = {} if cluster is None else cluster.counts()
        return {
            "muster_kubernetes_connected": float(self.health()["connected"] is True),
            "muster_kubernetes_pods": float(counts.get("pods", 0)),
            "muster_kubernetes_nodes": float(counts.get("nodes", 0)),
            "muster_kubernetes_bindings_total": float(counts.get("bindings", 0)),
            "muster_kubernetes_evictions_total": float(counts.get("evictions", 0)),
            "muster_kubernetes_pods_without_ask": {code: refused[code] for code in WAITING},
        }

    def pods_without_ask(self) -> Mapping[str, PodReasons]:
        """Return why pods that wait for this scheduler have no ask, by ``namespace/name``."""
        return {} if self._cluster is None else self._cluster.without_ask()

    def pod_reasons(self, namespace: str, name: str) -> PodReasons | None:
        """Return why a pod has no ask: codes and sentences; None if it has one, or is unknown."""
        return None if self._cluster is None else self._cluster.reasons_of(namespace, name)

    async def output(
        self, host: BackendHost, app: str, ask: str, attempt: int | None
    ) -> StartOutput:
        """Refuse: the kubelet has the output.

        Raises:
            NoOutputError: Always.
        """
        message = "the kubelet has the output of pods: kubectl logs shows it"
        raise NoOutputError(message)


def _own_name() -> str:
    """Return a unique name of this process."""
    return f"{socket.gethostname()}_{os.getpid()}_{os.urandom(4).hex()}"


async def _hold(
    lease: Lease, over: trio.Event, lost: trio.Event, *, task_status: trio.TaskStatus[None]
) -> None:
    """Hold a lease until an event; set another event if it is lost before."""

    async def work() -> None:
        if lost.is_set():
            return
        task_status.started()
        try:
            await over.wait()
        finally:
            if not over.is_set():
                lost.set()

    await lease.run(work)


async def _raise_when(lost: trio.Event, over: trio.Event) -> None:
    """Raise when a lease is lost; return when it is given back."""
    async with trio.open_nursery() as nursery:

        async def end() -> None:
            await over.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(end)
        await lost.wait()
        nursery.cancel_scope.cancel()
    if over.is_set():
        return
    msg = "the lease is lost: another replica may decide now"
    raise LeaseLostError(msg)
