"""The directory of names under another configuration: queues that come, change, drain and go."""

from __future__ import annotations

import pytest

from muster_core.admission.routes import TellQueue
from muster_core.events import AddApp, Configure, RemoveApp
from muster_core.owners.queue import SetQueue
from tests.core.admission.names import Names, short
from tests.core.building import MAY_CREATE, configuration, queue


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
