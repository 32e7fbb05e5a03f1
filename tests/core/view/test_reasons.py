"""Why an ask is not running: what nodes and queues have to do with it.

Explaining changes nothing.
"""

from __future__ import annotations

import attrs
from hypothesis import given
from typing_extensions import override

from muster_core.config.model import Configuration
from muster_core.events import (
    AddNode,
    BindFailed,
    Configure,
    FailBind,
    Outcome,
    Release,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
)
from muster_core.reasons import Code, Explanation
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from tests.core.building import configuration, queue, wish
from tests.core.tree import BLOCKING, Tree, codes, explain, explained, facts, message_of, why
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Scenario
from tests.naive.strategies import scenarios
from tests.share import share


def make_tree(config: Configuration | None = None, **capacity: int) -> Tree:
    tree = Tree(config or configuration(queue("a")))
    tree.add_nodes("n", "m", **(capacity or {"vcore": 10}))
    tree.add_app("p")
    return tree


def test_what_is_bound_or_unknown_has_no_reason() -> None:
    tree = make_tree()
    tree.settle(wish("p"))

    assert explained(tree) is None
    assert explained(tree, "p/unknown") is None
    assert explained(tree, "unknown/x") is None


def test_what_is_said_besides_the_reasons() -> None:
    tree = make_tree()
    tree.pass_time(3_000_000)
    tree.settle(wish("p", vcore=11), wish("p", "y", vcore=11))

    explanation = explain(tree, "p/y")
    assert (explanation.app, explanation.ask, explanation.queue) == ("p", "y", "root.a")
    assert (explanation.place, explanation.since_us) == (AskPlace.PENDING, 3_000_000)
    assert explanation.first == explain(tree).first == "p/x"
    assert explanation.dominant is explanation.reasons[0]
    assert str(explanation) == str(explanation.dominant)
    assert str(explanation.dominant) == f"NeverFits: {explanation.dominant.message}"


def test_all_reasons_are_given_in_the_order_of_the_codes() -> None:
    tree = make_tree(configuration(queue("a", resources={"max": {"vcore": "12m", "memory": 5}})))
    tree.settle(wish("p", "y", 1, vcore=4), wish("p", "z", 1, vcore=4))
    tree.settle(wish("p", vcore=7, memory=6))

    order = list(Code)
    found = codes(tree)
    assert found == [Code.NEVER_FITS, Code.QUEUE_MAX, Code.NO_NODE_FITS]
    assert found == sorted(found, key=order.index)


# Nodes


def test_more_than_any_node_has() -> None:
    tree = make_tree()
    tree.settle(wish("p", vcore=11_000))

    assert (
        why(tree) == "NeverFits: it asks for 11 vcore, and the most on any of 2 nodes is 10m vcore"
    )
    assert facts(tree, Code.NEVER_FITS) == {
        "nodes": 2,
        "unmatched": 0,
        "largest": {"vcore": 10},
    }


def test_a_type_that_no_node_has() -> None:
    tree = make_tree()
    tree.settle(wish("p", vcore=1, gpu=1))

    assert why(tree) == "NeverFits: there is no gpu on any of 2 nodes"


def test_two_types_that_no_node_has_together() -> None:
    tree = make_tree()
    tree.add_nodes("k", memory=2048)
    tree.settle(wish("p", vcore=1, memory=2048))

    assert why(tree) == (
        "NeverFits: it asks for 2Ki memory and 1m vcore, which are not together on any of 3 nodes"
    )


def test_a_required_node() -> None:
    tree = make_tree()
    tree.settle(wish("p", node="z"), wish("p", "y", node="m", vcore=11))
    tree.settle(wish("p", "w", node="m", selector={"zone": "x"}))

    assert why(tree) == "NeverFits: it requires node z, which is unknown"
    assert why(tree, "p/y") == (
        "NeverFits: it asks for 11m vcore, and the most on the required node m is 10m vcore"
    )
    assert why(tree, "p/w") == (
        "NeverFits: it requires node m, which does not match its selector zone=x"
    )


def test_a_selector() -> None:
    tree = make_tree()
    tree.enter(AddNode("z", Resources({"vcore": 4}), {"zone": "x"}))
    tree.settle(wish("p", vcore=5, selector={"zone": "x"}))
    tree.settle(wish("p", "y", selector={"zone": "x", "disk": "ssd"}))

    assert why(tree) == (
        "NeverFits: it asks for 5m vcore, and the most on the only node with zone=x is 4m vcore"
    )
    assert why(tree, "p/y") == "NeverFits: no node matches its selector disk=ssd and zone=x"


