"""The storm: the faults of two servers, and the checks meanwhile and afterwards."""

from __future__ import annotations

import shutil
import signal
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Final, final

import attrs
import trio
from typing_extensions import override

from muster.store import StateReader
from tests.pair.books import Books, Call
from tests.pair.clients import SETUP, Submitter, Watcher
from tests.pair.proxy import proxy_to
from tests.pair.servers import PATIENCE_S, Node, becomes_true, free_port

_EVERY_S: Final = 1.5
"""The mean time between two faults, in seconds."""

_FAULT_S: Final = 150.0
"""How long a fault may take until it is over, in seconds."""

_SUBMITTERS: Final = 4
_FULL_S: Final = 4.0
_QUIET_S: Final = 2.0


@final
@attrs.define
class Outcome:
    """The result of a storm.

    Attributes:
        faults: What was wrong.
        counts: How often each thing happened.
        seconds: How long it took, in all.
        skipped: The faults that cannot be caused on this machine.
    """

    faults: list[str] = attrs.field(factory=list[str])
    counts: Counter[str] = attrs.field(factory=Counter[str])
    seconds: float = 0.0
    skipped: list[str] = attrs.field(factory=list[str])

    @override
    def __str__(self) -> str:
        """Return the figures in one line."""
        names = (
            *("calls answered", "repeated", "sent on", "kills of leaders", "kills of followers"),
            *("promotions", "stops", "cuts", "stalls", "slow spells", "full disks"),
            *("decisions", "followed"),
        )
        counts = ", ".join(f"{self.counts[name]:,} {name}" for name in names)
        return f"{self.seconds:.0f} s: {counts}; {len(self.faults)} faults"


