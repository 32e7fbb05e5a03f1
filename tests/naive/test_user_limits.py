"""The naive model's limits of users and groups: one small case for each sentence.

What may be drawn for an operator.
"""

from __future__ import annotations

import attrs
import pytest

from muster_core.config.model import Limits, QueueConfig, Settings, SortPolicy
from muster_core.events import AddApp, Apply, Configure, Manifest, PodObject, Release, RemoveAsk
from muster_core.reasons import Code
from muster_core.values.configuration import LimitEntry, PlacementRule, RuleName
from tests.naive.harness import LOOSE, S, Story, asks, gang, kinds, node
from tests.naive.operator_strategies import LimitTheme, faults, is_legal, limited
from tests.naive.test_placement import fixed, tag
from tests.naive.test_reasons import HIGH, STRICT, codes, figures, queue, tree

AT_ONCE = Settings(preemption_delay_us=0)


def users(*names: str, cores: int | None = None, apps: int = 0) -> LimitEntry:
    most = Limits() if cores is None else Limits.of({"vcore": cores})
    return LimitEntry(names, (), most, apps)


def groups(*names: str, cores: int | None = None, apps: int = 0) -> LimitEntry:
    return attrs.evolve(users(cores=cores, apps=apps), groups=names)


def limited_tree(*entries: LimitEntry, settings: Settings = AT_ONCE, **fields: object) -> Configure:
    """Make a tree of two leaves, the first of which has some limits."""
    first = queue("q", limits=entries, settings=settings, **fields)
    return tree(first, queue("r", settings=AT_ONCE))


def partition(*entries: LimitEntry, enabled: bool = True) -> Configure:
    """Make a tree of two leaves, whose root has some limits."""
    both = queue("q", settings=AT_ONCE), queue("r", settings=AT_ONCE)
    config = tree(*both, enabled=enabled).config
    return Configure(attrs.evolve(config, root=attrs.evolve(config.root, limits=entries)))


def app(name: str, user: str | None, *of: str, at: str = "q") -> AddApp:
    return AddApp(name, f"root.{at}", user, of)


def bound(story: Story) -> set[str]:
    return {name for name, _ in story.model.bound}


def cores(story: Story, app_name: str) -> int:
    return sum(name.startswith(f"{app_name}/") for name in bound(story))


def counts(story: Story, app_name: str) -> str | None:
    return story.model.world.apps[app_name].counts_for


def test_the_limit_that_names_the_user_applies_else_that_of_all() -> None:
    story = Story(limited_tree(users("u", cores=3), users("*", cores=1)), node("n", 9))
    story.play(app("a", "u"), app("b", "v"), app("c", "w"), app("d", None))
    story.play(*(asks("k", app=name, count=4) for name in "abcd"))
    assert [cores(story, name) for name in "abcd"] == [3, 1, 1, 1]


def test_without_a_limit_of_all_others_are_not_limited() -> None:
    story = Story(limited_tree(users("u", cores=1)), node("n", 9), app("a", "u"), app("b", None))
    story.play(asks("k", count=3), asks("k", app="b", count=3))
    assert [cores(story, name) for name in "ab"] == [1, 3]


def test_the_limit_that_names_the_user_applies_though_it_says_nothing_of_resources() -> None:
    story = Story(
        limited_tree(users("u", apps=5), users("*", cores=1)), node("n", 9), app("a", "u")
    )
    story.play(asks("k", count=3))
    assert cores(story, "a") == 3


def test_a_user_has_one_sum_over_its_applications_and_all_below() -> None:
    story = Story(partition(users("u", "v", cores=3)), node("n", 9))
    story.play(app("a", "u"), app("b", "u", at="r"), app("c", "v", at="r"))
    story.play(*(asks("k", app=name, count=2) for name in "abc"))
    assert len(bound(story) - {"c/k-0", "c/k-1"}) == 3, "two users, no sum over their names"
    assert cores(story, "c") == 2


def test_all_nameless_applications_are_one_users() -> None:
    story = Story(limited_tree(users("*", cores=2)), node("n", 9), app("a", None), app("b", None))
    story.play(asks("k", count=2), asks("k", app="b", count=2))
    assert len(bound(story)) == 2


def test_every_limit_from_the_leaf_to_the_root_must_be_kept() -> None:
    p = queue("p", queue("p.q", limits=(users("*", cores=3),)), limits=(users("u", cores=2),))
    story = Story(tree(p), node("n", 9), app("a", "u", at="p.q"), app("b", "v", at="p.q"))
    story.play(asks("k", count=4), asks("k", app="b", count=4))
    assert [cores(story, name) for name in "ab"] == [2, 3]


