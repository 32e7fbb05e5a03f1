"""Why an ask is pending."""

from __future__ import annotations

from muster_core.config.model import Configuration
from muster_core.events import AddNode, FailBind, UpdateNode
from muster_core.resources import Resources
from muster_core.view.reasons import Code
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree


def tree(config: Configuration | None = None, **capacity: int) -> Tree:
    made = Tree(config or configuration(queue("a")))
    made.add_nodes("n", "m", **(capacity or {"vcore": 10}))
    made.add_app("p")
    return made


def why(here: Tree, ask: str = "x", app: str = "p") -> str | None:
    here.check()
    return here.conductor.why_pending(app, ask)


def test_what_is_not_pending_has_no_reason() -> None:
    here = tree()
    here.settle(wish("p"))

    assert why(here) is None
    assert why(here, "unknown") is None
    assert why(here, app="unknown") is None


def test_no_node_could_hold_it_even_if_empty() -> None:
    here = tree()
    here.settle(wish("p", vcore=11))

    assert why(here) == "NeverFits: none of 2 nodes could hold it even if empty"


def test_a_required_node_that_is_unknown() -> None:
    here = tree()
    here.settle(wish("p", node="z"))

    assert (why(here) or "").startswith(Code.NEVER_FITS)


def test_it_asks_for_more_than_a_queue_may_ever_have() -> None:
    here = tree(configuration(queue("a", resources={"max": {"vcore": "5m"}})))
    here.settle(wish("p", vcore=6))

    assert why(here) == "NeverFits: it asks for 6 of vcore, the max of root.a is 5"


def test_the_quota_of_an_ancestor_is_used_up() -> None:
    limited = queue("q", queue("a"), resources={"max": {"vcore": "5m"}})
    here = Tree(configuration(limited))
    here.add_nodes("n", vcore=10)
    here.add_app("p", "q.a")
    here.settle(wish("p", "y", 1, vcore=3), wish("p", vcore=4))

    assert why(here) == "QueueMax: it asks for 4 of vcore, the max of root.q leaves 2"


def test_too_many_applications_run() -> None:
    here = tree(configuration(queue("a", maxapplications="1")))
    here.add_app("q")
    here.settle(wish("p"), wish("q"))

    assert why(here, app="q") == (
        "QueueMaxApps: 1 other applications or more run in root.a, its maxapplications"
    )


def test_another_application_is_to_start_first() -> None:
    leaf = queue("a", properties={"application.sort.policy": "stateaware"})
    here = tree(configuration(leaf))
    here.add_app("q")
    here.settle(wish("p"), wish("q"))

    assert why(here, app="q") == ("StateAwareTurn: another application of root.a is to start first")


def test_a_blocking_leaf_keeps_strict_order() -> None:
    leaf = queue("a", properties={"application.sort.blocking": "enabled"})
    here = tree(configuration(leaf), vcore=10)
    here.settle(wish("p", "first", 2, vcore=10), wish("p", "second", 2, vcore=10))
    here.settle(wish("p", "third", 1, vcore=9), wish("p", "x", 0))

    assert why(here) == "Blocked: root.a keeps strict order, and p/third before it waits"
    assert (why(here, "third") or "").startswith(Code.NO_NODE_FITS)


def test_the_first_ask_of_a_blocking_leaf_is_not_blocked_by_itself() -> None:
    leaf = queue("a", properties={"application.sort.blocking": "enabled"})
    here = tree(configuration(leaf), vcore=10)
    here.settle(wish("p", "y", 2, count=2, vcore=1), wish("p", vcore=10))

    assert why(here) == "NoNodeFits: of 2 nodes 2 have too little vcore"


def test_of_the_nodes_each_lacks_something() -> None:
    here = tree(vcore=4, memory=4)
    here.enter(AddNode("z", Resources({"vcore": 9}), {"zone": "x"}, schedulable=False))
    here.settle(wish("p", "y", 1, count=2, vcore=3, memory=4), wish("p", vcore=2, memory=1))

    assert why(here) == (
        "NoNodeFits: of 3 nodes 1 are not schedulable, 2 have too little memory and vcore"
    )


def test_nodes_that_do_not_match() -> None:
    here = tree()
    here.enter(AddNode("z", Resources({"vcore": 4}), {"zone": "x"}))
    here.settle(wish("p", "y", 1, vcore=4, selector={"zone": "x"}))
    here.settle(wish("p", selector={"zone": "x"}))

    assert why(here) == "NoNodeFits: of 3 nodes 2 do not match, 1 have too little vcore"


def test_a_node_that_was_closed_again_after_the_ask() -> None:
    here = tree()
    here.settle(UpdateNode("n", schedulable=False), UpdateNode("m", schedulable=False), wish("p"))

    assert why(here) == "NoNodeFits: of 2 nodes 2 are not schedulable"


def test_the_first_reason_that_applies_is_given() -> None:
    here = tree(configuration(queue("a", resources={"max": {"vcore": "5m"}}, maxapplications="1")))
    here.add_app("q")
    here.settle(wish("p", vcore=5), wish("q", vcore=1), FailBind("q", "x"))

    assert (why(here, app="q") or "").startswith(Code.QUEUE_MAX)
