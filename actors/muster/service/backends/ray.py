"""``--run ray``: commands run on a cluster of Ray; :mod:`muster.ray` knows how to speak to it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import attrs
import trio
from typing_extensions import override

from muster._errors import NotStartedError
from muster.ray import Cluster, RayBinder, RayLostError, RunFailedError, connect
from muster.service.backends.cluster import (
    CLOSING_GRACE_S,
    ClusterBackend,
    ClusterOptions,
    bound_numbers,
    judge,
)
from muster.service.options import BackendMetric, option

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation
    from muster.service.options import Backend, BackendHost, ServeOptions


_LOG: Final = logging.getLogger("muster.service")

_AGAIN_S: Final = 1.0
"""How long to wait until Ray is asked again, in seconds."""


@final
@attrs.frozen
class RayOptions(ClusterOptions):
    """How commands run on a cluster of Ray.

    Attributes:
        address: The address of the cluster, as ``ray.init`` takes it; None for ``auto``.
        namespace: The namespace of the runs in Ray; None for ``muster``.
        python: The interpreter that speaks to Ray, which has ray; None for that of the service.
        node_name: The label of Ray's nodes by which they are called; None for their ids.
        select: The labels that a node of Ray must have to be a node of Muster.
        warm: How many workers are started on each node in advance.
    """

    run = "ray"
    system = "Ray"
    place = "a cluster of Ray"
    account = "the user who has started Ray {where}"
    runs_as_service = False
    # RAY-7
    health: ClassVar[Mapping[str, Any] | None] = {
        "type": "object",
        "required": ["connected", "restarts"],
        "properties": {
            "connected": {"type": "boolean"},
            "restarts": {"type": "integer", "minimum": 0},
            "detail": {"type": "string"},
        },
    }
    metrics: ClassVar[tuple[BackendMetric, ...]] = (
        BackendMetric(
            "muster_ray_connected",
            "gauge",
            "1 while the service is connected to Ray, else 0; without a value no command runs "
            "there.",
        ),
        BackendMetric(
            "muster_ray_restarts_total",
            "counter",
            "How often the process that speaks to Ray was started again, since the start.",
        ),
    )

    address: str | None = option(
        "--ray-address",
        "text",
        "ADDRESS",
        "the cluster, such as 10.0.0.1:6379. [default: auto, the one that runs on this machine]",
    )
    namespace: str | None = option(
        "--ray-namespace",
        "text",
        "NAME",
        "the namespace of the commands in Ray. [default: muster]",
    )
    python: Path | None = option(  # noqa: RUF009 - a field of attrs
        "--ray-python",
        "path",
        "FILE",
        "the Python that speaks to Ray: it has ray, and the version of Python that the cluster "
        "has. [default: the one of the service]",
    )
    node_name: str | None = option(
        "--ray-node-name",
        "text",
        "LABEL",
        "the label of Ray's nodes that has their names. [default: their ids]",
    )
    select: tuple[tuple[str, str], ...] = option(
        "--ray-select",
        "labels",
        "LABEL=VALUE",
        "use nodes with this label only; may be given several times.",
        default=(),
    )
    warm: int = option(
        "--ray-warm",
        "count",
        "N",
        "how many workers are started on each node in advance.",
        default=0,
    )
    detached: bool | None = option(
        "--ray-detached",
        "either",
        None,
        "whether commands outlive the service, and are found again at its next start. [default: "
        "with --state]",
    )
    output: Path | None = option(  # noqa: RUF009 - a field of attrs
        "--ray-output",
        "path",
        "DIR",
        "the folder, on each node, for what commands write. [default: Ray's own logs]",
    )

    @override
    def problems(self, options: ServeOptions) -> Iterator[str]:
        yield from super().problems(options)
        if self.address is not None and "://" in self.address:
            yield (
                f"--ray-address: {self.address}: must be HOST:PORT of the cluster's head, or auto; "
                f"Ray Client (ray://) is not supported"
            )

    @override
    def backend(self, options: ServeOptions) -> Backend:
        return RayBackend(options, self)


@final
class RayBackend(ClusterBackend[RayOptions, Cluster]):
    """Runs commands on Ray."""

    lost: ClassVar[type[NotStartedError]] = RayLostError
    node_attribute = "ray.io/node-id"
    own_output = (
        "among Ray's logs of its workers, which Ray's dashboard shows; with --ray-output it would "
        "have a file of its own"
    )
    # Ray ends what is connected to it when it has been away for a minute. So a run that waits for
    # Ray learns of the lost connection, which is no failed attempt, before its time to start is
    # over.
    starting_s = 90.0

    @override
    def connect(self) -> AbstractAsyncContextManager[Cluster]:
        own = self.options
        return connect(
            own.address or "auto",
            namespace=own.namespace or "muster",
            python=sys.executable if own.python is None else str(own.python),
            node_name=own.node_name,
            select=dict(own.select),
            warm=own.warm,
            log_to_driver=False,  # it is the output of all commands
        )

    @override
    def unreachable(self, error: Exception) -> str:
        if isinstance(error, ImportError) and self.options.python is None:
            return (
                f"the package {error.name or 'ray'} is missing: "
                "pip install 'muster-scheduler[serve,ray]'"
            )
        return super().unreachable(error)

    # RAY-7
    @override
    def health(self) -> Mapping[str, object]:
        restarts = 0 if self.cluster is None else self.cluster.restarts
        found = dict(super().health())
        return {"connected": found.pop("connected"), "restarts": restarts, **found}

    @override
    def measures(self) -> Mapping[str, float]:
        restarts = 0 if self.cluster is None else self.cluster.restarts
        return {**super().measures(), "muster_ray_restarts_total": restarts}

    @override
    def binder_of(self, cluster: Cluster) -> RayBinder:
        return RayBinder(
            cluster,
            self.command,
            done=judge,
            grace_period=self.options.grace_s,
            detached=self.lasts,
            closing_grace=CLOSING_GRACE_S,
        )

    # REPLICA-15
    @override
    async def lead(self, cluster: Cluster, host: BackendHost) -> None:
        leads = host.leadership
        # All leaders have the same origin of time, and a new state directory has another one.
        await cluster.runs.link.lead(
            {"scheduler": str(host.unix_us(0)), "term": leads.term},
            lambda term: leads.observe_term(term, "", "the agent of Ray"),
        )

    # RAY-4
    @override
    def failure(self, error: Exception, allocation: Allocation) -> Exception:
        folder = self.options.output
        missing = f"there is no folder {str(folder)!r}"
        if folder is None or not isinstance(error, RunFailedError) or missing not in str(error):
            return error
        message = f"--ray-output: there is no folder {folder} on the node {allocation.node}"
        return RunFailedError(message)

    # RAY-5
    @override
    async def clear(self, cluster: Cluster, host: BackendHost) -> None:
        bound = await host.inspect(bound_numbers)
        while True:
            try:
                survivors = await cluster.survivors()
                async with trio.open_nursery() as nursery:
                    for one in survivors:
                        if one.number not in bound:
                            message = "%s/%s is ended on Ray: its allocation is over"
                            _LOG.info(message, one.app, one.ask)
                            nursery.start_soon(cluster.end, one, self.options.grace_s)
            except* RayLostError as lost:
                _LOG.warning("what is over on Ray is not ended yet: %s", lost.exceptions[0])
            else:
                return
            await trio.sleep(_AGAIN_S)
