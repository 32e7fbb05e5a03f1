"""State directories as feeds: the items that are stored there, read without a lock.

What only a directory needs is imported when one is read, so that reading a feed does not wait for
it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, final

from muster._errors import StoreError
from muster.feeds._files import FeedError, Source
from muster.feeds._items import FeedItem, Settle
from muster_core.decisions import seconds

if TYPE_CHECKING:
    from muster.store import KeptBatch
    from muster_core.coordinator.plain_scheduler import PlainScheduler
    from muster_core.facts import Facts


_SETTLE: Final = Settle()


def is_directory(source: Source) -> bool:
    """Return whether a source of a feed names a directory, which can only be a state directory."""
    return isinstance(source, (str, os.PathLike)) and source != "-" and Path(source).is_dir()


@contextmanager
def store_errors_as_feed_errors() -> Generator[None]:
    """Turn an error of a state directory into one of a feed.

    Raises:
        FeedError: For each :class:`~muster.StoreError`, which is its cause.
    """
    try:
        yield
    except StoreError as error:
        problem = str(error).removeprefix(f"{error.path}: ")
        raise FeedError(str(error.path), problem) from error


# COMMAND-12
@final
class KeptFeed:
    """The content of a state directory as a feed; a context manager.

    It begins with the first batch. If the first batches were removed, it begins after the first
    checkpoint that is whole, and ``facts`` is the state there. It ends with the last batch that
    there is when it is opened, even if a scheduler goes on to write.

    Args:
        directory: The directory.
        since_us: The instant at which to begin, in microseconds since the origin, with the state
            before the batches of that instant; None for the earliest beginning. What came between
            the newest checkpoint before it and this instant is let in again.
        until_us: The last instant of a batch, likewise; None for all batches.
        exact: False to begin with that checkpoint, and not with ``since_us`` itself.

    Attributes:
        directory: The directory.
        origin_us: The origin of time, in microseconds since 1970 in UTC.
        facts: The state with which it begins; None if it begins with nothing.
        after: The batch after which it begins; 0 for the first one.
        last: Its last batch.

    Raises:
        FeedError: If it is no state directory, if it is damaged or of another format, if it
            cannot be read, or if what came at ``since_us`` or ``until_us`` was removed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        since_us: int | None = None,
        until_us: int | None = None,
        exact: bool = True,
    ) -> None:
        from muster.store import StateReader  # noqa: PLC0415 - see the docstring of the module

        self.directory = Path(directory)
        with store_errors_as_feed_errors():
            self._reader = StateReader(self.directory)
            try:
                self.last = self._reader.last().batch
                if until_us is not None:
                    self.last = min(self.last, self._reader.batch_at(until_us))
                self.origin_us = self._reader.meta.origin_us
                self.after, self.facts = self._beginning(since_us)
                self.check_span(since_us, until_us)
                if since_us is not None and exact:
                    self._forward(since_us)
            except BaseException:
                self._reader.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. It may be called twice."""
        self._reader.close()

    @property
    def path(self) -> Path:
        """The file, for messages."""
        return self._reader.path

    # COMMAND-12
    def _beginning(self, since_us: int | None) -> tuple[int, Facts | None]:
        """Return the batch after which the feed can begin, and the state there."""
        reader = self._reader
        first = reader.meta.anchor.batch
        if since_us is not None:
            found = reader.newest_checkpoint(min(self.last, reader.batch_at(since_us - 1)))
            if found is not None and found.batch >= first and found.batch:
                return found.batch, self._facts(found.batch, found.parts)
        return self._first_checkpoint(first) if first else (0, None)

    # COMMAND-14
    def check_span(self, since_us: int | None, until_us: int | None) -> None:
        """Check that what came at the beginning and at the end was not removed.

        Args:
            since_us: The instant at which to begin, in microseconds since the origin, or None.
            until_us: The last instant, likewise.

        Raises:
            FeedError: If one of them is not possible.
        """
        if self.facts is None:
            return
        begins_us = self.facts.coordinator.now_us
        if (since_us is not None and since_us <= begins_us) or (
            until_us is not None and until_us < begins_us
        ):
            first = self._reader.meta.anchor.batch
            what = f"batches up to {first} were removed, and the state is known only after"
            begins = f"batch {self.after}, at {seconds(begins_us)} s"
            raise FeedError(str(self.path), f"{what} {begins}: choose a later time")

    def _first_checkpoint(self, first: int) -> tuple[int, Facts]:
        """Return the batch and the state of the first checkpoint that is whole."""
        reader = self._reader
        broken: list[str] = []
        for one in reader.checkpoints():
            if one.complete:
                try:
                    return one.batch, self._facts(one.batch, tuple(reader.checkpoint(one.batch)))
                except StoreError as error:
                    broken.append(str(error).removeprefix(f"{error.path}: "))
        what = f"batches up to {first} were removed, and no checkpoint leads to those that are left"
        raise StoreError("; ".join([what, *broken]), reader.path)

    def _facts(self, batch: int, parts: tuple[bytes, ...]) -> Facts:
        from muster.store._codec import facts_of  # noqa: PLC0415 - as above

        try:
            return facts_of(parts)
        except ValueError as error:  # A newer version of Muster wrote it.
            what = f"the checkpoint of batch {batch}: {error}"
            raise StoreError(what, self._reader.path) from error

    def _forward(self, since_us: int) -> None:
        """Let in what came before an instant, and begin there."""
        until = min(self.last, self._reader.batch_at(since_us - 1))
        if until <= self.after:
            return
        from muster_core.coordinator.plain_scheduler import PlainScheduler  # noqa: PLC0415 - as above

        scheduler = PlainScheduler(facts=self.facts)
        index = 0 if self.facts is None else self.facts.coordinator.requests
        for batch in self._reader.batches(after=self.after, until=until):
            index = run_again(scheduler, batch, index)
            difference = batch.first_difference(scheduler.announced)
            if difference is not None:
                raise StoreError(f"{difference}: begin later", self._reader.path)
            scheduler.announced = []
        self.after, self.facts = until, scheduler.facts()

    def batches(self) -> Iterator[KeptBatch]:
        """Read the batches in order.

        Raises:
            FeedError: If one is missing or damaged, or a newer version of Muster wrote it.
        """
        with store_errors_as_feed_errors():
            yield from self._reader.batches(after=self.after, until=self.last)

    def earlier(self) -> Iterator[KeptBatch]:
        """Read the batches that are kept from before the beginning.

        Raises:
            FeedError: As for :meth:`batches`.
        """
        with store_errors_as_feed_errors():
            yield from self._reader.batches(until=self.after)

    def items(self) -> Iterator[FeedItem]:
        """Read what was let in, item by item, with a ``settle`` at the end of each batch.

        The index of an event is its number in the input since the first batch, as in the kept
        decisions. A ``settle`` has the index of the event before it.

        Raises:
            FeedError: As for :meth:`batches`.
        """
        index = 0 if self.facts is None else self.facts.coordinator.requests
        return items_of(self.batches(), index)


def origin_of(directory: str | os.PathLike[str]) -> int:
    """Return the origin of time of a state directory, in microseconds since 1970 in UTC.

    Raises:
        FeedError: If it cannot be read.
    """
    from muster.store import StateReader  # noqa: PLC0415 - see the docstring of the module

    with store_errors_as_feed_errors(), StateReader(Path(directory)) as reader:
        return reader.meta.origin_us


def run_again(scheduler: PlainScheduler, batch: KeptBatch, index: int) -> int:
    """Let in a batch that was let in before.

    Args:
        scheduler: The scheduler, after the batch before it.
        batch: The batch.
        index: The index of its first event.

    Returns:
        The index of the first event of the next batch.
    """
    for event in batch.events:
        scheduler.submit(event, batch.at_us, index)
        index += 1
    scheduler.settle(batch.at_us)
    return index


def items_of(batches: Iterator[KeptBatch], index: int) -> Iterator[FeedItem]:
    """Yield what was let in with some batches.

    Args:
        batches: The batches.
        index: The index of the first event.
    """
    for batch in batches:
        at_us = batch.at_us
        with store_errors_as_feed_errors():
            events = batch.events
        for event in events:
            yield FeedItem(index, None, at_us, event)
            index += 1
        # Without a timer the batch may have no events. To settle then changes nothing.
        yield FeedItem(max(index - 1, 0), None, at_us, _SETTLE)


def read_kept(directory: str | os.PathLike[str]) -> Iterator[FeedItem]:
    """Read a state directory from its first batch; see :func:`muster.feeds.read_feed`.

    Raises:
        FeedError: If it cannot be read, or its first batches were removed.
    """
    with KeptFeed(directory) as feed:
        if feed.facts is not None:
            what = (
                f"batches up to {feed.after} were removed: use KeptFeed, and begin with its facts"
            )
            raise FeedError(str(feed.path), what)
        yield from feed.items()