def test_a_type_that_is_not_named_is_free_and_0_allows_nothing() -> None:
    none = LimitEntry(("u",), (), Limits.of({"vcore": 0, "gpu": 1}))
    story = Story(limited_tree(none), node("n", 9), app("a", "u"), asks("k"))
    assert not bound(story)
    assert codes(story, "k") == ["UserLimit"]
    story = Story(limited_tree(LimitEntry(("u",), (), Limits.of({"gpu": 1}))), node("n", 9))
    story.play(app("a", "u"), asks("k"))
    assert bound(story) == {"a/k"}


def test_it_fails_whatever_else_is_free_and_others_go_on() -> None:
    story = Story(limited_tree(users("u", cores=1)), node("n", 9), app("a", "u"), app("b", "v"))
    story.play(asks("k", cores=2, priority=5), asks("l", priority=4), asks("m"), asks("k", app="b"))
    assert bound(story) == {"a/l", "b/k"}
    story.play(Release("a", "l"))
    assert bound(story) == {"a/m", "b/k"}


def test_a_group_is_looked_for_from_the_leaf_up_and_in_the_order_of_the_file() -> None:
    leaf = queue("p.q", limits=(groups("h", "g", cores=9),))
    other = queue("p.r", limits=(groups("x", cores=9), groups("*", cores=8)))
    p = queue("p", leaf, other, queue("p.s"), limits=(groups("i", "g", cores=5),))
    story = Story(tree(p), app("a", "u", "g", "h", at="p.q"), app("b", "u", "i", "g", at="p.q"))
    story.play(app("c", "u", "i", at="p.q"), app("d", "u", "z", at="p.q"))
    assert [counts(story, name) for name in "abcd"] == ["h", "g", "i", None]
    story.play(app("e", "u", "i", at="p.r"), app("f", None, at="p.r"), app("g", "u", "g", at="p.s"))
    assert [counts(story, name) for name in "efg"] == ["*", "*", "g"]


def test_a_group_has_one_sum_over_its_applications_in_every_queue_that_limits_its_name() -> None:
    q = queue("p.q", limits=(groups("g", cores=2),))
    p = queue("p", q, queue("p.r"), limits=(groups("g", cores=3), groups("*", cores=1)))
    story = Story(
        tree(p), node("n", 20), app("a", "u", "g", at="p.q"), app("b", "v", "g", at="p.r")
    )
    story.play(app("c", "w", at="p.r"), app("d", "x", "z", at="p.q"))
    story.play(*(asks("k", app=name, count=4) for name in "abcd"))
    assert cores(story, "a") + cores(story, "b") == 3
    assert cores(story, "a") <= 2
    assert cores(story, "c") + cores(story, "d") == 1, "both count for *, which has one sum"


def test_of_the_group_of_all_only_its_own_limits_apply() -> None:
    q = queue("p.q", limits=(groups("x", cores=9), groups("*", cores=2)))
    p = queue("p", q, limits=(groups("g", cores=1),))
    story = Story(tree(p), node("n", 9), app("a", "u", "g", at="p.q"), asks("k", count=4))
    assert counts(story, "a") == "*"
    assert cores(story, "a") == 2, "that of g above is not for it"


def test_a_group_stays_while_any_queue_of_the_path_limits_it() -> None:
    g, h = groups("g", cores=5), groups("h", cores=5)
    story = Story(partition(g), app("a", "u", "g", "h"))
    both = partition(h, g).config
    story.play(Configure(both))
    assert counts(story, "a") == "g", "though h comes first now"
    story.play(app("b", "u", "g", "h"))
    assert counts(story, "b") == "h"
    story.play(partition(h))
    assert counts(story, "a") == "h"
    story.play(partition())
    assert counts(story, "a") is None
    story.play(limited_tree(g))
    assert counts(story, "a") == counts(story, "b") == "g"


def test_what_counts_goes_with_the_group() -> None:
    g, h = groups("g", cores=2), groups("h", cores=3)
    story = Story(partition(g), node("n", 9), app("a", "u", "g", "h"), app("b", "u", "h"))
    story.play(asks("k", count=2), partition(h), asks("k", app="b", count=3))
    assert cores(story, "b") == 1, "two of a's count for h now"


def test_maxapplications_of_a_user_counts_those_that_run() -> None:
    story = Story(limited_tree(users("u", apps=1)), node("n", 9))
    story.play(app("a", "u"), app("b", "u"), app("c", "v"))
    story.play(*(asks("k", app=name) for name in "abc"))
    assert bound(story) == {"a/k", "c/k"}
    assert codes(story, "b/k")[0] == "UserLimit"
    story.play(asks("l"))
    assert "a/l" in bound(story), "one that runs is not kept out"
    story.play(Release("a", "k"), Release("a", "l"))
    assert "b/k" in bound(story)


