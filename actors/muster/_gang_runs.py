"""Runs of gangs that fail before their gang has begun: all of them fail, at the same time.

A scheduler binds the members of a gang in one step. When one of them cannot be started, what runs
the work (Ray's agent, a job of Slurm) starts none of them. But each has a run of its own, and is
released by itself. A member that is released while others still hold their nodes is bound again
alone, since its gang is satisfied, and would run alone. So the runs of a gang that has not begun
wait for one another, and raise in the same moment. Then no member is bound any more, and the gang
has to be complete once more.

A member that was bound after the others, for example because its first node has gone, waits for
them: it begins when they have begun, or fails with them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

import trio

from muster._errors import NotStartedError

if TYPE_CHECKING:
    from muster._surface.allocation import Allocation


_SETTLE_S: Final = 0.1
"""How long nothing may have changed before the runs of a gang fail, in seconds: members that were
released one after the other are bound again meanwhile."""


@final
class Member:
    """A run of a member of a gang.

    Attributes:
        allocation: Its allocation.
    """

    def __init__(self, gang: _Gang, allocation: Allocation) -> None:
        self.allocation: Final = allocation
        self._gang = gang

    def begin(self) -> None:
        """Take note that the work has begun: from now on each member is on its own."""
        self._gang.has_begun = True
        self._gang.change()

    async def admit(self) -> None:
        """Wait until it may be started: at once, unless it was bound without others of its gang.

        Raises:
            NotStartedError: If those have not begun.
        """
        gang = self._gang
        await trio.lowlevel.checkpoint()  # those that were bound in the same batch come, too
        if gang.has_begun or gang.is_whole(self.allocation):
            return
        await gang.fail(self)
        if not gang.has_begun:
            msg = "another member of the gang has not started"
            raise NotStartedError(msg)

    @property
    def waits_for_earlier(self) -> bool:
        """Whether an earlier run of the gang is still ending: a member may have to wait for it."""
        return self._gang.is_ending

    async def fail(self) -> None:
        """Wait until all members fail, unless the gang has begun."""
        await self._gang.fail(self)


@final
class _Gang:
    """The runs of one gang.

    Attributes:
        has_begun: Whether work of it has begun since it was bound as a whole.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.has_begun = False
        self._nursery = nursery
        self._size = 0
        self._runs: set[Member] = set()
        self._failed: set[Member] = set()
        self._release = trio.Event()
        self._version = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing has to be known of it any more."""
        return self.has_begun and not self._runs

    @property
    def is_ending(self) -> bool:
        """Whether there is a run whose allocation has ended."""
        return any(one.allocation.ending is not None for one in self._runs)

    def enter(self, member: Member) -> None:
        """Add a run."""
        if not self._held() and member.allocation.peers >= self._size:
            self.has_begun = False  # a gang is bound as a whole when none of it is bound
        self._size = max(self._size, member.allocation.peers)
        self._runs.add(member)
        self.change()

    def leave(self, member: Member) -> None:
        """Remove a run."""
        self._runs.discard(member)
        self._failed.discard(member)
        self.change()

    def _held(self) -> set[Member]:
        """Return the runs whose allocations have not ended."""
        return {one for one in self._runs if one.allocation.ending is None}

    def is_whole(self, allocation: Allocation) -> bool:
        """Return whether an allocation was bound with all of the gang, and before all others."""
        first = min((one.allocation.step for one in self._held()), default=allocation.step)
        return allocation.step <= first and allocation.peers >= self._size

    async def fail(self, member: Member) -> None:
        """Let a run fail, together with all the others if none has begun."""
        self._failed.add(member)
        self.change()
        while not self.has_begun and member in self._failed:
            await self._release.wait()

    def change(self) -> None:
        """Take note that something has changed."""
        self._version += 1
        if self.has_begun:
            self._let_go()
        elif self._failed and self._failed >= self._held():
            self._nursery.start_soon(self._settle, self._version)

    async def _settle(self, version: int) -> None:
        await trio.sleep(_SETTLE_S)
        if version != self._version:
            return
        peers = {(one.allocation.step, one.allocation.peers) for one in self._failed}
        if len(peers) == 1 and len(self._failed) == min(peers)[1]:
            # No other member was bound: the gang may be smaller the next time.
            self._size = len(self._failed)
        self._let_go()

    def _let_go(self) -> None:
        self._failed.clear()
        self._release.set()
        self._release = trio.Event()


@final
class Gangs:
    """All gangs of which members run.

    Args:
        nursery: A nursery for what goes on beside the runs.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._gangs: dict[str, _Gang] = {}

    @contextmanager
    def member(self, allocation: Allocation) -> Generator[Member | None]:
        """Count a run among those of its gang, from its beginning to its end; None if it has none."""
        if allocation.gang is None:
            yield None
            return
        name = allocation.gang
        gang = self._gangs.setdefault(name, _Gang(self._nursery))
        member = Member(gang, allocation)
        gang.enter(member)
        try:
            yield member
        finally:
            gang.leave(member)
            if gang.is_over and self._gangs.get(name) is gang:
                del self._gangs[name]
