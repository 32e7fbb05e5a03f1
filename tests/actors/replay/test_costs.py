"""What evictions cost and how even the shares are, against a plain count.

What is there while a replay goes on.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from muster.feeds import FeedItem
from muster.replay import (
    Beginning,
    Census,
    Costs,
    ExistingAsk,
    Fairness,
    LiveAsk,
    LostRuns,
    Tally,
    replay,
)
from muster.replay._driver import submit_item_directly
from muster_core.config.loader import default_configuration
from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced, Kind, Reason
from muster_core.events import AddApp, AddAsk, AddNode, Event, Outcome, Release, RemoveNode
from muster_core.owners.asks import Ask
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace, Snapshot
from muster_core.structures.shapes import Shape
from tests.actors.samples import of_scenario, tally_of
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Scenario
from tests.naive.strategies import scenarios
from tests.share import share

S = 1_000_000
QUEUES = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: owed, resources: {guaranteed: {vcore: "1"}}},
    {name: rich}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 2, memory: 8}}
- {op: add_app, app: rich, queue: root.rich, user: ann}
- {op: add_app, app: owed, queue: root.owed, user: bob}
"""
RICH = "- {op: add_ask, app: rich, ask: x, resources: {vcore: 1, memory: 4}, count: 2}\n"
OWED = "- {op: add_ask, at: 10, app: owed, ask: x, resources: {vcore: 1}, run_for: 20}\n"


async def lost_of(feed: str, until_s: int) -> dict[str, LostRuns]:
    return dict((await tally_of(QUEUES + feed, until_us=until_s * S)).summary().lost)


# COMMAND-22: what an eviction costs, in its queue and for each type
async def test_an_evicted_run_is_lost() -> None:
    summary = (await tally_of(QUEUES + RICH + OWED, until_us=45 * S)).summary()
    lost = {"reclaimed": LostRuns(1, 40.0, {"memory": 160.0, "vcore": 40.0})}
    queues = {queue.queue: queue for queue in summary.queues}

    assert summary.lost == lost
    assert queues["root.rich"].lost == lost
    assert (queues["root.rich"].asks_reclaimed, queues["root.rich"].asks_preempted) == (1, 0)
    assert queues["root.owed"].lost == {}
    assert queues["root.owed"].asks_reclaimed == 0


# COMMAND-22, DEVICE-4: what was held of devices counts in devices, and not in thousandths
async def test_lost_devices_count_like_cores() -> None:
    feed = """\
- {op: add_node, node: g, capacity: {vcore: 1}, devices: {gpu: 2}}
- {op: add_app, app: rich, queue: rich}
- {op: add_ask, app: rich, ask: whole, devices: {gpu: 1}}
- {op: add_ask, app: rich, ask: share, devices: {gpu: {milli: 500}}}
- {op: remove_node, at: 4, node: g}
"""
    lost = await lost_of(feed, 5)

    assert lost == {"node_lost": LostRuns(2, 8.0, {"device/gpu": 6.0})}


# COMMAND-22: each cause apart; what is over is not run again
@pytest.mark.parametrize(
    ("end", "causes"),
    [
        ("{op: remove_node, at: 5, node: n1}", {"node_lost": LostRuns(1, 5.0, {"vcore": 5.0})}),
        (
            "{op: bind_failed, at: 5, app: rich, ask: y}",
            {"bind_failed": LostRuns(1, 5.0, {"vcore": 5.0})},
        ),
        (
            "{op: release, at: 5, app: rich, ask: y, outcome: failed}",
            {"failed": LostRuns(1, 5.0, {"vcore": 5.0})},
        ),
        ("{op: release, at: 5, app: rich, ask: y}", {}),
        ("{op: remove_ask, at: 5, app: rich, ask: y}", {}),
    ],
)
async def test_the_causes(end: str, causes: dict[str, LostRuns]) -> None:
    ask = "- {op: add_ask, app: rich, ask: y, resources: {vcore: 1}, retries: 1}\n"

    assert await lost_of(f"{ask}- {end}\n", 6) == causes


async def test_the_last_failure_ends_the_work() -> None:
    ask = "- {op: add_ask, app: rich, ask: y, resources: {vcore: 1}}\n"
    end = "- {op: release, at: 5, app: rich, ask: y, outcome: failed}\n"

    assert await lost_of(ask + end, 6) == {}


async def test_a_member_that_only_waited_has_not_run() -> None:
    gang = """
- {op: add_gang, gang: g, min_member: 2, at: 0}
- {op: add_ask, app: rich, ask: y, resources: {vcore: 2}, gang: g, count: 2}
- {op: remove_node, at: 5, node: n1}
"""
    assert await lost_of(gang, 6) == {}


