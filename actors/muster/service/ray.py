"""``--run ray``: the connection to a cluster of Ray, and the binder that runs commands there.

:class:`RayLink` keeps the connection, also when Ray cannot be reached at the start;
:class:`RayWork` runs commands through it, and knows where their output is. :mod:`muster.ray` knows
how to speak to Ray itself.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, final
from urllib.parse import quote

import attrs
import trio

from muster._errors import WorkFailedError
from muster.ray import Cluster, Command, RayBinder, RayLostError, Result, RunFailedError, connect
from muster.service.local.binder import hold_allocation
from muster.service.local.jobs import result_of
from muster.service.options import RayOptions
from muster_core.errors import MusterError
from muster_core.events import Exit

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation
    from muster.service.ledger.records import StartFailure


_LOG: Final = logging.getLogger("muster.service")

_LONGEST_S: Final = 30.0
"""How long it rests at most between two attempts to connect, in seconds."""

NAMESPACE: Final = "muster"
"""The namespace of the runs in Ray, if none is named."""


class NoRayError(MusterError):
    """Ray cannot be reached, or what speaks to it cannot run."""


@final
@attrs.frozen
class RayState:
    """How the service stands with Ray.

    Attributes:
        connected: Whether it is connected.
        restarts: How often what speaks to Ray was started again, after it was lost.
        detail: Why it is not connected, as far as that is known; None if it is.
    """

    connected: bool
    restarts: int
    detail: str | None

    # RAY-7
    def as_map(self) -> dict[str, object]:
        """Return it as ``/healthz`` tells it."""
        told: dict[str, object] = {"connected": self.connected, "restarts": self.restarts}
        return told if self.detail is None else {**told, "detail": self.detail}


@final
class RayLink:
    """The connection to Ray.

    Args:
        options: Where the cluster is, and how it is spoken to.
    """

    def __init__(self, options: RayOptions) -> None:
        self._options = options
        self._cluster: Cluster | None = None
        self._connected = trio.Event()
        self._failure = "no attempt has ended yet"

    def state(self) -> RayState:
        """Return how the service stands with Ray."""
        cluster = self._cluster
        if cluster is None:
            return RayState(False, 0, self._failure)
        return RayState(cluster.is_connected, cluster.restarts, cluster.trouble)

    # RAY-6
    async def run(
        self,
        *,
        insists: bool,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Connect to Ray, and stay so until this is cancelled.

        Args:
            insists: Whether Ray must be there now; otherwise it is tried again and again.
            task_status: Told when it is connected.

        Raises:
            NoRayError: If Ray must be there and is not.
        """
        for rest_s in _rests():
            try:
                await self._stay(task_status)
            except (MusterError, OSError, ImportError) as error:
                if self._cluster is not None:
                    raise
                self._failure = self._told(error)
                if insists:
                    raise NoRayError(self._failure) from None
                _LOG.error("%s; it is tried again in %g s", self._failure, rest_s)
            await trio.sleep(rest_s)

    async def _stay(self, task_status: trio.TaskStatus[None]) -> None:
        options = self._options
        async with connect(
            self.address,
            namespace=options.namespace or NAMESPACE,
            python=sys.executable if options.python is None else str(options.python),
            node_name=options.node_name,
            select=dict(options.select),
            warm=options.warm,
            log_to_driver=False,  # it is the output of all commands
        ) as cluster:
            self._cluster = cluster
            self._connected.set()
            task_status.started()
            await trio.sleep_forever()

    @property
    def address(self) -> str:
        """The address of the cluster."""
        return self._options.address or "auto"

    def _told(self, error: Exception) -> str:
        """Return in words why Ray cannot be reached."""
        if isinstance(error, ImportError) and self._options.python is None:
            return (
                f"the package {error.name or 'ray'} is missing: "
                "pip install '.[serve,ray]' in a checkout of Muster"
            )
        return f"--run ray: {error}"

    async def cluster(self) -> Cluster:
        """Wait until there is a connection, and return it.

        Raises:
            RayLostError: If there is none for too long.
        """
        with trio.move_on_after(self._options.patience_s):
            await self._connected.wait()
        if self._cluster is None:
            raise RayLostError(self._failure)
        return self._cluster

    async def connected(self) -> Cluster:
        """Wait until there is a connection, however long that takes, and return it."""
        await self._connected.wait()
        assert self._cluster is not None, "it is noted before"
        return self._cluster


def _rests() -> Iterator[float]:
    rest_s = 1.0
    while True:
        yield rest_s
        rest_s = min(2 * rest_s, _LONGEST_S)


_CLOSING_GRACE_S: Final = 3.0
"""How long commands may take to end when the service ends, in seconds: it has ten in all."""

_MOST: Final = 10_000
"""Of how many asks it is known where they ran last."""

_LONGEST: Final = 200
"""The longest name of a file; file systems take 255 bytes."""

