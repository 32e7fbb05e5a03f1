"""The world of a round: the server that comes and goes, and what its clients share."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, final
from urllib.parse import urlsplit

import attrs
import trio
from typing_extensions import override

from tests.actors.serving.served import Served
from tests.clash.accounts import Account
from tests.clash.drawing import CONFIGS, configuration_of
from tests.clash.wire import PATIENCE_S, Answer, CutError, Request, StuckError, Wire

MEMORY_BYTES: Final = 256 * 2**20
"""How much memory a server may take, in bytes."""

_ENDING: Final = frozenset({503})


class OverError(Exception):
    """The round is over for a client."""


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
    """The server of a round, and what its clients know of it.

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
        """Return whether the server of a life is up, and not told to end."""
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
            told = answer.body[:300].decode(errors="replace")
            self.fault(f"life {life}: {what} was answered with {answer.status}: {told}")
        return False

    async def ask(
        self, request: Request, *statuses: int, slowly: Random | None = None
    ) -> Answer | None:
        """Send a request on a connection of its own; return the answer, or None if it was lost.

        Args:
            request: The request.
            statuses: The statuses that are right.
            slowly: As for :class:`Wire`.
        """
        life = await self.up()
        what = f"{request.method} {request.target}"
        try:
            async with Wire(self.port) as wire:
                answer = await wire.ask(request, slowly)
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

    # For the one who starts and ends it

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
        self._ended(served)

    async def stop(self) -> None:
        """End it by SIGTERM."""
        self._up = trio.Event()
        served = self._running()
        self.measure()
        status = await trio.to_thread.run_sync(served.stop, signal.SIGTERM)
        self.tally.ends += 1
        if status != 0:
            self.fault(f"life {self.life}: its exit status is {status}")
        self._ended(served)

    def _running(self) -> Served:
        assert self._served is not None, "it runs"
        return self._served

    def _ended(self, served: Served) -> None:
        """Look at the log of a life, and at what it has kept."""
        self._served = None
        for line in served.lines:
            if not line.startswith("{"):
                self.fault(f"life {self.life}: its log has {line!r}")
                continue
            try:
                said = json.loads(line)
            except ValueError:
                continue  # Killed while it wrote this line.
            if said["level"] == "error" or "trace" in said or said.get("status") == 500:
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
