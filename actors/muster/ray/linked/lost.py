"""Work that was lost from sight and may still be ending: its ask must not begin again before.

When the agent is lost, Ray kills the workers of its job, within a fraction of a second. A callable
dies with its worker. A command does not: its keeper gives it the grace period, and nobody is told
when it has ended. But the keeper knows the grace period, so it is known until when at the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Final, final

import trio

from muster.ray._messages import NEVER_S

if TYPE_CHECKING:
    from muster.ray._messages import Run as RunMessage
    from muster.ray.linked.link import Link
    from muster.ray.linked.process import Agent, Run

_KEEPER_S: Final = 1.5
"""What may pass beside the grace period until a command has ended whose agent has ended, in seconds:
Ray ends its worker, its keeper notices that, and in the end kills it."""

_EARLIER_S: Final = 2.0
"""The same for work of a program that has ended, in seconds: its agent ends it first."""


def over_with(agent: Agent, run: Run, message: RunMessage) -> Callable[[], float] | None:
    """Say until when the work of a run may last that was lost with its agent.

    Args:
        agent: The agent.
        run: The run.
        message: What began it.

    Returns:
        A function that returns the time, of trio's clock, as far as it is known; None if there is
        nothing to wait for.
    """
    if agent.lost is None or not run.is_sent or run.end is not None:
        return None
    grace_s = message["grace_s"]
    if message["work"]["kind"] != "command" or grace_s >= NEVER_S:
        return None
    return lambda: agent.ended_at + grace_s + _KEEPER_S


def over_with_program(grace_s: float) -> Callable[[], float] | None:
    """Say until when work may last whose program ended before this one; see :func:`over_with`.

    Args:
        grace_s: How long it may take to end, in seconds.
    """
    if grace_s >= NEVER_S:
        return None
    over_at = trio.current_time() + grace_s + _EARLIER_S
    return lambda: over_at


@final
class Ending:
    """Work that is ending out of sight.

    Args:
        link: Tells when something has changed.
        over_at: Returns when it has ended at the latest.
        is_followed: Returns whether a scheduler is told of the nodes.
        closing_s: How long a scheduler that is being closed waits for it at most, in seconds.
    """

    def __init__(
        self,
        link: Link,
        over_at: Callable[[], float],
        is_followed: Callable[[], bool],
        closing_s: float,
    ) -> None:
        self._link = link
        self._over_at = over_at
        self._is_followed = is_followed
        self._was_followed = False
        self._closing_s = closing_s
        self._limit = inf

    def close(self) -> None:
        """Wait no longer than a scheduler may that is being closed."""
        self._limit = min(self._limit, trio.current_time() + self._closing_s)

    async def over(self) -> None:
        """Wait until it has ended."""
        while True:
            # An allocation that is over does not tell that its scheduler is being closed.
            before, self._was_followed = self._was_followed, self._is_followed()
            if before and not self._was_followed:
                self.close()
            until = min(self._over_at(), self._limit)
            if trio.current_time() >= until:
                return
            with trio.CancelScope(deadline=until):
                await self._link.changed()
