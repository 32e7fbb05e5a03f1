"""The summary of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import attrs

from muster.replay._waits import WaitSummary
from muster_core.decisions import Decision


@final
@attrs.frozen
class Remark:
    """What there was to say of an event: why it was refused, or a warning.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line in the feed, from 1, or None where there are none.
        message: What is said.
    """

    index: int
    line: int | None
    message: str

    @classmethod
    def of(cls, decision: Decision) -> Remark:
        """Make one of a decision that has a message and, of a feed, an index."""
        return cls(decision.index or 0, decision.line, decision.message or "")


MOST_REMARKS: Final = 10
"""How many refusals, and how many warnings, a summary names."""


@final
@attrs.frozen
class QueueSummary:
    """What became of a leaf's applications and asks.

    Attributes:
        queue: Its full path.
        jobs: How many applications were submitted to it.
        wait: How long the asks that were bound in it waited.
    """

    queue: str
    jobs: int
    wait: WaitSummary


@final
@attrs.frozen
class Summary:
    """What a replay did.

    Attributes:
        events: Events read, the refused ones and the ``expect`` events included.
        refused: Events refused.
        first_refusals: The first of them, at most :data:`MOST_REMARKS`.
        warnings: Warnings, mostly of configurations.
        first_warnings: The first of them, as many.
        asks_bound: Asks that were bound at least once.
        asks_running: Asks that are bound at the end.
        asks_waiting: Members of gangs that hold a node at the end, but are not bound.
        asks_pending: Asks that are pending or parked at the end.
        asks_reclaimed: How often an ask was taken for a queue that is guaranteed more.
        asks_preempted: How often an ask was taken for one of higher priority.
        gangs_satisfied: How often a gang was satisfied.
        gangs_timed_out: How often a gang timed out.
        decisions: Decisions announced.
        virtual_s: How much time passed in the replay, in seconds.
        real_s: How long it took, in seconds.
        wait: How long all asks that were bound waited.
        queues: The same for each queue that had an application, by path.
        utilisation: For each resource type of the nodes, how much of what they offered over
            time was used: the integral of what was used over that of what was there; 1 is
            everything, None says that there was none for any length of time.
    """

    events: int
    refused: int
    first_refusals: tuple[Remark, ...]
    warnings: int
    first_warnings: tuple[Remark, ...]
    asks_bound: int
    asks_running: int
    asks_waiting: int
    asks_pending: int
    asks_reclaimed: int
    asks_preempted: int
    gangs_satisfied: int
    gangs_timed_out: int
    decisions: int
    virtual_s: float
    real_s: float
    wait: WaitSummary
    queues: tuple[QueueSummary, ...]
    utilisation: Mapping[str, float | None]

    @property
    def decisions_per_s(self) -> float:
        """Decisions for each second that it took."""
        return self.decisions / self.real_s if self.real_s > 0 else 0.0
