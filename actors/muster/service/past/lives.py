"""The lives of asks that ended so long ago that they are only in the kept batches.

A ledger hears of the batches between two checkpoints again, as that of the running service did, and
keeps all who end meanwhile. What was read last is kept for the next page.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event as Flag, Lock
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.input.looking_back import GoneError
from muster.service.ledger.lives import Life, LifeFilter, Lives
from muster.service.past.building import ledger_at
from muster.service.past.let_in import LetIn
from muster.store import StateReader
from muster_core.decisions import GONE, Kind
from muster_core.structures.steps import all_at_once

if TYPE_CHECKING:
    from muster._runtime.passing import PassedByAsk
    from muster.store import KeptBatch

MOST: Final = 100_000
"""How many lives between two checkpoints are kept, the latest ones."""

_PARTS: Final = 2
"""Of how many spans between checkpoints the lives are kept for the next page."""

_FAR: Final = 100_000
"""In how many batches a single ask is looked for."""

_WINDOW: Final = 2_000
"""How many batches are read at once on the way back."""

_RELEASED: Final = Kind.RELEASED
_NOTHING: Final[PassedByAsk] = {}


@final
@attrs.frozen
class Wanted:
    """Which lives are wanted.

    Attributes:
        filter: The filter.
        before_seq: Only those that ended before this decision.
        most: How many at most.
        entered: The number of the last batch, and how many events were let in until then.
    """

    filter: LifeFilter
    before_seq: int
    most: int
    entered: tuple[int, int]


@final
@attrs.frozen
class _Part:
    """The lives that ended in a span of batches, latest first."""

    after: int
    until: int
    lives: Sequence[Life]


# LISTS-16
@final
class PastLives:
    """Finds lives in the kept batches.

    Args:
        directory: The state directory, or None without one.
    """

    def __init__(self, directory: Path | None) -> None:
        self.directory: Final = directory
        self._parts: OrderedDict[int, _Part] = OrderedDict()
        self._lock = Lock()

    def find(self, wanted: Wanted, gone: Flag) -> list[Life]:
        """Return lives, latest first; in a thread.

        Raises:
            StoreError: If the directory cannot be read.
            GoneError: If nobody waits for it any more.
        """
        assert self.directory is not None, "there is a history"
        with self._lock, StateReader(self.directory) as reader:
            return self._find(reader, wanted, gone)

    def _find(self, reader: StateReader, wanted: Wanted, gone: Flag) -> list[Life]:
        found: list[Life] = []
        anchor, since_us = reader.meta.anchor.batch, wanted.filter.since_us
        until = min(reader.batch_before_seq(wanted.before_seq) + 1, reader.last().batch)
        while until > anchor and len(found) < wanted.most:
            part = self._part(reader, until, wanted.entered, gone)
            most = wanted.most - len(found)
            found += wanted.filter.latest(part.lives, wanted.before_seq, most)
            until = part.after
            if since_us is not None and until > anchor:
                (begin,) = reader.places([until])
                if begin.at_us < since_us:
                    break
        return found

    # LISTS-18
    def last(self, app: str, ask: str, wanted: Wanted, gone: Flag) -> Life | None:
        """Return the last life of an ask, which must not be too long ago; in a thread.

        Raises:
            StoreError: If the directory cannot be read.
            GoneError: If nobody waits for it any more.
        """
        assert self.directory is not None, "there is a history"
        with self._lock, StateReader(self.directory) as reader:
            for batch, seq in _ends(reader, app, ask, wanted.before_seq, gone):
                only = attrs.evolve(wanted.filter, since_us=batch.at_us)
                asked = attrs.evolve(wanted, filter=only, before_seq=seq + 1, most=1)
                for life in self._find(reader, asked, gone):
                    return life
        return None

    def _part(self, reader: StateReader, until: int, entered: tuple[int, int], gone: Flag) -> _Part:
        """Return the lives of the span between checkpoints that has a batch, or ends with it."""
        for known in self._parts.values():
            if known.after < until <= known.until:
                return known
        whole = [one.batch for one in reader.checkpoints() if one.complete]
        until = min((batch for batch in whole if batch >= until), default=until)
        part = _heard(reader, until, entered, gone)
        self._parts[part.after] = part
        self._parts.move_to_end(part.after)
        if len(self._parts) > _PARTS:
            self._parts.popitem(last=False)
        return part


def _heard(reader: StateReader, until: int, entered: tuple[int, int], gone: Flag) -> _Part:
    """Let a ledger hear again of the batches since the checkpoint before one."""
    ledger, after, _ = ledger_at(reader, until - 1)
    ledger.book.lives = Lives(MOST)
    let_in, index = LetIn(reader, entered), -1
    for batch in reader.batches(after=after, until=until, verify=False):
        if gone.is_set():
            raise GoneError
        index = let_in.index_of(batch) if index < 0 else index
        hearing = ledger.hear(
            batch.number, batch.at_us, index, batch.events, batch.decisions, _NOTHING
        )
        all_at_once(hearing)
        index += batch.event_count
        time.sleep(0)  # Lets the service's own thread run.
    return _Part(after, until, [*reversed(ledger.book.lives.kept)])


def _ends(
    reader: StateReader, app: str, ask: str, before_seq: int, gone: Flag
) -> Iterator[tuple[KeptBatch, int]]:
    """Yield the batches in which an ask may have ended, latest first, with the decision."""
    anchor, needles = reader.meta.anchor.batch, [_needle(one) for one in (app, ask)]
    end = here = min(reader.batch_before_seq(before_seq) + 1, reader.last().batch)
    while end > anchor and here - end < _FAR:
        begin = max(end - _WINDOW, anchor)
        batches = [
            batch
            for batch in reader.batches(after=begin, until=end, verify=False)
            if all(needle in batch.packed_decisions for needle in needles)
        ]
        if gone.is_set():
            raise GoneError
        for batch in reversed(batches):
            for one in reversed(batch.decisions):
                said = one.decision
                is_it = said.kind is _RELEASED and (said.app, said.ask) == (app, ask)
                if is_it and said.reason in GONE and one.seq < before_seq:
                    yield batch, one.seq
        end = begin
        time.sleep(0)  # Lets the service's own thread run.


def _needle(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


__all__ = ["PastLives", "Wanted"]
