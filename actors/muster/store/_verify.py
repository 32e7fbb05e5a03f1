"""Checking everything that is in a state directory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from muster._errors import StoreError
from muster.store._reader import StateReader


# STORE-18
def verify(directory: Path, told: Callable[[int], None] = lambda _: None) -> Iterator[str]:
    """Check all pages, all batches and all checkpoints, and what they hold.

    Args:
        directory: The directory.
        told: Called with the number of each batch that has been checked.

    Yields:
        Each problem, as a text for a person. After a batch that is damaged no later one is
        looked at: nothing leads to them.

    Raises:
        StoreError: If it cannot be opened at all.
    """
    with StateReader(directory) as reader:
        for check in (_pages, _last, _batches(told), _checkpoints):
            try:
                yield from check(reader)
            except StoreError as error:
                yield str(error)


def _pages(reader: StateReader) -> Iterator[str]:
    for problem in reader.problems_of_pages():
        yield f"{reader.path}: {problem}"


def _last(reader: StateReader) -> Iterator[str]:
    reader.last()
    yield from ()


def _batches(told: Callable[[int], None]) -> Callable[[StateReader], Iterator[str]]:
    def check(reader: StateReader) -> Iterator[str]:
        for batch in reader.batches():
            # Both raise if this version does not know what they say.
            _ = (batch.events, batch.decisions)
            told(batch.number)
        yield from ()

    return check


def _checkpoints(reader: StateReader) -> Iterator[str]:
    for found in reader.checkpoints():
        if not found.complete:
            continue  # it is being written, or goes at the next start
        try:
            reader.checkpoint(found.batch)
        except StoreError as error:
            if found in reader.checkpoints():  # otherwise the writer has removed it meanwhile
                yield str(error)
