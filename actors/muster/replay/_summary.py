"""The summary of a replay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import attrs

from muster.replay._costs import Fairness, LostRuns
from muster.replay._reading.warning import FeedWarning
from muster.replay._reserving import Reserved
from muster.replay._waits import WaitSummary
from muster_core.decisions import Decision


@final
@attrs.frozen
class Remark:
    """A message about an event: why it was refused.

    Attributes:
        index: Its index in the feed, from 0.
        line: Its line in the feed, from 1, or None if the encoding has no lines.
        message: The message.
    """

    index: int
    line: int | None
    message: str

    @classmethod
    def of(cls, decision: Decision) -> Remark:
        """Make a remark from a decision with a message, which has an index if it is of a feed."""
        return cls(decision.index or 0, decision.line, decision.message or "")


MOST_REMARKS: Final = 10
"""The most refusals, and the most warnings, that a summary names."""


@final
@attrs.frozen
class QueueSummary:
    """The applications of a leaf, and the waits of its asks.

    Attributes:
        queue: Its full path.
        jobs: How many applications were submitted to it.
        asks_bound: How many of its asks were bound at least once.
        asks_unbound: How many of its asks ended without having been bound.
        wait: How long these asks waited.
        asks_reclaimed: How often an ask of it was evicted by reclaim.
        asks_preempted: How often an ask of it was evicted by preemption.
        lost: The runs that were cut short and have to be run again, by the reason of the release.
    """

    queue: str
    jobs: int
    asks_bound: int
    asks_unbound: int
    wait: WaitSummary
    asks_reclaimed: int = 0
    asks_preempted: int = 0
    lost: Mapping[str, LostRuns] = attrs.field(factory=dict[str, LostRuns])


@final
@attrs.frozen
class Summary:
    """The figures of a replay.

    Attributes:
        events: How many events were read, refused events and ``expect`` included.
        refused: How many events were refused.
        first_refusals: The first refusals, at most :data:`MOST_REMARKS`.
        warnings: How many warnings there were, about what the feed says and what came of it.
        first_warnings: The first warnings, at most :data:`MOST_REMARKS`.
        asks_bound: How many asks were bound at least once.
        asks_unbound: How many asks ended without having been bound.
        asks_running: How many asks are bound at the end.
        asks_waiting: How many members of gangs wait at the end.
        asks_pending: How many asks are pending or parked at the end.
        asks_reclaimed: How often an ask was evicted by reclaim.
        asks_preempted: How often an ask was evicted by preemption.
        gangs_satisfied: How often a gang was satisfied.
        gangs_timed_out: How often a gang timed out.
        decisions: How many decisions were announced.
        virtual_s: How much virtual time passed, in seconds.
        real_s: How long the replay took, in seconds.
        wait: How long the asks of all queues waited that were bound, or ended without.
        queues: The figures of each queue that had an application, by path.
        utilisation: For each resource type of the nodes, the share of the capacity that was
            used: the integral of the usage over time divided by that of the capacity. 1 is
            everything; None means that the capacity was 0 all the time.
        lost: The runs of all queues that were cut short and have to be run again, by the reason of
            the release.
        fairness: How even the shares of queues and of users were.
        reserved: How many asks had a reservation, and what became of them.
    """

    events: int
    refused: int
    first_refusals: tuple[Remark, ...]
    warnings: int
    first_warnings: tuple[FeedWarning, ...]
    asks_bound: int
    asks_unbound: int
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
    lost: Mapping[str, LostRuns]
    fairness: Fairness
    reserved: Reserved

    @property
    def decisions_per_s(self) -> float:
        """The decisions per second of real time."""
        return self.decisions / self.real_s if self.real_s > 0 else 0.0
