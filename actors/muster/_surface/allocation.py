"""What an allocation is for a program, in trio and in asyncio alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final, Literal

from typing_extensions import override

from muster_core.errors import EventError
from muster_core.events import Exit, Outcome, Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from muster_core.decisions import Reason
    from muster_core.resources import Resources


class Allocation(ABC):
    """The handle of an allocation: the resources that a bound ask holds on a node.

    Code that is annotated with this class works in trio and in asyncio. The two differ in what
    :meth:`running` yields: see :class:`muster.TrioAllocation` and
    :class:`muster.asyncio.AsyncioAllocation`.

    Attributes:
        app: The name of the application.
        ask: The name of the ask.
        node: The name of the node.
        queue: The path of the application's queue.
        resources: The resources that the ask holds, in base units.
        devices: The numbers of the devices that the ask holds on the node, by type, such as
            ``{"gpu": (0, 1)}``; the type counts among the resources as ``device/gpu``.
        gang: The full name of the gang of the ask, or None.
        number: The place of the bind in the order of all binds. No two allocations of a scheduler
            have the same one, also after a restart with a store.
        peers: How many members of its gang were bound in the same step, this one included: those
            that are to start together. 1 for an ask without a gang, and for a member that came
            after its gang was satisfied. Where the bind is older than this program, or than its
            first use of the ask, it is the number of members that are bound now.
        step: The lowest ``number`` among these members, by which they know each other; 0 if the
            bind is older, as above, and the ask has a gang.
        work: What the ask said is to run for it (``command``, ``env``, ``workdir``), or None.
        kept: Whether the scheduler has a store, so that a binder with ``resume`` may leave the
            work alone when the scheduler is closed, and go on with it after a restart.
    """

    def __init__(
        self,
        *,
        app: str,
        ask: str,
        node: str,
        queue: str,
        resources: Resources,
        gang: str | None,
        number: int,
        peers: int,
        step: int,
        work: Work | None,
        kept: bool,
        devices: Mapping[str, tuple[int, ...]],
    ) -> None:
        self.app: Final = app
        self.ask: Final = ask
        self.node: Final = node
        self.queue: Final = queue
        self.resources: Final = resources
        self.gang: Final = gang
        self.number: Final = number
        self.peers: Final = peers
        self.step: Final = step
        self.work: Final = work
        self.kept: Final = kept
        self.devices: Final = devices

    @property
    @abstractmethod
    def ending(self) -> Reason | Literal["closing"] | None:
        """Why the allocation ends: the reason, or ``"closing"`` when the scheduler is closed.

        None while it lasts. It is set before the task of a binder is cancelled. If the work did
        not start in time, it is ``bind_failed``, shortly before the allocation ends with this
        reason.
        """

    @abstractmethod
    async def release(
        self,
        outcome: Outcome | str = Outcome.COMPLETED,
        message: str | None = None,
        exited: Exit | None = None,
    ) -> bool:
        """Release the allocation: the work has completed or failed, or nobody wants it any more.

        An ask that failed is pending again if it has a retry left, else it is gone.

        A body of :meth:`running` of this handle continues. To stop it, cancel it, or release the
        ask by name.

        Args:
            outcome: ``completed``, ``failed`` or ``cancelled``.
            message: What the decision log says about the end, or None.
            exited: How its process has ended, and what it has used, or None.

        Returns:
            Whether the allocation lasted until this call. If not, nothing is done, also not to
            a later allocation of the ask.

        Raises:
            EventError: If there is no such outcome.
            ClosedSchedulerError: If the scheduler is closed.
        """

    @abstractmethod
    async def ended(self) -> Reason:
        """Wait until the allocation has ended.

        Returns:
            The reason. After ``completed``, ``cancelled`` and ``removed`` the ask is gone, after ``failed`` it is
            gone if it had no retry left; after all other reasons it is pending again.

        Raises:
            ClosedSchedulerError: If the scheduler is closed.
        """

    @abstractmethod
    def running(self) -> AbstractAsyncContextManager[object]:
        """Run the body of an ``async with`` block while the allocation lasts.

        If the allocation ends from outside, the body is cancelled. When the body ends, raises or
        is cancelled otherwise, the allocation is released, as completed. If the allocation was
        lost before that, the block raises even if the body has ended normally: the ask is pending
        again.

        Raises:
            AllocationLostError: If the allocation was lost. The ask is pending again, and
                ``bound`` returns its next allocation. The subclass :class:`PreemptedError` says
                that other asks needed the node.
            AllocationEndedError: If the body was cancelled because the ask is gone: it has
                completed, failed for the last time, or was removed.
            ClosedSchedulerError: If the body was cancelled because the scheduler was closed.
        """

    @override
    def __repr__(self) -> str:
        return f"<Allocation {self.app}/{self.ask} on {self.node}>"


def outcome_of(outcome: Outcome | str) -> Outcome:
    """Return the outcome that an argument names.

    Raises:
        EventError: If there is no such outcome.
    """
    try:
        return Outcome(outcome)
    except ValueError:
        msg = f"outcome: {outcome!r}: there are {', '.join(Outcome)}"
        raise EventError(msg) from None
