"""The naive model's scopes, and strict order in them: one small case for each sentence."""

from __future__ import annotations

import attrs

from muster_core.config.model import QueueConfig, SchedulingOrder
from muster_core.events import AddApp, AddPriorityClass, Release
from tests.naive.backfill.scopes import scope_of
from tests.naive.backfill.stories import (
    BACKFILL,
    PLAIN,
    STRICT,
    bound,
    in_force,
    lasting,
    leaf,
    scope,
)
from tests.naive.properties import resolve
from tests.naive.story import APP, LOOSE, Story, asks, gang, node
from tests.naive.test_evictions import apps
from tests.naive.test_reasons import tree


def test_the_properties_and_which_of_them_are_inherited() -> None:
    names = {"scheduling.order": "BackFill", "backfill.depth": "7", "estimate.default": "90s"}
    settings = resolve(names, None)
    assert settings.scheduling_order is SchedulingOrder.BACKFILL
    assert (settings.backfill_depth, settings.estimate_us) == (7, 90_000_000)
    below = resolve({}, settings)
    assert below.scheduling_order is SchedulingOrder.GREEDY
    assert (below.backfill_depth, below.estimate_us) == (1, 90_000_000)


def test_the_topmost_order_that_is_not_greedy_makes_a_scope() -> None:
    parent = QueueConfig(
        "p",
        "root.p",
        is_parent=True,
        settings=BACKFILL,
        children=(leaf("p.x", STRICT), leaf("p.y", PLAIN)),
    )
    world = Story(tree(parent, leaf("q", STRICT), leaf("r", PLAIN))).model.world
    found = [scope_of(world, f"root.{path}") for path in ("p.x", "p.y", "q", "r")]
    assert [one and one.path for one in found] == ["root.p", "root.p", "root.q", None]


def test_in_a_strict_scope_nothing_is_tried_after_one_that_did_not_fit() -> None:
    story = Story(scope(STRICT), node("n", 2), APP)
    story.play(asks("k"), asks("large", cores=2), asks("small"))
    assert bound(story) == {"k"}
    story.play(Release("a", "k"))
    assert bound(story) == {"large"}


def test_its_leaves_block_each_other_and_nobody_else() -> None:
    root = attrs.evolve(tree(leaf("q", PLAIN), leaf("r", PLAIN)).config.root, settings=PLAIN)
    parent = attrs.evolve(root.children[0], is_parent=True, settings=STRICT)
    parent = attrs.evolve(parent, children=(leaf("q.x", PLAIN), leaf("q.y", PLAIN)))
    config = tree(parent, leaf("r", PLAIN))
    story = Story(config, node("n", 2), *apps(a="q.x", b="q.y", c="r"))
    story.play(asks("k"))
    story.play(asks("large", cores=2, priority=1), asks("small", app="b"), asks("other", app="c"))
    assert bound(story) == {"k", "other"}


def test_an_activated_member_in_a_shut_scope_fails() -> None:
    story = Story(scope(STRICT, leaf("r", PLAIN)), node("n", 2), *apps(a="q", b="r"))
    story.play(asks("k"), gang("g", 2, mode=LOOSE))
    story.play(asks("large", cores=2, priority=1))
    story.play(asks("m", app="b", of="g"), asks("l", of="g"))
    assert bound(story) == {"k"}
    assert story.gang("g") == (1, 0, 1, 0)


def test_section_7_looks_at_its_first_in_order_only() -> None:
    high = AddPriorityClass("high", 5, preempts=True)
    at_once = attrs.evolve(STRICT, preemption_delay_us=0)
    story = Story(scope(at_once), high, node("n", 2), APP, asks("k", count=2))
    assert not story.play(asks("huge", cores=3, priority=9), asks("m", named="high"))
    greedy = Story(scope(attrs.evolve(PLAIN, preemption_delay_us=0)), high, node("n", 2), APP)
    greedy.play(asks("k", count=2))
    assert greedy.play(asks("huge", cores=3, priority=9), asks("m", named="high"))


def test_asks_of_other_scopes_or_of_none_take_no_notice() -> None:
    config = scope(BACKFILL, leaf("r"), leaf("s", PLAIN))
    story = Story(config, node("n", 3), *apps(a="q", b="r", c="s"))
    story.play(lasting("k", 10, cores=2), lasting("large", 5, cores=3))
    assert in_force(story) == {"large": ("n", 10)}
    story.play(lasting("long", 99, app="a"))
    assert bound(story) == {"k"}
    story.play(lasting("theirs", 99, app="b"))
    assert bound(story) == {"k", "theirs"}
    story = Story(config, node("n", 3), *apps(a="q", c="s"))
    story.play(lasting("k", 10, cores=2), lasting("large", 5, cores=3))
    story.play(lasting("free", 99, app="c"))
    assert bound(story) == {"k", "free"}


def test_a_blocking_leaf_goes_on_blocking_inside_a_scope() -> None:
    blocking = attrs.evolve(PLAIN, blocking=True)
    parent = QueueConfig(
        "p",
        "root.p",
        is_parent=True,
        settings=BACKFILL,
        children=(leaf("p.x", blocking), leaf("p.y", PLAIN)),
    )
    story = Story(tree(parent), node("n", 3), *apps(a="p.x", b="p.y"))
    story.play(lasting("k", 10, cores=2))
    story.play(lasting("large", 5, cores=3), lasting("short", 5), lasting("other", 5, app="b"))
    assert bound(story) == {"k", "other"}


def test_without_a_scope_nothing_is_reserved() -> None:
    story = Story(node("n", 2), AddApp("a", "root.q"), lasting("k", 5), lasting("m", 5, cores=2))
    assert in_force(story) == {}