@final
class Storm:
    """Two servers, of which one leads, and the faults that happen to them.

    Args:
        nodes: The servers.
        random: The source of chance.

    Attributes:
        books: What was sent, answered and followed.
        counts: How often what has happened.
        faults: What was wrong.
        journal: What has happened.
        failed: Set when something was wrong.
    """

    def __init__(self, nodes: Sequence[Node], random: Random) -> None:
        self.nodes = nodes
        self.books = Books()
        self.counts = Counter[str]()
        self.faults: list[str] = []
        self.journal: list[str] = []
        self.failed = trio.Event()
        for node in nodes:
            node.fault = self.fault
        self._random = random
        self._leads = 0
        self._term = 1
        #: Whether the follower has been level with its leader at least once since that one leads.
        self._is_level = False
        self._began = trio.current_time()

    # For clients

    @property
    def leader(self) -> Node:
        """The server that leads."""
        return self.nodes[self._leads]

    @property
    def follower(self) -> Node:
        """The server that follows."""
        return self.nodes[1 - self._leads]

    def fault(self, message: str) -> None:
        """Note a fault."""
        self.note(f"FAULT {message}")
        self.faults.append(message)
        self.failed.set()

    def note(self, text: str) -> None:
        """Note an event in the journal."""
        self.journal.append(f"{trio.current_time() - self._began:7.2f} {text}")

    # The servers

    async def begin(self) -> None:
        """Start both, and add the nodes and the application."""
        await self.leader.start()
        await self.follower.start(self.leader)
        if not await self.leader.until_ready():
            self.fault("the leader was never ready")
        setup = Submitter(self, self._random, "setup", tells_term=False)
        await setup.send(setup.draw(SETUP))

    async def watch(self) -> None:
        """Watch whether the follower is level, until this is cancelled."""
        while True:
            leads = self._leads
            status = await self.follower.replica()
            is_level = (
                status.get("role") == "follower"
                and bool(status.get("connected"))
                and status.get("batches_behind") == 0
                and status.get("term") == self._term
            )
            if leads == self._leads and is_level and not self._is_level:
                self._is_level = True
                self.note(f"{self.follower.name} is level")
            await trio.sleep(0.1)

    async def _restart(self, node: Node) -> None:
        leader = None if node is self.leader else self.leader
        await node.start(leader)
        node.remove_set_aside()

    async def _promote(self) -> None:
        """Promote the follower; the old leader may run, or not."""
        new, old = self.follower, self.leader
        answered = [one for one in self.books.calls if one.answers]
        self.note(f"{new.name} is promoted")
        if not await new.until_ready():
            self.fault(f"{new.name} is not ready to be promoted")
            return
        old.may_end = True
        answer = await new.ask("/api/v1/replica/promote", "POST", 20)
        while answer is None and new.runs:
            await trio.sleep(0.1)
            answer = await new.ask("/api/v1/replica/promote", "POST", 20)
        if answer is None or answer.status_code not in {200, 409}:
            response = "nothing" if answer is None else answer.text[:300]
            self.fault(f"{new.name} is promoted, and answers {response}")
            return
        self._leads, self._is_level = 1 - self._leads, False
        self.counts["promotions"] += 1
        await self._check_promotion(new, old, answered)

    async def _check_promotion(self, new: Node, old: Node, answered: Sequence[Call]) -> None:
        term = await trio.to_thread.run_sync(_term_of, new.state)
        if term != self._term + 1:
            self.fault(f"{new.name} leads with term {term} after term {self._term}")
        self._term = term
        check = self.books.check_promotion
        for fault in await trio.to_thread.run_sync(check, new.state, old.state, answered):
            self.fault(f"at the promotion of {new.name}: {fault}")

    # What happens

    async def cause_faults(self, seconds: float) -> None:
        """Cause one fault after the other, for some seconds or until something is wrong."""
        end = trio.current_time() + seconds
        acts = _Faults(self, self._random)
        while not self.failed.is_set():
            pause_s = self._random.expovariate(1 / _EVERY_S)
            if trio.current_time() + pause_s >= end:
                break
            await trio.sleep(pause_s)
            name, act = acts.draw(is_level=self._is_level)
            self.note(name)
            with trio.move_on_after(_FAULT_S) as within:
                await act()
            if within.cancelled_caught:
                self.fault(f"{name} takes longer than {_FAULT_S:.0f} s")
            await self.restart_ended()

    async def restart_ended(self) -> None:
        """Start servers again that have ended by themselves."""
        for node in self.nodes:
            if node.served is not None and not node.runs:
                await node.end()
                self.note(f"{node.name} has ended, and is started again")
                await self._restart(node)

    async def kill(self, node: Node) -> None:
        """Kill a server, as ``kill -9`` does."""
        self.counts["kills of leaders" if node is self.leader else "kills of followers"] += 1
        await node.end()

    async def restart(self, node: Node) -> None:
        """Start a server again in its role."""
        await self._restart(node)

    async def promote(self) -> None:
        """Promote the follower."""
        await self._promote()

    async def settle(self) -> None:
        """End the storm: both servers run, and the follower becomes level."""
        for node in self.nodes:
            node.proxy.heal()
            node.signal(signal.SIGCONT)
        await self.restart_ended()
        if not await becomes_true(self._is_calm, PATIENCE_S):
            self.fault(f"{self.follower.name} is never level: {await self.follower.replica()}")

    async def _is_calm(self) -> bool:
        if not self._is_level:
            return False
        leader, follower = await self.leader.replica(), await self.follower.replica()
        return not leader.get("held", True) and follower.get("batches_behind") == 0

    async def end(self, watchers: Sequence[Watcher]) -> None:
        """End both servers when nothing happens any more, and check their stores."""
        await self._until_quiet(watchers)
        about = await self.leader.replica()
        if about.get("differences"):
            self.fault(f"{self.leader.name} says {about}")
        for node in (self.leader, self.follower):
            status = await node.end(signal.SIGTERM)
            if status != 0:
                self.fault(f"{node.name} has ended with {status} at SIGTERM")
        check = self.books.check_end
        for fault in await trio.to_thread.run_sync(check, self.leader.state, self.follower.state):
            self.fault(fault)
        for one in watchers:
            for fault in self.books.faults_of_watcher(one.name, one.seen):
                self.fault(fault)
        self.counts["calls answered"] = sum(1 for one in self.books.calls if one.answers)
        self.counts["repeated"] = self.counts["tries"] - len(self.books.calls)
        self.counts["decisions"] = len(self.books.history.lines())

    async def _until_quiet(self, watchers: Sequence[Watcher]) -> None:
        """Wait until timers have run, and all watchers have got the same decisions."""
        batch, since = -1, trio.current_time()

        async def is_quiet() -> bool:
            nonlocal batch, since
            answer = await self.leader.ask("/healthz")
            now = -1 if answer is None else int(answer.json()["batch"])
            if now != batch:
                batch, since = now, trio.current_time()
            counts = {len(one.seen) for one in watchers}
            return trio.current_time() >= since + _QUIET_S and len(counts) == 1

        if not await becomes_true(is_quiet, PATIENCE_S):
            seen = [len(one.seen) for one in watchers]
            self.fault(f"nothing comes to an end: batch {batch}, followed {seen}")


