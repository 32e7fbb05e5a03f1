"""A connection to a cluster of Ray, and the binder that runs the work of bound asks there."""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Never, cast, final, get_args

import attrs
import trio

from muster._surface.context import opens_in
from muster.ray._link import Link, RayTarget
from muster.ray._nodes import (
    DEFAULT_RESOURCES,
    Amounts,
    NodeDescriptions,
    NodeScheduler,
    RayNodeFollower,
)
from muster.ray._runs import RunOutcome, Runs, declared_in
from muster.ray._work import RayLostError, Result, RunTerms, Work, WorkError, name_of
from muster_core.errors import EventError
from muster_core.resources import Resources

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation


EVERY_NODE: Final[Mapping[str, str]] = MappingProxyType({})
"""Selects all nodes."""

_GRACE_S: Final = 10.0
"""How long the work of a run without a binder may take to end, in seconds."""

_SETTLE_S: Final = 5.0
"""How long such a run waits for its allocation to end when the agent was lost, in seconds."""


@final
@attrs.frozen
class Survivor:
    """A detached run of an earlier program.

    Attributes:
        app: The name of the application.
        ask: The name of the ask.
        number: The number of the allocation.
        node: The name of its node; None if the node has gone, or is not selected.
        resources: The resources that it holds; none if it does not answer.
        state: Whether it waits for the other members of its gang, runs, or has ended; one that
            has ended keeps its result. One that is ``silent`` does not answer now, since its node
            is busy, for example: ask again.
    """

    app: str
    ask: str
    number: int
    node: str | None
    resources: Resources
    state: Literal["placed", "running", "ended", "silent"]


