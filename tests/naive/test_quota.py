"""The naive model's quota preemption and minimum run time: a small case for each sentence."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.config.model import QueueConfig
from muster_core.decisions import Decision
from muster_core.events import Configure
from tests.naive.harness import S, Story, asks, gang, node
from tests.naive.test_evictions import (
    DISABLED,
    HIGH,
    apps,
    evicted,
    eviction_tree,
    like,
    queue,
)

LATE: Final = like(quota_preemption_us=10 * S)


def partition(*children: QueueConfig, enabled: bool = True, quota: bool = True) -> Configure:
    """Make a configuration with quota preemption."""
    configure = eviction_tree(*children, enabled=enabled)
    return Configure(attrs.evolve(configure.config, quota_preemption=quota))


def filled(*more: QueueConfig, cores: int = 4) -> Story:
    """Begin a story with a queue that has as many bound asks as it may have."""
    story = Story(partition(queue("x", most=cores, settings=LATE), *more), node("n", 9))
    story.play(*apps(a="x"), asks("k", count=cores))
    return story


def lowered(story: Story, *children: QueueConfig, wait: int = 10 * S) -> list[Decision]:
    """Change the configuration, wait, and return what is decided then."""
    story.play(partition(*children))
    return story.decide(story.model.world.now_us + wait)


def test_a_queue_over_its_max_loses_its_newest_asks_after_the_delay() -> None:
    story = filled()
    story.play(S, partition(queue("x", most=2, settings=LATE)))
    assert story.model.next_deadline() == 11 * S
    assert not evicted(story.decide(10 * S))
    decisions = story.decide(11 * S)
    assert evicted(decisions) == ["released k-3 preempted", "released k-2 preempted"]
    assert next(one.message for one in decisions if one.reason) == (
        "root.x has more than its max of vcore"
    )
    assert story.model.pending == {"a/k-2", "a/k-3"}


def test_the_partition_and_the_queue_have_to_say_so() -> None:
    for configure in (
        partition(queue("x", most=2, settings=LATE), quota=False),
        partition(queue("x", most=2, settings=LATE), enabled=False),
        partition(queue("x", most=2)),
    ):
        story = filled()
        story.play(configure)
        assert not story.model.world.over_since
        assert not evicted(story.decide(60 * S))


def test_a_delay_that_was_made_longer_moves_the_end() -> None:
    story = filled()
    story.play(partition(queue("x", most=2, settings=LATE)))
    later = attrs.evolve(LATE, quota_preemption_us=20 * S)
    story.play(5 * S, partition(queue("x", most=2, settings=later)))
    assert story.model.next_deadline() == 20 * S


def test_what_is_guaranteed_stays_up_to_the_queue_itself() -> None:
    inner = (queue("p.x", least=1), queue("p.y"))
    story = Story(partition(queue("p", *inner, most=4, settings=LATE)), node("n", 9))
    story.play(*apps(a="p.x", b="p.y"), asks("k", count=2), asks("l", count=2, app="b"))
    decisions = lowered(story, queue("p", *inner, least=3, most=3, settings=LATE))
    assert evicted(decisions) == ["released k-1 preempted"]
    decisions = lowered(story, queue("p", *inner, most=0, settings=LATE))
    assert evicted(decisions) == ["released l-1 preempted", "released l-0 preempted"]


def test_asks_in_a_disabled_leaf_stay() -> None:
    story = filled()
    disabled = attrs.evolve(LATE, preemption_policy=DISABLED)
    assert not evicted(lowered(story, queue("x", most=0, settings=disabled)))


def test_a_queue_comes_before_those_below_it() -> None:
    inner = queue("p.x", settings=attrs.evolve(LATE, queue_priority=1)), queue("p.y")
    story = Story(partition(queue("p", *inner, settings=LATE)), node("n", 9))
    story.play(*apps(a="p.x", b="p.y"), asks("k", count=2), asks("l", count=2, app="b"))
    less = queue("p.x", most=1, settings=attrs.evolve(LATE, queue_priority=1)), queue("p.y")
    decisions = lowered(story, queue("p", *less, most=3, settings=LATE))
    assert evicted(decisions) == ["released l-1 preempted", "released k-1 preempted"]


def test_what_is_not_needed_in_the_end_is_spared() -> None:
    story = Story(partition(queue("x", settings=LATE)), node("n", 9), *apps(a="x"))
    story.play(asks("small", priority=-1), asks("large", cores=2), asks("rest", priority=1))
    decisions = lowered(story, queue("x", most=2, settings=LATE))
    assert evicted(decisions) == ["released large preempted"]


def test_a_gang_goes_whole_if_it_cannot_spare_a_member() -> None:
    story = Story(partition(queue("x", settings=LATE)), node("n", 9), *apps(a="x"), gang("g", 2))
    story.play(asks("m", count=2, of="g"))
    decisions = lowered(story, queue("x", most=1, settings=LATE))
    assert evicted(decisions) == ["released m-1 preempted", "released m-0 preempted"]


def test_a_minimum_run_time_protects_from_all_but_its_end() -> None:
    young = like(min_runtime_us=10 * S)
    story = Story(HIGH, eviction_tree(queue("x"), queue("y", settings=young)), node("n", 1))
    story.play(*apps(a="x", b="y"), asks("k", app="b"))
    assert not story.play(asks("m", named="high"))
    assert story.model.next_deadline() == 10 * S
    assert evicted(story.decide(10 * S)) == ["released k preempted"]


def test_a_minimum_run_time_protects_from_quota_preemption() -> None:
    young = attrs.evolve(LATE, min_runtime_us=15 * S)
    story = Story(partition(queue("x", most=1, settings=young)), node("n", 1), *apps(a="x"))
    story.play(asks("k"))
    story.play(partition(queue("x", most=0, settings=young)))
    assert not evicted(story.decide(10 * S))
    assert evicted(story.decide(15 * S)) == ["released k preempted"]