def test_maxapplications_of_a_group_and_of_all_groups() -> None:
    story = Story(partition(groups("g", apps=1), groups("*", apps=2)), node("n", 9))
    story.play(*(app(name, "u", "g") for name in "ab"), *(app(name, "u") for name in "cde"))
    story.play(*(asks("k", app=name) for name in "abcde"))
    assert bound(story) == {"a/k", "c/k", "d/k"}
    assert figures(story, "e/k", Code.GROUP_LIMIT) == {"group": "*", "queue": "root"}


def test_one_that_runs_is_tried_though_the_limit_became_smaller() -> None:
    story = Story(limited_tree(users("u", apps=2)), node("n", 9), app("a", "u"), app("b", "u"))
    story.play(asks("k"), asks("k", app="b"), limited_tree(users("u", apps=1)), asks("l"))
    assert "a/l" in bound(story)


def test_a_lower_limit_evicts_nobody() -> None:
    story = Story(
        limited_tree(users("u", cores=3)), node("n", 9), app("a", "u"), asks("k", count=3)
    )
    assert not kinds(story.play(limited_tree(users("u", cores=1))), "released")
    story.play(Release("a", "k-0"), asks("l"))
    assert bound(story) == {"a/k-1", "a/k-2"}


def test_dynamic_queues_have_none_of_their_own_and_draining_ones_keep_theirs() -> None:
    makes = attrs.evolve(AT_ONCE, create=True)
    p = queue("p", settings=makes, limits=(users("u", cores=2),))
    story = Story(tree(attrs.evolve(p, is_parent=True)), node("n", 9), app("a", "u", at="p.x"))
    story.play(asks("k", count=3))
    assert cores(story, "a") == 2
    assert not story.model.world.queues["root.p.x"].entries
    story.play(tree(queue("r")))
    assert cores(story, "a") == 2


def test_a_pod_that_comes_bound_is_not_checked_but_counts() -> None:
    story = Story(limited_tree(users("*", cores=1)), node("n", 9), app("a", None))
    for name in ("k", "l"):
        pod = PodObject("a", name, "root.q", asks(name), "n")
        story.play(Apply((Manifest(pod),)))
    story.play(asks("m"))
    assert bound(story) == {"a/k", "a/l"}


def test_a_waiting_ask_counts() -> None:
    story = Story(
        limited_tree(users("u", cores=1)), node("n", 1), app("a", "u"), app("b", "v", at="r")
    )
    story.play(gang("g", 2, mode=LOOSE), asks("m", of="g"), asks("m", of="g", app="b"))
    assert story.gang("g") == (1, 0, 1, 0)
    story.play(node("o", 9), RemoveAsk("b", "m"), asks("k"))
    assert not bound(story), "the member holds what the user may have"


def test_it_does_not_block_a_blocking_leaf() -> None:
    blocking = attrs.evolve(AT_ONCE, blocking=True)
    story = Story(limited_tree(users("u", cores=1), settings=blocking), node("n", 3))
    story.play(app("a", "u"), app("b", "v"))
    story.play(asks("k", cores=9, priority=9), asks("k", app="b", cores=2), asks("l", app="b"))
    assert bound(story) == {"b/k", "b/l"}, "though no node could hold the first one either"
    story.play(asks("m", app="b", priority=8, cores=2), asks("n", app="b"))
    assert codes(story, "k") == ["NeverFits", "UserLimit", "NoNodeFits"]
    assert codes(story, "b/n")[0] == "Blocked"
    assert figures(story, "b/n", Code.BLOCKED) == {"behind": "b/m"}


def test_a_queue_enters_whatever_limits_say() -> None:
    config = limited_tree(users("u", cores=0), most=1)
    story = Story(config, node("n", 9), app("a", "u"), asks("k"), asks("l", cores=2))
    assert codes(story, "k") == ["UserLimit"]
    assert codes(story, "l") == ["NeverFits", "UserLimit", "NotYourTurn"], "the queue competes"


def test_it_makes_nobody_reclaim_or_preempt() -> None:
    for config in (partition(users("u", cores=1)), partition(groups("g", cores=1))):
        story = Story(HIGH, config, node("n", 2), app("a", "u", "g"), app("b", "v", at="r"))
        story.play(asks("k"), asks("k", app="b"))
        assert not kinds(story.play(asks("m", named="high")), "released"), "not even of its own"
        assert "ReclaimInsufficient" not in codes(story, "m")
        story.play(app("c", "v"))
        assert kinds(story.play(asks("m", app="c", named="high")), "released") == [
            "released k preempted"
        ]


