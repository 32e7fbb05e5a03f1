"""The world of a round: the server that comes and goes, the state that its clients share, and the
comparison of answers with the store.
"""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, final
from urllib.parse import urlsplit

import attrs
import trio
from typing_extensions import override

from muster.store import StateReader
from muster.store._rows import KeptBatch
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Kind
from muster_core.events import AddNode, Configure, Event, RemoveApp, RemoveNode
from tests.actors.serving.served import Served
from tests.clash.requests import (
    CONFIGS,
    LEASED,
    MARK,
    PATIENCE_S,
    Answer,
    Connection,
    CutError,
    Draft,
    Request,
    StoredRequest,
    StuckError,
    configuration_of,
)

_NUMBERS: Final = ("muster-batch", "muster-first-seq", "muster-last-seq")
_REJECTED: Final = Kind.REJECTED


def numbers_of(answer: Answer) -> tuple[int | None, ...]:
    """Return the numbers in the headers of an answer: of the batch, and of its decisions."""
    return tuple(answer.number(name) for name in _NUMBERS)


@final
class Account:
    """The requests and answers of a round, compared with the store.

    Args:
        configurations: Those that clients or the start of the server may put in force.

    Attributes:
        newest_answered: The last batch that any answer has named; later answers are not older.
        decisions: All decisions that were found in the store, in order.
        batches: How many batches were found in the store.
        answered: How many requests with events were answered.
        scheduler: A scheduler that has replayed the store.
    """

    def __init__(self, configurations: Sequence[Configuration]) -> None:
        self._configurations = configurations
        self._marked: dict[str, Draft] = {}
        self._drafts: list[Draft] = []
        self._unmarked: Counter[tuple[int, str]] = Counter()
        self._unmarked_drafts: list[Draft] = []
        self._index = 0
        self._has_leases = False
        self.newest_answered = 0
        self.decisions: list[Announced] = []
        self.batches = 0
        self.answered = 0
        self.scheduler = PlainScheduler(default_configuration())

    def begin(self, draft: Draft) -> None:
        """Register a request that is about to be sent for the first time."""
        if draft.marker:
            self._drafts.append(draft)
            self._marked[draft.marker] = draft
        else:
            self._unmarked_drafts.append(draft)

    # Answers

    def answer(self, draft: Draft, answer: Answer) -> Iterator[str]:
        """Add an answer with status 200; yield its faults."""
        content = (numbers_of(answer), answer.body)
        draft.answers.append(content)
        self.answered += 1
        if draft.answers[0] != content:
            yield f"{draft.marker}: answered as {content}, and before as {draft.answers[0]}"
        batch = content[0][0]
        if (batch is None) != (not draft.events):
            yield f"{draft.marker}: {len(draft.events)} valid events, and batch {batch}"
        if batch is not None:
            self.newest_answered = max(self.newest_answered, batch)
        found = answer.json()
        if [one["index"] for one in found] != [*range(len(draft.is_valid))]:
            yield f"{draft.marker}: {len(draft.is_valid)} events were answered with {found}"
            return
        for one, is_valid in zip(found, draft.is_valid, strict=True):
            if one["ok"] != (one["error"] is None) or (one["ok"] and not is_valid):
                yield f"{draft.marker}: an event was answered with {one}"

    # The store

    def read(self, directory: Path) -> list[str]:
        """Read the new batches of the store; return the faults of the store and of answers.

        Args:
            directory: The state directory, to which no process writes.
        """
        faults: list[str] = []
        with StateReader(directory) as reader:
            for batch in reader.batches(after=self.batches):
                faults += self._take(batch)
            rows = {row.key: row for row in reader.requests(0)}
        for draft in self._drafts:
            faults += _faults_of(draft)
            key = draft.key
            if key is None:
                continue
            row = rows.pop(key, None)
            there = None if row is None else (row.batch, row.first, row.count)
            kept = draft.kept
            wanted = None if kept is None else (kept.batch, kept.first, len(draft.events))
            if there != wanted:
                faults.append(f"{key}: the store says {there} of it, and has it at {wanted}")
        faults += [f"{key}: nobody has sent a request with this key" for key in rows]
        self._drafts = [
            one
            for one in self._drafts
            if one.key is not None or one.kept is None or not one.answers
        ]
        faults += self._faults_of_unmarked()
        if self.newest_answered > self.batches:
            faults.append(f"batch {self.newest_answered} was answered, and {self.batches} are kept")
        return faults

    def _take(self, batch: KeptBatch) -> Iterator[str]:
        """Add a batch; yield events that no client has sent, and decisions that differ."""
        errors = {
            one.decision.index: one.decision.message or ""
            for one in batch.decisions
            if one.decision.kind is _REJECTED
        }
        seqs = (batch.first_seq, batch.last_seq) if batch.decisions else None
        at, events = 0, batch.events
        while at < len(events):
            event = events[at]
            draft = None
            if isinstance(event, RemoveApp) and event.app.startswith(MARK):
                draft = self._marked.get(event.app)
                if draft is None:
                    yield f"batch {batch.number}: nobody has sent {event}"
            if draft is None:
                yield from self._take_unmarked(batch.number, event)
                at += 1
                continue
            count = len(draft.events)
            if list(events[at : at + count]) != list(draft.events):
                yield f"batch {batch.number}: not the events of {draft.marker}, or not in order"
            if draft.kept is not None or not draft.was_sent:
                yield f"batch {batch.number}: {draft.marker} is there, as if sent once more"
            first = self._index + at
            wrong = {n: errors[first + n] for n in range(count) if first + n in errors}
            draft.kept = StoredRequest(batch.number, seqs, first, wrong)
            at += max(1, count)
        yield from self._replay(batch)

    def _take_unmarked(self, number: int, event: Event) -> Iterator[str]:
        match event:
            case Configure():
                if event.config not in self._configurations:
                    yield f"batch {number}: nobody has sent {event}"
            case RemoveNode() if event.node.startswith(LEASED):
                if not self._has_leases:
                    yield f"batch {number}: {event}, and no node had a lease"
            case _:
                self._unmarked[number, repr(event)] += 1

    def _replay(self, batch: KeptBatch) -> Iterator[str]:
        """Replay a batch; yield where the decisions differ."""
        before = len(self.scheduler.announced)
        for event in batch.events:
            self._has_leases |= isinstance(event, AddNode) and event.lease_us is not None
            self.scheduler.submit(event, batch.at_us, self._index)
            self._index += 1
        self.scheduler.settle(batch.at_us)
        decided = self.scheduler.announced[before:]
        if list(decided) != list(batch.decisions):
            yield f"batch {batch.number}: {batch.decisions} is kept, and {decided} is decided"
        self.decisions += batch.decisions
        self.batches = batch.number

    def _faults_of_unmarked(self) -> Iterator[str]:
        there, tried = Counter[str](), Counter[str]()
        for (_, text), count in self._unmarked.items():
            there[text] += count
        answered = Counter[tuple[int, str]]()
        for draft in self._unmarked_drafts:
            (event,) = draft.events or (None,)
            tried[repr(event)] += draft.tries
            for (batch, *_), _ in draft.answers:
                if batch is not None:
                    answered[batch, repr(event)] += 1
        for text, count in there.items():
            if count > tried[text]:
                yield f"{text} is kept {count} times, and was sent {tried[text]} times"
        for place, count in answered.items():
            if count > self._unmarked[place]:
                yield f"{place} was answered {count} times, kept {self._unmarked[place]} times"


