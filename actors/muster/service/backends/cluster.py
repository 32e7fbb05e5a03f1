"""Backends that run commands on the nodes of a cluster, which may be away.

:class:`ClusterBackend` keeps the connection, also when the cluster cannot be reached at the start,
runs commands through it, makes its nodes nodes of the service, and knows where output is.
"""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Generic, Never, Protocol, TypeVar
from urllib.parse import quote

import attrs
import trio
from typing_extensions import override

from muster._errors import ClosedSchedulerError, NotStartedError, WorkFailedError
from muster.service.local.binder import hold_allocation
from muster.service.local.jobs import result_of
from muster.service.options import BackendOptions, NoOutputError, StartOutput
from muster.store._file import NAME
from muster.subprocesses import Command
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.errors import MusterError, RefusedError
from muster_core.events import Exit
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster._pod_identity import PodReasons
    from muster._surface.allocation import Allocation, ResumingBinder
    from muster._surface.scheduler import Scheduler
    from muster.service.ledger.records import StartFailure
    from muster.service.options import BackendHost, ServeOptions


_LOG: Final = logging.getLogger("muster.service")

_LONGEST_S: Final = 30.0
"""How long it rests at most between two attempts to connect, in seconds."""

CLOSING_GRACE_S: Final = 3.0
"""How long commands may take to end when the service ends, in seconds: it has ten in all."""

_PATIENCE_S: Final = 60.0
"""How long the start of a command waits for the cluster, in seconds."""

_MOST: Final = 10_000
"""Of how many asks it is known where they ran last."""

_LONGEST: Final = 200
"""The longest name of a file; file systems take 255 bytes."""


class NoClusterError(MusterError):
    """The cluster cannot be reached, or its client cannot run."""


@attrs.frozen
class ClusterOptions(BackendOptions):
    """How commands run on a cluster.

    Attributes:
        detached: Whether commands outlive the service; None if there is a state directory.
        output: The folder on each node for the output of commands; None to leave it to the cluster.
        patience_s: How long it may be away after a start, in seconds; then its nodes are removed.
    """

    system: ClassVar[str]
    """What the cluster is called."""
    account: ClassVar[str]
    """As whom commands run on a node, ``{where}``."""

    detached: bool | None = None
    output: Path | None = None
    patience_s: float = _PATIENCE_S

    # RAY-3, SLURM-3
    @override
    def problems(self, options: ServeOptions) -> Iterator[str]:
        if options.run_as:
            yield (
                f"--run-as needs --run local: on a node of {self.system} every command runs as "
                f"{self.account.format(where='there')}"
            )
        elif options.tokens is not None and not options.trust_submitters:
            yield (
                f"--run {self.run} with --tokens runs commands of submitters as "
                f"{self.account.format(where='on the node')}, for all alike: say "
                f"--trust-submitters if that is meant"
            )
        forms = self.forms()
        if self.detached and options.state is None:
            flag = forms["detached"].flag
            yield f"{flag} needs --state: otherwise nobody finds the commands again"
        if self.output is not None and not self.output.is_absolute():
            flag = forms["output"].flag
            yield f"{flag}: {self.output}: must begin at /, as it is a folder on each node"


class _Result(Protocol):
    """How a command ended."""

    @property
    def status(self) -> int | None:
        """The exit status, or minus the number of the signal that ended it."""
        ...


class _Cluster(Protocol):
    """A connection to a cluster."""

    @property
    def is_connected(self) -> bool:
        """Whether the cluster answers."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why it does not, in words."""
        ...

    async def follow(self, scheduler: Scheduler) -> Never:
        """Make the nodes of the cluster nodes of the service."""
        ...


Own = TypeVar("Own", bound=ClusterOptions)
C = TypeVar("C", bound=_Cluster)