def test_no_nodes_at_all() -> None:
    tree = Tree(configuration(queue("a")))
    tree.add_app("p")
    tree.settle(wish("p"))

    assert [str(reason) for reason in explain(tree).reasons] == [
        "NeverFits: there are no nodes",
        "NoNodeFits: there are no nodes",
    ]


def test_a_node_that_takes_nothing_new_could_hold_it_one_day() -> None:
    tree = make_tree()
    tree.settle(UpdateNode("n", schedulable=False), UpdateNode("m", schedulable=False), wish("p"))

    assert why(tree) == "NoNodeFits: of 2 nodes 2 are not schedulable"


def test_of_the_nodes_each_lacks_something() -> None:
    tree = make_tree(vcore=4, memory=4)
    tree.enter(AddNode("z", Resources({"vcore": 9}), {"zone": "x"}, schedulable=False))
    tree.settle(wish("p", "y", 1, count=2, vcore=3, memory=4), wish("p", vcore=2, memory=1))

    assert why(tree) == (
        "NoNodeFits: of 3 nodes 1 is not schedulable, 2 have too little memory and vcore; "
        "m is the closest and lacks 1 memory and 1m vcore"
    )
    assert facts(tree, Code.NO_NODE_FITS) == {
        "nodes": 3,
        "unmatched": 0,
        "unschedulable": 1,
        "lacking": {"memory vcore": 2},
        "closest": "m",
        "closest_lacks": {"vcore": 1, "memory": 1},
    }


def test_the_closest_node_lacks_the_least_of_what_is_asked_for() -> None:
    tree = Tree(configuration(queue("a")))
    tree.add_nodes("even", vcore=6, memory=6)
    tree.add_nodes("odd", vcore=10, memory=2)
    tree.add_nodes("whole", vcore=10, memory=10)
    tree.add_app("p")
    tree.settle(wish("p", "y", 1, vcore=10, memory=10), wish("p", vcore=10, memory=8))

    assert message_of(tree, Code.NO_NODE_FITS).endswith(
        "; even is the closest and lacks 2 memory and 4m vcore"
    )


def test_nodes_that_do_not_match() -> None:
    tree = make_tree()
    tree.enter(AddNode("z", Resources({"vcore": 4}), {"zone": "x"}))
    tree.settle(wish("p", "y", 1, vcore=4, selector={"zone": "x"}))
    tree.settle(wish("p", selector={"zone": "x"}))

    assert why(tree) == (
        "NoNodeFits: of 3 nodes 2 do not match, 1 has too little vcore; "
        "z is the closest and lacks 1m vcore"
    )


def test_free_in_sum_but_on_no_single_node() -> None:
    tree = make_tree()
    tree.settle(wish("p", "y", 2, count=2, vcore=1), wish("p", vcore=10))

    assert codes(tree) == [Code.FRAGMENTED, Code.NO_NODE_FITS]
    assert why(tree) == (
        "Fragmented: it asks for 10m vcore; 18m vcore are free on 2 nodes in all, but not on one"
    )
    assert facts(tree, Code.FRAGMENTED) == {"free": {"vcore": 18}, "nodes": 2}


def test_only_nodes_on_which_it_may_stand_are_fragments() -> None:
    tree = make_tree()
    tree.enter(AddNode("z", Resources({"vcore": 10}), schedulable=False))
    tree.settle(wish("p", "y", 2, count=2, vcore=6), wish("p", vcore=9))

    assert codes(tree) == [Code.NO_NODE_FITS]


def test_a_node_that_holds_more_than_it_has_left_is_not_owed_anything() -> None:
    tree = make_tree()
    tree.settle(wish("p", "y", 1, vcore=9, node="n"), wish("p", "z", 1, vcore=4, node="m"))
    tree.settle(UpdateNode("n", Resources({"vcore": 1})), AddNode("k", Resources({"vcore": 7})))
    tree.settle(wish("p", vcore=10))

    # Six are free on m, seven on k, and none on n, which has eight less than are taken there.
    assert codes(tree) == [Code.FRAGMENTED, Code.NO_NODE_FITS]
    assert facts(tree, Code.FRAGMENTED)["free"] == {"vcore": 13}


# Binds that fail


def test_a_bind_failed_and_another_took_the_place() -> None:
    tree = make_tree(vcore=1)
    tree.settle(wish("p", "y"), wish("p"), wish("p", "z"), FailBind("p", "x"))

    assert codes(tree) == [Code.BIND_FAILED, Code.NO_NODE_FITS]
    assert why(tree) == "BindFailed: its last bind, on n, failed; it has held no node since"
    assert facts(tree, Code.BIND_FAILED) == {"node": "n"}