# COMMAND-23: Jain's index of the dominant shares of those who have or want something
async def test_the_mean_of_the_index() -> None:
    summary = (await tally_of(QUEUES + RICH + OWED, until_us=60 * S)).summary()
    # Until 10 s only rich wants something. Until 40 s it has all: 1 / 2. Until 60 s both have an
    # ask: rich 1 of 2 cores, owed as well.
    mean = (30 * 0.5 + 20 * 1) / 50

    assert summary.fairness == Fairness(mean, 50.0, mean, 50.0)


async def test_the_dominant_share_is_the_largest_one() -> None:
    asks = """
- {op: add_ask, app: rich, ask: x, resources: {vcore: 0.5, memory: 6}, run_for: 10}
- {op: add_ask, app: owed, ask: x, resources: {vcore: 1, memory: 1}, run_for: 10}
"""
    summary = (await tally_of(QUEUES + asks, until_us=20 * S)).summary()
    shares = (0.75, 0.5)

    assert summary.fairness.queues == pytest.approx(
        sum(shares) ** 2 / (2 * sum(share**2 for share in shares))
    )
    assert summary.fairness.queues_s == 10


async def test_the_capacity_of_the_time_counts() -> None:
    asks = """
- {op: add_ask, app: rich, ask: x, resources: {vcore: 1}, run_for: 20}
- {op: add_ask, app: owed, ask: x, resources: {memory: 4}, run_for: 20}
- {op: add_node, at: 10, node: n2, capacity: {vcore: 2}}
"""
    summary = (await tally_of(QUEUES + asks, until_us=20 * S)).summary()

    # Both have a half until 10 s; then rich has a quarter.
    assert summary.fairness.queues == pytest.approx((1 + 0.75**2 / (2 * (0.25**2 + 0.5**2))) / 2)


async def test_nobody_has_anything_to_share() -> None:
    wanted = "- {op: add_ask, app: rich, ask: x, resources: {vcore: 9}}\n"
    also = "- {op: add_ask, app: owed, ask: x, resources: {vcore: 9}}\n"
    both = (await tally_of(QUEUES + wanted + also, until_us=20 * S)).summary()
    one = (await tally_of(QUEUES + RICH, until_us=20 * S)).summary()

    assert both.fairness == one.fairness == Fairness()


# COMMAND-22, COMMAND-23: what is there at the beginning counts from then on
def test_what_is_there_at_the_beginning() -> None:
    held = _ask("x")
    beginning = Beginning(
        100 * S,
        configuration=default_configuration(),
        nodes={"n": Resources({"vcore": 2000})},
        apps={"a": "root.q", "b": "root.r"},
        users={"a": "ann", "b": None},
        asks=(
            ExistingAsk("a", held, "n", is_bound=True, was_bound=True),
            ExistingAsk("b", _ask("y")),
        ),
        priorities={},
    )
    costs = Costs()
    Census(costs).begin(beginning)
    costs.pass_to(110 * S)

    assert costs.fairness() == Fairness(0.5, 10.0, 0.5, 10.0)
    costs.check([held.resources])


def _ask(name: str) -> Ask:
    one = Resources({"vcore": 1000})
    return Ask(0, 0, "", 1, 0, name, one, Shape(one), 0)


class PlainCosts:
    """The same figures, from snapshots and decisions, with exact fractions."""

    def __init__(self, end_us: int) -> None:
        self._end_us = end_us
        self.now_us = 0
        self.areas = [Fraction(0), Fraction(0)]
        self.times_us = [0, 0]
        self.lost: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._bound_us: dict[tuple[str | None, str | None], int] = {}

    def stay(self, snapshot: Snapshot, until_us: int) -> None:
        for_us = min(until_us, self._end_us) - self.now_us
        self.now_us = until_us
        there: dict[str, int] = defaultdict(int)
        for node in snapshot.nodes.values():
            for kind, amount in node.capacity.items():
                there[kind] += amount
        for which in (0, 1):
            held: dict[str | None, dict[str, int]] = {}
            for app in snapshot.apps.values():
                for ask in app.asks:
                    amounts = held.setdefault((app.queue, app.user)[which], defaultdict(int))
                    if ask.place in {AskPlace.BOUND, AskPlace.WAITING}:
                        for kind, amount in ask.resources.items():
                            amounts[kind] += amount
            shares = [
                max((Fraction(n, there[kind]) for kind, n in one.items() if there[kind]), default=0)
                for one in held.values()
            ]
            if len(shares) > 1 and any(shares) and for_us > 0:
                squares = sum(share * share for share in shares)
                self.areas[which] += Fraction(sum(shares) ** 2, len(shares) * squares) * for_us
                self.times_us[which] += for_us

    def note(self, decided: Iterable[Announced]) -> None:
        for one in decided:
            decision = one.decision
            key = (decision.app, decision.ask)
            if decision.kind is Kind.BOUND:
                self._bound_us[key] = one.at_us
            elif decision.kind is Kind.RELEASED:
                since_us = self._bound_us.pop(key, None)
                over = {Reason.COMPLETED, Reason.REMOVED, Reason.FAILED, Reason.CANCELLED}
                if since_us is not None and decision.reason not in over:
                    sums = self.lost[str(decision.queue), str(decision.reason)]
                    sums[0] += 1
                    sums[1] += one.at_us - since_us


