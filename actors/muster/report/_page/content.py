"""The content of a page, with what several of its parts need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final, final

import attrs

from muster.figures.frame import Frame
from muster.figures.text import HOUR, MINUTE, SECOND, instant, whole_date
from muster.replay import Summary
from muster.report._recording.queues import OTHERS, QueueRecord
from muster.report._recording.recorder import Recorder

COLOURS: Final = 7
"""How many queues have a colour of their own; the others share one."""

MOST_RESOURCES: Final = 6
"""The most resource types that are shown."""


@final
class Ending(StrEnum):
    """Why a replay ended."""

    COMPLETE = "complete"
    UNTIL = "until"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"


@final
@attrs.frozen(slots=False)
class Content:
    """The content of a page.

    Attributes:
        recorder: The recorder of the replay, closed.
        summary: The summary of the replay.
        feed: The name of the feed.
        ending: Why the replay ended.
        origin_us: The origin of time, in microseconds since 1970 in UTC: instants are then shown as
            dates; None if it is not known.
    """

    recorder: Recorder
    summary: Summary
    feed: str
    ending: Ending
    origin_us: int | None = None

    @cached_property
    def frame(self) -> Frame:
        """The time that the page shows: from the first ask to the end."""
        timeline = self.recorder.timeline
        begin_us, end_us = timeline.origin_us or 0, self.recorder.end_us
        return Frame(begin_us, end_us, timeline.width_us, origin_us=self.origin_us)

    def instant(self, at_us: int) -> str:
        """Return an instant of the replay as text, to the minute, or to the second if it was short."""
        fine = (self.frame.end_us if self.origin_us is None else self.frame.span_us) < HOUR
        step_us = SECOND if fine else MINUTE
        if self.origin_us is not None:
            return whole_date(self.origin_us + at_us, step_us)
        return instant(at_us // step_us * step_us, step_us)

    @cached_property
    def kinds(self) -> Sequence[str]:
        """The resource types that the page shows, those with the highest utilisation first."""
        there, used = self.recorder.there, self.recorder.used

        def weight(kind: str) -> tuple[float, str]:
            offered = sum(there[kind].areas) if kind in there else 0
            return -(sum(used[kind].areas) / offered if offered and kind in used else 0), kind

        return sorted(used or there, key=weight)[:MOST_RESOURCES]

    @cached_property
    def queues(self) -> Sequence[QueueRecord]:
        """The queues, in tree order."""
        return list(self.recorder.queues)

    @cached_property
    def leaves(self) -> Sequence[QueueRecord]:
        """The queues without children."""
        parents = {record.path.rpartition(".")[0] for record in self.queues}
        return [record for record in self.queues if record.path not in parents]

    @cached_property
    def colours(self) -> Mapping[str, str]:
        """The CSS classes of the busiest leaves, which have colours of their own, by path."""

        def weight(record: QueueRecord) -> float:
            return -sum(self.share(record, kind) for kind in self.kinds)

        named = [record for record in self.leaves if record.path != OTHERS and record.jobs]
        busiest = sorted(named, key=weight)[:COLOURS]
        # In the order of the tree, so that a legend reads like the tree.
        chosen = [record.path for record in named if record in busiest]
        return {path: f"q{number}" for number, path in enumerate(chosen)}

    def share(self, record: QueueRecord, kind: str) -> float:
        """Return the share of the cluster that a queue used over time, of one resource type."""
        there = self.recorder.there.get(kind)
        used = record.used.get(kind)
        area = sum(there.areas) if there is not None else 0
        return sum(used.areas) / area if used is not None and area else 0.0

    def utilisation(self, kind: str) -> float | None:
        """Return the share of the cluster that was used over time, of one resource type."""
        there, used = self.recorder.there.get(kind), self.recorder.used.get(kind)
        area = sum(there.areas) if there is not None else 0
        return (sum(used.areas) if used is not None else 0) / area if area else None
