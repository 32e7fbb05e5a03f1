"""The naive model's reservations, scopes, strict order and forecasts.

One small case for each sentence, by hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from muster_core.config.model import QueueConfig, SchedulingOrder, Settings
from muster_core.decisions import Decision, Kind
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    AddPriorityClass,
    Configure,
    Release,
    RemoveNode,
    UpdateNode,
)
from muster_core.resources import Resources
from muster_core.values.configuration import LimitEntry, Limits
from tests.naive.harness import APP, LOOSE, S, Story, asks, gang, kinds, node
from tests.naive.picture import resolve
from tests.naive.promise import fits_at, position, starts_at_us
from tests.naive.state import Ask, scope_of
from tests.naive.test_evictions import apps, eviction_tree, queue
from tests.naive.test_reasons import tree

BACKFILL: Final = Settings(
    scheduling_order=SchedulingOrder.BACKFILL, preemption_delay_us=10_000 * S
)
STRICT: Final = attrs.evolve(BACKFILL, scheduling_order=SchedulingOrder.STRICT)
PLAIN: Final = Settings(preemption_delay_us=10_000 * S)


def leaf(path: str, settings: Settings = BACKFILL, most: int | None = None) -> QueueConfig:
    """Make a leaf, of so many cores at the most."""
    made = {} if most is None else {"vcore": most}
    return QueueConfig(
        name=path.rpartition(".")[2],
        path=f"root.{path}",
        is_parent=False,
        max=attrs.evolve(QueueConfig("", "", is_parent=False).max, amounts=tuple(made.items())),
        settings=settings,
    )


def scope(settings: Settings = BACKFILL, *more: QueueConfig, most: int | None = None) -> Configure:
    """Make a tree with the leaf ``root.q``, and others."""
    return tree(leaf("q", settings, most), *more)


def lasting(
    name: str,
    seconds: int | None,
    cores: int = 1,
    *,
    run: int | None = None,
    app: str = "a",
    of: str | None = None,
    count: int | None = None,
    on: str | None = None,
    priority: int | None = None,
) -> AddAsk:
    """Make asks that say how long they will run, and end after so many seconds, if at all."""
    made = asks(name, cores=cores, app=app, of=of, count=count, on=on, priority=priority)
    estimate_us = None if seconds is None else seconds * S
    return attrs.evolve(made, estimate_us=estimate_us, run_for_us=None if run is None else run * S)


def reserved(decisions: Iterable[Decision]) -> list[tuple[str | None, str | None, int | None]]:
    """Return the announced reservations: the ask, the node, and the start in seconds."""
    return [
        (one.ask, one.node, None if one.start_us is None else one.start_us // S)
        for one in decisions
        if one.kind is Kind.RESERVED
    ]


def in_force(story: Story) -> dict[str, tuple[str, int | None]]:
    """Return the reservations of the last round: node and start in seconds, by ask."""
    return {
        ask.name: (node, None if one.start.start_us is None else one.start.start_us // S)
        for one in story.model.world.reserved
        for ask, node in one.nodes
    }


def bound(story: Story) -> set[str]:
    """Return the names of the asks that are bound."""
    return {name.partition("/")[2] for name, _ in story.model.bound}


TWO = attrs.evolve(BACKFILL, backfill_depth=2)


def begun(cores: int = 4, *, taken: int = 3, until: int | None = 10) -> Story:
    """Begin a story with one node, of which an ask takes a part until it is expected to end."""
    return Story(scope(), node("n", cores), APP, lasting("k", until, cores=taken))


# Estimates and releases


def test_run_for_counts_without_an_estimate_and_then_the_default_of_the_leaf() -> None:
    default = attrs.evolve(BACKFILL, estimate_us=30 * S)
    for first, start in (
        (lasting("k", 5, run=7), 5),
        (lasting("k", None, run=7), 7),
        (lasting("k", None), 30),
    ):
        story = Story(scope(default), node("n", 1), APP, first)
        assert reserved(story.decide(asks("m"))) == [("m", "n", start)]


def test_the_default_of_the_leaf_counts_as_it_is_now() -> None:
    story = Story(scope(), node("n", 1), APP, asks("k"))
    assert reserved(story.decide(asks("m"))) == [("m", "n", None)]
    default = attrs.evolve(BACKFILL, estimate_us=30 * S)
    assert reserved(story.decide(10 * S, scope(default))) == [("m", "n", 30)]


def test_who_runs_for_longer_is_expected_to_take_twice_as_long_and_again() -> None:
    story = Story(scope(), node("n", 1), APP, lasting("k", 4), asks("m"))
    for now, start in ((0, 4), (3, 4), (4, 8), (8, 16), (15, 16), (40, 64)):
        story.play(now * S)
        assert in_force(story) == {"m": ("n", start)}


def test_known_ends_come_first_by_time_and_the_others_by_assignment() -> None:
    found: list[int | None] = []
    for cores in (1, 2, 3, 4):
        story = Story(scope(), node("n", 4), APP)
        story.play(asks("old"), lasting("late", 20), lasting("soon", 10), asks("new"))
        found += [start for _, _, start in reserved(story.decide(asks("m", cores=cores)))]
    assert found == [10, 20, None, None]


def test_all_releases_of_one_time_are_one_instant() -> None:
    story = Story(scope(), node("n", 2), APP, lasting("k", 10, count=2))
    assert reserved(story.decide(asks("m", cores=2))) == [("m", "n", 10)]


# Reservations


def test_a_reservation_is_for_who_did_not_fit_and_only_so_many_are_in_force() -> None:
    story = begun(taken=4)
    assert reserved(story.decide(asks("m", cores=2), asks("l"))) == [("m", "n", 10)]
    assert reserved(story.decide(scope(TWO))) == [("l", "n", 10)]
    assert in_force(story) == {"m": ("n", 10), "l": ("n", 10)}


def test_without_an_instant_there_is_none_and_the_next_one_gets_it() -> None:
    story = begun(taken=4)
    assert reserved(story.decide(asks("huge", cores=5), asks("m"))) == [("m", "n", 10)]


def test_the_nodes_of_others_are_theirs_whatever_their_starts() -> None:
    story = Story(scope(TWO), node("n", 2), APP, lasting("k", 10, count=2), asks("m", cores=2))
    assert in_force(story) == {"m": ("n", 10)}
    story.play(asks("l"))
    assert in_force(story) == {"m": ("n", 10)}
    story.play(node("o", 1), asks("last", on="o"), lasting("x", 30, on="o", priority=1))
    assert in_force(story) == {"m": ("n", 10), "l": ("o", 30)}


def test_it_is_there_in_the_first_node_of_the_order_then() -> None:
    story = Story(scope(), node("a", 2), node("b", 2), APP)
    story.play(lasting("x", 10, cores=2, on="a"), lasting("y", 10, cores=2, on="b"))
    assert reserved(story.decide(asks("m", cores=2))) == [("m", "a", 10)]
    assert not story.decide(UpdateNode("a", schedulable=True))
    assert reserved(story.decide(UpdateNode("a", schedulable=False))) == [("m", "b", 10)]


def test_headroom_and_limits_count_then() -> None:
    story = Story(scope(BACKFILL, most=3), node("n", 9), APP)
    story.play(lasting("k", 10, cores=2), lasting("l", 20), asks("m", cores=3), asks("small"))
    assert in_force(story) == {}  # Nothing fits the headroom, so nothing is tried.
    entry = LimitEntry(("u",), (), Limits.of({"vcore": 3}), 0)
    limited = attrs.evolve(leaf("q"), limits=(entry,))
    config = scope()
    root = attrs.evolve(config.config.root, children=(limited,))
    config = attrs.evolve(config, config=attrs.evolve(config.config, root=root))
    story = Story(config, node("n", 9), attrs.evolve(APP, user="u"), *apps(b="q"))
    story.play(lasting("k", 10, cores=2), lasting("v", 20, cores=6, app="b"), asks("m", cores=2))
    assert in_force(story) == {}  # The limit of its user stands against it now.
    story.play(gang("g", 2), lasting("w", 5, app="b"), asks("p", cores=1, of="g", count=2))
    assert in_force(story) == {"p-0": ("n", 10), "p-1": ("n", 10)}  # With k there u has one left.


def test_a_strict_group_is_rolled_back_first_and_reserved_for_as_a_whole() -> None:
    story = begun(cores=3, taken=2)
    decisions = story.decide(gang("g", 2), asks("m", of="g", cores=1, count=2))
    assert reserved(decisions) == [("m-0", "n", 10), ("m-1", "n", 10)]
    assert story.gang("g") == (0, 0, 2, 0)


def test_what_a_group_holds_stays_and_it_lacks_the_first_up_to_min_member() -> None:
    story = begun(cores=3, taken=2)
    story.play(gang("g", 3, mode=LOOSE), asks("m", of="g", count=5))
    assert story.gang("g") == (1, 0, 4, 0)
    assert in_force(story) == {"m-1": ("n", 10), "m-2": ("n", 10)}


def test_no_party_for_a_group_that_prefilter_refuses() -> None:
    story = begun(cores=3, taken=2)
    story.play(gang("g", 2, "h"), asks("m", of="g", cores=2, count=2))
    assert in_force(story) == {}
    story.play(gang("h", 1), asks("l", of="h"))
    assert in_force(story) == {}  # The three do not fit the node even if it is empty.
    story.play(
        node(
            "o",
            2,
        ),
        lasting("x", 7, cores=2, on="o", priority=1),
    )
    assert set(in_force(story)) == {"m-0", "m-1", "l"}


def test_no_reservation_for_a_member_whose_leaf_is_shut() -> None:
    blocking = attrs.evolve(BACKFILL, blocking=True)
    story = Story(scope(blocking, leaf("r", PLAIN)), node("n", 3), *apps(a="q", b="r"))
    story.play(lasting("k", 10, cores=2), gang("g", 2, mode=LOOSE))
    story.play(asks("large", cores=4, priority=1))
    story.play(asks("m", app="b", of="g"), asks("l", of="g"))
    assert in_force(story) == {}


# Kept


def test_a_start_is_kept_though_another_node_would_come_first_now() -> None:
    story = Story(scope(), node("a", 2), node("b", 2), APP)
    story.play(lasting("x", 10, cores=2, on="a"), lasting("y", 10, cores=2, on="b"))
    story.play(asks("m", cores=2))
    assert in_force(story) == {"m": ("a", 10)}
    story.play(AddNode("0", Resources({"vcore": 2})), lasting("z", 10, cores=2, on="0", priority=1))
    assert in_force(story) == {"m": ("a", 10)}


def test_it_is_not_kept_if_another_one_is_earlier_or_the_node_went() -> None:
    story = Story(scope(), node("a", 2), node("b", 2), APP)
    story.play(lasting("x", 10, cores=2, on="a"), lasting("y", 20, cores=2, on="b"))
    story.play(asks("m", cores=2))
    story.play(node("c", 2), lasting("z", 5, cores=2, on="c", priority=1))
    assert in_force(story) == {"m": ("c", 5)}
    story.play(RemoveNode("c"))
    assert in_force(story)["m"] == ("a", 10)


def test_a_gang_gets_its_nodes_where_trying_member_by_member_would_not_find_them() -> None:
    story = Story(scope(), node("a", 4), node("b", 4), APP)
    story.play(lasting("k", 10, cores=4, on="a"), lasting("l", 10, run=10, cores=4, on="b"))
    story.play(gang("g", 2), asks("s", of="g"), asks("t", of="g", cores=4))
    assert in_force(story) == {"s": ("a", 10), "t": ("b", 10)}
    # From now on the small one would go to the emptier node, where only the large one fits.
    story.play(5 * S, Release("a", "k"), asks("x", cores=2))
    assert in_force(story) == {"s": ("a", 10), "t": ("b", 10)}
    decisions = story.play(10 * S)
    assert kinds(decisions, "assigned", "waiting", "gang_satisfied", "bound") == [
        *("assigned s", "waiting s", "assigned t"),
        *("gang_satisfied g", "bound s", "bound t"),
    ]
    assert dict(story.model.bound)["a/s"] == "a"
    assert in_force(story) == {}


# Backfill


def test_an_ask_that_ends_by_the_start_overtakes() -> None:
    story = begun()
    story.play(asks("m", cores=4), lasting("short", 10), lasting("long", 11), asks("unknown"))
    assert bound(story) == {"k", "short"}
    story.play(1 * S, Release("a", "short"), lasting("again", 9), lasting("later", 10))
    assert bound(story) == {"k", "again"}


def test_with_an_unknown_start_every_known_end_is_before_it() -> None:
    story = begun(until=None)
    story.play(asks("m", cores=4), asks("unknown"), lasting("long", 9_999))
    assert bound(story) == {"k", "long"}
    assert in_force(story) == {"m": ("n", None)}


def test_an_ask_that_fits_beside_the_party_overtakes() -> None:
    story = begun(cores=6)
    story.play(asks("m", cores=4), asks("x", count=3))
    assert bound(story) == {"k", "x-0", "x-1"}


def test_it_takes_the_first_node_in_order_where_it_delays_nobody() -> None:
    story = Story(scope(), node("a", 4), node("b", 2), APP)
    story.play(lasting("k", 10, cores=2), asks("z", on="b"), asks("m", cores=4))
    assert in_force(story) == {"m": ("a", 10)}
    story.play(asks("x"))
    assert dict(story.model.bound)["a/x"] == "b"


def test_only_those_with_no_later_start_hold_their_nodes_for_that() -> None:
    story = Story(scope(TWO), node("n", 4), APP)
    story.play(lasting("k", 10, cores=2), lasting("l", 20))
    story.play(asks("m", cores=3), asks("late", cores=1, on="n"))
    assert in_force(story) == {"m": ("n", 10), "late": ("n", 20)}


def test_a_member_of_a_loose_gang_has_no_known_end() -> None:
    for mode, names in ((LOOSE, {"k"}), (None, {"k", "g-0"})):
        story = begun()
        story.play(asks("m", cores=4), gang("g", 1, mode=mode), lasting("g", 5, of="g", count=1))
        assert bound(story) == names


def test_own_members_are_not_held_back() -> None:
    story = begun(cores=4, taken=3)
    story.play(gang("g", 3, mode=LOOSE), asks("m", of="g", cores=2), asks("l", of="g", count=2))
    assert set(in_force(story)) >= {"m"}
    assert story.gang("g")[0] == 1


def test_who_is_held_back_is_not_helped_by_section_7() -> None:
    at_once = attrs.evolve(BACKFILL, preemption_delay_us=0)
    story = Story(scope(at_once, leaf("r", PLAIN)), node("n", 4), *apps(a="q", b="r"))
    story.play(lasting("low", 10, cores=3, priority=-5), asks("m", cores=4))
    assert not kinds(story.play(asks("x", priority=-1)), "released", "bound")


def test_deadlocks_ignore_reservations() -> None:
    story = Story(scope(), node("n", 2), APP)
    story.play(gang("g", 2, mode=LOOSE), asks("m", of="g"), asks("mm", of="g", cores=2))
    story.play(gang("h", 2, mode=LOOSE), asks("l", of="h"), asks("ll", of="h", cores=2))
    assert (story.gang("g"), story.gang("h")) == ((1, 0, 1, 0), (1, 0, 1, 0))
    larger = UpdateNode("n", Resources({"vcore": 4}))
    decisions = story.play(larger, asks("large", cores=4, priority=1))
    assert [one for one in decisions if one.startswith("warning")]
    assert (story.gang("g"), story.gang("h")) == ((0, 2, 0, 0), (1, 0, 1, 0))
    assert story.model.world.reached["held back"]


# The log


def test_the_log_says_what_is_new_or_changed_at_the_end_of_a_batch() -> None:
    story = begun()
    decisions = story.decide(asks("m", cores=4))
    assert reserved(decisions[-1:]) == [("m", "n", 10)]
    last = decisions[-1]
    assert (last.app, last.queue, last.gang, last.start_us) == ("a", None, None, 10 * S)
    assert reserved(story.decide(3 * S, asks("x"))) == []
    assert reserved(story.decide(10 * S)) == [("m", "n", 20)]
    assert reserved(story.decide(Release("a", "k"))) == [("x", "n", None)]
    assert bound(story) == {"m"}


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


def ask_of(story: Story, name: str, app: str = "a") -> Ask:
    return story.model.world.apps[app].asks[name]


def positions(story: Story) -> dict[str, int]:
    world = story.model.world
    return {ask.name: position(world, ask) for ask in world.pending()}


def fits(story: Story, name: str) -> int | str | None:
    found = fits_at(story.model.world, ask_of(story, name))
    if found is None:
        return None
    return "unknown" if found.start_us is None else found.start_us // S


def starts(story: Story, name: str, app: str = "a") -> int | None:
    found = starts_at_us(story.model, app, name)
    return None if found is None else found // S


def test_the_position_is_the_place_in_the_order_with_nothing_skipped() -> None:
    most = leaf("r", PLAIN, most=0)
    story = Story(scope(BACKFILL, most), node("n", 1), *apps(a="q", b="r"))
    story.play(asks("k"))
    story.play(asks("m", count=2), asks("over", app="b"), asks("high", priority=1))
    story.play(gang("g", 3), asks("l", of="g"))
    assert positions(story) == {"high": 1, "m-0": 2, "m-1": 3, "l": 4, "over": 5}


def test_fits_at_is_the_start_of_its_party_alone() -> None:
    story = Story(scope(), node("n", 3), APP, lasting("k", 10, cores=2), lasting("l", 20))
    story.play(asks("m", cores=3), asks("x", cores=2), asks("huge", cores=4))
    assert [fits(story, name) for name in ("m", "x", "huge")] == [20, 10, None]
    unknown = Story(node("n", 1), APP, asks("k"), asks("m"))
    assert fits(unknown, "m") == "unknown"


def test_fits_at_of_a_gang_is_that_of_all_that_it_lacks() -> None:
    story = Story(scope(), node("n", 3), APP, lasting("k", 10, cores=2), lasting("l", 20))
    story.play(gang("g", 3, mode=LOOSE), asks("m", of="g", count=3))
    assert [fits(story, f"m-{number}") for number in range(3)] == [20, 20, 20]
    story.play(gang("h", 2), asks("o", of="h"))
    assert fits(story, "o") is None


def test_it_starts_when_those_before_it_have_ended_as_expected() -> None:
    story = Story(scope(), node("n", 2), APP, lasting("k", 10, cores=2, run=7))
    story.play(lasting("m", 5, cores=2), lasting("l", 3, cores=2), asks("x", cores=2))
    story.play(asks("y"))
    assert [starts(story, name) for name in "mlxy"] == [10, 15, 18, None]
    assert story.model.world.now_us == 0


def test_it_never_starts_where_ends_are_unknown() -> None:
    story = Story(scope(), node("n", 1), APP, asks("k"), asks("m"))
    assert starts(story, "m") is None
    default = attrs.evolve(BACKFILL, estimate_us=4 * S)
    story.play(scope(default))
    assert starts(story, "m") == 4
    story.play(5 * S)
    assert starts(story, "m") == 8


def test_it_starts_though_it_is_evicted_in_the_same_batch() -> None:
    # OUTLOOK-3: at 10 m comes first. The queue of l is then below what it is guaranteed.
    story = Story(eviction_tree(queue("x", least=2), queue("y")), node("n", 2), *apps(a="x", b="y"))
    story.play(lasting("k", 10, cores=2))
    story.play(lasting("m", 20, cores=2, app="b", count=3), lasting("l", 5, cores=1))
    assert starts(story, "m-0", "b") == 10