def _term_of(state: Path) -> int:
    with StateReader(state) as reader:
        return reader.meta.term


@final
class _Faults:
    """The faults that happen."""

    def __init__(self, storm: Storm, random: Random) -> None:
        self._storm = storm
        self._random = random

    def draw(self, *, is_level: bool) -> tuple[str, Callable[[], Awaitable[None]]]:
        """Draw the next fault.

        Args:
            is_level: Whether the follower may be promoted: it has all that was answered.
        """
        acts: list[tuple[str, int, Callable[[], Awaitable[None]]]] = [
            ("the follower is killed", 4, self._kill_follower),
            ("the leader is killed", 3, self._kill_leader),
            ("both are killed", 1, self._kill_both),
            ("the leader stops", 2, self._stop_leader),
            ("the follower stops", 2, self._stop_follower),
            ("connections are cut", 3, self._cut),
            ("connections are stalled", 2, self._stall),
            ("connections are slow", 2, self._slow),
        ]
        if all(node.disk.can_be_full for node in self._storm.nodes):
            acts += [
                ("the disk of the leader is full", 1, self._fill_leader),
                ("the disk of the follower is full", 1, self._fill_follower),
            ]
        if is_level:
            acts += [
                ("the leader is killed for good", 5, self._kill_and_promote),
                ("the leader stops, and another one leads", 2, self._stop_and_promote),
                ("the leader is cut off, and another one leads", 2, self._cut_and_promote),
                ("another one leads", 2, self._hand_over),
            ]
        weights = [weight for _, weight, _ in acts]
        name, _, act = self._random.choices(acts, weights)[0]
        return name, act

    async def _wait(self, most_s: float) -> None:
        await trio.sleep(self._random.uniform(0, most_s))

    async def _kill_follower(self) -> None:
        await self._storm.kill(self._storm.follower)
        await self._wait(2)
        await self._storm.restart(self._storm.follower)

    async def _kill_leader(self) -> None:
        await self._storm.kill(self._storm.leader)
        await self._wait(1)
        await self._storm.restart(self._storm.leader)

    async def _kill_both(self) -> None:
        storm = self._storm
        for node in self._random.sample(storm.nodes, 2):
            await storm.kill(node)
        for node in self._random.sample(storm.nodes, 2):
            await storm.restart(node)

    async def _stop(self, node: Node, most_s: float) -> None:
        self._storm.counts["stops"] += 1
        node.signal(signal.SIGSTOP)
        await self._wait(most_s)
        node.signal(signal.SIGCONT)

    async def _stop_leader(self) -> None:
        await self._stop(self._storm.leader, 4)

    async def _stop_follower(self) -> None:
        await self._stop(self._storm.follower, 4)

    async def _cut(self) -> None:
        proxy = self._storm.leader.proxy
        self._storm.counts["cuts"] += 1
        for _ in range(self._random.randint(1, 5)):
            proxy.cut(for_ever=False)
            await self._wait(0.3)
        if self._random.random() < 0.5:
            proxy.cut(for_ever=True)
            await self._wait(4)
        proxy.heal()

    async def _stall(self) -> None:
        proxy = self._storm.leader.proxy
        self._storm.counts["stalls"] += 1
        proxy.stall()
        await self._wait(self._random.choice((1, 4, 14)))
        if self._random.random() < 0.5:
            proxy.cut(for_ever=False)
        proxy.heal()

    async def _slow(self) -> None:
        proxy = self._storm.leader.proxy
        self._storm.counts["slow spells"] += 1
        proxy.slow(self._random.uniform(0.001, 0.2), self._random.choice((100, 1000, 65_536)))
        await self._wait(5)
        proxy.heal()

    async def _fill(self, node: Node) -> None:
        self._storm.counts["full disks"] += 1
        node.may_end = True
        await trio.to_thread.run_sync(node.disk.fill)

        async def has_ended() -> bool:
            return not node.runs

        await becomes_true(has_ended, _FULL_S)
        if self._random.random() < 0.3:
            await self._storm.kill(node)
        await trio.to_thread.run_sync(node.disk.free)
        if not node.runs:
            self._storm.note(f"{node.name} has ended on its full disk")
            await node.end()
            await self._storm.restart(node)
        node.may_end = False

    async def _fill_leader(self) -> None:
        await self._fill(self._storm.leader)

    async def _fill_follower(self) -> None:
        await self._fill(self._storm.follower)

    # Another one leads

    async def _kill_and_promote(self) -> None:
        storm = self._storm
        if self._random.random() < 0.3:
            storm.leader.proxy.cut(for_ever=True)
            await self._wait(0.5)
        await storm.kill(storm.leader)
        old = storm.leader
        old.proxy.heal()
        await storm.promote()
        await self._wait(1)
        await storm.restart(old)

    async def _replace(self, old: Node) -> None:
        """Let an old leader run for a while beside the new one; then it follows."""
        await self._wait(4)
        await old.end()
        await self._storm.restart(old)

    async def _stop_and_promote(self) -> None:
        storm, old = self._storm, self._storm.leader
        storm.counts["stops"] += 1
        old.signal(signal.SIGSTOP)
        await self._wait(1)
        await storm.promote()
        await self._wait(1)
        old.signal(signal.SIGCONT)
        await self._replace(old)

    async def _cut_and_promote(self) -> None:
        storm, old = self._storm, self._storm.leader
        storm.counts["cuts"] += 1
        old.proxy.cut(for_ever=True)
        await self._wait(2)
        await storm.promote()
        old.proxy.heal()
        await self._replace(old)

    async def _hand_over(self) -> None:
        old = self._storm.leader
        await self._storm.promote()
        await self._replace(old)


