"""Runs feeds with their ``expect`` events against the naive model::

    python -m tests.naive.check FEED...

It prints each difference with the line of the feed. The messages of refusals are the
model's own, so of ``rejected`` only the number is compared, and ``reasons`` not at all.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import attrs
import click

from muster.feeds import Expect, ExpectedGang, FeedItem, Refused, Settle, read_feed
from muster.replay._check import DecisionRecord, Mismatch, compare
from muster_core.decisions import Announced, Reason
from muster_core.snapshots import Snapshot
from muster_core.values.names import canonical_gang
from tests.naive.harness import SETTLE, Batch, Drive, Step, What
from tests.naive.scheduler import NaiveScheduler, snapshot_of


class Check:
    """A check of one feed."""

    def __init__(self) -> None:
        self._record = DecisionRecord()
        self._evicted: list[tuple[Reason | None, str]] = []
        self._drive = Drive(NaiveScheduler(), self._write)

    def run(self, items: Iterator[FeedItem]) -> Iterator[tuple[FeedItem | None, Mismatch]]:
        """Play a feed; return the differences, each with its place."""
        for item in items:
            self._drive.step(item.index, Step(item.at_us, _what(item)))
            if isinstance(item.content, Expect):
                for found in self._compare(item.content):
                    yield item, found
        self._drive.finish()
        for refusal in self._record.refusals:
            yield None, Mismatch("rejected", "nothing", refusal.message)

    def _compare(self, expect: Expect) -> Iterator[Mismatch]:
        record = self._record.start_anew()
        refusals = [refusal.message for refusal in record.refusals]
        if len(refusals) != len(expect.rejected or ()):
            yield Mismatch("rejected", list(expect.rejected or ()), refusals)
        snapshot = snapshot_of(self._drive.model)
        yield from self._compare_evictions(expect)
        others = attrs.evolve(expect, rejected=None, gangs=None, preempted=None, reclaimed=None)
        yield from compare(others, snapshot, record)
        for name, expected in (expect.gangs or {}).items():
            yield from _compare_gang(name, expected, snapshot)

    def _compare_evictions(self, expect: Expect) -> Iterator[Mismatch]:
        evicted, self._evicted = self._evicted, []
        for reason in (Reason.PREEMPTED, Reason.RECLAIMED):
            wanted: tuple[str, ...] | None = getattr(expect, reason.value)
            found = [name for why, name in evicted if why is reason]
            if wanted is not None and list(wanted) != found:
                yield Mismatch(reason.value, list(wanted), found)

    def _write(self, _: NaiveScheduler, batch: Batch) -> None:
        self._evicted += [(one.reason, f"{one.app}/{one.ask}") for one in batch.decisions]
        self._record.write([Announced(0, batch.at_us, one) for one in batch.decisions])


def _what(item: FeedItem) -> What:
    match item.content:
        case Settle() | Expect():
            return SETTLE
        case Refused(message):
            return message
        case event:
            return event


def _compare_gang(name: str, expected: ExpectedGang, snapshot: Snapshot) -> Iterator[Mismatch]:
    gang = snapshot.gangs.get(canonical_gang(name))
    if gang is None:
        yield Mismatch(f"gangs.{name}", "a gang", "unknown")
        return
    found = ExpectedGang(
        len(gang.waiting), len(gang.bound), gang.satisfied, gang.timed_out, gang.cycle_valid
    )
    for field in attrs.fields(ExpectedGang):
        wanted, value = getattr(expected, field.name), getattr(found, field.name)
        if wanted is not None and wanted != value:
            yield Mismatch(f"gangs.{name}.{field.name}", wanted, value)


def main(feeds: list[str]) -> int:
    """Check feeds; return the exit status."""
    status = 0
    for feed in feeds:
        differences = list(Check().run(iter(read_feed(feed))))
        for item, found in differences:
            place = "the end" if item is None else item.line or item.index
            click.echo(f"{feed}:{place}: {found.field}: {found.expected} != {found.found}")
        click.echo(f"{feed}: {len(differences) or 'ok'}")
        status |= bool(differences)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
