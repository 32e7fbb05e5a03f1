"""The directory of names: queues, applications and nodes, also under another configuration, and
the latest of very many names.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from muster_core.admission.registry import RecentNames, Registry
from muster_core.admission.routes import StartApp, StartQueue, TellApp, TellQueue
from muster_core.config.model import Configuration, SortPolicy
from muster_core.events import (
    AddApp,
    AddAsk,
    AddPriorityClass,
    Configure,
    FailBind,
    QueueObject,
    Release,
    RemoveApp,
    RemoveAsk,
)
from muster_core.owners.app_messages import (
    AddAsks,
    Dismiss,
    Enlist,
    ReleaseAsk,
    SpoilBinds,
    WithdrawAsk,
)
from muster_core.owners.asks import AppIdentity, Origin
from muster_core.owners.queue import SetQueue
from muster_core.resources import Resources
from tests.core.building import MAY_CREATE, Admissible, Names, configuration, queue, short, wish


def test_the_first_routes_start_the_queues_from_above() -> None:
    config = configuration(queue("A", queue("c"), queue("d")), queue("b"))
    routes = list(Registry(config).tree.first_routes)

    assert short(routes) == ["+1 root", "+2 root.a", "+3 root.a.c", "+4 root.a.d", "+5 root.b"]
    assert [route.parent for route in routes if isinstance(route, StartQueue)] == [None, 1, 2, 2, 1]


# Applications


@pytest.mark.parametrize("path", ["root.a", "ROOT.A", "a", "A"])
def test_an_application_is_started_and_enlisted(path: str) -> None:
    names = Names(configuration(queue("a")))
    routes = names.add_app("p", path)

    identity = AppIdentity(1, "p", 2, "root.a")
    assert routes == [StartApp(identity), TellApp(1, Enlist(Origin(1)))]
    assert names.registry.locate("p") == 1
    assert names.registry.knows(1)


@pytest.mark.parametrize(("value", "skips"), [("true", True), ("True", False), ("1", False)])
def test_the_tag_that_skips_starting(value: str, skips: bool) -> None:
    names = Names(configuration(queue("a")))
    event = AddApp("p", "a", tags={"application.stateaware.disable": value})

    (start, _) = names.enter(event)
    assert isinstance(start, StartApp)
    assert start.identity.skip_starting is skips


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("root", "queue: 'root' is a parent; name a leaf below it"),
        ("a", "queue: 'a' is a parent; name a leaf below it"),
        ("b.c", "queue: 'b.c' is unknown, and 'root.b' above it is a leaf"),
        ("off.c", "queue: 'off.c' is unknown, and queue.create is disabled for 'root.off'"),
        ("off.c.d", "queue: 'off.c.d' is unknown, and queue.create is disabled for 'root.off'"),
        ("a..c", "queue: 'a..c': '' is not a name of a queue"),
        ("a.c d", "queue: 'a.c d': 'c d' is not a name of a queue"),
        ("a." + "x" * 65, "queue: 'a.xxxx"),
    ],
)
def test_where_no_application_can_be(path: str, message: str) -> None:
    names = Names(
        configuration(
            queue("a", parent="true"),
            queue("b"),
            queue("off", parent="true", properties={"queue.create": "disabled"}),
        )
    )

    assert names.refused(AddApp("p", path)).startswith(message)


def test_the_refusal_names_the_nearest_leaves() -> None:
    names = Names(configuration(queue("prod", queue("web")), queue("dev"), queue("batch")))

    assert names.refused(AddApp("p", "Prod.wbe")) == (
        "queue: 'Prod.wbe' is unknown, and queue.create is disabled for 'root.prod'; "
        "did you mean root.prod.web?"
    )
    assert names.refused(AddApp("p", "root.devel")).endswith("; did you mean root.dev?")
    assert names.refused(AddApp("p", "q" * 64)).endswith("is disabled for 'root'")


TEMPLATE = {"maxapplications": "3"}


@pytest.mark.parametrize(
    ("config", "path", "created"),
    [
        (None, "made", True),
        (configuration(), "made.up", True),
        (configuration(queue("a")), "made", False),
        (configuration(queue("a", parent="true")), "a.made", False),
        (configuration(queue("a"), props=MAY_CREATE), "made", True),
        (configuration(queue("a", parent="true"), props=MAY_CREATE), "a.made", True),
        (configuration(queue("a", parent="true", childtemplate=TEMPLATE)), "a.made", True),
        (configuration(queue("a", parent="true", childtemplate=TEMPLATE)), "made", False),
        (configuration(queue("a", parent="true", childtemplate={})), "a.made", False),
        (
            configuration(
                queue("a", queue("b", parent="true"), parent="true", childtemplate=TEMPLATE)
            ),
            "a.b.made.up",
            True,
        ),
        (
            configuration(
                queue(
                    "a",
                    parent="true",
                    childtemplate=TEMPLATE,
                    properties={"queue.create": "disabled"},
                )
            ),
            "a.made",
            False,
        ),
        (configuration(props={"queue.create": "disabled"}), "made", False),
    ],
)
def test_where_an_application_may_create_queues(
    config: Configuration | None, path: str, created: bool
) -> None:
    names = Names(config)
    if created:
        names.add_app("p", path)
        assert f"root.{path}" in names.paths()
    else:
        assert "queue.create is disabled" in names.refused(AddApp("p", path))


def test_queues_of_objects_are_no_queues_of_the_configuration() -> None:
    names = Names()
    list(names.registry.tree.set_queue(QueueObject("a"), None, names.registry.tree.root))
    names.add_app("p", "made")

    assert names.paths() == ["root", "root.a", "root.made"]


def test_a_name_that_is_in_use_is_refused() -> None:
    names = Names(configuration(queue("a"), queue("b")))
    names.add_app("p", "a")

    assert names.refused(AddApp("p", "b")) == "app: 'p' is already an application"
    assert names.refused(AddApp("p", "b.made.up")) == "app: 'p' is already an application"


def test_names_of_applications_are_exact() -> None:
    names = Names(configuration(queue("a")))
    names.add_app("p", "a")
    names.add_app("P", "a")

    assert names.registry.apps() == {"p": 1, "P": 2}


def test_a_name_can_come_again_at_once() -> None:
    names = Names(configuration(queue("a")))
    names.add_app("p", "a")
    assert short(names.enter(RemoveApp("p"))) == ["app 1 Dismiss"]
    assert short(names.add_app("p", "a")) == ["+app 3", "app 3 Enlist"]

    assert short(names.enter(RemoveAsk("p", "x"))) == ["app 3 WithdrawAsk"]
    assert not names.registry.knows(1)


def test_a_completed_application_takes_nothing_but_its_name_is_free() -> None:
    names = Names(configuration(queue("a")))
    names.add_app("p", "a")
    assert names.registry.complete(1) == []
    assert names.refused(wish("p")) == "app: 'p' has completed"

    names.add_app("p", "a")
    assert not names.registry.completed.seen()
    assert names.registry.locate("p") == 3


def test_a_completed_application_can_be_removed_once() -> None:
    names = Names(configuration(queue("a")))
    names.add_app("p", "a")
    names.registry.complete(1)

    assert names.enter(RemoveApp("p")) == []
    assert names.refused(RemoveApp("p")) == "app: 'p' is unknown"


@pytest.mark.parametrize(
    "event",
    [wish("p"), RemoveAsk("p", "x"), Release("p", "x"), FailBind("p", "x"), RemoveApp("p")],
    ids=lambda event: type(event).__name__,
)
def test_what_is_about_an_unknown_application_is_refused(event: Admissible) -> None:
    assert Names().refused(event) == "app: 'p' is unknown"


def test_requests_about_an_application_go_to_it() -> None:
    names = Names(configuration(queue("a")))
    names.add_app("p", "a")
    event = wish("p", priority=3)

    assert names.enter(event) == [TellApp(1, AddAsks(Origin(2), event, 3))]
    assert names.enter(RemoveAsk("p", "x")) == [TellApp(1, WithdrawAsk(Origin(3), "x"))]
    assert names.enter(Release("p", "x")) == [TellApp(1, ReleaseAsk(Origin(4), "x"))]
    assert names.enter(FailBind("p", "x", 2)) == [TellApp(1, SpoilBinds(Origin(5), "x", 2))]
    assert names.enter(RemoveApp("p")) == [TellApp(1, Dismiss(Origin(6)))]


# Priorities


def asked_priority(names: Names, priority: int | None, known: str | None) -> int:
    event = AddAsk("p", "x", Resources({"vcore": 1}), priority=priority, priority_class=known)
    (route,) = names.enter(event)
    assert isinstance(route, TellApp)
    assert isinstance(route.message, AddAsks)
    return route.message.priority


def with_app() -> Names:
    names = Names(configuration(queue("a")))
    names.add_app("p", "a")
    return names


def test_what_an_ask_is_worth() -> None:
    names = with_app()
    names.enter(AddPriorityClass("high", 1000))

    assert asked_priority(names, None, None) == 0
    assert asked_priority(names, -5, None) == -5
    assert asked_priority(names, None, "high") == 1000
    assert asked_priority(names, 1000, "high") == 1000
    assert asked_priority(names, None, "system-node-critical") == 2_000_001_000


@pytest.mark.parametrize(
    ("priority", "known", "message"),
    [
        (None, "low", "priority_class: 'low' is unknown"),
        (None, "System-node-critical", "priority_class: 'System-node-critical' is unknown"),
        (0, "system-node-critical", "priority: 0 is not the value of the priority class"),
    ],
)
def test_priorities_that_make_no_sense(priority: int | None, known: str, message: str) -> None:
    event = AddAsk("p", "x", Resources({"vcore": 1}), priority=priority, priority_class=known)

    assert with_app().refused(event).startswith(message)


def preempts(names: Names, priority: int | None, known: str | None) -> bool:
    event = AddAsk("p", "x", Resources({"vcore": 1}), priority=priority, priority_class=known)
    (route,) = names.enter(event)
    assert isinstance(route, TellApp)
    assert isinstance(route.message, AddAsks)
    return route.message.preempts


def test_who_may_preempt() -> None:
    names = with_app()
    names.enter(AddPriorityClass("meek", 1000))
    names.enter(AddPriorityClass("high", 1000, preempts=True))

    asked = [(None, "high"), (1000, "high"), (None, "meek"), (1000, None), (None, None)]
    assert [preempts(names, *one) for one in asked] == [True, True, False, False, False]
    assert preempts(names, None, "system-cluster-critical")
    assert preempts(names, None, "system-node-critical")


def test_a_class_cannot_be_defined_twice() -> None:
    names = Names()
    names.enter(AddPriorityClass("high", 1000))

    assert names.refused(AddPriorityClass("high", 7)) == "name: 'high' is already a priority class"


# Access


def test_who_is_admitted() -> None:
    config = configuration(
        queue("a", queue("b"), submitacl="alice devs"), queue("c", adminacl="*"), queue("d")
    )
    names = Names(config)
    names.enter(AddApp("p1", "a.b", user="alice"))
    names.enter(AddApp("p2", "a.b", user="bob", groups=("x", "devs")))
    names.enter(AddApp("p3", "c"))

    assert names.refused(AddApp("p4", "a.b", user="bob")).startswith("user: 'a.b' does not admit")
    assert names.refused(AddApp("p4", "a.b", groups=("devs",))).startswith("queue: 'a.b' does not")
    assert "'carol'" in names.refused(AddApp("p4", "d", user="carol"))


def test_without_any_list_all_users_are_admitted() -> None:
    assert Names(configuration(queue("a", submitacl=" "))).add_app("p", "a")


def test_no_queue_is_made_for_a_refused_user() -> None:
    names = Names(configuration(queue("a", parent="true", submitacl="alice")))

    names.refused(AddApp("p", "a.x.y", user="bob"))
    assert names.paths() == ["root", "root.a"]


# Queues made on the fly


def test_missing_queues_are_made_and_go_with_their_last_application() -> None:
    names = Names()
    assert short(names.add_app("p", "X.y.Z")) == [
        "+2 root.x",
        "+3 root.x.y",
        "+4 root.x.y.z",
        "+app 1",
        "app 1 Enlist",
    ]
    names.add_app("q", "x.other")

    assert short(names.enter(RemoveApp("p"))) == ["app 1 Dismiss", "4 Retire", "3 Retire"]
    assert short(names.enter(RemoveApp("q"))) == ["app 2 Dismiss", "5 Retire", "2 Retire"]
    assert names.paths() == ["root"]


def test_a_queue_goes_when_its_last_application_completes() -> None:
    names = Names()
    names.add_app("p", "x")

    assert short(names.registry.complete(1)) == ["2 Retire"]
    assert names.registry.completed.seen() == {"p"}


def test_a_path_that_comes_again_is_another_queue() -> None:
    names = Names()
    names.add_app("p", "x")
    names.enter(RemoveApp("p"))

    assert short(names.add_app("p", "x")) == ["+3 root.x", "+app 3", "app 3 Enlist"]


def test_only_the_leaf_gets_the_nearest_template_whole() -> None:
    template = {"maxapplications": "3", "properties": {"application.sort.policy": "fair"}}
    far = {"maxapplications": "9"}
    names = Names(
        configuration(
            queue(
                "a",
                queue("b", parent="true", childtemplate=template),
                parent="true",
                childtemplate=far,
            )
        )
    )
    names.add_app("p", "a.b.c.d")
    names.add_app("q", "a.e")

    made = {path: entry.config for path, entry in names.registry.queues.items()}
    assert made["root.a.b.c"].max_applications == 0
    assert made["root.a.b.c.d"].max_applications == 3
    assert made["root.a.b.c.d"].settings.sort_policy is SortPolicy.FAIR
    assert made["root.a.e"].max_applications == 9


def test_the_same_configuration_tells_nobody_anything() -> None:
    config = configuration(queue("a", queue("b")), queue("c"))

    assert Names(config).enter(Configure(config)) == []


def test_a_configuration_changes_what_it_names() -> None:
    names = Names(configuration(queue("a"), queue("b")))
    routes = names.enter(Configure(configuration(queue("a", maxapplications="1"), queue("c"))))

    assert short(routes) == ["1 SetQueue", "3 Retire", "2 SetQueue", "+4 root.c"]
    assert names.registry.queues["root.a"].config.max_applications == 1


def test_a_queue_that_vanishes_while_in_use_drains_and_goes_when_empty() -> None:
    names = Names(configuration(queue("a", queue("b")), queue("c")))
    names.add_app("p", "a.b")
    routes = names.enter(Configure(configuration(queue("c"))))

    assert [line for line in short(routes) if line[0] != "1"] == ["3 SetQueue", "2 SetQueue"]
    assert names.draining() == ["root.a", "root.a.b"]
    assert short(names.enter(RemoveApp("p"))) == ["app 1 Dismiss", "3 Retire", "2 Retire"]


def test_a_draining_queue_keeps_its_settings() -> None:
    names = Names(configuration(queue("a", maxapplications="7")))
    names.add_app("p", "a")
    before = names.registry.queues["root.a"].config
    routes = names.enter(Configure(configuration()))

    assert routes[-1] == TellQueue(2, SetQueue(before, draining=True))
    assert names.enter(Configure(configuration())) == []


@pytest.mark.parametrize("path", ["a", "a.b", "a.b.c", "a.made"])
def test_a_draining_queue_takes_no_application(path: str) -> None:
    names = Names(
        configuration(queue("a", queue("b", parent="true", properties=MAY_CREATE), parent="true"))
    )
    names.add_app("p", "a.b.c")
    names.enter(Configure(configuration()))

    assert names.refused(AddApp("q", path)) == (
        f"queue: {path!r} is draining and takes no new application"
    )


def test_a_queue_that_comes_back_is_active_again() -> None:
    config = configuration(queue("a"))
    names = Names(config)
    names.add_app("p", "a")
    names.enter(Configure(configuration()))
    before = names.registry.queues["root.a"].key
    routes = names.enter(Configure(config))

    assert f"{before} SetQueue" in short(routes)
    assert names.draining() == []
    names.add_app("q", "a")
    assert short(names.enter(RemoveApp("p"))) == ["app 1 Dismiss"]


def test_a_child_that_drains_alone_leaves_its_parent_active() -> None:
    names = Names(configuration(queue("a", queue("b"), queue("c"))))
    names.add_app("p", "a.b")
    names.enter(Configure(configuration(queue("a", queue("c")))))

    assert names.draining() == ["root.a.b"]
    assert short(names.enter(RemoveApp("p"))) == ["app 1 Dismiss", "3 Retire"]


def test_dynamic_queues_outlast_a_configuration() -> None:
    names = Names(configuration(queue("a", parent="true", properties=MAY_CREATE)))
    names.add_app("p", "a.x")
    made = names.registry.queues["root.a.x"].config
    names.enter(Configure(configuration(queue("a", parent="true", properties={"x": "y"}))))

    entry = names.registry.queues["root.a.x"]
    assert (entry.config, entry.dynamic, entry.draining) == (made, True, False)


def test_a_dynamic_queue_that_a_configuration_names_drains_once_it_vanishes() -> None:
    names = Names()
    names.add_app("p", "x")
    names.enter(Configure(configuration(queue("x"))))
    names.enter(Configure(configuration(queue("y"))))

    assert names.draining() == ["root.x"]


def test_a_dynamic_queue_that_a_configuration_names_is_there_to_stay() -> None:
    names = Names()
    names.add_app("p", "x")
    names.enter(Configure(configuration(queue("x", maxapplications="2"))))
    names.enter(RemoveApp("p"))

    assert names.paths() == ["root", "root.x"]
    assert names.registry.queues["root.x"].config.max_applications == 2


def test_below_a_draining_parent_dynamic_queues_keep_it() -> None:
    names = Names(configuration(queue("a", parent="true", properties=MAY_CREATE)))
    names.add_app("p", "a.x")
    names.enter(Configure(configuration()))
    assert names.draining() == ["root.a"]

    assert short(names.registry.complete(1)) == ["3 Retire", "2 Retire"]


def test_a_leaf_with_applications_cannot_become_a_parent() -> None:
    names = Names(configuration(queue("a"), queue("b")))
    names.add_app("p", "a")

    message = names.refused(Configure(configuration(queue("a", queue("c")), queue("d"))))
    assert message == "config: 'root.a' has applications and cannot become a parent"


def test_a_leaf_without_applications_can() -> None:
    names = Names(configuration(queue("a")))
    names.add_app("p", "a")
    names.enter(RemoveApp("p"))
    names.enter(Configure(configuration(queue("a", queue("c")))))

    assert short(names.add_app("p", "a.c")) == ["+app 4", "app 4 Enlist"]


def test_a_parent_with_a_child_in_use_cannot_become_a_leaf() -> None:
    names = Names(configuration(queue("a", parent="true", properties=MAY_CREATE)))
    names.add_app("p", "a.x")

    message = names.refused(Configure(configuration(queue("a"))))
    assert message == "config: 'root.a' cannot become a leaf: 'root.a.x' below it is in use"


def test_a_parent_with_a_draining_child_in_use_cannot_either() -> None:
    names = Names(configuration(queue("a", queue("b", queue("c")), queue("d"))))
    names.add_app("p", "a.b.c")
    names.enter(Configure(configuration(queue("a", queue("d")))))

    message = names.refused(Configure(configuration(queue("a"))))
    assert message == "config: 'root.a' cannot become a leaf: 'root.a.b' below it is in use"


def test_a_parent_whose_children_nobody_uses_can() -> None:
    names = Names(configuration(queue("a", queue("b", queue("c")), queue("d"))))
    names.add_app("p", "a.b.c")
    names.enter(RemoveApp("p"))
    routes = names.enter(Configure(configuration(queue("a"))))

    assert short(routes) == ["1 SetQueue", "2 SetQueue", "4 Retire", "3 Retire", "5 Retire"]
    assert short(names.add_app("p", "a")) == ["+app 4", "app 4 Enlist"]


def test_a_parent_without_children_can() -> None:
    names = Names(configuration(queue("a", parent="true")))
    names.enter(Configure(configuration(queue("a"))))

    assert short(names.add_app("p", "a")) == ["+app 2", "app 2 Enlist"]


def names_of(*added: str, kept: int = 3) -> RecentNames:
    names = RecentNames(kept)
    for name in added:
        names.add(name)
        names.check()
    return names


def test_few_names_are_all_known() -> None:
    assert names_of("a", "b").seen() == {"a", "b"}


def test_of_many_the_latest_are_known() -> None:
    names = names_of(*(str(number) for number in range(100)))

    assert {"97", "98", "99"} <= names.seen()
    assert len(names.seen()) < 6


def test_a_name_may_be_forgotten_wherever_it_is() -> None:
    names = names_of("old", "b", "c", "young")
    for name in ("old", "young", "unknown"):
        names.discard(name)
        names.check()

    assert names.seen() == {"b", "c"}


def test_what_is_handed_out_is_the_same_until_something_changes() -> None:
    names = names_of("a")
    before = names.seen()
    names.discard("unknown")

    assert names.seen() is before
    names.add("b")
    assert before == {"a"}
    assert names.seen() == {"a", "b"}


@pytest.mark.parametrize("name", ["b", "d", "unknown"])
def test_a_name_goes_back_to_where_it_was_and_drops_no_other(name: str) -> None:
    names = names_of("a", "b", "c", "d", "e")
    before = names.seen()
    restore = names.save(name)
    names.discard(name)
    restore()
    names.check()

    assert names.seen() == before
    names.add("f")  # It fills the young set, which replaces the old one.
    assert names.seen() == {"d", "e", "f"}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9))), st.integers(1, 4))
def test_whatever_comes_the_latest_are_known(changes: list[tuple[bool, int]], kept: int) -> None:
    names, added, gone = RecentNames(kept), list[str](), set[str]()
    for is_added, number in changes:
        name = str(number)
        if is_added:
            added = [*(one for one in added if one != name), name]
            gone.discard(name)
            names.add(name)
        else:
            gone.add(name)
            names.discard(name)
        names.check()
        assert (name in names) == is_added
        assert set(added[-kept:]) - gone <= names.seen() <= set(added) - gone
        assert len(names.seen()) < 2 * kept
