"""The naive model's node services: one small case for each sentence, written out by hand."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.config.model import Limits, PreemptionPolicy, QueueConfig, Settings
from muster_core.events import (
    AddAsk,
    AddPriorityClass,
    BindFailed,
    Configure,
    FailBind,
    Release,
    RemoveAsk,
    UpdateNode,
)
from muster_core.reasons import Code
from muster_core.resources import Resources
from muster_core.values.configuration import LimitEntry
from tests.naive.story import LOOSE, S, Story, asks, gang, kinds, node
from tests.naive.test_evictions import apps, evicted
from tests.naive.test_reasons import HIGH, codes, figures, queue, tree

LATE: Final = Settings(preemption_delay_us=1000 * S)
SERVES: Final = attrs.evolve(LATE, required_node=True)


def served(*more: QueueConfig, enabled: bool = True, **fields: object) -> Configure:
    """Make a tree of two leaves, in the first of which asks are services, and of others."""
    settings = fields.pop("settings", SERVES)
    first = queue("s", settings=settings, **fields)
    return tree(first, queue("r", settings=LATE), *more, enabled=enabled)


def service(name: str = "s", on: str = "n", *, cores: int = 1, priority: int = 0) -> AddAsk:
    return asks(name, on=on, cores=cores, priority=priority)


def full(cores: int = 2, config: Configure | None = None, priority: int = 0) -> Story:
    """Begin a story with one node, full of asks of one core each of an application ``b``."""
    story = Story(served() if config is None else config, node("n", cores), *apps(a="s", b="r"))
    story.play(asks("k", app="b", count=cores, priority=priority))
    return story


def bound(story: Story) -> set[str]:
    return {name for name, _ in story.model.bound}


def test_a_service_takes_its_node_at_once_whatever_is_delayed() -> None:
    decisions = full().play(service())
    assert decisions == ["released k-1 preempted", "assigned s", "bound s"]


def test_without_the_property_or_the_node_it_is_a_plain_ask() -> None:
    assert not full(config=served(settings=LATE)).play(service())
    assert not full().play(asks("m"))


def test_with_preemption_disabled_it_takes_nothing_but_keeps_its_node() -> None:
    story = full(config=served(enabled=False))
    assert not story.play(service())
    story.play(Release("b", "k-0"), asks("m", app="b", priority=9))
    assert "a/s" in bound(story)


def test_neither_policies_nor_fences_nor_guarantees_stand_against_it() -> None:
    closed = Settings(preemption_policy=PreemptionPolicy.DISABLED, reclaimable=False)
    fenced = attrs.evolve(SERVES, preemption_policy=PreemptionPolicy.FENCE)
    for settings in (fenced, attrs.evolve(SERVES, preemption_policy=PreemptionPolicy.DISABLED)):
        config = tree(queue("s", settings=settings), queue("r", settings=closed, least=2))
        assert evicted(full(config=config).decide(service())) == ["released k-1 preempted"]


def test_victims_have_a_priority_not_above_its_own() -> None:
    story = full(priority=3)
    assert not story.play(service("s", priority=2))
    assert evicted(story.decide(service("t", priority=3))) == ["released k-1 preempted"]
    offset = attrs.evolve(LATE, offset=100, fence=True)
    config = tree(queue("s", settings=SERVES), queue("r", settings=offset))
    assert evicted(full(config=config).decide(service())) == ["released k-1 preempted"]


def test_victims_in_order_of_priority_then_the_newest_and_what_is_not_needed_is_spared() -> None:
    story = Story(served(), node("n", 5), node("o", 1), *apps(a="s", b="r"))
    story.play(asks("far", app="b", on="o", priority=-9))
    story.play(asks("low", app="b", priority=-2), asks("old", app="b", priority=-1))
    story.play(asks("new", app="b", priority=-1), asks("big", app="b", cores=2))
    assert evicted(story.decide(service(cores=2))) == [
        *("released low preempted", "released new preempted")
    ]
    story = Story(served(), node("n", 3), *apps(a="s", b="r"))
    story.play(asks("low", app="b", priority=-2), asks("big", app="b", cores=2))
    assert evicted(story.decide(service(cores=2))) == ["released big preempted"]


def test_only_what_has_a_type_that_the_node_lacks_is_taken() -> None:
    story = Story(served(), *apps(a="s", b="r"))
    two = Resources({"vcore": 1, "memory": 1})
    story.play(attrs.evolve(node("n", 1), capacity=two))
    story.play(attrs.evolve(asks("m", app="b", priority=-1), resources=Resources({"memory": 1})))
    story.play(asks("k", app="b"))
    assert evicted(story.decide(service())) == ["released k preempted"]


def test_a_service_is_never_a_victim() -> None:
    story = Story(served(), HIGH, node("n", 1), *apps(a="s", b="r"))
    story.play(service())
    assert not story.play(service("t", priority=9))
    story.play(
        tree(queue("s", settings=SERVES), queue("r", settings=Settings(preemption_delay_us=0)))
    )
    assert not story.play(asks("m", app="b", named="high"))
    assert not kinds(story.play(tree(queue("s", settings=SERVES), queue("r", least=1))), "released")
    assert bound(story) == {"a/s"}
    open_again = tree(
        queue("s", settings=LATE), queue("r", settings=Settings(preemption_delay_us=0))
    )
    assert "released s preempted" in story.play(open_again), "without the property it is one"


def test_if_all_do_not_suffice_nothing_is_taken() -> None:
    story = Story(served(), node("n", 3), *apps(a="s", b="r"))
    story.play(asks("k", app="b"), asks("high", app="b", priority=9, cores=2))
    assert not story.play(service(cores=2))
    assert bound(story) == {"b/k", "b/high"}


def test_one_that_lacks_anything_but_room_takes_nothing() -> None:
    full_queue = served(most=0)
    limited = served(limits=(LimitEntry(("*",), (), Limits.of({"vcore": 0})),))
    for config in (full_queue, limited):
        assert not full(config=config).play(service())
    assert not full().play(service(cores=3))
    assert not full().play(attrs.evolve(service(), selector={"zone": "x"}))
    assert not full().play(UpdateNode("n", schedulable=False), service())
    assert not full().play(service(on="o"))


def test_a_member_of_an_unsatisfied_gang_is_none() -> None:
    story = full()
    assert not story.play(gang("g", 1), asks("m", of="g", on="n"))
    story = full()
    story.play(gang("g", 1), asks("m", of="g", on="n"), Release("b", "k-0"))
    assert "a/m" in bound(story)
    assert evicted(story.decide(asks("l", of="g", on="n"))) == ["released k-1 preempted"]


def test_gangs_are_taken_as_in_reclaim() -> None:
    story = Story(served(), node("n", 1), node("o", 1), *apps(a="s", b="r"), gang("g", 2))
    story.play(asks("m", app="b", of="g", count=2))
    assert evicted(story.decide(service())) == [
        *("released m-1 preempted", "released m-0 preempted")
    ]
    story = Story(served(), node("n", 2), node("o", 1), *apps(a="s", b="r"), gang("g", 2))
    story.play(asks("m", app="b", of="g", count=3))
    assert len(evicted(story.decide(service()))) == 1, "what it can spare"
    story = Story(served(), node("n", 1), *apps(a="s", b="r"), gang("g", 2, mode=LOOSE))
    story.play(asks("m", app="b", of="g", count=2))
    assert evicted(story.decide(service())) == ["released m-0 preempted"]


def test_a_gang_with_a_member_that_no_service_may_take_stays() -> None:
    story = Story(served(), node("n", 1), node("o", 1), *apps(a="s", b="r"), gang("g", 2))
    story.play(asks("m", app="b", of="g"), asks("l", app="b", of="g", priority=1))
    assert len(bound(story)) == 2
    assert not story.play(service(), service("t", on="o"))


def test_of_several_services_the_first_in_order_goes_first() -> None:
    story = full(cores=1)
    decisions = story.play(service("s"), service("t", priority=1))
    assert decisions == ["released k-0 preempted", "assigned t", "bound t"]
    story.play(Release("a", "t"))
    assert "a/s" in bound(story)


def test_it_comes_before_reclaim() -> None:
    config = tree(
        queue("s", settings=SERVES),
        queue("x", settings=Settings(preemption_delay_us=0, queue_priority=9), least=1),
        queue("r", settings=LATE),
    )
    story = Story(config, node("n", 1), *apps(a="s", b="r", c="x"), asks("k", app="b"))
    decisions = story.play(asks("m", app="c"), service())
    assert decisions == ["released k preempted", "assigned s", "bound s"]


def test_while_it_waits_for_room_only_services_are_placed_there() -> None:
    story = full(priority=9)
    story.play(service(cores=2))
    story.play(Release("b", "k-0"), asks("m", app="b", priority=9))
    assert bound(story) == {"b/k-1"}, "who is there stays"
    assert codes(story, "b/m") == ["NodeKept", "NoNodeFits"]
    assert figures(story, "b/m", Code.NODE_KEPT) == {"node": "n"}
    story.play(service("t", priority=-5))
    assert bound(story) == {"b/k-1", "a/t"}, "another service is placed there"
    story.play(Release("a", "t"), Release("b", "k-1"))
    assert bound(story) == {"a/s"}


def test_it_keeps_nothing_before_it_has_failed() -> None:
    story = full(priority=9)
    story.play(Release("b", "k-0"), service(cores=2), asks("m", app="b", priority=9))
    assert bound(story) == {"b/k-1", "b/m"}


def test_it_keeps_its_node_when_there_is_room_though_others_come_first() -> None:
    story = full(priority=9)
    story.play(service())
    story.play(asks("m", app="b", priority=9), Release("b", "k-0"))
    assert bound(story) == {"b/k-1", "a/s"}


def test_it_keeps_its_node_until_it_is_bound_or_gone() -> None:
    story = full(priority=9)
    story.play(service(), asks("m", app="b", priority=9))
    story.play(RemoveAsk("a", "s"), Release("b", "k-0"))
    assert bound(story) == {"b/k-1", "b/m"}
    story.play(service(), Release("b", "k-1"), asks("l", app="b", count=2))
    assert bound(story) == {"b/m", "a/s"}
    story.play(BindFailed("a", "s"), asks("o", app="b", priority=1))
    assert bound(story) == {"b/m", "b/o"}, "it was bound"


def test_a_bind_that_fails_ends_the_keeping() -> None:
    story = full(priority=9)
    story.play(service(), asks("m", app="b", priority=9))
    story.play(Release("b", "k-0"), FailBind("a", "s", times=3))
    assert bound(story) == {"b/k-1", "b/m"}


def test_it_keeps_its_node_no_longer_if_it_fails_for_another_reason() -> None:
    story = full(priority=9)
    story.play(service(), asks("m", app="b", priority=9))
    story.play(served(most=0), Release("b", "k-0"))
    assert bound(story) == {"b/k-1", "b/m"}
    story.play(served(), Release("b", "k-1"), asks("l", app="b", priority=9))
    assert bound(story) == {"b/m", "b/l"}, "and does not again before it is looked at again"
    story.play(Release("b", "l"), asks("o", app="b", priority=9))
    assert bound(story) == {"b/m", "a/s"}


def test_it_keeps_nothing_without_the_property() -> None:
    story = full(priority=9)
    story.play(service(), asks("m", app="b", priority=9))
    story.play(served(settings=LATE), Release("b", "k-0"))
    assert bound(story) == {"b/k-1", "b/m"}


def test_no_plan_places_anybody_on_a_node_that_is_kept() -> None:
    at_once = Settings(preemption_delay_us=0)
    config = tree(
        queue("s", settings=SERVES),
        queue("r", settings=LATE),
        queue("x", settings=at_once, least=2),
    )
    story = Story(config, node("n", 2), *apps(a="s", b="r", c="x"))
    story.play(asks("k", app="b", count=2, priority=9), service())
    assert not story.play(asks("m", app="c"))
    story.play(RemoveAsk("a", "s"))
    assert "c/m" in bound(story)


def test_members_of_gangs_are_not_placed_there_either() -> None:
    story = full(priority=9)
    story.play(service(cores=2), Release("b", "k-0"))
    story.play(gang("g", 1), asks("m", of="g", on="n"))
    assert bound(story) == {"b/k-1"}
    assert codes(story, "m") == ["GangCycleInvalid", "NodeKept", "NoNodeFits", "NotYourTurn"]


def test_of_a_blocking_leaf_only_the_first_is_looked_at() -> None:
    story = full(config=served(settings=attrs.evolve(SERVES, blocking=True)))
    assert not story.play(asks("large", cores=9, priority=5), service())
    story.play(Release("b", "k-0"), asks("m", app="b"))
    assert bound(story) == {"b/k-1", "b/m"}, "the service was not tried and keeps nothing"


def test_what_is_kept_is_not_free_in_sum() -> None:
    story = full(priority=9)
    story.play(service(cores=2), node("o", 1), Release("b", "k-0"), asks("m", app="b", cores=2))
    assert codes(story, "b/m") == ["NoNodeFits", "NotYourTurn"]


def test_a_class_gives_a_service_its_priority() -> None:
    story = full(priority=3)
    story.play(AddPriorityClass("calm", 3))
    assert evicted(story.decide(attrs.evolve(asks("s", named="calm"), node="n", priority=None)))