@final
class Cluster:
    """A cluster of Ray; :func:`connect` creates it. It serves one scheduler.

    Two schedulers would give away the same nodes, and meet in the names of runs and gangs: connect
    once for each, with a ``namespace`` of its own, and nodes of its own (``select``).

    If the connection is lost, all runs raise :class:`RayLostError`, the followed nodes are
    removed, and the connection is made again: after 1 s, 2 s, 4 s and so on, at most 30 s. Then
    the nodes come again.
    """

    def __init__(self, runs: Runs, warm: int) -> None:
        # Binders use it; a program has no need for it.
        self.runs = runs
        self._warm = warm
        self._is_followed = False

    @property
    def is_connected(self) -> bool:
        """Whether it is connected to Ray now."""
        return self.runs.link.is_connected

    @property
    def restarts(self) -> int:
        """How often the agent was started again, since it or the connection was lost."""
        return self.runs.link.restarts

    @property
    def trouble(self) -> str | None:
        """Why it is not connected, if that is known; None while it is."""
        return self.runs.link.trouble

    async def follow(
        self,
        scheduler: NodeScheduler,
        *,
        every: float = 0.5,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> Never:
        """Make the nodes of Ray nodes of a scheduler, as long as this task runs.

        A node that is alive and has something to schedule is added, with the labels of Ray and
        ``ray.io/node-id`` as its attributes. One that has gone is removed: what ran there is
        pending again. One that has come again with another id is removed and added. One that
        drains takes no more asks. Only changes are submitted, and nodes that do not have the
        attribute ``ray.io/node-id`` are left alone. A node that the scheduler refuses is logged.

        If the scheduler has nodes of Ray from its store, those that are still there stay, with
        their asks, and the others are removed.

        Start it in a nursery inside the block of the scheduler: ``await
        nursery.start(cluster.follow, scheduler)`` returns when the first nodes are there.

        Args:
            scheduler: The scheduler.
            every: How often to look at the nodes, in seconds.
            task_status: Started when the first nodes are there.

        Raises:
            EventError: If ``every`` is not a number above 0, or another task follows the nodes.
            ClosedSchedulerError: If the scheduler is closed.
        """
        if not (math.isfinite(every) and every > 0):
            msg = f"every: {every!r} seconds: must be a number above 0"
            raise EventError(msg)
        if self._is_followed:
            msg = (
                "scheduler: this connection is followed already, and serves one scheduler: connect "
                "once for each, with nodes of its own"
            )
            raise EventError(msg)
        self._is_followed = True
        try:
            await self._follow(scheduler, every, task_status)
        finally:
            self._is_followed = False

    async def _follow(
        self, scheduler: NodeScheduler, every_s: float, task_status: trio.TaskStatus[None]
    ) -> Never:
        link = self.runs.link
        await link.look(every_s)
        follower = RayNodeFollower(scheduler, self.runs.naming)
        seen = None
        try:
            while True:
                if link.node_list is seen or link.node_list.nodes is None:
                    await link.changed()
                    continue
                is_first, seen = seen is None, link.node_list
                assert seen.nodes is not None, "there is a list"
                if is_first:
                    await follower.find(seen.nodes)
                added = await follower.follow(seen.nodes)
                self.runs.note_version(follower, seen.version)
                if is_first:
                    self.runs.begun.set()
                    task_status.started()
                await self._warm_up(added)
        finally:
            self.runs.note_version(follower, None)

    async def run(
        self,
        allocation: Allocation,
        work: Work,
        *,
        started: Callable[[], None] | None = None,
    ) -> Result:
        """Run something on the node of an allocation, without a binder.

        Call it in the block of :meth:`muster.Allocation.running`. If it is cancelled, the work is
        ended, with ten seconds of grace, and it returns when nothing of the work is left.
        Members of a gang do not wait for one another here.

        Args:
            allocation: The allocation.
            work: The work.
            started: Called when the work has begun.

        Raises:
            EventError: If Ray cannot count an amount of the allocation.
            ImportError: If the callable cannot be sent, because cloudpickle is missing.
            RayLostError: If the connection was lost.
            RunFailedError: If Ray has not started the work, or its worker or node has gone.
            WorkError: If a callable has raised.
        """
        try:
            terms = RunTerms(_GRACE_S)
            outcome = await self.runs.run(allocation, work, terms, started or (lambda: None))
        except RayLostError:
            # The nodes are being removed. If the scheduler knows that first, the block of the
            # allocation ends because the node was lost, and the ask is pending again.
            await trio.sleep(_SETTLE_S)
            raise
        if isinstance(outcome.result, WorkError):
            raise outcome.result
        return outcome.result

    async def survivors(self) -> tuple[Survivor, ...]:
        """Return the detached runs of earlier programs that were not adopted yet.

        Raises:
            RayLostError: If the connection was lost.
        """
        runs = self.runs
        return tuple(
            Survivor(
                app,
                ask,
                number,
                runs.name_of_node(one["node"]),
                runs.naming.amounts.resources(declared_in(one)),
                one["state"],
            )
            for (app, ask, number), one in await runs.survivors()
        )

    async def end(self, survivor: Survivor, grace_period: float = _GRACE_S) -> None:
        """End a detached run of an earlier program; this waits until it has ended.

        Args:
            survivor: The run.
            grace_period: How long it may take to end, in seconds; then it is killed.

        Raises:
            RayLostError: If the connection was lost, or the run has not ended in time.
        """
        name = name_of(survivor.app, survivor.ask, survivor.number)
        await self.runs.end(name, grace_period)

    async def _warm_up(self, nodes: Sequence[str]) -> None:
        """Let Ray start workers on nodes that were added."""
        if self._warm:
            with suppress(RayLostError):
                for node in nodes:
                    agent = await self.runs.link.agent()
                    await agent.send({"do": "warm", "node": node, "count": self._warm})


@opens_in("trio", "muster.ray.connect", elsewhere="muster.asyncio.ray.connect")
async def connect(
    address: str = "auto",
    *,
    namespace: str = "muster",
    python: str = sys.executable,
    node_name: str | None = None,
    select: Mapping[str, str] = EVERY_NODE,
    resources: Mapping[str, str] = DEFAULT_RESOURCES,
    warm: int = 0,
    log_to_driver: bool = True,
) -> AsyncGenerator[Cluster, None]:
    """Be connected to a cluster of Ray for the time of an ``async with`` block.

    The connection belongs to an *agent*, a process of its own, which ends with the block. Open the
    block outside of that of the scheduler, which can then still end its work.

    Muster knows only of its own work. What others run on the same nodes makes runs wait in Ray,
    until their bind times out: give Muster nodes of its own, with a label that ``select`` names.

    Args:
        address: The address of Ray, as for ``ray.init``.
        namespace: The namespace of Ray in which detached runs are.
        python: The Python interpreter of the agent, which has the extra ``ray``. It must be of the
            version that the workers have.
        node_name: The label that has the names of the nodes; a node without it, or any if this is
            None, is called by its id.
        select: Only nodes with these labels are nodes of Muster.
        resources: The names in Muster of the resources of Ray; all others keep their names.
        warm: How many workers Ray starts on each node when it is added: the first runs there need
            not wait for them.
        log_to_driver: Whether what work prints is logged here as well (``muster.ray``, at the level
            INFO), and not only among Ray's logs on its node.

    Yields:
        The cluster.

    Raises:
        EventError: If an argument is invalid.
        ImportError: If ``python`` has no Ray.
        RayUnreachableError: If there is no Ray at the address, or the agent cannot be started.
            A connection that is lost later is made again.
    """
    if type(warm) is not int or warm < 0:
        msg = f"warm: {warm!r}: must be a whole number, 0 or more"
        raise EventError(msg)
    _check_texts(address=address, namespace=namespace, node_name=node_name)
    _check_labels(select)
    naming = NodeDescriptions(node_name, dict(select), Amounts(resources))
    link = Link(RayTarget(address, namespace, python, log_to_driver))
    leaving: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(link.run)
                yield Cluster(Runs(link, naming, nursery), warm)
            except BaseException as error:  # noqa: BLE001 - it is raised again below
                leaving = error
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        leaving = _foremost(group, leaving)
    if leaving is not None:
        context = leaving.__context__
        try:
            raise leaving
        finally:
            leaving.__context__ = context  # the group that contained it did not cause it
            del leaving


def _check_texts(**parameters: object) -> None:
    """Check parameters that must be texts; only ``node_name`` may be None.

    Raises:
        EventError: If one is not.
    """
    for name, value in parameters.items():
        is_left_out = value is None and name == "node_name"
        if not is_left_out and (not isinstance(value, str) or not value):
            msg = f"{name}: {value!r:.100}: must be a text that is not empty"
            raise EventError(msg)


def _check_labels(select: object) -> None:
    """Check the labels that nodes must have.

    Raises:
        EventError: If they are no map of labels and their values.
    """
    right = "must be a map of labels and their values, such as {'muster': 'yes'}"
    if not isinstance(select, Mapping):
        msg = f"select: {select!r:.100}: {right}"
        raise EventError(msg)
    for label, value in cast("Mapping[object, object]", select).items():
        if not isinstance(label, str) or not isinstance(value, str):
            msg = f"select: {label!r:.100}: {value!r:.100}: {right}"
            raise EventError(msg)


def _foremost(
    group: BaseExceptionGroup[BaseException], leaving: BaseException | None
) -> BaseException:
    """Return the error to raise when tasks have failed and ``leaving`` has ended the body."""
    failures = [error for error in group.exceptions if not isinstance(error, trio.Cancelled)]
    if not failures:
        return group if leaving is None else leaving
    return failures[0] if len(failures) == 1 else group.derive(failures)


Reserve = Literal["none", "group"]
"""Whether Ray reserves the room of a gang, too."""


@final
class RayBinder:
    """A binder that runs the work of each bound ask on its node; pass it to ``open_scheduler``.

    The work is a :class:`Call`, a :class:`Command` or a text for the shell. It is tried once: the
    scheduler decides whether it is tried again. The environment has the variables that
    :class:`muster.subprocesses.SubprocessBinder` sets, and not those of this program.

    When the work has ended by itself, the allocation is released as completed, whatever the exit
    status is; ``done`` may judge it. If a callable raises, the work has failed
    (:class:`WorkError`), and the ask is pending again if it has a retry left. If Ray cannot start
    the work, or loses the worker, the bind has failed (:class:`RunFailedError`). If the connection to Ray is lost (:class:`RayLostError`), or another
    member of the gang could not be started, this does not count for ``bind_attempts``. A command
    whose connection is lost may go on until the end of its grace period, and its end is not
    reported. So its run comes back after that, and the same ask does not begin again before,
    except with an endless grace period. If a node dies, its run waits up to 20 s for
    :meth:`Cluster.follow` to remove it, so that the allocation ends as ``node_lost``.

    If the allocation ends before the work, a command and the processes that it has started get
    SIGTERM, a callable is interrupted by KeyboardInterrupt. What still runs after the grace period
    is killed. Meanwhile the node may be given to others, whose work waits in Ray until it is
    really free: so the grace period has to be shorter than the bind timeout.

    The members of a gang that are bound in one step begin together, when all of them have their
    places in Ray, or not at all.

    Detached work outlives this program. With a store, the next program goes on with the work of
    asks that are bound, or takes its result; a scheduler that is closed leaves it alone. Without a
    store the asks are forgotten, and a scheduler that is closed ends the work; only the work of a
    program that was killed survives. A new program may take it over: see :meth:`Cluster.survivors`,
    add the asks and bind them to the same nodes (a Pod with ``spec.nodeName`` is bound from the
    start). An ask with the same names and resources, on the same node, goes on with the work. In
    both cases, work that is not adopted in time is ended. The result stays there until the store
    has the end of the ask, so that ``done`` may be called twice if this program is killed between
    the two.

    Args:
        cluster: The cluster.
        work: Returns the work of an ask; called each time that an ask is bound. If it raises, the
            bind has failed.
        done: Called when work has ended by itself, before the allocation is released. If it raises
            :class:`muster.WorkFailedError`, the work has failed: the ask is pending again if it
            has a retry left. If it raises another exception, the bind has failed.
        grace_period: How long work may take to end, in seconds; with infinity it is never killed.
        closing_grace: The same when the scheduler is closed, if that is to be shorter.
        reserve: ``group``: Ray reserves the room of the members of a gang that begin together, in
            one placement group, also against others on the cluster.
        detached: Whether work outlives this program. It takes about a second to begin, so this is
            for long work.
        adopt_within: When work of an earlier program is ended that was not adopted, in seconds
            since the scheduler has come.

    Raises:
        EventError: If an argument is invalid.
    """

    def __init__(
        self,
        cluster: Cluster,
        work: Callable[[Allocation], Work],
        *,
        done: Callable[[Allocation, Result], None] | None = None,
        grace_period: float = 10.0,
        reserve: Reserve = "none",
        detached: bool = False,
        adopt_within: float = 60.0,
        closing_grace: float | None = None,
    ) -> None:
        self._terms = terms_of(
            grace_period, reserve, adopt_within, closing_grace, detached=detached
        )
        self._runs = cluster.runs
        self._work = work
        self._done = done
        if detached:
            self._runs.end_forgotten_later(adopt_within, self._terms.sent_grace_s)

    async def run(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Run the work of an ask. The scheduler calls this.

        Args:
            allocation: The allocation of the ask.
            started: Called when the work has begun.

        Raises:
            EventError: If Ray cannot count an amount that the ask holds.
            NotStartedError: If another member of the gang could not be started.
            RayLostError: If the connection was lost.
            RunFailedError: If Ray has not started the work, or its worker or node has gone.
            WorkError: If a callable has raised.
        """
        try:
            work = self._work(allocation)
        except Exception as error:
            await self._runs.miss(allocation, self._terms, error)
            raise
        await self._end(allocation, await self._runs.run(allocation, work, self._terms, started))

    async def resume(self, allocation: Allocation, started: Callable[[], None], /) -> None:
        """Go on with the work of an ask that an earlier program has started.

        Args:
            allocation: The allocation of the ask.
            started: Called when the work was found.

        Raises:
            NotStartedError: If there is no such work: it was not detached, or is gone.
            RayLostError: See :meth:`run`.
            RunFailedError: See :meth:`run`.
            WorkError: See :meth:`run`.
        """
        await self._end(allocation, await self._runs.resume(allocation, self._terms, started))

    async def _end(self, allocation: Allocation, outcome: RunOutcome) -> None:
        async def done(result: Result) -> None:
            if self._done is not None:
                self._done(allocation, result)

        release = allocation.release if allocation.kept else None
        detached = self._terms.is_detached
        await self._runs.conclude(outcome, done, release, is_detached=detached)


def terms_of(
    grace_s: float,
    reserve: str,
    adopt_within_s: float,
    closing_s: float | None,
    *,
    detached: bool,
) -> RunTerms:
    """Return the terms of the runs of a binder.

    Raises:
        EventError: If an argument is invalid.
    """
    for name, seconds in (
        ("grace_period", grace_s),
        ("adopt_within", adopt_within_s),
        ("closing_grace", closing_s),
    ):
        if seconds is not None and (math.isnan(seconds) or seconds < 0):
            msg = f"{name}: {seconds!r} is not a number of seconds from 0"
            raise EventError(msg)
    if reserve not in get_args(Reserve):
        msg = f"reserve: {reserve!r}: must be one of {', '.join(get_args(Reserve))}"
        raise EventError(msg)
    return RunTerms(
        grace_s,
        has_gates=True,
        reserves=reserve == "group",
        is_detached=detached,
        closing_s=closing_s,
    )
