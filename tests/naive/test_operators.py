"""What may be drawn for an operator: what the specification refuses at load is told apart."""

from __future__ import annotations

import attrs
import pytest

from muster_core.config.model import Limits, QueueConfig
from muster_core.values.configuration import LimitEntry, PlacementRule, RuleName
from tests.naive.limit_strategies import LimitTheme, faults, limited
from tests.naive.rule_strategies import is_legal
from tests.naive.test_placement import fixed, tag
from tests.naive.test_reasons import queue
from tests.naive.test_user_limits import groups, users


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
def test_each_fault_of_one_queue_is_told(config: QueueConfig, fault: str) -> None:
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
def test_more_than_the_queues_above_give_is_told(
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
def test_rules_that_can_never_match_are_told_apart(rule: PlacementRule, legal: bool) -> None:
    assert is_legal(rule, TREE) is legal


def test_an_amount_of_0_beside_others_is_in_order() -> None:
    entry = LimitEntry(("u",), (), Limits.of({"vcore": 1, "memory": 0}))
    assert not faults(leaf(entry))
