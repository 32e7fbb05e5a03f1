"""The copy of a state is a state of its own, that goes on as the original would."""

from __future__ import annotations

import io
from typing import Final

import attrs
from hypothesis import given, settings, strategies as st

from muster.explain._remedies.trials import Trials
from muster.feeds import FeedItem, read_feed
from muster.feeds._kinds import EventFields
from muster.replay._driver import submit_item_directly
from muster_core.coordinator.plain_scheduler import PlainScheduler
from tests.actors.explain.helpers import items_of
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.strategies import scenarios

_ANY = scenarios() | gang_scenarios() | evictions()
_MODEST = settings.get_current_profile_name() == "modest"

NODE: Final[EventFields] = {"op": "add_node", "node": "n", "capacity": {"vcore": 1}}
FEED = """\
- {op: add_app, app: a, queue: q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
"""


def after(items: list[FeedItem]) -> PlainScheduler:
    scheduler = PlainScheduler()
    for item in items:
        submit_item_directly(scheduler, item)
    scheduler.settle()
    return scheduler


@settings(max_examples=20 if _MODEST else 2_000)
@given(_ANY, st.data())
def test_a_copy_goes_on_as_the_original_does(scenario: list[Step], data: st.DataObject) -> None:
    items = items_of(scenario)
    cut = data.draw(st.integers(0, len(items)), label="cut")
    original = after(items[:cut])
    copied = Trials(original, 0, "a", "x").copy()
    for scheduler in (copied, original):
        for item in items[cut:]:
            submit_item_directly(scheduler, item)
        scheduler.finish()
        scheduler.machine.check()

    assert copied.announced == original.announced
    assert _shown(copied) == _shown(original)


def _shown(scheduler: PlainScheduler) -> object:
    return attrs.asdict(scheduler.snapshot())


def test_what_is_tried_leaves_the_original_alone() -> None:
    scheduler = after(_read(FEED))
    before = _shown(scheduler)
    trials = Trials(scheduler, 0, "a", "x")

    assert trials.node_after([]) is None
    assert trials.node_after([NODE]) == "n"
    assert trials.node_after([]) is None
    assert trials.made == 3
    assert _shown(scheduler) == before


def test_a_refused_event_helps_nobody() -> None:
    trials = Trials(after(_read(FEED)), 0, "a", "x")

    assert trials.node_after([NODE, {"op": "remove_node", "node": "m"}]) is None
    assert trials.node_after([NODE, {"op": "add_node", "node": "m", "capacity": "all"}]) is None


def test_no_more_trials_are_made_than_there_is_time_for() -> None:
    trials = Trials(after(_read(FEED)), 0, "a", "x", most=3)
    while not trials.exhausted:
        assert trials.node_after([NODE]) == "n"

    assert trials.node_after([NODE]) is None
    assert trials.made == 3


def _read(text: str) -> list[FeedItem]:
    return list(read_feed(io.BytesIO(text.encode())))
