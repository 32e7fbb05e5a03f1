"""``--run slurm``: commands run as jobs of Slurm; :mod:`muster.slurm` knows how to speak to it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

import attrs
from typing_extensions import override

from muster._errors import NotStartedError
from muster.service.backends.cluster import (
    CLOSING_GRACE_S,
    ClusterBackend,
    ClusterOptions,
    judge,
)
from muster.service.options import BackendMetric, option
from muster.slurm import JobLostError, Slurm, SlurmBinder, connect
from muster.slurm._connection import check_namespace
from muster_core.errors import EventError

if TYPE_CHECKING:
    from muster.service.options import Backend, BackendHost, ServeOptions


@final
@attrs.frozen
class SlurmOptions(ClusterOptions):
    """How commands run on a partition of Slurm.

    Attributes:
        partition: The partition; None for Slurm's default one.
        reservation: A reservation in it, or None.
        namespace: How the comments of the jobs begin.
        options: Further options of sbatch for each job, as a shell would read them.
        components: Whether a gang is a heterogeneous job, which gives back each node at once.
        results: A folder that all nodes share, for exit statuses; None for none.
    """

    run = "slurm"
    system = "Slurm"
    place = "a partition of Slurm"
    account = "the user of the service"
    runs_as_service = True
    # SLURM-7
    health: ClassVar[Mapping[str, Any] | None] = {
        "type": "object",
        "required": ["connected"],
        "properties": {"connected": {"type": "boolean"}, "detail": {"type": "string"}},
    }
    metrics: ClassVar[tuple[BackendMetric, ...]] = (
        BackendMetric(
            "muster_slurm_connected",
            "gauge",
            "1 while Slurm's controller answers, else 0; without a value no command runs there.",
        ),
    )

    partition: str | None = option(
        "--slurm-partition",
        "text",
        "NAME",
        "the partition, which should be Muster's alone. [default: Slurm's default one]",
    )
    reservation: str | None = option(
        "--slurm-reservation", "text", "NAME", "use the nodes of this reservation only."
    )
    namespace: str = option(
        "--slurm-namespace",
        "text",
        "NAME",
        "how the comments of the jobs begin; no two services of one user may have the same. "
        "[default: muster]",
        default="muster",
    )
    options: str = option(
        "--slurm-options",
        "text",
        "OPTIONS",
        "further options of sbatch for each job, such as '--account=physics --qos=high'.",
        default="",
    )
    components: bool = option(
        "--slurm-components",
        "on",
        None,
        "submit a gang as a heterogeneous job, which gives back each node at once, but starts later.",
        default=False,
    )
    results: Path | None = option(  # noqa: RUF009 - a field of attrs
        "--slurm-results",
        "path",
        "DIR",
        "a folder that all nodes and the service share, where jobs keep their exit statuses.",
    )
    detached: bool | None = option(
        "--slurm-detached",
        "either",
        None,
        "whether jobs outlive the service, and are found again at its next start. [default: with "
        "--state]",
    )
    output: Path | None = option(  # noqa: RUF009 - a field of attrs
        "--slurm-output",
        "path",
        "DIR",
        "the folder, on each node, for what commands write. [default: Slurm's own files]",
    )
    patience_s: float = inf  # jobs go on while Slurm's controller is away, so their nodes stay

    # SLURM-3
    @override
    def problems(self, options: ServeOptions) -> Iterator[str]:
        yield from super().problems(options)
        try:
            check_namespace(self.namespace)
        except EventError as error:
            yield f"--slurm-{error}"
        try:
            wrong = [one for one in self.words() if not one.startswith("-")]
        except ValueError as error:
            yield f"--slurm-options: {self.options}: {error}"
        else:
            if wrong:
                yield f"--slurm-options: {wrong[0]}: must be an option of sbatch, as --NAME=VALUE"
        if self.results is not None and not self.results.is_absolute():
            yield f"--slurm-results: {self.results}: must begin at /, as all nodes share it"

    def words(self) -> list[str]:
        """Return the further options of sbatch.

        Raises:
            ValueError: If a quote is not closed.
        """
        return shlex.split(self.options)

    @override
    def backend(self, options: ServeOptions) -> Backend:
        return SlurmBackend(options, self)


@final
class SlurmBackend(ClusterBackend[SlurmOptions, Slurm]):
    """Runs commands as jobs of Slurm."""

    lost: ClassVar[type[NotStartedError]] = JobLostError
    node_attribute = "slurm/partition"
    own_output = (
        "in a file of Slurm's: slurm-JOB.out in the folder in which the service was started; with "
        "--slurm-output it would have a file of its own"
    )
    # A job may have to wait in Slurm for what is ending on its node, or for a node that boots.
    starting_s = 1800.0

    @override
    def connect(self) -> AbstractAsyncContextManager[Slurm]:
        own = self.options
        return connect(
            partition=own.partition,
            reservation=own.reservation,
            namespace=own.namespace,
            options=own.words(),
            results=own.results,
            gangs="components" if own.components else "job",
            # A large state may take minutes to load, and jobs are taken over after that.
            adopt_within=inf,
        )

    # REPLICA-16
    @override
    async def lead(self, cluster: Slurm, host: BackendHost) -> None:
        leads = host.leadership
        cluster.lead(leads.term, lambda term, whom: leads.observe_term(term, "", whom))

    @override
    def binder_of(self, cluster: Slurm) -> SlurmBinder:
        return SlurmBinder(
            cluster,
            self.command,
            done=judge,
            grace_period=self.options.grace_s,
            detached=self.lasts,
            closing_grace=CLOSING_GRACE_S,
        )
