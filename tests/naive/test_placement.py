"""The naive model's placement rules: one small case for each sentence, written out by hand."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest

from muster_core.config.model import Acl, Limits, QueueConfig, Settings, Template
from muster_core.events import AddApp, Configure, RemoveApp
from muster_core.resources import Resources
from muster_core.values.configuration import LimitEntry, PlacementFilter, PlacementRule, RuleName
from tests.naive.story import Story, asks, node
from tests.naive.test_reasons import queue, tree

PROVIDED = PlacementRule(RuleName.PROVIDED)
USER = PlacementRule(RuleName.USER)
MAKING = attrs.evolve(PROVIDED, create=True)


def fixed(
    value: str, *, create: bool = False, parent: PlacementRule | None = None
) -> PlacementRule:
    return PlacementRule(RuleName.FIXED, value, create, parent=parent)


def tag(name: str) -> PlacementRule:
    return PlacementRule(RuleName.TAG, name)


def ruled(*rules: PlacementRule, queues: tuple[QueueConfig, ...] | None = None) -> Configure:
    """Make a tree of the leaves ``q``, ``p.x`` and ``default``, or others, with some rules."""
    usual = queue("q"), queue("p", queue("p.x")), queue("default")
    config = tree(*(usual if queues is None else queues)).config
    return Configure(attrs.evolve(config, placement_rules=rules))


def came(
    rules: Configure | Story,
    path: str | None = None,
    user: str | None = "u",
    groups: tuple[str, ...] = (),
    tags: Mapping[str, str] | None = None,
) -> str | None:
    """Give the queue to which an application comes, or None if it is refused."""
    story = rules if isinstance(rules, Story) else Story(rules)
    name = f"a{len(story.model.world.apps)}"
    story.play(AddApp(name, path, user, groups, tags or {}))
    found = story.model.world.apps.get(name)
    return None if found is None else found.queue


def where(rule: PlacementRule, who: PlacementFilter) -> PlacementRule:
    return attrs.evolve(rule, filter=who)


def test_the_first_rule_whose_queue_may_be_used_decides() -> None:
    rules = ruled(PROVIDED, USER, fixed("p.x"))
    assert came(rules, "Q") == "root.q"
    assert came(rules, "root.nothing", user="q") == "root.q"
    assert came(rules, user="nobody") == "root.p.x"


def test_without_rules_the_queue_may_not_be_missing() -> None:
    assert came(ruled()) is None
    assert came(ruled(), "q") == "root.q"


def test_a_filter_lets_those_through_that_it_hits_or_the_others() -> None:
    some = PlacementFilter(users=("u", "v"), groups=("g", "h"))
    for who, passes in (
        (some, {"u": True, "w": False}),
        (attrs.evolve(some, deny=True), {"u": False, "w": True}),
        (PlacementFilter(), {"u": True, "w": True}),
        (PlacementFilter(deny=True), {"u": False, "w": False}),
    ):
        rules = ruled(where(fixed("q"), who))
        for user, through in passes.items():
            assert came(rules, user=user) == ("root.q" if through else "root.default"), who
    rules = ruled(where(fixed("q"), some))
    assert came(rules, user="w", groups=("i", "h")) == "root.q"
    assert came(rules, user=None) == "root.default"
    assert came(rules, user=None, groups=("g",)) == "root.q"


@pytest.mark.parametrize(
    ("names", "user", "hit"),
    [
        (("^u",), "u1", True),
        (("^u",), "au", False),
        (("u.*1$",), "xu01", True),
        (("u",), "u1", False),
        (("u.",), "u1", False),
        (("^u", "v"), "u1", False),
        (("^u", "v"), "v", True),
        (("u$",), "au", True),
        (("u$", "v"), "u$", True),
        (("1u", "v"), "1u", False),
    ],
)
def test_a_list_of_one_is_an_expression_if_it_looks_like_one(
    names: tuple[str, ...], user: str, hit: bool
) -> None:
    rules = ruled(where(fixed("q"), PlacementFilter(users=names)))
    assert came(rules, user=user) == ("root.q" if hit else "root.default")
    rules = ruled(where(fixed("q"), PlacementFilter(groups=names)))
    if "$" not in user:
        assert came(rules, groups=(user,)) == ("root.q" if hit else "root.default")


def test_each_rule_takes_the_name_from_elsewhere_and_none_is_no_match() -> None:
    rules = ruled(tag("Namespace"), USER)
    assert came(rules, tags={"namespace": "Q"}) == "root.q"
    assert came(rules, user="q", tags={"namespace": ""}) == "root.q"
    assert came(rules, user=None) == "root.default"


def test_a_name_that_begins_with_root_is_the_whole_path() -> None:
    below = fixed("p")
    rules = ruled(attrs.evolve(PROVIDED, parent=below))
    assert came(rules, "x") == "root.p.x"
    assert came(rules, "ROOT.q") == "root.q"
    assert came(rules, "q") == "root.default"
    rules = ruled(fixed("root"), attrs.evolve(USER, create=True))
    assert came(rules, user="root.q") == "root.root_dot_q"
    assert came(ruled(MAKING), "root") == "root.root", "of provided only what is below root"


def test_points_are_no_levels_but_in_fixed() -> None:
    assert came(ruled(MAKING), "p.x") == "root.p_dot_x"
    assert came(ruled(fixed("p.x"))) == "root.p.x"
    assert came(ruled(fixed("x", parent=fixed("p")))) == "root.p.x"


def test_a_parent_rule_that_does_not_match_or_gives_a_leaf_lets_the_rule_not_match() -> None:
    leaf = attrs.evolve(MAKING, parent=fixed("q"))
    assert came(ruled(leaf), "new") == "root.default"
    missing = attrs.evolve(MAKING, parent=fixed("m"))
    assert came(ruled(missing), "new") == "root.default"
    made = attrs.evolve(MAKING, parent=fixed("m", create=True))
    assert came(ruled(made), "new") == "root.m.new"
    not_made = attrs.evolve(PROVIDED, parent=fixed("m", create=True))
    assert came(ruled(not_made), "new") == "root.default"
    filtered = where(fixed("p"), PlacementFilter(users=("v", "w")))
    assert came(ruled(attrs.evolve(PROVIDED, parent=filtered)), "x") == "root.default"


def test_an_illegal_name_refuses_the_application() -> None:
    rules = ruled(MAKING, fixed("q"))
    for name in ("a b", "root.p..x", "root.", "x" * 65, "." * 13):
        assert came(rules, name) is None, name
    assert came(rules, "x" * 64) == f"root.{'x' * 64}"


def test_a_queue_that_cannot_be_used_lets_the_next_rule_be_tried() -> None:
    closed = queue("p", queue("p.x"), settings=Settings(create=False))
    rules = ruled(MAKING, fixed("q"), queues=(closed, queue("q")))
    assert came(rules, "root.p") == "root.q", "no leaf"
    assert came(rules, "root.p.new") == "root.q", "create is disabled"
    assert came(rules, "root.q.new") == "root.q", "below a leaf"
    assert came(rules, "root.new.er") == "root.new.er"
    story = Story(rules, AddApp("a", "root.p.x"))
    story.play(ruled(MAKING, fixed("q"), queues=(queue("q"),)))
    assert came(story, "root.p.x") == "root.q", "draining"
    assert came(story, "root.p.new") == "root.q"


def test_a_queue_that_does_not_admit_the_user_lets_the_next_rule_be_tried() -> None:
    own = queue("p", queue("p.x"), submit_acl=Acl(users=frozenset({"v"})))
    all_of = queue("q", submit_acl=Acl(everybody=True))
    rules = ruled(MAKING, fixed("q"), queues=(own, all_of))
    assert came(rules, "root.p.x", user="v") == "root.p.x"
    assert came(rules, "root.p.x") == "root.q"
    assert came(rules, "root.p.new", user="v") == "root.p.new"
    assert came(rules, "root.p.new") == "root.q"
    closed = ruled(MAKING, queues=(own, queue("default")))
    assert came(closed, "root.p.x") is None, "the default does not admit it either"


def test_a_queue_is_made_with_the_nearest_template() -> None:
    template = Template(Resources(), Limits.of({"vcore": 3}), 0, ())
    rules = ruled(MAKING, queues=(queue("p", queue("p.x"), template=template),))
    story = Story(rules)
    assert came(story, "root.p.new") == "root.p.new"
    assert story.model.world.queues["root.p.new"].limits == {"vcore": 3}
    story.play(RemoveApp("a0"))
    assert not story.model.queue("root.p.new").exists


def test_who_insists_goes_to_recovery_and_all_others_to_the_default_or_nowhere() -> None:
    force = {"application.create.force": "true"}
    template = Template(Resources(), Limits.of({"vcore": 0}), 0, ())
    config = ruled(MAKING, queues=(queue("q"),)).config
    entry = LimitEntry(("u",), (), Limits.of({"vcore": 5}))
    root = attrs.evolve(
        config.root, template=template, limits=(entry,), submit_acl=Acl(users=frozenset({"v"}))
    )
    story = Story(Configure(attrs.evolve(config, root=root)), node("n", 9))
    assert came(story, "q") is None, "there is no default, and it would not be admitted"
    assert came(story, "q", tags=force) == "root.@recovery@"
    found = story.model.world.queues["root.@recovery@"]
    assert (found.dynamic, found.is_parent, found.limits) == (True, False, {})
    assert came(story, "root.@recovery@", user="v") is None, "no rule reaches it"
    assert came(story, "root.@recovery@.x", user="v") is None
    story.play(asks("k", app="a0", count=7))
    assert len(story.model.bound) == 5, "the limits above it hold"
    assert not {code for account in story.model.accounts.values() for code in account.codes} - {
        *("UserLimit", "NotYourTurn")
    }
    story.play(RemoveApp("a0"))
    assert not story.model.queue("root.@recovery@").exists
    assert came(ruled(PROVIDED), "q", tags=force) == "root.q", "a rule matched"
    assert came(ruled(PROVIDED), "z", tags={"application.create.force": "True"}) == "root.default"


def test_applications_stay_where_they_are_when_rules_change() -> None:
    story = Story(ruled(fixed("q")), AddApp("a"))
    story.play(ruled(fixed("p.x")), AddApp("b"))
    assert [story.model.world.apps[name].queue for name in "ab"] == ["root.q", "root.p.x"]