# Ray ends what is connected to it when it has been away for a minute. So a run that waits for Ray
# hears of the lost connection, which is no failed attempt, before its time to start is over.
_STARTING_S: Final = 90.0


@final
class RayWork:
    """Runs the command of each bound ask on Ray; an ask without one waits for its end by events.

    Args:
        link: The connection.
        options: How commands run.
        lasts: Whether they outlive the service.

    Attributes:
        link: The connection.
        lasts: Whether commands outlive the service.
    """

    def __init__(self, link: RayLink, options: RayOptions, *, lasts: bool) -> None:
        self.link: Final = link
        self._options = options
        self.lasts: Final = lasts
        self._binder: RayBinder | None = None
        #: Set when nothing runs on Ray any more that nobody has asked for.
        self._is_clear = trio.Event()
        #: The node where the command of an ask has started last, by its name.
        self._nodes: OrderedDict[tuple[str, str], str] = OrderedDict()

    # RAY-9
    @property
    def bind_timeout_s(self) -> float:
        """How long a command may take to start, in seconds: the node may still be held so long."""
        return _STARTING_S + self._options.grace_s

    def let_in(self) -> None:
        """Let commands start: what runs on Ray belongs to asks that are bound."""
        self._is_clear.set()

    # RAY-1
    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Run the command of an ask; see :class:`muster.Binder`.

        Raises:
            NotStartedError: If Ray cannot be reached.
        """
        if allocation.work is None or allocation.work.command is None:
            await hold_allocation(started)
            return
        with trio.move_on_after(self._options.patience_s):
            await self._is_clear.wait()
        if not self._is_clear.is_set():
            raise RayLostError(self.link.state().detail or "Ray has not answered yet")
        cluster = await self.link.cluster()
        try:
            await self._with(cluster).run(allocation, self._noting(allocation, started))
        except RunFailedError as error:
            folder = self._options.output
            if folder is not None and f"there is no folder {str(folder)!r}" in str(error):
                msg = f"--ray-output: there is no folder {folder} on the node {allocation.node}"
                raise RunFailedError(msg) from error
            raise

    # RAY-5
    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Find the command of an allocation again; see :class:`muster.ResumingBinder`.

        Raises:
            NotStartedError: If it has ended with the service, or Ray cannot be reached.
        """
        if allocation.work is None or allocation.work.command is None:
            await hold_allocation(started)
            return
        cluster = await self.link.cluster()
        await self._with(cluster).resume(allocation, self._noting(allocation, started))

    def _with(self, cluster: Cluster) -> RayBinder:
        if self._binder is None:
            self._binder = RayBinder(
                cluster,
                self._command,
                done=_judge,
                grace_period=self._options.grace_s,
                detached=self.lasts,
                closing_grace=_CLOSING_GRACE_S,
            )
        return self._binder

    # RAY-2
    def _command(self, allocation: Allocation) -> Command:
        work = allocation.work
        assert work is not None, "there is a command"
        output = self.output_of(allocation.app, allocation.ask)
        return Command(
            work.argv or work.shell or "",
            cwd=work.workdir,
            env=work.env,
            stdout=output,
            stderr=output,
        )

    # RAY-4
    def output_of(self, app: str, ask: str) -> Path | None:
        """Return the file on its node to which the command of an ask writes; None if Ray knows."""
        folder = self._options.output
        return None if folder is None else folder / _file_name(app, ask)

    # RAY-4
    def where(self, app: str, ask: str, failure: StartFailure | None, *, may_start: bool) -> str:
        """Return in words where the output of the command of an ask is, or why there is none.

        Args:
            app: The application.
            ask: The ask.
            failure: Why its command could not be started, if that is what came last.
            may_start: Whether it is there, and has a command.
        """
        node = self._nodes.get((app, ask))
        why = "" if failure is None else f"; {failure.told()}"
        if node is None and failure is not None:
            return f"the command of {app}/{ask} has not started{why}"
        on = "the node where it ran" if node is None else f"the node {node}"
        output = self.output_of(app, ask)
        there = (
            "among Ray's logs of its workers, which Ray's dashboard shows; with --ray-output it "
            "would have a file of its own"
            if output is None
            else f"in {output}"
        )
        if node is None and may_start:
            return (
                f"the command of {app}/{ask} has not started since this service did; what it may "
                f"have written before is on {on}, {there}"
            )
        return f"what the command of {app}/{ask} has written is on {on}, {there}{why}"

    def _noting(self, allocation: Allocation, started: Callable[[], None]) -> Callable[[], None]:
        """Return what says that a command has started, and notes where."""

        def call() -> None:
            name = (allocation.app, allocation.ask)
            self._nodes[name] = allocation.node
            self._nodes.move_to_end(name)
            if len(self._nodes) > _MOST:
                self._nodes.popitem(last=False)
            started()

        return call


# RAY-2
def _judge(_allocation: Allocation, result: Result) -> None:
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
