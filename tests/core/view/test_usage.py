"""What queues and users have had: ticks, positions, and what parts they get in the end."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

import pytest

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddApp, AddAsk, AddNode, Configure, Event, Release, SetUsage
from muster_core.resources import Resources
from muster_core.snapshots import UsageSnapshot
from muster_core.structures.amounts import Types
from muster_core.values.configuration import Configuration, QueueConfig, Settings, SortPolicy
from muster_core.view.tree.usage import Usage, tick_us

S: Final = 1_000_000
HALF_LIFE_S: Final = 256
CORES: Final = 8


def configuration_of(
    weights: Mapping[str, int], half_life_us: int = HALF_LIFE_S * S
) -> Configuration:
    """Return a configuration with a leaf for each name, with its weight."""
    leaves = tuple(
        QueueConfig(name, f"root.{name}", is_parent=False, settings=Settings(weight=weight))
        for name, weight in weights.items()
    )
    settings = Settings(half_life_us=half_life_us)
    root = QueueConfig("root", "root", is_parent=True, settings=settings, children=leaves)
    return Configuration(partition="default", root=root)


class Site:
    """A cluster with an application in each queue; tests end its asks."""

    def __init__(self, weights: Mapping[str, int], half_life_us: int = HALF_LIFE_S * S) -> None:
        self.scheduler = PlainScheduler(configuration_of(weights, half_life_us))
        self.submit(AddNode("n", Resources({"vcore": CORES * 1000})))
        for name in weights:
            self.submit(AddApp(name, f"root.{name}"))
        #: What each queue has had in each second, in core-seconds.
        self.had: list[dict[str, float]] = []
        self._asks = 0

    def submit(self, event: Event) -> None:
        self.scheduler.submit(event)

    def ask(self, app: str, count: int, run_s: int) -> None:
        """Ask for one core each, so many times."""
        if self.scheduler.app(app) is None:  # It has had nothing for a while.
            self.submit(AddApp(app, f"root.{app}"))
        self._asks += 1
        resources = Resources({"vcore": 1000})
        name = f"x{self._asks}"
        self.submit(AddAsk(app, name, resources, count=count, run_for_us=run_s * S))

    def run(self, seconds: int, backlog: Mapping[str, int], run_s: int = 4) -> None:
        """Let time pass while each queue always has so much pending, of one core each.

        Asks begin at different instants, so that nodes do not get free all at once.
        """
        for _ in range(seconds):
            start_us = self.scheduler.machine.now_us
            for app, wanted in backlog.items():
                pending = sum(one == app for one, _ in self.scheduler.pending())
                if pending < wanted:
                    self.ask(app, wanted - pending, run_s + self._asks % 3)
            self.scheduler.settle()
            snapshot = self.scheduler.snapshot()
            self.had.append(
                {
                    path.removeprefix("root."): queue.allocated.get("vcore", 0) / 1000
                    for path, queue in snapshot.queues.items()
                }
            )
            self.scheduler.pass_until(start_us + S - 1)
            self.scheduler.advance(start_us + S)

    def parts(self, seconds: int) -> dict[str, float]:
        """Return the part of each queue of what was allocated in the last seconds."""
        last = self.had[-seconds:]
        whole = sum(second["root"] for second in last)
        return {name: sum(second[name] for second in last) / whole for name in last[0]}

    def usage(self) -> dict[str, UsageSnapshot]:
        return {one.name: one for one in self.scheduler.snapshot().usage}


# What has to be shown of it


@pytest.mark.parametrize("half_lives", [1, 3])
def test_a_newcomer_gets_all_that_ends_until_the_past_shares_meet(half_lives: int) -> None:
    site = Site({"old": 1, "new": 1})
    site.run(half_lives * HALF_LIFE_S, {"old": CORES})
    both = {"old": CORES, "new": CORES}
    while (usage := site.usage())["root.old"].past_share > usage["root.new"].past_share:
        site.run(1, both)
        began = site.had[half_lives * HALF_LIFE_S : -1]
        assert all(after["old"] <= before["old"] for before, after in pairwise(began))
    # The old one gets nothing from some seconds on.
    assert min(second["old"] for second in site.had[half_lives * HALF_LIFE_S :]) == 0
    site.run(3 * HALF_LIFE_S, both)
    parts = site.parts(HALF_LIFE_S)
    assert abs(parts["old"] - parts["new"]) < 0.02


def test_parts_follow_weights() -> None:
    site = Site({"three": 3, "one": 1})
    site.run(4 * HALF_LIFE_S, {"three": CORES, "one": CORES})
    parts = site.parts(HALF_LIFE_S)
    assert parts["three"] == pytest.approx(0.75, abs=0.02)
    usage = site.usage()
    assert usage["root.three"].had == pytest.approx(usage["root.three"].due, abs=0.02)


def test_who_comes_for_one_hour_a_day_gets_its_part_of_the_day_then() -> None:
    # A day of 240 s, an hour of 10 s; one part in 24 would be the whole cluster for that hour.
    site = Site({"often": 24, "seldom": 1}, half_life_us=7 * 240 * S)
    for _ in range(4):
        site.run(230, {"often": CORES}, run_s=1)
        site.run(10, {"often": CORES, "seldom": CORES}, run_s=1)
    parts = site.parts(240)
    assert parts["seldom"] == pytest.approx(1 / 25, abs=0.015)


# Ticks


def plainly(used: int, amounts: list[int]) -> int:
    """Return a usage after ticks, by the recurrence."""
    for amount in amounts:
        used = used * 4283353945 // 2**32 + amount
    return used


@pytest.mark.parametrize("ticks", [1, 2, 3, 255, 256, 5_000, 30_000])
@pytest.mark.parametrize("held", [0, 1, 7, 10**12])
def test_many_ticks_at_once_are_as_one_after_the_other(ticks: int, held: int) -> None:
    types = Types()
    types.learn(["vcore"])
    usage = Usage(types, 0)
    usage.set({"vcore": 987_654_321_000})
    usage.hold([held], 3)
    length_us = tick_us(S)
    usage.end_ticks(length_us, 0, ticks * length_us + 5)
    amounts = [held * (length_us - 3), *[held * length_us] * (ticks - 1)]
    assert usage.used == [plainly(987_654_321_000, amounts)]
    assert usage.since_us == ticks * length_us


def test_half_is_left_after_a_half_life() -> None:
    assert plainly(10**15, [0] * 256) == pytest.approx(10**15 / 2, rel=1e-6)


# USAGE-6
def test_a_tick_opens_no_batch() -> None:
    site = Site({"a": 1, "b": 1})
    site.submit(SetUsage("a", Resources({"vcore": 1000})))
    site.scheduler.finish()
    batches = site.scheduler.machine.batches
    assert site.scheduler.machine.next_deadline_us() is None
    site.scheduler.pass_until(1000 * S)
    assert site.scheduler.machine.batches == batches
    assert site.usage()["root.a"].unit_seconds == {"vcore": 1000}
    site.scheduler.settle(1000 * S)
    assert site.usage()["root.a"].unit_seconds == {"vcore": 66}


# USAGE-13
def test_off_and_on_in_one_batch_forgets() -> None:
    site = Site({"a": 1, "b": 1})
    site.submit(SetUsage("a", Resources({"vcore": 1000})))
    site.submit(Configure(configuration_of({"a": 1, "b": 1}, 0)))
    site.submit(Configure(configuration_of({"a": 1, "b": 1})))
    site.scheduler.settle()
    assert site.usage()["root.a"].used == {}


# USAGE-11
def test_the_usage_of_a_leaf_that_becomes_a_parent_stays() -> None:
    site = PlainScheduler(configuration_of({"a": 1, "b": 1}))
    site.submit(SetUsage("a", Resources({"vcore": 1000})))
    below = QueueConfig("x", "root.a.x", is_parent=False)
    parent = QueueConfig("a", "root.a", is_parent=True, children=(below,))
    settings = Settings(half_life_us=HALF_LIFE_S * S)
    root = QueueConfig("root", "root", is_parent=True, settings=settings, children=(parent,))
    site.submit(Configure(Configuration(partition="default", root=root)))
    site.settle()
    assert [one.unit_seconds for one in site.snapshot().usage] == [{"vcore": 1000}]
    site.machine.check()


# USAGE-16
def test_what_a_snapshot_has_of_it() -> None:
    site = Site({"a": 3, "b": 1})
    site.submit(SetUsage("a", Resources({"vcore": 6000})))
    site.submit(SetUsage("b", Resources({"vcore": 4000})))
    site.scheduler.settle()
    assert site.scheduler.snapshot().usage == (
        UsageSnapshot("root.a", None, {"vcore": 6000 * S}, 0.25, 3, 256 * S, 0.6, 0.75),
        UsageSnapshot("root.b", None, {"vcore": 4000 * S}, 0.5, 1, 256 * S, 0.4, 0.25),
    )


# USAGE-9
def test_all_applications_of_a_user_move_together() -> None:
    settings = Settings(
        half_life_us=HALF_LIFE_S * S, usage_of_users=True, sort_policy=SortPolicy.FAIR
    )
    leaf = QueueConfig("a", "root.a", is_parent=False, settings=settings)
    root = QueueConfig("root", "root", is_parent=True, children=(leaf,))
    scheduler = PlainScheduler(Configuration(partition="default", root=root))
    scheduler.submit(AddNode("n", Resources({"vcore": 4})))
    for name, user in (("a1", "alice"), ("a2", "alice"), ("a3", "alice"), ("b1", "bob")):
        scheduler.submit(AddApp(name, "root.a", user))
        scheduler.submit(AddAsk(name, "x", Resources({"vcore": 1}), count=2))
    scheduler.settle()
    bound = [one.decision.app for one in scheduler.announced if one.decision.kind == "bound"]
    assert bound == ["a1", "b1", "a2", "b1"]
    scheduler.machine.check()
    scheduler.submit(Release("b1", "x-0"), 256 * S)
    scheduler.submit(Release("b1", "x-1"))
    scheduler.submit(AddAsk("b1", "y", Resources({"vcore": 1}), count=2))
    scheduler.submit(SetUsage("root.a", Resources({"vcore": 10_000}), "bob"))
    scheduler.settle()
    bound = [one.decision.app for one in scheduler.announced if one.decision.kind == "bound"]
    assert bound[4:] == ["a3", "a1"]
    scheduler.machine.check()


def test_users_of_whom_nothing_is_left_go() -> None:
    settings = Settings(half_life_us=S, usage_of_users=True)
    leaf = QueueConfig("a", "root.a", is_parent=False, settings=settings)
    root = QueueConfig("root", "root", is_parent=True, children=(leaf,))
    scheduler = PlainScheduler(Configuration(partition="default", root=root))
    scheduler.submit(SetUsage("root.a", Resources({"vcore": 3}), "alice"))
    scheduler.settle()
    known: list[set[str | None]] = []
    for at_s in (1, 10, 100):
        scheduler.settle(at_s * S)
        known.append({one.user for one in scheduler.snapshot().usage})
    assert known == [{"alice"}, {"alice"}, set()]
