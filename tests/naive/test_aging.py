"""The naive model's aging of asks: one small case for each sentence, by hand."""

from __future__ import annotations

from typing import Final

import pytest

from muster_core.config.model import Settings
from muster_core.events import BindFailed, Configure, FailBind, RemoveNode
from tests.naive.harness import APP, LOOSE, S, Step, Story, asks, compare, gang, node, run_plainly
from tests.naive.picture import present_priority
from tests.naive.test_reasons import queue, tree

AGING: Final = Settings(aging_us=10 * S, aging_limit=3)


def leaf(settings: Settings) -> Configure:
    return tree(queue("q", settings=settings))


def priorities(story: Story) -> dict[str, int]:
    """Return the present priority of each ask."""
    world = story.model.world
    return {ask.name: present_priority(world, ask) for ask in world.asks()}


# AGING-2, AGING-4
@pytest.mark.parametrize(
    ("at_s", "early", "late"),
    [(10, 1, 0), (19, 1, 0), (20, 2, 1), (30, 3, 2), (49, 3, 3), (99, 3, 3)],
)
def test_one_for_each_multiple_that_has_come(at_s: int, early: int, late: int) -> None:
    story = Story(leaf(AGING), APP, 9 * S, asks("early"), 10 * S, asks("late"), at_s * S)
    assert priorities(story) == {"early": early, "late": late}


# AGING-4
@pytest.mark.parametrize(
    ("own", "aged"),
    [
        (-5, -2),
        (999_999_998, 1_000_000_000),
        (1_000_000_000, 1_000_000_000),
        (2_000_000_000, 2_000_000_000),
    ],
)
def test_age_lifts_no_ask_beyond_the_classes_of_users(own: int, aged: int) -> None:
    story = Story(leaf(AGING), APP, asks("k", priority=own), 99 * S)
    assert priorities(story) == {"k": aged}


# AGING-3
def test_it_begins_anew_when_a_bound_ask_is_released() -> None:
    story = Story(leaf(AGING), node("n", 2), APP, asks("fails"), asks("lost"), 25 * S)
    assert priorities(story) == {"fails": 0, "lost": 0}
    story.play(BindFailed("a", "fails"), RemoveNode("n"), 49 * S)
    assert priorities(story) == {"fails": 2, "lost": 2}


# AGING-3
def test_what_does_not_release_a_bound_ask_does_not_begin_it_anew() -> None:
    members = gang("g", 2, mode=LOOSE), asks("m", count=2, of="g")
    story = Story(leaf(AGING), APP, *members, asks("fails"), FailBind("a", "fails"), node("n", 1))
    assert story.gang("g")[:3] == (1, 0, 1)
    story.play(20 * S, node("m", 1))  # The members are bound; they have waited until now.
    assert priorities(story) == {"m-0": 0, "m-1": 0, "fails": 2}
    story.play(30 * S, node("o", 1))  # The bind fails once.
    assert [ask.name for ask in story.model.world.bound()] == ["m-0", "m-1", "fails"]


# AGING-6
def test_the_settings_are_those_of_now() -> None:
    story = Story(leaf(Settings()), APP, 5 * S, asks("k"), 50 * S)
    assert priorities(story) == {"k": 0}
    story.play(leaf(AGING))
    assert priorities(story) == {"k": 3}
    story.play(leaf(Settings(aging_us=5 * S)))
    assert priorities(story) == {"k": 9}


# AGING-4, AGING-7
def test_one_at_its_limit_is_passed() -> None:
    steps = [
        Step(0, leaf(AGING)),
        Step(0, APP),
        Step(0, asks("first", priority=1)),
        Step(15 * S, asks("second", priority=2)),
    ]
    for at_s, order in (
        (20, ["first", "second"]),
        (30, ["first", "second"]),
        (40, ["second", "first"]),
    ):
        scenario = [*steps, Step(at_s * S, node("n", 2))]
        compare(scenario, run_plainly)
        story = Story()
        for step in scenario:
            story.play(step.at_us, step.what)
        assert [ask.name for ask in story.model.world.bound()] == order