def test_a_member_over_a_limit_holds_up_its_group_in_reclaim() -> None:
    x = queue("q", settings=AT_ONCE, least=4, limits=(users("u", cores=1),))
    story = Story(tree(x, queue("r", settings=AT_ONCE)), node("n", 2))
    story.play(app("a", "u"), app("b", "v", at="r"), asks("k", app="b", count=2))
    assert not story.play(gang("g", 2), asks("m", of="g", count=2))
    assert story.gang("g") == (0, 0, 2, 0)


def test_a_strict_gang_of_which_a_member_is_over_a_limit_holds_nothing() -> None:
    story = Story(limited_tree(users("u", cores=1)), node("n", 9), app("a", "u"), app("b", "v"))
    story.play(gang("g", 2, mode=STRICT), asks("m", of="g", count=2), asks("k", app="b"))
    assert story.gang("g") == (0, 0, 2, 0)
    assert not story.model.gangs["default/g"].cycle_valid
    assert bound(story) == {"b/k"}


def test_activation_skips_nobody_for_maxapplications_but_a_member_over_maxresources_fails() -> None:
    story = Story(limited_tree(users("u", apps=1)), node("n", 9), app("a", "u"), app("b", "u"))
    story.play(asks("k", app="b"), app("c", "v"))
    story.play(gang("g", 2), asks("m", of="g"), asks("m", of="g", app="c", priority=1))
    assert bound(story) == {"b/k", "a/m", "c/m"}
    story = Story(
        limited_tree(users("u", cores=0, apps=1)), node("n", 9), app("a", "u"), app("c", "v")
    )
    story.play(gang("g", 2), asks("m", of="g"), asks("m", of="g", app="c", priority=1))
    assert not bound(story)


def test_groups_that_starve_by_a_limit_are_helped_too() -> None:
    story = Story(limited_tree(users("u", cores=3)), node("n", 1), app("a", "u"))
    story.play(gang("g", 3, mode=LOOSE), asks("m", of="g", count=3), gang("h", 3, mode=LOOSE))
    story.play(node("o", 1), asks("l", of="h", count=3, priority=1))
    assert (story.gang("g")[0], story.gang("h")[0]) == (1, 1)
    decisions = story.play(node("p", 9))
    assert kinds(decisions, "warning", "released", "bound") == [
        "warning",
        "released m-0 deadlock",
        *("bound l-0", "bound l-1", "bound l-2"),
    ]


def test_no_help_for_a_group_that_a_limit_stands_against() -> None:
    story = Story(limited_tree(users("u", cores=1)), node("n", 2), app("a", "u"), app("b", "v"))
    story.play(gang("g", 2, mode=LOOSE), gang("h", 3, mode=LOOSE))
    decisions = story.play(
        asks("m", of="g", count=2, priority=5), asks("l", of="h", count=3, app="b")
    )
    assert not kinds(decisions, "warning", "bound")
    assert story.gang("g") == (1, 0, 1, 0)
    assert story.gang("h") == (1, 0, 2, 0)


def test_reasons_name_the_user_or_the_group_and_the_queue() -> None:
    p = queue("p", queue("p.q", limits=(users("*", cores=2),)), limits=(groups("g", cores=1),))
    story = Story(tree(p), node("n", 9), app("a", "u", "g", at="p.q"), asks("k", count=2))
    assert codes(story, "k-1") == ["GroupLimit"]
    assert figures(story, "k-1", Code.GROUP_LIMIT) == {"group": "g", "queue": "root.p"}
    story.play(asks("m", cores=3))
    assert codes(story, "m") == ["UserLimit", "GroupLimit", "NotYourTurn"]
    assert figures(story, "m", Code.USER_LIMIT) == {"user": "u", "queue": "root.p.q"}


def test_stateaware_passes_over_who_a_limit_keeps_waiting() -> None:
    aware = attrs.evolve(AT_ONCE, sort_policy=SortPolicy.STATE_AWARE)
    story = Story(limited_tree(users("u", apps=1), settings=aware), node("n", 9))
    story.play(app("a", "u"), asks("k"), 300 * S, app("b", "u"), app("c", "v"))
    story.play(asks("k", app="b"), asks("k", app="c"))
    assert bound(story) == {"a/k", "c/k"}, (
        "b is kept out, so that c is the one that may go beside a"
    )


