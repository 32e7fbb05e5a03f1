"""The core gives the model's account, of small cases that random feeds seldom come to."""

from __future__ import annotations

from muster_core.config.model import Settings
from muster_core.events import AddApp, BindFailed, RemoveAsk, RemoveNode, UpdateNode
from muster_core.gangs import GangMode
from muster_core.reasons import Code
from muster_core.resources import Resources
from tests.naive.explained import explain_all, watched
from tests.naive.harness import Accounts, Step, What, compare_with_state
from tests.naive.story import APP, S, asks, gang, node
from tests.naive.test_reasons import queue, tree


def agreed(*steps: What | int) -> Accounts:
    """Give what both say at the end of some steps; a number is the instant of those after it."""
    scenario: list[Step] = []
    now_us = 0
    for what in steps:
        if isinstance(what, int):
            now_us = what
        else:
            scenario.append(Step(now_us, what))
    compare_with_state(watched(scenario), explain_all)
    return explain_all(scenario).accounts[-1]


def test_a_node_that_has_less_than_is_used_of_it_has_nothing_free() -> None:
    small = UpdateNode("n", capacity=Resources({"vcore": 0}))
    nodes = node("n", 2), node("o", 2), node("i", 2)
    found = agreed(*nodes, APP, asks("k", count=3), S, small, asks("m", cores=2))
    assert found["a/m"].codes == ("Fragmented", "NoNodeFits")


def test_a_new_ask_has_not_failed_though_one_of_its_name_had() -> None:
    away, failed = UpdateNode("n", schedulable=False), BindFailed("a", "k")
    found = agreed(node("n", 1), APP, asks("k"), S, away, failed, 2 * S, RemoveAsk("a", "k"))
    assert not found
    found = agreed(
        *(node("n", 1), APP, asks("k"), S, away, failed),
        *(2 * S, RemoveAsk("a", "k"), asks("k")),
    )
    assert found["a/k"].codes == ("NoNodeFits",)


def test_an_ask_that_lost_its_node_after_its_bind_had_failed() -> None:
    away = UpdateNode("n", schedulable=False)
    steps = node("n", 1), APP, asks("k"), S, away, BindFailed("a", "k")
    back = UpdateNode("n", schedulable=True)
    found = agreed(*steps, 2 * S, back, 3 * S, RemoveNode("n"))
    assert found["a/k"].codes == ("NeverFits", "NoNodeFits")
    assert found["a/k"].since_us == 3 * S


def test_a_queue_that_was_made_below_one_that_drains() -> None:
    configured = queue("p", queue("p.q"), settings=Settings(create=True))
    found = agreed(tree(configured), AddApp("a", "root.p.x"), asks("m"), S, tree(queue("r")))
    assert found["a/m"].codes[-1] == Code.DRAINING
    assert found["a/m"].figures[Code.DRAINING] == {"queue": "root.p"}


def test_a_strict_group_that_waited_and_gave_up() -> None:
    strict = GangMode.STRICT
    g, h = gang("g", 1, "h", mode=strict), gang("h", 1, mode=strict)
    found = agreed(node("n", 1), APP, g, h, asks("m", of="g"), S, asks("l", of="h"))
    assert found["a/m"].codes[0] == found["a/l"].codes[0] == Code.GANG_CYCLE_INVALID


def test_a_queue_that_is_over_its_new_max_has_nothing_left() -> None:
    steps = node("n", 9), tree(queue("q", most=4)), APP, asks("k", cores=3), asks("m", cores=2)
    found = agreed(*steps, S, tree(queue("q", most=2)))
    assert found["a/m"].figures[Code.QUEUE_MAX] == {"left": {"root.q vcore": 0}}