@asynccontextmanager
async def _two_nodes(folder: Path) -> AsyncGenerator[list[Node]]:
    ports = [free_port() for _ in range(2)]
    async with proxy_to(ports[0]) as first, proxy_to(ports[1]) as second:
        both = [
            Node(name, folder / name, port, proxy)
            for name, port, proxy in zip("ab", ports, (first, second), strict=True)
        ]
        try:
            yield both
        finally:
            with trio.CancelScope(shield=True):
                for node in both:
                    node.may_end = True
                    await node.end()
                    node.disk.close()


async def run_storm(seed: int, seconds: float, folder: Path) -> tuple[Outcome, list[str]]:
    """Run a storm; return its outcome and its journal.

    Args:
        seed: The seed of chance.
        seconds: How long the faults go on.
        folder: A folder for it.
    """
    random, began = Random(seed), time.monotonic()
    async with _two_nodes(folder) as nodes:
        storm = Storm(nodes, random)
        outcome = Outcome(storm.faults, storm.counts)
        if not all(node.disk.can_be_full for node in nodes):
            outcome.skipped.append("no disk is ever full: nothing can be mounted here")
        await _run(storm, random, seconds)
        if storm.faults:
            for node in nodes:
                await node.end()
                shutil.copytree(node.state, folder / f"state-{node.name}")
    outcome.seconds = time.monotonic() - began
    return outcome, storm.journal


async def _run(storm: Storm, random: Random, seconds: float) -> None:
    await storm.begin()
    ends = trio.Event()
    seeds = [Random(random.random()) for _ in range(_SUBMITTERS + 2)]
    watchers = [
        Watcher(storm, seeds[-1], "who follows the leader", is_strict=True),
        Watcher(storm, seeds[-2], "who follows anybody", is_strict=False),
    ]
    async with trio.open_nursery() as watching:
        watching.start_soon(storm.watch)
        for one in watchers:
            watching.start_soon(one.run)
        async with trio.open_nursery() as sending:
            for number in range(_SUBMITTERS):
                sender = Submitter(storm, seeds[number], f"c{number}", tells_term=number == 0)
                sending.start_soon(sender.run, ends)
            await storm.cause_faults(seconds)
            await storm.settle()
            ends.set()
        if not storm.faults:
            await storm.end(watchers)
        watching.cancel_scope.cancel()