def test_what_held_a_node_since_has_lost_that() -> None:
    tree = make_tree(vcore=1)
    tree.settle(wish("p", "y"), wish("p"), wish("p", "z"), FailBind("p", "x"))
    tree.settle(RemoveNode("n"), AddNode("k", Resources({"vcore": 1})))
    assert "p/x k" in tree.bound()
    tree.settle(RemoveNode("k"))

    assert Code.BIND_FAILED not in codes(tree)


def test_another_ask_of_the_name_has_not_failed() -> None:
    tree = make_tree(vcore=1)
    tree.settle(wish("p", "y"), wish("p"), wish("p", "z"), FailBind("p", "x"))
    tree.settle(RemoveAsk("p", "x"), wish("p"))

    assert codes(tree) == [Code.NO_NODE_FITS]


def test_a_failed_bind_is_forgotten_with_its_ask() -> None:
    tree = make_tree(vcore=1)
    tree.settle(wish("p", "y"), wish("p"), wish("p", "z"), FailBind("p", "x"))
    tree.settle(RemoveAsk("p", "x"))

    tree.check()
    tree.settle(wish("p"))
    assert codes(tree) == [Code.NO_NODE_FITS]


def test_work_that_could_not_be_started() -> None:
    tree = make_tree(vcore=1)
    tree.settle(wish("p", "y"), wish("p"))
    assert tree.bound() == ["p/y m", "p/x n"]
    tree.settle(wish("p", "z", 1), BindFailed("p", "x"))

    assert codes(tree) == [Code.BIND_FAILED, Code.NO_NODE_FITS]
    assert (
        message_of(tree, Code.BIND_FAILED)
        == "its last bind, on n, failed; it has held no node since"
    )


def test_why_work_could_not_be_started() -> None:
    tree = make_tree(vcore=1)
    tree.settle(wish("p", "y"), wish("p"))
    tree.settle(wish("p", "z", 1), BindFailed("p", "x", "no such program"))

    assert message_of(tree, Code.BIND_FAILED) == (
        "its last bind, on n, failed: no such program; it has held no node since"
    )
    assert facts(tree, Code.BIND_FAILED) == {"node": "n"}


def test_an_ask_that_backs_off() -> None:
    config = configuration(queue("a", properties={"bind.retry.delay": "10s"}))
    tree = make_tree(config, vcore=2)
    tree.settle(wish("p", vcore=2, priority=1), FailBind("p", "x", 2), wish("p", "w", vcore=2))
    tree.pass_time(3_500_000)
    tree.settle()

    assert codes(tree) == [Code.BACKING_OFF, Code.BIND_FAILED]
    assert message_of(tree, Code.BACKING_OFF) == (
        "its last bind failed, so it is not tried before 10 s, 6.5 s from now"
    )
    # It is neither first, nor compared with the first one.
    tree.settle(wish("p", "z", vcore=2), wish("p", "y", vcore=2))
    assert explain(tree, "p/y").first == "p/y"
    assert (explain(tree).first, explain(tree).levels) == ("p/y", ())

    tree.settle(RemoveAsk("p", "y"), Release("p", "z"))
    tree.pass_time(10_000_001)
    left = facts(tree, Code.BACKING_OFF)
    assert left == {"failures": 2, "until_us": 30_000_000, "left_us": 19_999_999}
    # Asked at an instant at which the timer has not gone off yet.
    assert "0 s from now" in message_of(tree, Code.BACKING_OFF, at_us=30_000_001)


def test_whose_turn_it_is_while_asks_back_off() -> None:
    properties = {"bind.retry.delay": "10s", "application.sort.policy": "stateaware"}
    tree = make_tree(configuration(queue("a", properties=properties)))
    tree.add_app("r")
    tree.settle(wish("p"), FailBind("p", "x"))
    # Nobody else may start, but nobody keeps it from starting either.
    assert codes(tree) == [Code.BACKING_OFF, Code.BIND_FAILED]

    tree.settle(wish("r"), FailBind("r", "x"))
    assert codes(tree, "r/x") == [Code.BACKING_OFF, Code.BIND_FAILED]
    tree.settle(wish("r", "y"), wish("r", "z", vcore=11))
    assert tree.bound() == ["r/y m"]
    assert codes(tree) == [Code.STATE_AWARE_TURN, Code.BACKING_OFF, Code.BIND_FAILED]

    # The one that is Starting has its turn, though all its asks back off.
    tree.settle(RemoveAsk("r", "z"), RemoveAsk("r", "x"), BindFailed("r", "y"))
    assert codes(tree, "r/y") == [Code.BACKING_OFF, Code.BIND_FAILED]
    assert facts(tree, Code.STATE_AWARE_TURN)["first"] == "r"


