"""Submission: events are let in together, answered, and answered again if a key is repeated.

An idempotency key that was used in this process is remembered here, and one that was used before
is in the store.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, final

import attrs
import msgpack
import trio

from muster._errors import StoreError
from muster._runtime.calls import Call, Client, Enter, Guard
from muster._runtime.requests import RequestKey
from muster.service.payloads import Problem
from muster.store import StateReader
from muster.store._sql import RequestRow
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.decisions import Kind
from muster_core.events import AddAsk, Apply, Event, PodObject
from muster_core.facts import Facts
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster.service.health import Health


T = TypeVar("T")


class RunningService(Protocol):
    """The running service; :class:`muster.service.state.Service` says what each of these does."""

    @property
    def client(self) -> Client:
        """Sends calls of the service itself to the scheduler."""
        ...

    @property
    def health(self) -> Health:
        """Whether it works."""
        ...

    async def call(self, call: Call[T]) -> T:
        """Send a call of a client to the scheduler."""
        ...

    async def inspect(self, read: Callable[[CoordinatorMachine], Steps[T]]) -> T:
        """Read the state between two batches."""
        ...

    async def facts(self) -> Facts:
        """Return the whole state."""
        ...

    def now_us(self) -> int:
        """Return the present instant."""
        ...


@final
@attrs.frozen
class SubmissionResult:
    """What became of the events of a request.

    Attributes:
        batch: The number of the batch that they went into; None if none was let in.
        seqs: The numbers of the first and the last decision of this batch; None without any.
        errors: Why events were refused, by their number among those that are valid; without a
            batch, those of an atomic request that kept the others out.
    """

    batch: int | None = None
    seqs: tuple[int, int] | None = None
    errors: Mapping[int, str] = attrs.field(factory=dict[int, str])

    def headers(self) -> dict[str, str]:
        """Return the headers that say what the events led to."""
        first, last = self.seqs or (None, None)
        found = {"Muster-Batch": self.batch, "Muster-First-Seq": first, "Muster-Last-Seq": last}
        return {name: str(number) for name, number in found.items() if number is not None}


# INPUT-4
async def submit(
    service: RunningService,
    made: Sequence[Event | str],
    *,
    guard: Guard | None = None,
    request: RequestKey | None = None,
    is_atomic: bool = False,
) -> SubmissionResult:
    """Let events in together, without those that are invalid.

    Args:
        service: Sends them to the scheduler.
        made: The events, or why they are none.
        guard: Judges which of them are let in, or None.
        request: The key of the request, or None.
        is_atomic: Whether none is let in if one of them is refused; then all are valid.

    Raises:
        Problem: 503 if too many calls wait already.
        ClosedSchedulerError: If the scheduler is closed.
    """
    events = [one for one in made if not isinstance(one, str)]
    if not events:
        return SubmissionResult()
    entered = await service.call(Enter(events, request=request, guard=guard, is_atomic=is_atomic))
    # Nothing is awaited from here on, so that a request that was let in is remembered.
    errors = {index: str(one) for index, one in enumerate(entered.refusals) if one is not None}
    return SubmissionResult(entered.batch or None, entered.seqs, errors)


# INPUT-5
def _asks_of(event: Event) -> list[str]:
    """Return the names of the asks that an event has added; of objects, those of its Pods."""
    if isinstance(event, AddAsk):
        return [event.ask] if event.count is None else event.names()
    if isinstance(event, Apply):
        contents = (one.content for one in event.objects)
        return [one.name for one in contents if isinstance(one, PodObject) and one.ask is not None]
    return []


def results_of(
    made: Sequence[Event | str], errors: Mapping[int, str], *, is_refused: bool = False
) -> Steps[list[dict[str, object]]]:
    """Return what is answered for each event.

    Args:
        made: The events, or why they are none.
        errors: Why events were refused, by their number among those that are valid.
        is_refused: Whether none was let in, since the request is atomic and one is refused.
    """
    results: list[dict[str, object]] = []
    valid = 0
    for index, one in enumerate(made):
        if not index % 64:
            yield
        asks: list[str] = []
        if isinstance(one, str):
            error: str | None = one
        else:
            error = errors.get(valid)
            valid += 1
            if error is None and not is_refused:
                asks = _asks_of(one)
        is_in = error is None and not is_refused
        results.append({"index": index, "ok": is_in, "error": error, "asks": asks})
    return results


KEPT_US: Final = 86_400_000_000
"""How long a key is kept: a day, in microseconds."""

MOST: Final = 100_000
"""How many keys are remembered in memory."""


@final
@attrs.frozen
class _KnownAnswer:
    """What was answered to a request: the digest of its content, when, and the answer."""

    digest: bytes
    at_us: int
    outcome: SubmissionResult


@final
class IdempotencyKeys:
    """Remembers the answers to requests, by their keys.

    Args:
        directory: The state directory, or None without one.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._known: OrderedDict[tuple[str, str], _KnownAnswer] = OrderedDict()
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
            message = f"Idempotency-Key: {request.key!r}: a request with this key is under way"
            what = "send it again after a second, and get the answer of that one"
            raise Problem(409, f"{message}: {what}", headers={"Retry-After": "1"})
        self._under_way.add(name)
        try:
            yield
        finally:
            self._under_way.discard(name)

    # INPUT-6
    async def outcome_of(self, request: RequestKey, now_us: int) -> SubmissionResult | None:
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
                outcome = await trio.to_thread.run_sync(self._stored_answer, row, limiter=self._one)
                known = _KnownAnswer(row.digest, row.at_us, outcome)
                self._put(request, known)
        if known is None or known.at_us < now_us - KEPT_US:
            return None
        _check(request, known.digest)
        return known.outcome

    def keep(self, request: RequestKey, now_us: int, outcome: SubmissionResult) -> None:
        """Remember what was answered to a request."""
        self._put(request, _KnownAnswer(request.digest, now_us, outcome))

    def _put(self, request: RequestKey, known: _KnownAnswer) -> None:
        self._known[request.user, request.key] = known
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def close(self) -> None:
        """Close the file that is read."""
        if self._reader is not None:
            self._reader.close()

    # In a thread

    def _open_reader(self) -> StateReader:
        if self._reader is None:
            assert self._directory is not None, "there is a store"
            self._reader = StateReader(self._directory)
        return self._reader

    def _row(self, request: RequestKey) -> RequestRow | None:
        return self._open_reader().request(request.user, request.key)

    def _stored_answer(self, row: RequestRow) -> SubmissionResult:
        """Return what was answered to a request, from the batch that its events went into."""
        denied: dict[int, str] = dict(msgpack.unpackb(row.denied))
        try:
            (batch,) = self._open_reader().batches(row.batch - 1, row.batch)
        except (StoreError, ValueError):
            message = (
                f"Idempotency-Key: {row.key!r}: it was carried out in batch {row.batch}, "
                "which is not kept any more; nothing was done now"
            )
            raise Problem(409, message, batch=row.batch) from None
        errors = dict(denied)
        # What was let in has numbers that follow one another, and what was denied has none.
        numbers = [n for n in range(row.count + len(denied)) if n not in denied]
        for one in batch.decisions:
            index = one.decision.index
            if one.decision.kind is Kind.REJECTED and index is not None:
                place = index - row.first
                if 0 <= place < row.count:
                    errors[numbers[place]] = one.decision.message or ""
        seqs = (batch.first_seq, batch.last_seq) if batch.decisions else None
        return SubmissionResult(row.batch, seqs, errors)


def _check(request: RequestKey, digest: bytes) -> None:
    # INPUT-7
    if request.digest != digest:
        message = f"Idempotency-Key: {request.key!r}: it was used for a request with other content"
        raise Problem(422, message)
