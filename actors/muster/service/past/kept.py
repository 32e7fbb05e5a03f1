"""The extent of the kept history, its batches side by side, and where decisions were many."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.store import StateReader

if TYPE_CHECKING:
    from collections.abc import Sequence

BUCKETS: Final = 120
"""Into how many spans the history is divided to show where decisions were many."""


@final
@attrs.frozen
class Kept:
    """The extent of the kept history.

    Attributes:
        first: The first batch whose state can be made again.
        first_us: Its instant, in microseconds since the origin.
        last: The last batch.
        last_us: Its instant.
        per_bucket: How many decisions each of :data:`BUCKETS` equal spans in between has.
    """

    first: int
    first_us: int
    last: int
    last_us: int
    per_bucket: Sequence[int]


def kept_in(directory: Path) -> Kept | None:
    """Return the extent of the history in a state directory; None if it has no batch.

    Raises:
        StoreError: If it cannot be read.
    """
    with StateReader(directory) as reader:
        first = _first_batch(reader)
        if first is None:
            return None
        (begin,) = reader.places([first])
        end = reader.last()
        span_us = end.at_us - begin.at_us
        ends_us = [begin.at_us + span_us * n // BUCKETS for n in range(1, BUCKETS + 1)]
        places = [begin, *reader.places_at(ends_us)]
        counts = [two.seq - one.seq for one, two in pairwise(places)]
        return Kept(begin.batch, begin.at_us, end.batch, end.at_us, counts)


def _first_batch(reader: StateReader) -> int | None:
    """Return the first batch whose state can be made again."""
    anchor, last = reader.meta.anchor, reader.last().batch
    if not anchor.batch:
        return 1 if last else None
    # The first batches were removed: what is left begins with a checkpoint.
    whole = [one.batch for one in reader.checkpoints() if one.complete]
    return next((batch for batch in whole if batch >= anchor.batch), None)


def beside(reader: StateReader, at_us: int, by: int) -> int | None:
    """Return the instant of the batch before or after those of an instant.

    Args:
        reader: The state directory.
        at_us: The instant, in microseconds since the origin.
        by: -1 for the one before, 1 for the one after.

    Returns:
        Its instant; None if there is none, or its state cannot be made again.

    Raises:
        StoreError: If the directory cannot be read.
    """
    number = reader.batch_at(at_us)
    if by < 0:
        # Several batches may have the same instant, and are looked at together.
        (here,) = reader.places([number])
        number = reader.batch_at(here.at_us - 1)
        first = _first_batch(reader)
        if first is None or number < first:
            return None
    elif number >= reader.last().batch:
        return None
    else:
        number += 1
    (found,) = reader.places([number])
    return found.at_us