# BACKOFF-13
def test_work_that_failed_is_not_reported_as_a_failed_bind() -> None:
    tree = make_tree(configuration(queue("a", properties={"bind.retry.delay": "10s"})))
    tree.settle(attrs.evolve(wish("p"), retries=1))
    tree.settle(Release("p", "x", Outcome.FAILED))

    assert codes(tree) == [Code.BACKING_OFF]


# Queues


def test_more_than_a_queue_may_ever_have() -> None:
    tree = make_tree(configuration(queue("a", resources={"max": {"vcore": "5m"}})))
    tree.settle(wish("p", vcore=6))

    assert codes(tree) == [Code.NEVER_FITS]
    assert why(tree) == "NeverFits: it asks for 6m vcore, the max of root.a is 5m vcore"
    assert facts(tree, Code.NEVER_FITS) == {"max": {"root.a vcore": 5}}


def test_the_max_of_an_ancestor_is_used_up() -> None:
    limited = queue("q", queue("a"), resources={"max": {"vcore": "5m", "memory": 1}})
    tree = Tree(configuration(limited))
    tree.add_nodes("n", vcore=10)
    tree.add_app("p", "q.a")
    tree.settle(wish("p", "y", 1, vcore=3), wish("p", vcore=4))

    assert why(tree) == (
        "QueueMax: it asks for 4m vcore, and the max of root.q leaves 2m vcore of 5m vcore"
    )
    assert facts(tree, Code.QUEUE_MAX) == {"left": {"root.q vcore": 2}}


def test_a_type_that_is_not_asked_for_does_not_matter_even_if_it_is_over_its_max() -> None:
    config = configuration(queue("a", resources={"max": {"vcore": "5m"}}))
    tree = Tree(configuration(queue("a")))
    tree.add_nodes("n", vcore=10, memory=2)
    tree.add_app("p")
    tree.settle(wish("p", "y", vcore=8), wish("p", "z", count=2, memory=1))
    tree.settle(Configure(config))
    tree.settle(wish("p", memory=1))

    assert codes(tree) == [Code.NO_NODE_FITS]


def test_too_many_applications_run() -> None:
    tree = make_tree(configuration(queue("a", maxapplications="1")))
    tree.add_app("q")
    tree.settle(wish("p"), wish("q"))

    assert why(tree, "q/x") == (
        "QueueMaxApps: application q is not tried: "
        "1 other runs in root.a, whose maxapplications is 1"
    )
    assert codes(tree, "q/x") == [Code.QUEUE_MAX_APPS]
    assert facts(tree, Code.QUEUE_MAX_APPS, "q/x") == {"maxapplications": {"root.a": 1}}


def test_one_that_runs_does_not_count_itself() -> None:
    tree = make_tree(configuration(queue("a", maxapplications="1")))
    tree.settle(wish("p"))
    tree.settle(wish("p", "y", gpu=1))

    assert codes(tree, "p/y") == [Code.NEVER_FITS, Code.NO_NODE_FITS]


def test_another_application_is_to_start_first() -> None:
    leaf = queue("a", properties={"application.sort.policy": "stateaware"})
    tree = make_tree(configuration(leaf))
    tree.add_app("q")
    tree.settle(wish("p"), wish("q"))

    assert codes(tree, "q/x") == [Code.STATE_AWARE_TURN]
    assert why(tree, "q/x") == (
        "StateAwareTurn: root.a is stateaware and lets one application start at a time: "
        "p, which is Starting, is before q, which is Accepted"
    )


def test_the_one_that_may_start_has_no_reason_to_wait() -> None:
    leaf = queue("a", properties={"application.sort.policy": "stateaware"})
    tree = make_tree(configuration(leaf))
    tree.add_app("q")
    tree.settle(wish("q", vcore=11), wish("p", priority=1, vcore=11))

    assert Code.STATE_AWARE_TURN not in codes(tree)
    assert message_of(tree, Code.STATE_AWARE_TURN, "q/x").endswith(
        "p, which is Accepted, is before q, which is Accepted"
    )