def _faults_of(draft: Draft) -> Iterator[str]:
    """Yield where the answers to a request differ from what is kept."""
    kept = draft.kept
    for numbers, body in draft.answers[:1]:
        if kept is None:
            if draft.events:
                yield f"{draft.marker} was answered with {numbers}, and is not kept"
            continue
        if numbers != (kept.batch, *(kept.seqs or (None, None))):
            yield f"{draft.marker} was answered with {numbers}, and kept in {kept}"
        valid = 0
        for one, is_valid in zip(json.loads(body), draft.is_valid, strict=False):
            if is_valid and one["error"] != kept.errors.get(valid):
                yield f"{draft.marker}: {one} was answered, and kept is {kept}"
            valid += is_valid


MEMORY_BYTES: Final = 256 * 2**20
"""How much memory a server may take, in bytes."""

_ENDING: Final = frozenset({503})


@final
@attrs.define
class Tally:
    """How much was done.

    Attributes:
        rounds: How many rounds.
        kills: How often a server was killed.
        ends: How often a server was ended by SIGTERM.
        statuses: How many answers had which status.
        cut: How many requests were cut by their client.
        lost: How many requests lost their answer by the end of the server.
        answered: How many requests with events were answered with 200.
        batches: How many batches were kept and compared.
        decisions: How many decisions were kept and compared.
        seen: How many decisions streams have got.
        streams: How many streams were opened.
        lists: How many items of lists were compared.
        memory_bytes: The most memory that a server took.
        files: The most files that a server had open when its clients had left.
    """

    rounds: int = 0
    kills: int = 0
    ends: int = 0
    statuses: Counter[int] = attrs.field(factory=Counter[int])
    cut: int = 0
    lost: int = 0
    answered: int = 0
    batches: int = 0
    decisions: int = 0
    seen: int = 0
    streams: int = 0
    lists: int = 0
    memory_bytes: int = 0
    files: int = 0

    @override
    def __str__(self) -> str:
        """Return the figures in one line."""
        statuses = ", ".join(f"{count:,} x {one}" for one, count in sorted(self.statuses.items()))
        return (
            f"{self.rounds} rounds, {self.kills} kills, {self.ends} ends by SIGTERM, answers: "
            f"{statuses}; {self.cut:,} requests cut, {self.lost:,} lost; {self.answered:,} requests "
            f"with events answered, {self.batches:,} batches, {self.decisions:,} decisions; "
            f"{self.streams:,} streams have got {self.seen:,} decisions; {self.lists:,} items of "
            f"lists compared; at most {self.memory_bytes / 2**20:.0f} MB and {self.files} files"
        )


