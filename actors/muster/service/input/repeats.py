"""Requests that may be repeated: what was answered to each key of a client.

A key that was used in this process is remembered here, and one that was used before is in the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

import attrs
import msgpack
import trio

from muster._errors import StoreError
from muster._runtime.requests import RequestKey
from muster.service.input.submitting import Outcome
from muster.service.problems import Problem
from muster.store import StateReader
from muster.store._sql.beside import RequestRow
from muster_core.decisions import Kind

KEPT_US: Final = 86_400_000_000
"""How long a key is kept: a day, in microseconds."""

MOST: Final = 100_000
"""How many keys are remembered in memory."""

_REJECTED: Final = Kind.REJECTED


@final
@attrs.frozen
class _Known:
    """What was answered to a request: the digest of its content, when, and the answer."""

    digest: bytes
    at_us: int
    outcome: Outcome


@final
class Repeats:
    """Remembers requests.

    Args:
        directory: The state directory, or None without one.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._under_way: set[tuple[str, str]] = set()
        self._reader: StateReader | None = None
        self._one = trio.CapacityLimiter(1)

    # INPUT-7
    @contextmanager
    def under_way(self, request: RequestKey) -> Generator[None]:
        """Hold a key while its request is carried out.

        Raises:
            Problem: 409 if another request with this key is being carried out.
        """
        name = (request.user, request.key)
        if name in self._under_way:
            told = f"Idempotency-Key: {request.key!r}: a request with this key is under way"
            what = "send it again after a second, and get the answer of that one"
            raise Problem(409, f"{told}: {what}", headers={"Retry-After": "1"})
        self._under_way.add(name)
        try:
            yield
        finally:
            self._under_way.discard(name)

    # INPUT-6
    async def outcome_of(self, request: RequestKey, now_us: int) -> Outcome | None:
        """Return what was answered to a request, or None if it is new.

        Args:
            request: The request.
            now_us: The present instant, in microseconds since the origin.

        Raises:
            Problem: 422 if its key was used for other content; 409 if the answer is gone.
        """
        known = self._known.get((request.user, request.key))
        if known is None and self._directory is not None:
            row = await trio.to_thread.run_sync(self._row, request, limiter=self._one)
            if row is not None and row.at_us >= now_us - KEPT_US:
                _check(request, row.digest)
                outcome = await trio.to_thread.run_sync(self._kept, row, limiter=self._one)
                known = _Known(row.digest, row.at_us, outcome)
                self._put(request, known)
        if known is None or known.at_us < now_us - KEPT_US:
            return None
        _check(request, known.digest)
        return known.outcome

    def keep(self, request: RequestKey, now_us: int, outcome: Outcome) -> None:
        """Remember what was answered to a request."""
        self._put(request, _Known(request.digest, now_us, outcome))

    def _put(self, request: RequestKey, known: _Known) -> None:
        self._known[request.user, request.key] = known
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def close(self) -> None:
        """Close the file that is read."""
        if self._reader is not None:
            self._reader.close()

    # In a thread

    def _opened(self) -> StateReader:
        if self._reader is None:
            assert self._directory is not None, "there is a store"
            self._reader = StateReader(self._directory)
        return self._reader

    def _row(self, request: RequestKey) -> RequestRow | None:
        return self._opened().request(request.user, request.key)

    def _kept(self, row: RequestRow) -> Outcome:
        """Return what was answered to a request, from the batch that its events went into."""
        denied: dict[int, str] = dict(msgpack.unpackb(row.denied))
        try:
            (batch,) = self._opened().batches(row.batch - 1, row.batch)
        except (StoreError, ValueError):
            told = (
                f"Idempotency-Key: {row.key!r}: it was carried out in batch {row.batch}, "
                "which is not kept any more; nothing was done now"
            )
            raise Problem(409, told, batch=row.batch) from None
        errors = dict(denied)
        # What was let in has numbers that follow one another, and what was denied has none.
        numbers = [n for n in range(row.count + len(denied)) if n not in denied]
        for one in batch.decisions:
            index = one.decision.index
            if one.decision.kind is _REJECTED and index is not None:
                place = index - row.first
                if 0 <= place < row.count:
                    errors[numbers[place]] = one.decision.message or ""
        seqs = (batch.first_seq, batch.last_seq) if batch.decisions else None
        return Outcome(row.batch, seqs, errors)


def _check(request: RequestKey, digest: bytes) -> None:
    # INPUT-7
    if request.digest != digest:
        told = f"Idempotency-Key: {request.key!r}: it was used for a request with other content"
        raise Problem(422, told)
