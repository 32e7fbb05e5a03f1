"""examples/openb: its feed asks for what it should, and is let in."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.feeds import Expect, RawEvent, Refused, Settle, parse
from muster_core.coordinator.plain_scheduler import PlainScheduler

OPENB = Path(__file__).parents[2] / "examples" / "openb"


@pytest.fixture(scope="module")
def openb() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(OPENB / "openb.py")))


def test_the_pods_ask_for_as_much_as_was_meant(openb: SimpleNamespace) -> None:
    pods, there = openb.read_pods(), openb.total_milli()
    assert (len(pods), there) == (8152, 6_212_000)
    drawn = openb.in_random_order(pods, 1.3 * there, 1)
    asked = sum(pod.total_milli for pod in drawn)
    assert 1.3 * there - 8000 < asked <= 1.3 * there
    assert drawn == openb.in_random_order(pods, 1.3 * there, 1)
    assert drawn != openb.in_random_order(pods, 1.3 * there, 2)


def test_every_event_of_a_feed_is_let_in(openb: SimpleNamespace) -> None:
    events = list(openb.events("fgd", 1))
    first = [one for one in events if one["op"] != "add_ask"]
    some = [one for one in events if one["op"] == "add_ask"][:200]
    scheduler = PlainScheduler()
    for item in parse(RawEvent(at, None, one) for at, one in enumerate(first + some)):
        assert not isinstance(item.content, (Settle, Expect, Refused))
        scheduler.submit(item.content)
    scheduler.settle()
    snapshot = scheduler.snapshot()
    asks = {ask.name: ask for ask in snapshot.apps["pods"].asks}
    assert len(asks) == len(some)
    for one in some:
        held = asks[one["ask"]].devices.get("gpu", ())
        need = one.get("devices", {}).get("gpu", {})
        assert len(held) == (need.get("count", 1) if need else 0)
        assert isinstance(asks[one["ask"]].node, str)
