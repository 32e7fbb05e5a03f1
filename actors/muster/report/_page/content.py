"""The content of a page with what its parts share, and its tables of remarks, lost runs and users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from itertools import accumulate
from typing import Final, final

import attrs

from muster.figures.charts import Frame
from muster.figures.text import (
    HOUR,
    MINUTE,
    NOTHING,
    SECOND,
    cause,
    duration,
    instant,
    percent,
    resource_time,
    safe,
    safe_long,
    whole_date,
)
from muster.figures.usage import hours_text, share_of
from muster.replay import FeedWarning, LostRuns, QueuePart, Remark, Summary, parts_of
from muster.report._queue_records import OTHER_QUEUES, QueueRecord, UserRecord
from muster.report._recorder import Recorder
from muster.report._timeline import Series
from muster_core.decisions import MICROSECONDS

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

        named = [record for record in self.leaves if record.path != OTHER_QUEUES and record.jobs]
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

    # COMMAND-33
    @cached_property
    def siblings(self) -> Mapping[str, Sequence[QueueRecord]]:
        """The queues below each parent with a half-life, by its path."""
        by_path = {record.path: record for record in self.queues}
        found: dict[str, list[QueueRecord]] = {}
        for record in self.queues:
            above = by_path.get(record.path.rpartition(".")[0])
            if above is None or above.config is None or record.config is None:
                continue
            if above.config.settings.half_life_us:
                found.setdefault(above.path, []).append(record)
        return {path: records for path, records in found.items() if len(records) > 1}

    def due_part(self, record: QueueRecord) -> float | None:
        """Return the part that the weight of a queue gives it; None if parts do not count there."""
        beside = self.siblings.get(record.path.rpartition(".")[0], ())
        weights = {one.path: one.config.settings.weight for one in beside if one.config is not None}
        return weights[record.path] / sum(weights.values()) if record.path in weights else None

    def parts_over_time(self, record: QueueRecord) -> Sequence[float | None]:
        """Return the part that a queue had of its siblings in the half-life until each bucket's end."""
        above = record.path.rpartition(".")[0]
        index = [one.path for one in self.siblings[above]].index(record.path)
        return [None if parts is None else parts[index] for parts in self._parts[above]]

    @cached_property
    def _parts(self) -> Mapping[str, Sequence[Sequence[float] | None]]:
        """The parts of all siblings in each bucket, by the path of their parent."""
        by_path = {record.path: record for record in self.queues}
        found: dict[str, Sequence[Sequence[float] | None]] = {}
        for path, records in self.siblings.items():
            config = by_path[path].config
            assert config is not None, "a queue with a half-life has settings"
            length = max(config.settings.half_life_us // self.frame.width_us, 1)
            used = [_summed(record.used, self.frame.buckets) for record in records]
            there = _summed(self.recorder.there, self.frame.buckets)
            found[path] = [
                parts_of([_within(one, end, length) for one in used], _within(there, end, length))
                for end in range(1, self.frame.buckets + 1)
            ]
        return found

    def utilisation(self, kind: str) -> float | None:
        """Return the share of the cluster that was used over time, of one resource type."""
        there, used = self.recorder.there.get(kind), self.recorder.used.get(kind)
        area = sum(there.areas) if there is not None else 0
        return (sum(used.areas) if used is not None else 0) / area if area else None


def _summed(series: Mapping[str, Series], buckets: int) -> Mapping[str, Sequence[int]]:
    """Return the usage until the begin of each bucket, and until the end of the last one."""
    return {
        kind: [0, *accumulate([*one.areas, *[0] * (buckets - len(one.areas))])]
        for kind, one in series.items()
    }


def _within(sums: Mapping[str, Sequence[int]], end: int, length: int) -> Mapping[str, int]:
    """Return the usage in a number of buckets, up to the end of one."""
    return {kind: areas[end] - areas[max(end - length, 0)] for kind, areas in sums.items()}


def place_of(remark: Remark | FeedWarning) -> str:
    """Return the place of an event: its line, or its index if the feed has no lines."""
    if remark.line is None:
        return "" if remark.index is None else f"event {remark.index}"
    return f"line {remark.line}"


def _of_warning(warning: FeedWarning) -> tuple[str, str]:
    """Return the place of a warning, and its message with the path of the field."""
    place = ", ".join(part for part in (warning.file, place_of(warning)) if part)
    return place, ": ".join(part for part in (warning.path, warning.message) if part)


def remarks(content: Content) -> str:
    """Return the first refusals and warnings as HTML; empty if there are none."""
    summary = content.summary
    refused = [(place_of(remark), remark.message) for remark in summary.first_refusals]
    warned = [_of_warning(warning) for warning in summary.first_warnings]
    rows = _rows("refused", "refused events", refused, summary.refused)
    rows += _rows("warning", "warnings", warned, summary.warnings)
    if not rows:
        return ""
    return (
        '<section id="remarks"><h2>Refusals and warnings</h2>'
        f'<ul class="remarks">{rows}</ul></section>'
    )


def _rows(what: str, many: str, first: Sequence[tuple[str, str]], number: int) -> str:
    rows = "".join(
        f'<li><b>{safe_long(place)}</b><em class="{what}">{what}</em>'
        f"<span>{safe_long(message)}</span></li>"
        for place, message in first
    )
    more = number - len(first)
    return rows + (f'<li class="rest">… {number:,} {many} in all</li>' if more else "")


MOST_ROWS: Final = 60
"""The most rows that are shown."""


# COMMAND-22
def losses(content: Content) -> str:
    """Return the table as HTML; empty if nothing was lost."""
    summary = content.summary
    rows = [
        (queue.queue, why, lost) for queue in summary.queues for why, lost in queue.lost.items()
    ]
    if not rows:
        return ""
    rows.sort(key=lambda row: -row[2].run_s)
    kinds = [kind for kind in content.kinds if any(kind in lost.resource_s for *_, lost in rows)]
    heads = ("queue", "cut short", "runs", "lost run time", *kinds)
    titles = "".join(f'<th scope="col">{safe(head)}</th>' for head in heads)
    written = "".join(
        _lost_row(safe(queue), why, lost, kinds) for queue, why, lost in rows[:MOST_ROWS]
    )
    if len(rows) > 1:
        written += "".join(_lost_row("all", why, lost, kinds) for why, lost in summary.lost.items())
    return (
        '<section id="losses"><h2>Lost runs</h2>'
        "<p>Runs that were cut short and have to be run again, and what they held for how long.</p>"
        f"<table><thead><tr>{titles}</tr></thead><tbody>{written}</tbody></table></section>"
    )


def _lost_row(queue: str, why: str, lost: LostRuns, kinds: list[str]) -> str:
    cells = [queue, safe(cause(why)), f"{lost.runs:,}", duration(lost.run_s * MICROSECONDS)]
    for kind in kinds:
        held = lost.resource_s.get(kind)
        cells.append(NOTHING if held is None else resource_time(kind, held))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


# COMMAND-33
def fair_share(content: Content) -> str:
    """Return the table of parts had and due as HTML; empty if no parent has a half-life."""
    parts = content.summary.parts
    if not parts:
        return ""
    heads = ("queue", "weight", "due", "had", "furthest in a half-life", "time pending", "had then")
    titles = "".join(f'<th scope="col">{head}</th>' for head in heads)
    written = "".join(_part_row(content, part) for part in parts[:MOST_ROWS])
    return (
        '<section id="parts"><h2>Fair share over time</h2>'
        "<p>The part of what each queue and its siblings had together that was its due by its weight, "
        "the part that it had over the whole time, and the part furthest from its due that it had in "
        "one half-life; then in how much of the time it had pending asks, and the part that it had in "
        f"that time.</p><table><thead><tr>{titles}</tr></thead><tbody>{written}</tbody></table>"
        "</section>"
    )


def _part_row(content: Content, part: QueuePart) -> str:
    furthest = NOTHING
    if part.furthest_us is not None:
        furthest = f"{percent(part.furthest_had)} until {safe(content.instant(part.furthest_us))}"
    wanting = (percent(part.wanted), percent(part.had_wanting))
    weight = f"{part.weight:,}"
    cells = (safe(part.queue), weight, percent(part.due), percent(part.had), furthest, *wanting)
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


_HEADS: Final = ("user", "asks bound", "pending", "mean wait", "longest wait", "used", "share")


# LISTS-24
def users(content: Content) -> str:
    """Return the table as HTML; empty if no user is known who had asks."""
    recorder = content.recorder
    pending = recorder.pending_by_user()
    names = {*recorder.users.records, *pending}
    if not names - {""}:
        return ""
    rows = [(name, recorder.users.records.get(name, UserRecord())) for name in names]
    shares = {name: _share(content, record) for name, record in rows}
    rows.sort(key=lambda row: (-shares[row[0]], row[0]))
    titles = "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    written = "".join(
        _user_row(content, name, record, pending.get(name, 0), shares[name])
        for name, record in rows[:MOST_ROWS]
    )
    cut = f" The {MOST_ROWS} with the largest share." if len(rows) > MOST_ROWS else ""
    return (
        '<section id="users"><h2>Users</h2>'
        "<p>What asks held times how long, and the largest part of what there was of a resource "
        f"that this is.{cut}</p>"
        f"<table><thead><tr>{titles}</tr></thead><tbody>{written}</tbody></table></section>"
    )


def _share(content: Content, record: UserRecord) -> float:
    recorder = content.recorder
    areas = record.account.used(recorder.end_us).areas
    # The capacity over time is an area, too: as if it had lasted for one unit of time.
    there = {kind: round(sum(series.areas)) for kind, series in recorder.there.items()}
    return share_of(areas, there, 1)


def _user_row(content: Content, name: str, record: UserRecord, pending: int, share: float) -> str:
    mean_us = record.mean_us
    cells = (
        safe(name or "(none)"),
        f"{record.asks:,}",
        f"{pending:,}",
        NOTHING if mean_us is None else duration(mean_us),
        NOTHING if mean_us is None else duration(record.longest_us),
        safe(hours_text(record.account.used(content.recorder.end_us).areas, MICROSECONDS)),
        percent(share),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