def plainly(feed: Sequence[FeedItem], end_us: int) -> PlainCosts:
    scheduler, plain, items = PlainScheduler(), PlainCosts(end_us), deque(feed)
    while True:
        due_us = scheduler.machine.next_deadline_us()
        coming = [items[0].at_us] if items else []
        if due_us is not None:
            coming.append(due_us)
        if not coming:
            return plain
        if scheduler.machine.batches:  # before the first one there is nothing to see
            plain.stay(scheduler.snapshot(), min(coming))
        plain.now_us = min(coming)
        while items and items[0].at_us == plain.now_us:
            submit_item_directly(scheduler, items.popleft())
        scheduler.pass_until(plain.now_us)
        plain.note(scheduler.announced)
        scheduler.announced = []


# COMMAND-22, COMMAND-23
@share(0.5)
@given(st.one_of(scenarios(), gang_scenarios(), evictions()))
async def test_the_figures_are_those_of_a_plain_count(scenario: Scenario) -> None:
    feed = of_scenario(scenario)
    tally = Tally()
    await replay(feed, tally=tally)
    tally.check()
    summary, plain = tally.summary(), plainly(feed, tally.at_us)

    found = summary.fairness
    for which, (index, time_s) in enumerate(
        ((found.queues, found.queues_s), (found.users, found.users_s))
    ):
        assert time_s * S == plain.times_us[which]
        if index is None:
            assert not plain.times_us[which]
        else:
            assert index == pytest.approx(float(plain.areas[which] / plain.times_us[which]))
    assert {
        (queue.queue, why): [lost.runs, lost.run_s * S]
        for queue in summary.queues
        for why, lost in queue.lost.items()
        if why != "failed"
    } == plain.lost


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

    def job(self, at_us: int, app: str, queue: str | None, user: str | None) -> None:
        if queue is not None:
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

    def configured(self, at_us: int, configuration: Configuration) -> None:
        """Do nothing."""

    def lost_node(self, at_us: int, ask: LiveAsk, reason: Reason | None) -> None:
        self._say(at_us, f"{ask.key[1]} left {ask.node}: {reason}")

    def priority(self, at_us: int, queue: str, value: int | None) -> None:
        self._say(at_us, f"{queue} {value}")

    def _say(self, at_us: int, what: str) -> None:
        self.lines.append(f"{at_us // S} s: {what}")


async def diary_of(*events: tuple[int, Event]) -> list[str]:
    """Replay events, and return what the census reported after the first batch."""
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
    lines = await diary_of(*BEGINNING, (1 * S, AddAsk("a", "y", ONE)), (3 * S, Release("a", "x")))

    assert lines == [
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
    lines = await diary_of(*BEGINNING, (2 * S, RemoveNode("n")))

    assert [line for line in lines if "root" not in line] == [
        "2 s: n goes",
        "2 s: x left n: node_lost",
        "2 s: x pending",
    ]


async def test_an_ask_that_failed_is_pending_again_while_it_has_a_retry() -> None:
    failed = Release("a", "y", Outcome.FAILED)
    lines = await diary_of(
        *BEGINNING[:2],
        (1 * S, AddAsk("a", "y", ONE, retries=1)),
        (2 * S, failed),
        (3 * S, failed),
        (4 * S, AddAsk("a", "y", ONE)),
    )

    assert [line for line in lines if "root" not in line] == [
        *("1 s: y pending", "1 s: y taken", "1 s: y on n", "1 s: y bound after 0"),
        *("2 s: y left n: failed", "2 s: y pending", "2 s: y taken", "2 s: y on n"),
        "2 s: y bound after None",
        "3 s: y left n: failed",
        *("4 s: y pending", "4 s: y taken", "4 s: y on n", "4 s: y bound after 0"),
    ]


async def test_a_name_that_is_asked_for_again_when_its_last_bearer_ends() -> None:
    lines = await diary_of(*BEGINNING, (2 * S, Release("a", "x")), (2 * S, AddAsk("a", "x", ONE)))

    assert [line for line in lines if "root" not in line] == [
        "2 s: x left n: completed",
        "2 s: x pending",
        "2 s: x taken",
        "2 s: x on n",
        "2 s: x bound after 0",
    ]