class ClusterBackend(ABC, Generic[Own, C]):
    """Runs the command of each bound ask on a cluster; an ask without one waits for its end by events.

    Args:
        options: What the service is started with.
        own: How commands run.
    """

    lost: ClassVar[type[NotStartedError]]
    """The error of a command that cannot start since the cluster is away."""
    node_attribute: ClassVar[str]
    """The attribute of each node that comes from the cluster."""
    own_output: ClassVar[str]
    """Where output is that has no file of its own, in words."""
    starting_s: float
    """How long a command may take to start on a node that is free, in seconds."""

    def __init__(self, options: ServeOptions, own: Own) -> None:
        self.options: Final = own
        self.lasts: Final = options.state is not None and own.detached is not False
        self._state: Final = options.state
        self.cluster: C | None = None
        self._connected = trio.Event()
        self._failure = "no attempt has ended yet"
        self._binder: ResumingBinder | None = None
        #: Set when orders have the term of the service.
        self._leads = trio.Event()
        #: Set when nothing runs there any more for allocations that are over.
        self._is_clear = trio.Event()
        #: The node where the command of an ask has started last, by its name.
        self._nodes: OrderedDict[tuple[str, str], str] = OrderedDict()

    # What a cluster does

    @abstractmethod
    def connect(self) -> AbstractAsyncContextManager[C]:
        """Return a block with a connection."""

    @abstractmethod
    def binder_of(self, cluster: C) -> ResumingBinder:
        """Return the binder that runs commands through a connection."""

    @abstractmethod
    async def lead(self, cluster: C, host: BackendHost) -> None:
        """Send all orders with the term of the service, which learns of a higher one."""

    def unreachable(self, error: Exception) -> str:
        """Return in words why the cluster cannot be reached."""
        return f"--run {self.options.run}: {error}"

    async def clear(self, cluster: C, host: BackendHost) -> None:
        """End what runs there for allocations that are over."""

    def failure(self, error: Exception, allocation: Allocation) -> Exception:
        """Return the error of a command that did not start, as the user is to see it."""
        return error

    # The connection

    # RAY-6, SLURM-6
    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[ClusterBackend[Own, C], None]:
        """Stay connected for the time of a block.

        Raises:
            NoClusterError: If this is the first start, and the cluster cannot be reached.
        """
        is_first = self._state is None or not (self._state / NAME).exists()
        async with trio.open_nursery() as nursery:
            if is_first:
                await nursery.start(self._connect_first)
            else:
                nursery.start_soon(self._connect_again)
            yield self
            nursery.cancel_scope.cancel()

    async def _connect_first(self, task_status: trio.TaskStatus[None]) -> None:
        try:
            await self._stay(task_status)
        except (MusterError, OSError, ImportError) as error:
            if self.cluster is not None:
                raise
            raise NoClusterError(self.unreachable(error)) from None

    async def _connect_again(self) -> None:
        for rest_s in _retry_delays():
            try:
                await self._stay(trio.TASK_STATUS_IGNORED)
            except (MusterError, OSError, ImportError) as error:
                if self.cluster is not None:
                    raise
                self._failure = self.unreachable(error)
                _LOG.error("%s; it is tried again in %g s", self._failure, rest_s)
            await trio.sleep(rest_s)

    async def _stay(self, task_status: trio.TaskStatus[None]) -> None:
        async with self.connect() as cluster:
            self.cluster = cluster
            self._connected.set()
            task_status.started()
            await trio.sleep_forever()

    async def _wait_for_cluster(self) -> C:
        """Wait until there is a connection, and return it.

        Raises:
            NotStartedError: If there is none for too long.
        """
        with trio.move_on_after(self.options.patience_s):
            await self._connected.wait()
        if self.cluster is None:
            raise self.lost(self._failure)
        return self.cluster

    # RAY-7, SLURM-7
    def health(self) -> Mapping[str, object]:
        """Return the state of the connection, for ``/healthz``."""
        is_connected, detail = (
            (False, self._failure)
            if self.cluster is None
            else (self.cluster.is_connected, self.cluster.trouble)
        )
        report: dict[str, object] = {"connected": is_connected}
        return report if detail is None else {**report, "detail": detail}

    def followed_configuration(self) -> None:
        """Return nothing: the service reads its file."""

    def waits_for(self) -> str | None:
        """Return None: the service decides, whether or not commands can run."""
        return None

    def measures(self) -> Mapping[str, float]:
        """Return the values of its metrics."""
        return {f"muster_{self.options.run}_connected": float(self.health()["connected"] is True)}

    def pods_without_ask(self) -> Mapping[str, PodReasons]:
        """Return nothing: there are no pods."""
        return {}

    def pod_reasons(self, _namespace: str, _name: str, /) -> None:
        """Return nothing: there are no pods."""

    # Its nodes

    @asynccontextmanager
    async def running(self, host: BackendHost, server: str) -> AsyncGenerator[None, None]:
        """Make the nodes of the cluster nodes of the service for the time of a block."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow, host)
            yield
            nursery.cancel_scope.cancel()

    # RAY-8, SLURM-8
    async def _follow(self, host: BackendHost) -> None:
        with suppress(ClosedSchedulerError):
            cluster = await self._connected_cluster(host)
            if host.leadership.term:
                await self.lead(cluster, host)
            self._leads.set()
            if self.lasts:
                await self.clear(cluster, host)
            self._is_clear.set()
            await cluster.follow(host.scheduler)

    # RAY-6, SLURM-6
    async def _connected_cluster(self, host: BackendHost) -> C:
        """Wait for a connection; if that takes too long, remove the nodes of the cluster."""
        with trio.move_on_after(self.options.patience_s):
            await self._connected.wait()
        if self.cluster is None:
            nodes = await host.inspect(self._nodes_of)
            if nodes:
                message = "%s has not come for %g s: its nodes are removed"
                _LOG.warning(message, self.options.system, self.options.patience_s)
            for name in nodes:
                with suppress(RefusedError):  # it was removed already
                    await host.scheduler.remove_node(name)
            await self._connected.wait()
        assert self.cluster is not None, "it is noted before"
        return self.cluster

    def _nodes_of(self, machine: CoordinatorMachine) -> Steps[list[str]]:
        """Return the names of the nodes that came from the cluster."""
        yield
        nodes = machine.view.nodes.nodes.values()
        return [node.name for node in nodes if self.node_attribute in node.attributes]

    # Its commands

    # RAY-9, SLURM-9
    @property
    def bind_timeout_s(self) -> float:
        """How long a command may take to start, in seconds: the node may still be held so long."""
        return self.starting_s + self.options.grace_s

    # RAY-1, SLURM-1
    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Run the command of an ask; see :class:`muster.Binder`.

        Raises:
            NotStartedError: If the cluster cannot be reached.
        """
        if allocation.work is None or allocation.work.command is None:
            await hold_allocation(started)
            return
        with trio.move_on_after(min(self.options.patience_s, _PATIENCE_S)):
            await self._is_clear.wait()
        if not self._is_clear.is_set():
            message = f"{self.options.system} has not answered yet"
            raise self.lost(str(self.health().get("detail", message)))
        cluster = await self._wait_for_cluster()
        try:
            await self._resuming_binder(cluster).run(
                allocation, self._start_noter(allocation, started)
            )
        except MusterError as error:
            failure = self.failure(error, allocation)
            if failure is error:
                raise
            raise failure from error

    # RAY-5, SLURM-5
    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Find the command of an allocation again; see :class:`muster.ResumingBinder`.

        Raises:
            NotStartedError: If it has ended with the service, or the cluster cannot be reached.
        """
        if allocation.work is None or allocation.work.command is None:
            await hold_allocation(started)
            return
        cluster = await self._wait_for_cluster()
        await self._leads.wait()  # soon: the scheduler has begun, and so the nodes are followed
        await self._resuming_binder(cluster).resume(
            allocation, self._start_noter(allocation, started)
        )

    def _resuming_binder(self, cluster: C) -> ResumingBinder:
        if self._binder is None:
            self._binder = self.binder_of(cluster)
        return self._binder

    # RAY-2, SLURM-2
    def command(self, allocation: Allocation) -> Command:
        """Return the command of an ask."""
        work = allocation.work
        assert work is not None, "there is a command"
        output = self._file_of(allocation.app, allocation.ask)
        return Command(
            work.argv or work.shell or "",
            cwd=work.workdir,
            env=work.env,
            stdout=output,
            stderr=output,
        )

    def _start_noter(
        self, allocation: Allocation, started: Callable[[], None]
    ) -> Callable[[], None]:
        """Return a callback that notes the node of a command, and reports that it has started."""

        def call() -> None:
            name = (allocation.app, allocation.ask)
            self._nodes[name] = allocation.node
            self._nodes.move_to_end(name)
            if len(self._nodes) > _MOST:
                self._nodes.popitem(last=False)
            started()

        return call

    # Their output

    # RAY-4, SLURM-4
    def _file_of(self, app: str, ask: str) -> Path | None:
        """Return the file on its node to which the command of an ask writes; None if it has none."""
        folder = self.options.output
        return None if folder is None else folder / _file_name(app, ask)

    # RAY-4, SLURM-4
    async def output(
        self, host: BackendHost, app: str, ask: str, attempt: int | None
    ) -> StartOutput:
        """Return the output of a command, if its file is on this machine, too.

        Raises:
            NoOutputError: If it is not.
        """
        wanted = attempt or 1
        if wanted != 1:
            run = self.options.run
            message = f"attempt: {wanted}: with --run {run} all starts of an ask write to one file"
            raise NoOutputError(message, parameter="attempt")
        file = self._file_of(app, ask)
        if file is None or not await trio.to_thread.run_sync(file.is_file):
            # What is bound and has no file here writes it elsewhere.
            known = host.ledger.ask(app, ask)
            may_start = host.ledger.may_start(app, ask)
            waits = known is not None and known.bound_us is None and may_start
            message = self._output_place(
                app, ask, host.ledger.failure(app, ask), may_start=may_start
            )
            raise NoOutputError(message, may_start=waits)

        async def is_over() -> bool:
            known = host.ledger.ask(app, ask)
            return known is None or known.bound_us is None

        return StartOutput(file, 1, is_over)

    def _output_place(
        self, app: str, ask: str, failure: StartFailure | None, *, may_start: bool
    ) -> str:
        """Return in words where the output of the command of an ask is, or why there is none.

        Args:
            app: The application.
            ask: The ask.
            failure: Why its command could not be started, if that is what came last.
            may_start: Whether it is there, and has a command.
        """
        node = self._nodes.get((app, ask))
        why = "" if failure is None else f"; {failure.text()}"
        if node is None and failure is not None:
            return f"the command of {app}/{ask} has not started{why}"
        on = "the node where it ran" if node is None else f"the node {node}"
        output = self._file_of(app, ask)
        place = self.own_output if output is None else f"in {output}"
        if node is None and may_start:
            return (
                f"the command of {app}/{ask} has not started since this service did; what it may "
                f"have written before is on {on}, {place}"
            )
        return f"what the command of {app}/{ask} has written is on {on}, {place}{why}"


def bound_numbers(machine: CoordinatorMachine) -> Steps[set[int]]:
    """Return the numbers of all allocations of bound asks."""
    bound: set[int] = set()
    for app in machine.view.apps.values():
        yield
        bound.update(held.number for held, _ in app.bound.values())
    return bound


def _retry_delays() -> Iterator[float]:
    rest_s = 1.0
    while True:
        yield rest_s
        rest_s = min(2 * rest_s, _LONGEST_S)


# RAY-2, SLURM-2
def judge(_allocation: Allocation, result: _Result) -> None:
    """Judge how a command ended.

    Raises:
        WorkFailedError: If it has failed.
    """
    failure = result_of(result.status or 0).failure
    if failure is not None:
        raise WorkFailedError(failure, Exit.of(result.status or 0))


def _file_name(app: str, ask: str) -> str:
    """Return the name of the file with the output of an ask; no two asks have the same one."""
    # A name that is written like this has no "+".
    name = "+".join(quote(one, safe="", errors="surrogatepass") for one in (app, ask))
    if len(name) > _LONGEST:
        whole = hashlib.sha256(name.encode()).hexdigest()
        name = f"{name[: _LONGEST - 34]}+{whole[:32]}"
    return f"{name}.log"
