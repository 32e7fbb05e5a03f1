"""The samples of what was used, waited and ran (PAGE-16)."""

from __future__ import annotations

from typing import Final

from muster.service.ledger.ledger import Ledger
from muster.service.ledger.usage import (
    HOURLY_US,
    KEPT_HOURS,
    KEPT_MINUTES,
    MINUTE_US,
    WAITS_US,
    Sample,
)
from muster_core.events import AddApp, AddAsk, AddNode, Event, Release, RemoveNode, UpdateNode
from muster_core.resources import Resources
from muster_core.structures.steps import all_at_once
from tests.actors.serving.ledger.heard import HeardScheduler

S: Final = 1_000_000
ONE: Final = Resources({"vcore": 1000})


def _begun(*events: Event) -> HeardScheduler:
    heard = HeardScheduler()
    heard.batch(0, [AddApp("a", "root.q"), *events])
    return heard


def _minutes(ledger: Ledger, now_us: int) -> list[Sample]:
    return ledger.samples(now_us, -1, hourly=False)


def test_a_sample_is_of_the_end_of_a_minute() -> None:
    # PAGE-16
    heard = _begun(AddNode("n", ONE), AddAsk("a", "x", ONE), AddAsk("a", "y", ONE))
    heard.batch(90 * S, [Release("a", "x")])
    heard.batch(100 * S, [Release("a", "y"), UpdateNode("n", capacity=Resources({"vcore": 2000}))])
    first, second, now = _minutes(heard.ledger, 130 * S)

    assert first[:6] == (60 * S, {"vcore": 1000}, {"vcore": 1000}, 1, 0, 1)
    assert second[:6] == (120 * S, {"vcore": 0}, {"vcore": 2000}, 0, 0, 0)
    assert now == (130 * S, *second[1:6], {})
    heard.batch(140 * S, [RemoveNode("n")])
    assert _minutes(heard.ledger, 140 * S)[-1].capacity == {}


def test_a_wait_is_counted_when_an_ask_is_bound() -> None:
    # PAGE-16
    heard = _begun(AddAsk("a", "x", ONE), AddAsk("a", "y", ONE))
    heard.batch(7 * S, [AddNode("n", ONE)])
    heard.batch(3 * HOURLY_US, [AddNode("m", ONE)])
    heard.batch(3 * HOURLY_US + S, [RemoveNode("n")])
    heard.batch(3 * HOURLY_US + S, [AddNode("n", ONE)])
    first, *_, now = _minutes(heard.ledger, 3 * HOURLY_US + 2 * S)

    assert first.waits == {WAITS_US.index(10 * S): 1}
    assert now.waits == {WAITS_US.index(6 * HOURLY_US): 1, 0: 1}


def test_an_hour_is_the_mean_of_its_minutes() -> None:
    # PAGE-16
    heard = _begun(AddNode("n", ONE), AddAsk("a", "x", ONE))
    heard.batch(HOURLY_US // 2, [Release("a", "x")])
    hour, now = heard.ledger.samples(HOURLY_US, -1, hourly=True)

    assert hour == (HOURLY_US, {"vcore": 500}, {"vcore": 1000}, 0, 0, 0, {0: 1})
    assert now.used == {"vcore": 0}


def test_only_the_latest_samples_are_kept() -> None:
    # PAGE-16
    heard = _begun(AddNode("n", ONE))
    far_us = (KEPT_HOURS + 100) * HOURLY_US
    minutes = _minutes(heard.ledger, far_us)
    hours = heard.ledger.samples(far_us, -1, hourly=True)

    assert (len(minutes), len(hours)) == (KEPT_MINUTES + 1, KEPT_HOURS + 1)
    assert [one.at_us for one in minutes[-3:]] == [far_us - MINUTE_US, far_us, far_us]
    assert [one.at_us for one in hours[:2]] == [101 * HOURLY_US, 102 * HOURLY_US]
    assert {one.capacity["vcore"] for one in hours} == {1000}


def test_samples_of_one_moment_are_the_same_when_later_ones_are_known() -> None:
    # PAGE-16
    heard = _begun(AddNode("n", ONE))
    before = _minutes(heard.ledger, 200 * S)
    _minutes(heard.ledger, 400 * S)
    assert _minutes(heard.ledger, 200 * S) == before


def test_samples_are_saved() -> None:
    # PAGE-16
    heard = _begun(AddNode("n", ONE), AddAsk("a", "x", ONE), Release("a", "none"))
    heard.batch(2 * HOURLY_US + 5 * S, [AddAsk("a", "y", ONE), Release("a", "x")])
    ledger = Ledger()
    all_at_once(ledger.load(all_at_once(heard.ledger.save())))

    for hourly in (False, True):
        now_us = 2 * HOURLY_US + 90 * S
        expected = heard.ledger.samples(now_us, -1, hourly=hourly)
        assert ledger.samples(now_us, -1, hourly=hourly) == expected
    assert [(one.op, one.seq) for one in ledger.book.refused] == [("release", 3)]
