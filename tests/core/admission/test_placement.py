"""Placement rules against a small model of them, and the group for which an application counts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.admission.queue_tree import QueueEntry, QueueTree, UserGroups
from muster_core.admission.routes import StartApp
from muster_core.config.model import Configuration, PlacementFilter, PlacementRule, RuleName
from muster_core.errors import RefusedError
from muster_core.events import AddApp, Configure, QueueObject, RemoveApp
from tests.core.building import Names, Queue, configuration, queue

PROVIDED = PlacementRule(RuleName.PROVIDED)
MAKING = PlacementRule(RuleName.PROVIDED, create=True)
USER = PlacementRule(RuleName.USER)


def configuration_with(
    *rules: PlacementRule,
    queues: tuple[Queue, ...] = (),
    **root: Any,  # noqa: ANN401
) -> Configuration:
    """Return a configuration with rules that nobody checked."""
    found = configuration(*queues, **root)
    return attrs.evolve(found, placement_rules=rules)


def place(names: Names, event: AddApp) -> str:
    """Return the queue in which an application is placed."""
    (started,) = [route for route in names.enter(event) if isinstance(route, StartApp)]
    entry = names.registry.leaf_of(started.identity.key)
    assert names.registry.queues[entry.config.path] is entry
    return entry.config.path


def test_the_queue_may_be_missing_only_with_rules() -> None:
    assert (
        place(Names(configuration_with(USER, queues=(queue("sue"),))), AddApp("a", user="sue"))
        == "root.sue"
    )
    message = Names(configuration(queue("sue"))).refused(AddApp("a", user="sue"))
    assert message == "queue: it is missing, and there are no placement rules to choose one"


def test_new_rules_are_for_new_applications() -> None:
    names = Names(configuration_with(USER, queues=(queue("sue"), queue("b"))))
    assert place(names, AddApp("old", user="sue", queue="b")) == "root.sue"

    names.enter(Configure(configuration_with(PROVIDED, queues=(queue("sue"), queue("b")))))
    assert place(names, AddApp("new", user="sue", queue="b")) == "root.b"
    names.enter(Configure(configuration(queue("sue"), queue("b"))))
    assert place(names, AddApp("newer", user="sue", queue="b")) == "root.b"
    assert names.registry.leaf_of(1).config.path == "root.sue"


def test_a_configuration_that_is_refused_leaves_the_rules() -> None:
    names = Names(configuration_with(USER, queues=(queue("sue"), queue("b"))))
    names.enter(AddApp("old", user="sue"))

    names.refused(
        Configure(configuration_with(PROVIDED, queues=(queue("sue", queue("c")), queue("b"))))
    )
    assert place(names, AddApp("new", user="sue", queue="b")) == "root.sue"


def test_a_refusal_says_why_each_rule_did_not_match() -> None:
    rules = (
        PROVIDED,
        PlacementRule(RuleName.TAG, "Team"),
        attrs.evolve(USER, filter=PlacementFilter(users=("bob",))),
        USER,
        PlacementRule(RuleName.FIXED, "closed.x", create=True),
    )
    closed = queue("closed", parent="true", properties={"queue.create": "disabled"})

    message = Names(configuration_with(*rules, queues=(closed,))).refused(AddApp("a", user="sue"))
    assert message == (
        "app: 'a': no placement rule matched: rule 1 (provided): the application has no queue; "
        "rule 2 (tag): the application has no tags.Team; "
        "rule 3 (user): its filter is not for user 'sue'; "
        "rule 4 (user): 'root.sue' is unknown, and the rule may not create it; "
        "rule 5 (fixed): 'root.closed.x' is unknown, and queue.create is disabled for "
        "'root.closed'; root.default: there is no such queue"
    )


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (AddApp("a", queue="a b"), "queue: 'a b': 'a b' is not a name of a queue"),
        (AddApp("a", queue="root.a..b"), "queue: 'root.a..b': '' is not a name of a queue"),
        (AddApp("a", queue="root." + ".".join("a" * 100)), "queue: 'root.a.a.a"),
        (AddApp("a", user="é"), "user: 'é': 'é' is not a name of a queue"),
        (AddApp("a", tags={"T": "?"}), "tags.T: '?': '?' is not a name of a queue"),
        (AddApp("a", queue="x" * 65), "queue: 'xxx"),
    ],
)
def test_an_illegal_name_refuses_the_application(event: AddApp, message: str) -> None:
    rest = PlacementRule(RuleName.FIXED, "rest")
    tag = PlacementRule(RuleName.TAG, "t")

    names = Names(configuration_with(MAKING, tag, USER, rest, queues=(queue("rest"),)))
    assert names.refused(event).startswith(message)


def test_a_long_chain_of_parents_can_be_too_deep() -> None:
    rule = PlacementRule(RuleName.FIXED, "a.b", create=True)
    for _ in range(49):
        rule = PlacementRule(RuleName.FIXED, "a.b", create=True, parent=rule)

    assert "101 levels" in Names(configuration_with(rule)).refused(AddApp("a"))


@pytest.mark.parametrize(
    ("tags", "path"),
    [
        ({"TEAM": "a"}, "root.a"),
        ({"TEAM": "a", "Team": "b"}, "root.a"),
        ({"team": "a", "TEAM": "b"}, "root.b"),
        ({"team": "", "x": "b"}, "root.default"),
    ],
)
def test_tags_are_found_in_any_case(tags: Mapping[str, str], path: str) -> None:
    config = configuration_with(
        PlacementRule(RuleName.TAG, "Team"), queues=(queue("a"), queue("b"), queue("default"))
    )

    assert place(Names(config), AddApp("x", tags=tags)) == path


FORCED: Final = {"application.create.force": "true"}


def test_recovery_has_no_template_and_admits_all_users() -> None:
    config = configuration_with(
        PROVIDED, queues=(queue("q", submitacl="sue", childtemplate={"maxapplications": 1}),)
    )
    names = Names(config)

    assert place(names, AddApp("a", tags=FORCED)) == "root.@recovery@"
    assert place(names, AddApp("b", queue="root.@recovery@", tags=FORCED)) == "root.@recovery@"
    entry = names.registry.queues["root.@recovery@"]
    assert (entry.dynamic, entry.config.max_applications, entry.apps) == (True, 0, 2)
    names.enter(RemoveApp("a"))
    names.enter(RemoveApp("b"))
    assert names.paths() == ["root", "root.q"]


def test_recovery_has_no_template_of_root() -> None:
    document = {"childtemplate": {"maxapplications": 1}}
    config = configuration_with(MAKING, queues=(queue("default"),))
    root = attrs.evolve(
        config.root, template=configuration(queue("t", **document)).root.children[0].template
    )
    names = Names(attrs.evolve(config, root=root))

    names.enter(AddApp("a", tags=FORCED))
    names.enter(AddApp("b", queue="made"))
    limits = {path: entry.config.max_applications for path, entry in names.registry.queues.items()}
    assert limits == {"root": 0, "root.default": 0, "root.@recovery@": 0, "root.made": 1}


@pytest.mark.parametrize("name", ["root.@recovery@", "@RECOVERY@", "root.@Recovery@.x"])
def test_no_rule_reaches_recovery(name: str) -> None:
    names = Names(configuration_with(MAKING, queues=(queue("default"),)))
    assert place(names, AddApp("a", queue=name)) == "root.default"

    names.enter(AddApp("forced", tags=FORCED))
    assert place(names, AddApp("b", queue=name)) == "root.default"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            configuration_with(USER, queues=(queue("@recovery@", parent="true"),)),
            "root.@recovery@: it is a parent",
        ),
    ],
)
def test_recovery_must_be_a_leaf(config: Configuration, message: str) -> None:
    assert Names(config).refused(AddApp("a", tags=FORCED)).endswith(message)


def test_recovery_takes_nobody_while_it_drains() -> None:
    names = Names(configuration_with(USER, queues=(queue("@recovery@"),)))
    names.enter(AddApp("a", tags=FORCED))
    names.enter(Configure(configuration_with(USER)))

    assert names.refused(AddApp("b", tags=FORCED)).endswith("root.@recovery@: it is draining")


def test_below_a_queue_that_drains_nobody_is_placed() -> None:
    names = Names(configuration_with(MAKING, queues=(queue("p", parent="true"), queue("default"))))
    list(names.registry.tree.set_queue(QueueObject("x"), None, names.registry.queues["root.p"]))
    names.enter(Configure(configuration_with(MAKING, queues=(queue("default"),))))

    assert names.draining() == ["root.p"]
    assert place(names, AddApp("a", queue="root.p.x")) == "root.default"
    assert place(names, AddApp("b", queue="root.p.y")) == "root.default"


def test_a_chain_of_fixed_parents_is_made_whole() -> None:
    above = PlacementRule(RuleName.FIXED, "Teams.One", create=True)
    rule = PlacementRule(RuleName.USER, create=True, parent=above)
    names = Names(configuration_with(rule))

    assert place(names, AddApp("a", user="Sue.b")) == "root.teams.one.sue_dot_b"
    assert names.registry.queues["root.teams.one"].config.is_parent


# A model of the rules, on a picture of the tree


@attrs.frozen
class Picture:
    """A tree of queues, by path.

    Attributes:
        parents: Whether each queue is a parent.
        draining: Those that drain.
        closed: Those below which no queue may be made.
        acls: The users of each.
        any_acl: Whether the configuration has an access list.
    """

    parents: dict[str, bool]
    draining: set[str]
    closed: set[str]
    acls: dict[str, set[str]]
    any_acl: bool

    def may_use(self, path: str, user: str) -> bool:
        there = path
        while there not in self.parents:
            there = there.rpartition(".")[0]
        above = [there[:end] for end in range(4, len(there) + 1) if f"{there}."[end] == "."]
        admitted = not self.any_acl or any(user and user in self.acls[queue] for queue in above)
        fits = self.parents[there] == (there != path)
        active = not self.draining & set(above)
        return fits and active and admitted and (there == path or there not in self.closed)


def lets_in(rule: PlacementRule, event: AddApp) -> bool:
    users, groups = rule.filter.users, rule.filter.groups
    if not users and not groups:
        return not rule.filter.deny

    def hits(entries: tuple[str, ...], name: str) -> bool:
        if len(entries) == 1 and re.search(r"[\^$*+?()\[{}|]", entries[0]):
            return re.search(entries[0], name) is not None
        return name in entries and re.fullmatch("[_a-zA-Z][a-z]*", name) is not None

    hit = hits(users, event.user or "") or any(hits(groups, group) for group in event.groups)
    return hit != rule.filter.deny


def given_by(rule: PlacementRule, event: AddApp, picture: Picture) -> str | None:
    if not lets_in(rule, event):
        return None
    name = {
        RuleName.PROVIDED: event.queue,
        RuleName.USER: event.user,
        RuleName.TAG: event.tags.get(rule.value),
        RuleName.FIXED: rule.value,
    }[rule.name]
    if not name:
        return None
    name = name.lower()
    path = name
    fixed = rule.name is RuleName.FIXED
    if rule.name is RuleName.USER or not (name.startswith("root.") or (fixed and name == "root")):
        own = name if fixed else name.replace(".", "_dot_")
        if not re.fullmatch(r"[a-z_.]+", own):
            raise RefusedError
        above: str | None = "root"
        if rule.parent is not None:
            above = given_by(rule.parent, event, picture)
            if above is None or picture.parents.get(above) is False:
                return None
        path = f"{above}.{own}"
    if f"{path}.".startswith("root.@recovery@."):
        return None
    return path if rule.create or path in picture.parents else None


def chosen(rules: tuple[PlacementRule, ...], event: AddApp, picture: Picture) -> str:
    for rule in rules:
        path = given_by(rule, event, picture)
        if path is not None and picture.may_use(path, event.user or ""):
            return path
    if event.tags.get("application.create.force") == "true":
        return "root.@recovery@"
    if "root.default" in picture.parents and picture.may_use("root.default", event.user or ""):
        return "root.default"
    raise RefusedError


NAMES = st.sampled_from(["a", "b", "B", "c", "a.b", "root.a", "Root.b.c", "root", "root.a.b.c"])
LISTS = st.sampled_from([(), (), ("a",), ("a", "c"), ("[bc]",), ("a", "9"), ("^$",)])
FILTERS = st.builds(PlacementFilter, deny=st.booleans(), users=LISTS, groups=LISTS)
WRITTEN = st.tuples(st.sampled_from(RuleName), NAMES, st.booleans(), st.none() | FILTERS)


def as_rule(
    written: tuple[RuleName, str, bool, PlacementFilter | None], parent: PlacementRule | None
) -> PlacementRule:
    name, value, create, names = written
    value = "t" if name is RuleName.TAG else value
    return PlacementRule(name, value, create, names or PlacementFilter(), parent)


RULES = st.recursive(
    st.builds(as_rule, WRITTEN, st.none()),
    lambda above: st.builds(as_rule, WRITTEN, above),
    max_leaves=3,
)
TEXTS = st.none() | NAMES
EVENTS = st.builds(
    AddApp,
    st.sampled_from(["p", "q", "r", "s"]),
    TEXTS,
    TEXTS | st.just("a b"),
    st.lists(st.sampled_from(["a", "b", "x"]), max_size=2).map(tuple),
    st.sampled_from([
        {}, {"t": "a"}, {"t": "c.d"}, {"t": "root.b"}, {"t": "root.@recovery@"}, {"t": "root.@recovery@.a"}, FORCED,
    ]),
)  # fmt: skip
ACLS = st.sampled_from(["", "", "", "a", "b,c"])
CREATES = st.sampled_from([{}, {}, {"queue.create": "disabled"}, {"queue.create": "enabled"}])


@st.composite
def trees(draw: st.DrawFn) -> tuple[Queue, ...]:
    def drawn(name: str, *children: Queue) -> Queue:
        more = {"submitacl": draw(ACLS), "properties": draw(CREATES)}
        return queue(name, *children, **more, parent="true" if draw(st.booleans()) else "false")

    names = draw(st.sets(st.sampled_from(["a", "b", "c", "default"])))
    return tuple(
        drawn(name, *[drawn(below) for below in draw(st.sets(st.sampled_from("bc")))])
        for name in sorted(names)
    )


def picture_of(names: Names) -> Picture:
    queues = names.registry.queues
    return Picture(
        {path: entry.config.is_parent for path, entry in queues.items()},
        set(names.draining()),
        {path for path, entry in queues.items() if entry.config.settings.create is False},
        {
            path: set(entry.config.submit_acl.users) if entry.config.submit_acl else set()
            for path, entry in queues.items()
        },
        "submit_acl=Acl" in repr(names.registry.configuration),
    )


@given(
    trees(),
    st.lists(RULES, min_size=1, max_size=4).map(tuple),
    st.lists(EVENTS | trees(), min_size=1, max_size=6),
)
def test_the_rules_choose_as_the_model_does(
    tree: tuple[Queue, ...],
    rules: tuple[PlacementRule, ...],
    events: list[AddApp | tuple[Queue, ...]],
) -> None:
    names = Names(configuration_with(*rules, queues=tree))
    for event in events:
        if not isinstance(event, AddApp):
            with suppress(RefusedError):
                names.enter(Configure(configuration_with(*rules, queues=event)))
            continue
        if names.registry.has_app(event.app):
            names.enter(RemoveApp(event.app))
        try:
            expected = chosen(rules, event, picture_of(names))
        except RefusedError:
            names.refused(event)
        else:
            assert place(names, event) == expected


def limits(*groups: str) -> list[dict[str, object]]:
    return [{"groups": [group], "maxapplications": 9} for group in groups]


def leaf(tree: QueueTree) -> QueueEntry:
    return tree.entries["root.a.b"]


def made(
    *, root: tuple[str, ...] = (), a: tuple[str, ...] = (), b: tuple[str, ...] = ()
) -> Configuration:
    return configuration(
        queue("a", queue("b", limits=limits(*b)), limits=limits(*a)), limits=limits(*root)
    )


def group(config: Configuration, *groups: str) -> str | None:
    return UserGroups().enter(1, leaf(QueueTree(config)), groups)


def test_the_nearest_queue_that_limits_a_group_of_the_user_decides() -> None:
    config = made(root=("ops",), a=("dev",), b=("art",))

    assert group(config, "ops", "dev") == "dev"
    assert group(config, "ops", "art", "dev") == "art"
    assert group(config, "ops") == "ops"
    assert group(config, "law") is None
    assert group(config) is None


def test_of_several_groups_the_first_in_the_file_counts() -> None:
    config = made(b=("ops", "dev"))

    assert group(config, "dev", "ops") == "ops"


def test_a_star_decides_where_no_group_of_the_user_is_named() -> None:
    config = made(root=("ops",), a=("dev", "*"))

    assert group(config, "dev") == "dev"
    assert group(config, "ops") == "*", "the star is nearer than ops"
    assert group(config) == "*", "also without any group"


def test_it_stays_while_a_queue_of_the_path_limits_it() -> None:
    tree, groups = QueueTree(made(a=("ops",))), UserGroups()
    assert groups.enter(1, leaf(tree), ("dev", "ops")) == "ops"

    def after(config: Configuration) -> list[tuple[int, str | None]]:
        list(tree.configure(Configure(config)))
        return list(groups.find_again([(1, leaf(tree))]))

    assert after(made(root=("ops",), b=("dev",))) == []
    assert after(made(b=("dev",))) == [(1, "dev")]
    assert after(made(b=("ops", "dev"))) == []
    assert after(made()) == [(1, None)]
    assert after(made(b=("ops",))) == [(1, "ops")], "without a match it is looked up anew"


def test_who_left_is_forgotten() -> None:
    tree, groups = QueueTree(made(a=("ops",))), UserGroups()
    groups.enter(1, leaf(tree), ("ops",))
    groups.leave(1)

    groups.check([])
