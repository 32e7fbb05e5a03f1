"""The naive model's reservations and backfill: one small case for each sentence, by hand."""

from __future__ import annotations

import attrs

from muster_core.events import AddNode, Release, RemoveNode, UpdateNode
from muster_core.resources import Resources
from muster_core.values.configuration import LimitEntry, Limits
from tests.naive.backfill.stories import (
    BACKFILL,
    PLAIN,
    bound,
    in_force,
    lasting,
    leaf,
    reserved,
    scope,
)
from tests.naive.story import APP, LOOSE, S, Story, asks, gang, kinds, node
from tests.naive.test_evictions import apps

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
    story = Story(config, node("n", 9), attrs.evolve(APP, user="u"))
    story.play(lasting("k", 10, cores=2), lasting("l", 20), asks("m", cores=3))
    assert in_force(story) == {"m": ("n", 20)}


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
    said = decisions[-1]
    assert (said.app, said.queue, said.gang, said.start_us) == ("a", None, None, 10 * S)
    assert reserved(story.decide(3 * S, asks("x"))) == []
    assert reserved(story.decide(10 * S)) == [("m", "n", 20)]
    assert reserved(story.decide(Release("a", "k"))) == [("x", "n", None)]
    assert bound(story) == {"m"}
