"""The naive model's placement rules and node services.

One small case for each sentence, written out by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
import pytest

from muster_core.config.model import Acl, Limits, PreemptionPolicy, QueueConfig, Settings, Template
from muster_core.events import (
    AddApp,
    AddAsk,
    AddPriorityClass,
    BindFailed,
    Configure,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    UpdateNode,
)
from muster_core.reasons import Code
from muster_core.resources import Resources
from muster_core.values.configuration import LimitEntry, PlacementFilter, PlacementRule, RuleName
from tests.naive.harness import LOOSE, S, Story, asks, gang, kinds, node
from tests.naive.test_evictions import apps, evicted
from tests.naive.test_reasons import HIGH, codes, figures, queue, tree

PROVIDED = PlacementRule(RuleName.PROVIDED)
USER = PlacementRule(RuleName.USER)
MAKING = attrs.evolve(PROVIDED, create=True)


def fixed(
    value: str, *, create: bool = False, parent: PlacementRule | None = None
) -> PlacementRule:
    return PlacementRule(RuleName.FIXED, value, create, parent=parent)


def tag(name: str) -> PlacementRule:
    return PlacementRule(RuleName.TAG, name)


def tree_with_rules(
    *rules: PlacementRule, queues: tuple[QueueConfig, ...] | None = None
) -> Configure:
    """Make a tree of the leaves ``q``, ``p.x`` and ``default``, or others, with some rules."""
    usual = queue("q"), queue("p", queue("p.x")), queue("default")
    config = tree(*(usual if queues is None else queues)).config
    return Configure(attrs.evolve(config, placement_rules=rules))


def queue_of(
    rules: Configure | Story,
    path: str | None = None,
    user: str | None = "u",
    groups: tuple[str, ...] = (),
    tags: Mapping[str, str] | None = None,
) -> str | None:
    """Return the queue to which an application comes, or None if it is refused."""
    story = rules if isinstance(rules, Story) else Story(rules)
    name = f"a{len(story.model.world.apps)}"
    story.play(AddApp(name, path, user, groups, tags or {}))
    found = story.model.world.apps.get(name)
    return None if found is None else found.queue


def with_filter(rule: PlacementRule, who: PlacementFilter) -> PlacementRule:
    return attrs.evolve(rule, filter=who)


def test_the_first_rule_whose_queue_may_be_used_decides() -> None:
    rules = tree_with_rules(PROVIDED, USER, fixed("p.x"))
    assert queue_of(rules, "Q") == "root.q"
    assert queue_of(rules, "root.nothing", user="q") == "root.q"
    assert queue_of(rules, user="nobody") == "root.p.x"


def test_without_rules_the_queue_may_not_be_missing() -> None:
    assert queue_of(tree_with_rules()) is None
    assert queue_of(tree_with_rules(), "q") == "root.q"


def test_a_filter_lets_those_through_that_it_hits_or_the_others() -> None:
    some = PlacementFilter(users=("u", "v"), groups=("g", "h"))
    for who, passes in (
        (some, {"u": True, "w": False}),
        (attrs.evolve(some, deny=True), {"u": False, "w": True}),
        (PlacementFilter(), {"u": True, "w": True}),
        (PlacementFilter(deny=True), {"u": False, "w": False}),
    ):
        rules = tree_with_rules(with_filter(fixed("q"), who))
        for user, through in passes.items():
            assert queue_of(rules, user=user) == ("root.q" if through else "root.default"), who
    rules = tree_with_rules(with_filter(fixed("q"), some))
    assert queue_of(rules, user="w", groups=("i", "h")) == "root.q"
    assert queue_of(rules, user=None) == "root.default"
    assert queue_of(rules, user=None, groups=("g",)) == "root.q"


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
    rules = tree_with_rules(with_filter(fixed("q"), PlacementFilter(users=names)))
    assert queue_of(rules, user=user) == ("root.q" if hit else "root.default")
    rules = tree_with_rules(with_filter(fixed("q"), PlacementFilter(groups=names)))
    if "$" not in user:
        assert queue_of(rules, groups=(user,)) == ("root.q" if hit else "root.default")


def test_each_rule_takes_the_name_from_elsewhere_and_none_is_no_match() -> None:
    rules = tree_with_rules(tag("Namespace"), USER)
    assert queue_of(rules, tags={"namespace": "Q"}) == "root.q"
    assert queue_of(rules, user="q", tags={"namespace": ""}) == "root.q"
    assert queue_of(rules, user=None) == "root.default"


def test_a_name_that_begins_with_root_is_the_whole_path() -> None:
    below = fixed("p")
    rules = tree_with_rules(attrs.evolve(PROVIDED, parent=below))
    assert queue_of(rules, "x") == "root.p.x"
    assert queue_of(rules, "ROOT.q") == "root.q"
    assert queue_of(rules, "q") == "root.default"
    rules = tree_with_rules(fixed("root"), attrs.evolve(USER, create=True))
    assert queue_of(rules, user="root.q") == "root.root_dot_q"
    assert queue_of(tree_with_rules(MAKING), "root") == "root.root", (
        "of provided only what is below root"
    )


def test_points_are_no_levels_but_in_fixed() -> None:
    assert queue_of(tree_with_rules(MAKING), "p.x") == "root.p_dot_x"
    assert queue_of(tree_with_rules(fixed("p.x"))) == "root.p.x"
    assert queue_of(tree_with_rules(fixed("x", parent=fixed("p")))) == "root.p.x"


def test_a_parent_rule_that_does_not_match_or_gives_a_leaf_lets_the_rule_not_match() -> None:
    leaf = attrs.evolve(MAKING, parent=fixed("q"))
    assert queue_of(tree_with_rules(leaf), "new") == "root.default"
    missing = attrs.evolve(MAKING, parent=fixed("m"))
    assert queue_of(tree_with_rules(missing), "new") == "root.default"
    made = attrs.evolve(MAKING, parent=fixed("m", create=True))
    assert queue_of(tree_with_rules(made), "new") == "root.m.new"
    not_made = attrs.evolve(PROVIDED, parent=fixed("m", create=True))
    assert queue_of(tree_with_rules(not_made), "new") == "root.default"
    filtered = with_filter(fixed("p"), PlacementFilter(users=("v", "w")))
    assert queue_of(tree_with_rules(attrs.evolve(PROVIDED, parent=filtered)), "x") == "root.default"


def test_an_illegal_name_refuses_the_application() -> None:
    rules = tree_with_rules(MAKING, fixed("q"))
    for name in ("a b", "root.p..x", "root.", "x" * 65, "." * 13):
        assert queue_of(rules, name) is None, name
    assert queue_of(rules, "x" * 64) == f"root.{'x' * 64}"


def test_a_queue_that_cannot_be_used_lets_the_next_rule_be_tried() -> None:
    closed = queue("p", queue("p.x"), settings=Settings(create=False))
    rules = tree_with_rules(MAKING, fixed("q"), queues=(closed, queue("q")))
    assert queue_of(rules, "root.p") == "root.q", "no leaf"
    assert queue_of(rules, "root.p.new") == "root.q", "create is disabled"
    assert queue_of(rules, "root.q.new") == "root.q", "below a leaf"
    assert queue_of(rules, "root.new.er") == "root.new.er"
    story = Story(rules, AddApp("a", "root.p.x"))
    story.play(tree_with_rules(MAKING, fixed("q"), queues=(queue("q"),)))
    assert queue_of(story, "root.p.x") == "root.q", "draining"
    assert queue_of(story, "root.p.new") == "root.q"


def test_a_queue_that_does_not_admit_the_user_lets_the_next_rule_be_tried() -> None:
    own = queue("p", queue("p.x"), submit_acl=Acl(users=frozenset({"v"})))
    all_of = queue("q", submit_acl=Acl(everybody=True))
    rules = tree_with_rules(MAKING, fixed("q"), queues=(own, all_of))
    assert queue_of(rules, "root.p.x", user="v") == "root.p.x"
    assert queue_of(rules, "root.p.x") == "root.q"
    assert queue_of(rules, "root.p.new", user="v") == "root.p.new"
    assert queue_of(rules, "root.p.new") == "root.q"
    closed = tree_with_rules(MAKING, queues=(own, queue("default")))
    assert queue_of(closed, "root.p.x") is None, "the default does not admit it either"


def test_a_queue_is_made_with_the_nearest_template() -> None:
    template = Template(Resources(), Limits.of({"vcore": 3}), 0, ())
    rules = tree_with_rules(MAKING, queues=(queue("p", queue("p.x"), template=template),))
    story = Story(rules)
    assert queue_of(story, "root.p.new") == "root.p.new"
    assert story.model.world.queues["root.p.new"].limits == {"vcore": 3}
    story.play(RemoveApp("a0"))
    assert not story.model.queue("root.p.new").exists


def test_who_insists_goes_to_recovery_and_all_others_to_the_default_or_nowhere() -> None:
    force = {"application.create.force": "true"}
    template = Template(Resources(), Limits.of({"vcore": 0}), 0, ())
    config = tree_with_rules(MAKING, queues=(queue("q"),)).config
    entry = LimitEntry(("u",), (), Limits.of({"vcore": 5}))
    root = attrs.evolve(
        config.root, template=template, limits=(entry,), submit_acl=Acl(users=frozenset({"v"}))
    )
    story = Story(Configure(attrs.evolve(config, root=root)), node("n", 9))
    assert queue_of(story, "q") is None, "there is no default, and it would not be admitted"
    assert queue_of(story, "q", tags=force) == "root.@recovery@"
    found = story.model.world.queues["root.@recovery@"]
    assert (found.dynamic, found.is_parent, found.limits) == (True, False, {})
    assert queue_of(story, "root.@recovery@", user="v") is None, "no rule reaches it"
    assert queue_of(story, "root.@recovery@.x", user="v") is None
    story.play(asks("k", app="a0", count=7))
    assert len(story.model.bound) == 5, "the limits above it hold"
    assert not {code for account in story.model.accounts.values() for code in account.codes} - {
        *("UserLimit", "NotYourTurn")
    }
    story.play(RemoveApp("a0"))
    assert not story.model.queue("root.@recovery@").exists
    assert queue_of(tree_with_rules(PROVIDED), "q", tags=force) == "root.q", "a rule matched"
    assert (
        queue_of(tree_with_rules(PROVIDED), "z", tags={"application.create.force": "True"})
        == "root.default"
    )


def test_applications_stay_where_they_are_when_rules_change() -> None:
    story = Story(tree_with_rules(fixed("q")), AddApp("a"))
    story.play(tree_with_rules(fixed("p.x")), AddApp("b"))
    assert [story.model.world.apps[name].queue for name in "ab"] == ["root.q", "root.p.x"]


LATE: Final = Settings(preemption_delay_us=1000 * S)
SERVES: Final = attrs.evolve(LATE, required_node=True)


def tree_with_services(*more: QueueConfig, enabled: bool = True, **fields: object) -> Configure:
    """Make a tree of two leaves, in the first of which asks are services, and of others."""
    settings = fields.pop("settings", SERVES)
    first = queue("s", settings=settings, **fields)
    return tree(first, queue("r", settings=LATE), *more, enabled=enabled)


def service(name: str = "s", on: str = "n", *, cores: int = 1, priority: int = 0) -> AddAsk:
    return asks(name, on=on, cores=cores, priority=priority)


def full(cores: int = 2, config: Configure | None = None, priority: int = 0) -> Story:
    """Begin a story with one node, full of asks of one core each of an application ``b``."""
    story = Story(
        tree_with_services() if config is None else config, node("n", cores), *apps(a="s", b="r")
    )
    story.play(asks("k", app="b", count=cores, priority=priority))
    return story


def bound(story: Story) -> set[str]:
    return {name for name, _ in story.model.bound}


def test_a_service_takes_its_node_at_once_whatever_is_delayed() -> None:
    decisions = full().play(service())
    assert decisions == ["released k-1 preempted", "assigned s", "bound s"]


def test_without_the_property_or_the_node_it_is_a_plain_ask() -> None:
    assert not full(config=tree_with_services(settings=LATE)).play(service())
    assert not full().play(asks("m"))


def test_with_preemption_disabled_it_takes_nothing_but_keeps_its_node() -> None:
    story = full(config=tree_with_services(enabled=False))
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
    story = Story(tree_with_services(), node("n", 5), node("o", 1), *apps(a="s", b="r"))
    story.play(asks("far", app="b", on="o", priority=-9))
    story.play(asks("low", app="b", priority=-2), asks("old", app="b", priority=-1))
    story.play(asks("new", app="b", priority=-1), asks("big", app="b", cores=2))
    assert evicted(story.decide(service(cores=2))) == [
        *("released low preempted", "released new preempted")
    ]
    story = Story(tree_with_services(), node("n", 3), *apps(a="s", b="r"))
    story.play(asks("low", app="b", priority=-2), asks("big", app="b", cores=2))
    assert evicted(story.decide(service(cores=2))) == ["released big preempted"]


def test_only_what_has_a_type_that_the_node_lacks_is_taken() -> None:
    story = Story(tree_with_services(), *apps(a="s", b="r"))
    two = Resources({"vcore": 1, "memory": 1})
    story.play(attrs.evolve(node("n", 1), capacity=two))
    story.play(attrs.evolve(asks("m", app="b", priority=-1), resources=Resources({"memory": 1})))
    story.play(asks("k", app="b"))
    assert evicted(story.decide(service())) == ["released k preempted"]


def test_a_service_is_never_a_victim() -> None:
    story = Story(tree_with_services(), HIGH, node("n", 1), *apps(a="s", b="r"))
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
    story = Story(tree_with_services(), node("n", 3), *apps(a="s", b="r"))
    story.play(asks("k", app="b"), asks("high", app="b", priority=9, cores=2))
    assert not story.play(service(cores=2))
    assert bound(story) == {"b/k", "b/high"}


def test_one_that_lacks_anything_but_room_takes_nothing() -> None:
    full_queue = tree_with_services(most=0)
    limited = tree_with_services(limits=(LimitEntry(("*",), (), Limits.of({"vcore": 0})),))
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
    story = Story(
        tree_with_services(), node("n", 1), node("o", 1), *apps(a="s", b="r"), gang("g", 2)
    )
    story.play(asks("m", app="b", of="g", count=2))
    assert evicted(story.decide(service())) == [
        *("released m-1 preempted", "released m-0 preempted")
    ]
    story = Story(
        tree_with_services(), node("n", 2), node("o", 1), *apps(a="s", b="r"), gang("g", 2)
    )
    story.play(asks("m", app="b", of="g", count=3))
    assert len(evicted(story.decide(service()))) == 1, "what it can spare"
    story = Story(tree_with_services(), node("n", 1), *apps(a="s", b="r"), gang("g", 2, mode=LOOSE))
    story.play(asks("m", app="b", of="g", count=2))
    assert evicted(story.decide(service())) == ["released m-0 preempted"]


def test_a_gang_with_a_member_that_no_service_may_take_stays() -> None:
    story = Story(
        tree_with_services(), node("n", 1), node("o", 1), *apps(a="s", b="r"), gang("g", 2)
    )
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
    story.play(tree_with_services(most=0), Release("b", "k-0"))
    assert bound(story) == {"b/k-1", "b/m"}
    story.play(tree_with_services(), Release("b", "k-1"), asks("l", app="b", priority=9))
    assert bound(story) == {"b/m", "b/l"}, "and does not again before it is looked at again"
    story.play(Release("b", "l"), asks("o", app="b", priority=9))
    assert bound(story) == {"b/m", "a/s"}


def test_it_keeps_nothing_without_the_property() -> None:
    story = full(priority=9)
    story.play(service(), asks("m", app="b", priority=9))
    story.play(tree_with_services(settings=LATE), Release("b", "k-0"))
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
    story = full(config=tree_with_services(settings=attrs.evolve(SERVES, blocking=True)))
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