def leaf(*entries: LimitEntry, **fields: int) -> QueueConfig:
    return queue("q", limits=entries, **fields)


@pytest.mark.parametrize(
    ("config", "fault"),
    [
        (leaf(users(cores=1)), "for nobody"),
        (leaf(users("u")), "limits nothing"),
        (leaf(users("u", cores=0, apps=1)), "no type above 0"),
        (leaf(users("u", cores=3), most=2), "more than max"),
        (leaf(users("u", apps=3), max_applications=2), "more than maxapplications"),
        (leaf(users("u", cores=1), users("v", "u", cores=1)), "u twice"),
        (leaf(users("*", cores=1), users("u", cores=1)), "u after *"),
        (leaf(users("*", "u", cores=1)), "u after *"),
        (leaf(groups("g", "*", cores=1), groups("h", cores=1)), "h after *"),
        (leaf(groups("*", cores=1)), "the group * alone"),
    ],
)
def test_each_fault_of_one_queue_is_found(config: QueueConfig, fault: str) -> None:
    assert faults(config) == [f"root.q: {fault}"]


@pytest.mark.parametrize(
    ("above", "own", "fault"),
    [
        ((users("u", cores=1),), users("u", cores=2), "u has more than above"),
        ((users("*", cores=1),), users("u", cores=2), "u has more than above"),
        ((users("u", cores=2), users("*", cores=1)), users("u", cores=2), None),
        ((users("u", cores=1),), users("*", cores=2), None),
        ((groups("u", cores=1),), users("u", cores=2), None),
        ((groups("g", "*", cores=1),), groups("h", cores=2), "h has more than above"),
        ((users("u", apps=2),), users("u", apps=3), "u has more applications than above"),
        ((users("u", apps=2),), users("u", cores=3), "u has more applications than above"),
        ((users("u", cores=2),), users("u", apps=3), None),
    ],
)
def test_more_than_the_queues_above_give_is_found(
    above: tuple[LimitEntry, ...], own: LimitEntry, fault: str | None
) -> None:
    inner = queue("p.q", limits=(own,))
    config = queue("root", queue("p", inner), limits=above)
    assert faults(config) == ([] if fault is None else [f"root.p.q: {fault}"])


def test_the_least_of_all_queues_above_counts() -> None:
    inner = queue("p.q", limits=(users("u", cores=2),))
    p = queue("p", inner, limits=(users("*", cores=9),))
    assert not faults(queue("root", p, limits=(users("u", cores=2),)))
    assert faults(queue("root", p, limits=(users("u", cores=1),)))


def test_what_is_drawn_is_mended() -> None:
    theme = LimitTheme(users=True, groups=True, entries=(3,), amounts=(4, 1, 0), apps=(0, 3))
    config = queue("root", queue("p", queue("p.q", most=2), max_applications=2))
    some = 0
    for first in range(64):
        drawn = [bytes((first, at * first % 251, at) * 12) for at in range(3)]
        found = limited(config, theme, drawn, 0, {})
        assert not faults(found)
        some += len(found.children[0].children[0].limits)
    assert some


TREE = queue("root", queue("p", queue("p.x")), queue("q"))
PROVIDED = PlacementRule(RuleName.PROVIDED)


@pytest.mark.parametrize(
    ("rule", "legal"),
    [
        (fixed("q"), True),
        (fixed("root.P.X"), True),
        (fixed("p"), False),
        (fixed("root"), False),
        (fixed("missing"), False),
        (fixed("missing", create=True), True),
        (fixed("q.x", create=True), False),
        (fixed("x", parent=fixed("p")), True),
        (fixed("x", parent=fixed("root")), False),
        (fixed("root.q", parent=fixed("p")), False),
        (attrs.evolve(PROVIDED, parent=fixed("p")), True),
        (attrs.evolve(PROVIDED, parent=fixed("q")), False),
        (attrs.evolve(PROVIDED, parent=fixed("m")), False),
        (attrs.evolve(PROVIDED, create=True, parent=fixed("m")), True),
        (attrs.evolve(PROVIDED, parent=attrs.evolve(PROVIDED, parent=fixed("q"))), False),
        (fixed("x", parent=PROVIDED), True),
        (tag(""), False),
        (tag("any"), True),
    ],
)
def test_rules_that_can_never_match_are_found(rule: PlacementRule, legal: bool) -> None:
    assert is_legal(rule, TREE) is legal


def test_an_amount_of_0_beside_others_is_in_order() -> None:
    entry = LimitEntry(("u",), (), Limits.of({"vcore": 1, "memory": 0}))
    assert not faults(leaf(entry))