def test_whose_asks_all_back_off_does_not_wait_for_its_own_turn() -> None:
    properties = {"application.sort.policy": "stateaware", "bind.retry.delay": "1s"}
    tree = make_tree(configuration(queue("a", properties=properties)))
    tree.settle(wish("p"), FailBind("p", "x"))
    assert codes(tree) == [Code.BACKING_OFF, Code.BIND_FAILED]

    tree.pass_time(1_000_001)
    tree.settle(BindFailed("p", "x"))
    tree.add_app("q")
    tree.settle(wish("q"))
    assert codes(tree) == [Code.BACKING_OFF, Code.BIND_FAILED]
    assert codes(tree, "q/x") == [Code.STATE_AWARE_TURN], "p is Starting"


def test_the_one_that_maxapplications_keeps_out_has_its_turn() -> None:
    policy = {"application.sort.policy": "stateaware"}
    turns = queue("a", properties=policy, maxapplications="1")
    other = queue("b", maxapplications="1")
    tree = Tree(configuration(queue("q", turns, other, maxapplications="1")))
    tree.add_nodes("n", vcore=10)
    tree.add_app("p", "q.a")
    tree.add_app("r", "q.b")
    tree.settle(wish("r"))
    tree.settle(wish("p"))

    assert codes(tree) == [Code.QUEUE_MAX_APPS]


def test_a_blocking_leaf_keeps_strict_order() -> None:
    tree = make_tree(configuration(queue("a", properties=BLOCKING)), vcore=10)
    tree.settle(wish("p", "first", 2, vcore=10), wish("p", "second", 2, vcore=10))
    tree.settle(wish("p", "third", 1, vcore=9), wish("p"))

    assert why(tree) == (
        "Blocked: root.a keeps strict order, and p/third is before it and not placed"
    )
    assert facts(tree, Code.BLOCKED) == {"behind": "p/third"}
    assert codes(tree, "p/third") == [Code.NO_NODE_FITS]


def test_the_first_ask_of_a_blocking_leaf_is_not_blocked_by_itself() -> None:
    tree = make_tree(configuration(queue("a", properties=BLOCKING)), vcore=10)
    tree.settle(wish("p", "y", 2, count=2, vcore=1), wish("p", vcore=10))

    assert Code.BLOCKED not in codes(tree)


NOTES = {Code.DRAINING, Code.USER_NOT_ALLOWED}
SOLE = {AskPlace.WAITING: Code.PERMIT_WAITING, AskPlace.PARKED: Code.GANG_TIMED_OUT}


class ExplainingTree(Tree):
    """A tree that explains every pending ask after each batch, twice."""

    @override
    def _end(self) -> None:
        super()._end()
        if not self._open:
            first = self.explain_all()
            self.check()
            assert self.explain_all() == first

    def explain_all(self) -> list[Explanation]:
        found: list[Explanation] = []
        for app, ask in self.machine.pending():
            explanation = self.machine.explain(app, ask)
            assert explanation is not None
            check_explanation(explanation)
            self._compare_code(explanation)
            found.append(explanation)
        return found

    def _compare_code(self, explanation: Explanation) -> None:
        """Compare the dominant reason with what is found for many asks together."""
        view, dominant = self.machine.view, explanation.dominant.code
        key = self.machine.registry.app_key(explanation.app)
        app, ask = view.apps[key], explanation.ask
        assert view.explainer.dominant(app, ask, self.machine.now_us) is dominant
        if explanation.place is AskPlace.PENDING:
            found = app.find(ask)
            assert found is not None
            possible = view.explainer.dominants.possible(app, found)
            assert possible is None or dominant in possible


def check_explanation(explanation: Explanation) -> None:
    codes = [reason.code for reason in explanation.reasons]
    # Each once, in the order in which they matter, and one at least that keeps it from running.
    assert codes == [code for code in Code if code in codes]
    assert set(codes) - NOTES
    sole = SOLE.get(explanation.place)
    assert codes == [sole] if sole else not set(codes) & set(SOLE.values())
    # The ways are compared where another one is tried before it, and they part in the end.
    assert bool(explanation.levels) == (Code.NOT_YOUR_TURN in codes)
    for level in explanation.levels[:-1]:
        assert level.own == level.other
        assert not any(key.decides or key.own != key.other for key in level.keys)
    for level in explanation.levels[-1:]:
        assert level.own != level.other
        (decisive,) = (key for key in level.keys if key.decides)
        assert decisive.own != decisive.other
    assert all(reason.message for reason in explanation.reasons)


@share(0.15)
@given(scenarios() | gang_scenarios() | evictions())
def test_the_same_is_decided_whether_anybody_asks_or_not(scenario: Scenario) -> None:
    assert ExplainingTree().run(scenario) == Tree().run(scenario)
