"""What is there while a replay goes on, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence

from muster.feeds import FeedItem
from muster.replay import Census, LiveAsk, replay
from muster_core.decisions import Announced, Reason
from muster_core.events import AddApp, AddAsk, AddNode, Event, Outcome, Release, RemoveNode
from muster_core.resources import Resources

S = 1_000_000
ONE = Resources({"vcore": 1})


class Diary:
    """Writes down what a census tells; reads a feed as a watcher of its driver would."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.census = Census(self)

    def write(self, batch: Sequence[Announced], /) -> None:
        self.census.write(batch)
        self.census.check()

    def node(self, at_us: int, name: str, capacity: Resources | None) -> None:
        self._say(at_us, f"{name} {'goes' if capacity is None else 'comes'}")

    def job(self, queue: str) -> None:
        self.lines.append(f"job in {queue}")

    def pending(self, at_us: int, ask: LiveAsk) -> None:
        self._say(at_us, f"{ask.key[1]} pending")

    def taken(self, at_us: int, ask: LiveAsk) -> None:
        self._say(at_us, f"{ask.key[1]} taken")

    def held(self, at_us: int, ask: LiveAsk) -> None:
        self._say(at_us, f"{ask.key[1]} on {ask.node}")

    def bound(self, at_us: int, ask: LiveAsk, wait_us: int | None) -> None:
        self._say(at_us, f"{ask.key[1]} bound after {wait_us}")

    def unbound(self, at_us: int, ask: LiveAsk, wait_us: int) -> None:
        self._say(at_us, f"{ask.key[1]} ended without a node after {wait_us // S}")

    def left(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        self._say(at_us, f"{ask.key[1]} left {ask.node}: {reason}")

    def priority(self, at_us: int, queue: str, value: int | None) -> None:
        self._say(at_us, f"{queue} {value}")

    def _say(self, at_us: int, what: str) -> None:
        self.lines.append(f"{at_us // S} s: {what}")


async def told_of(*events: tuple[int, Event]) -> list[str]:
    """Replay events, and give what the census told after the first batch."""
    diary = Diary()
    items = [FeedItem(number, number + 1, at, event) for number, (at, event) in enumerate(events)]
    for item in items:
        diary.census.saw(item)
    await replay(items, journals=[diary], until_us=items[-1].at_us)
    diary.census.catch_up(items[-1].at_us)
    return [line for line in diary.lines if not line.startswith(("0 s", "job"))]


BEGINNING: tuple[tuple[int, Event], ...] = (
    (0, AddNode("n", ONE)),
    (0, AddApp("a", "root.q")),
    (0, AddAsk("a", "x", ONE)),
)


async def test_an_ask_that_waits_for_its_turn() -> None:
    told = await told_of(*BEGINNING, (1 * S, AddAsk("a", "y", ONE)), (3 * S, Release("a", "x")))

    assert told == [
        "1 s: y pending",
        "1 s: root 0",
        "1 s: root.q 0",
        "3 s: x left n: completed",
        "3 s: y taken",
        "3 s: y on n",
        "3 s: y bound after 2000000",
        "3 s: root None",
        "3 s: root.q None",
    ]


async def test_an_ask_that_loses_its_node_is_pending() -> None:
    told = await told_of(*BEGINNING, (2 * S, RemoveNode("n")))

    assert [line for line in told if "root" not in line] == [
        "2 s: n goes",
        "2 s: x left n: node_lost",
        "2 s: x pending",
    ]


async def test_an_ask_that_failed_is_pending_again_while_it_has_a_retry() -> None:
    failed = Release("a", "y", Outcome.FAILED)
    told = await told_of(
        *BEGINNING[:2],
        (1 * S, AddAsk("a", "y", ONE, retries=1)),
        (2 * S, failed),
        (3 * S, failed),
        (4 * S, AddAsk("a", "y", ONE)),
    )

    assert [line for line in told if "root" not in line] == [
        *("1 s: y pending", "1 s: y taken", "1 s: y on n", "1 s: y bound after 0"),
        *("2 s: y left n: failed", "2 s: y pending", "2 s: y taken", "2 s: y on n"),
        "2 s: y bound after None",
        "3 s: y left n: failed",
        *("4 s: y pending", "4 s: y taken", "4 s: y on n", "4 s: y bound after 0"),
    ]


async def test_a_name_that_is_asked_for_again_when_its_last_bearer_ends() -> None:
    told = await told_of(*BEGINNING, (2 * S, Release("a", "x")), (2 * S, AddAsk("a", "x", ONE)))

    assert [line for line in told if "root" not in line] == [
        "2 s: x left n: completed",
        "2 s: x pending",
        "2 s: x taken",
        "2 s: x on n",
        "2 s: x bound after 0",
    ]
