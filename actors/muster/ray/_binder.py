"""The binder that runs the work of bound asks on a cluster of Ray."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, final, get_args

from muster.ray._orders import Terms, Work
from muster_core.errors import EventError

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation
    from muster.ray._cluster import Cluster
    from muster.ray._runs import Outcome
    from muster.ray._work import Result

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
    whose connection is lost may go on until the end of its grace period, and nobody tells when it
    has ended. So its run comes back after that, and the same ask does not begin again before,
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
    store nobody knows the asks any more, and a scheduler that is closed ends the work; only what
    is left by a program that was killed survives. A new program may take it over: see
    :meth:`Cluster.survivors`, add the asks and bind them to the same nodes (a Pod with
    ``spec.nodeName`` is bound from the start). An ask with the same names and resources, on the
    same node, goes on with the work. In both cases, what nobody adopts in time is ended. The result
    stays there until the store has the end of the ask, so that ``done`` may be called twice if
    this program is killed between the two.

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
        adopt_within: When what an earlier program has left is ended if nobody has adopted it, in
            seconds since the scheduler has come.

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

    async def _end(self, allocation: Allocation, outcome: Outcome) -> None:
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
) -> Terms:
    """Return how the runs of a binder are run.

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
    return Terms(
        grace_s,
        has_gates=True,
        reserves=reserve == "group",
        is_detached=detached,
        closing_s=closing_s,
    )