@final
class World:
    """The server of a round, and the state that its clients share.

    Args:
        folder: A folder for this round.
        random: The source of chance for its kills.
        tally: Counts what is done.

    Attributes:
        state: The state directory.
        account: What was sent and answered.
        faults: What was found.
        port: Where the server listens.
        life: How often it was started.
    """

    def __init__(self, folder: Path, random: Random, tally: Tally) -> None:
        self.state = folder / "state"
        self.account = Account([configuration_of(one) for one in CONFIGS])
        self.tally = tally
        self.faults: list[str] = []
        self.failed = trio.Event()
        self.port = 0
        self.life = 0
        self._folder = folder
        self._random = random
        self._up = trio.Event()
        self._served: Served | None = None

    # For clients

    def fault(self, *what: str) -> None:
        """Note what was found."""
        self.faults += what
        if what:
            self.failed.set()

    def take(self, found: Iterable[str]) -> None:
        """Note what was found."""
        self.fault(*found)

    async def up(self) -> int:
        """Wait until the server is up; return its life."""
        with trio.fail_after(PATIENCE_S * 3):
            await self._up.wait()
        return self.life

    def is_up(self, life: int) -> bool:
        """Return whether the server of a life is up, and not about to end."""
        return self.life == life and self._up.is_set()

    def lost(self, life: int, what: str) -> None:
        """Note that a connection ended; that is right only if the server has ended."""
        self.tally.lost += 1
        if self.is_up(life):
            self.fault(f"life {life}: {what}: the server has ended the connection")

    def check(self, life: int, what: str, answer: Answer, *statuses: int) -> bool:
        """Count an answer; return whether its status is one of those that are right."""
        self.tally.statuses[answer.status] += 1
        if answer.status in statuses:
            return True
        if answer.status not in _ENDING or self.is_up(life):
            text = answer.body[:300].decode(errors="replace")
            self.fault(f"life {life}: {what} was answered with {answer.status}: {text}")
        return False

    async def ask(
        self, request: Request, *statuses: int, slowly: Random | None = None
    ) -> Answer | None:
        """Send a request on a connection of its own; return the answer, or None if it was lost.

        Args:
            request: The request.
            statuses: The statuses that are right.
            slowly: As for :class:`Connection`.
        """
        life = await self.up()
        what = f"{request.method} {request.target}"
        try:
            async with Connection(self.port) as connection:
                answer = await connection.ask(request, slowly)
        except CutError as error:
            if slowly is None:
                self.lost(life, f"{what}: {error}")
            else:
                self.tally.cut += 1  # Who reads slowly may be cut off.
            return None
        except StuckError as error:
            self.fault(f"life {life}: {what}: {error}")
            return None
        return answer if self.check(life, what, answer, *statuses) else None

    # For the round

    async def start(self, *, config: bool = True, killed_after_s: float | None = None) -> None:
        """Start the server, and wait until it is ready.

        Args:
            config: Whether it gets a configuration.
            killed_after_s: When it is killed, instead of becoming ready, in seconds.
        """
        made = partial(
            Served,
            self._folder,
            *("--state", str(self.state), "--durability", "process", "--log", "json"),
            *("--max-write-time", "2s", "--max-head-time", "2s"),
            *("--checkpoint-every", str(self._random.choice((20, 500, 50_000)))),
            config=json.dumps(CONFIGS[0]) if config else None,
            until_ready=killed_after_s is None,
        )
        self.life += 1
        self._served = await trio.to_thread.run_sync(made)
        if killed_after_s is not None:
            await trio.sleep(killed_after_s)
            await self.kill()
            return
        self.port = urlsplit(self._served.urls[0]).port or 0
        self._up.set()

    async def kill(self) -> None:
        """Kill it."""
        self._up = trio.Event()
        served = self._running()
        self.measure()
        await trio.to_thread.run_sync(served.kill)
        self.tally.kills += 1
        self._check_end(served)

    async def stop(self) -> None:
        """End it by SIGTERM."""
        self._up = trio.Event()
        served = self._running()
        self.measure()
        status = await trio.to_thread.run_sync(served.stop, signal.SIGTERM)
        self.tally.ends += 1
        if status != 0:
            self.fault(f"life {self.life}: its exit status is {status}")
        self._check_end(served)

    def _running(self) -> Served:
        assert self._served is not None, "it runs"
        return self._served

    def _check_end(self, served: Served) -> None:
        """Check the log of a life, and what it has kept."""
        self._served = None
        for line in served.lines:
            if not line.startswith("{"):
                self.fault(f"life {self.life}: its log has {line!r}")
                continue
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # Killed while it wrote this line.
            if entry["level"] == "error" or "trace" in entry or entry.get("status") == 500:
                self.fault(f"life {self.life}: its log has {line}")
        self.take(self.account.read(self.state))

    def measure(self) -> int:
        """Note how much memory it takes; return how many files it has open."""
        process = Path(f"/proc/{self._running().process.pid}")
        try:
            pages = int((process / "statm").read_text().split()[1])
            files = len([*(process / "fd").iterdir()])
        except (FileNotFoundError, ProcessLookupError):
            return 0
        self.tally.memory_bytes = max(self.tally.memory_bytes, pages * 4096)
        if pages * 4096 > MEMORY_BYTES:
            self.fault(f"life {self.life}: it takes {pages * 4096 / 2**20:.0f} MB")
        return files

    def close(self) -> None:
        """End it at once, whatever it does."""
        if self._served is not None:
            self._served.kill()
            self._served = None
