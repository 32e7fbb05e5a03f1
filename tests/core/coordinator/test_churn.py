"""What comes and goes leaves nothing behind, however much of it there was."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sized
from types import BuiltinFunctionType, FunctionType, ModuleType

from benchmarks import churn
from muster_core.decisions import Kind
from tests.core.tree import Tree

CACHED = {"Resources", "Shape", "_CacheHashWrapper"}
"""Of these a limited number is kept, in case they come again."""

KEPT = 300
"""How many entries may be there of what is remembered for a while, of which there is a limit."""


def counted() -> Counter[str]:
    """Count all objects of the core's own classes."""
    gc.collect()
    kinds: list[type[object]] = [type(one) for one in gc.get_objects()]
    return Counter(
        kind.__qualname__
        for kind in kinds
        if str(kind.__module__).startswith("muster_core") and kind.__name__ not in CACHED
    )


def entries(*owners: object) -> int:
    """Count what is in all containers that somebody has, anywhere."""
    elsewhere = type | ModuleType | FunctionType | BuiltinFunctionType
    seen: dict[int, object] = {}
    found, number = list(owners), 0
    while found:
        one = found.pop()
        if id(one) not in seen and not isinstance(one, elsewhere):
            seen[id(one)] = one
            number += len(one) if isinstance(one, Sized) and not isinstance(one, str) else 0
            found.extend(gc.get_referents(one))
    return number


def run(last: int) -> Tree:
    """Let applications come for so many seconds, and all of them go."""
    tree = Tree(churn.configuration())
    for at_us, events in churn.seconds(last):
        tree.pass_time(at_us)
        tree.enter(*events)
    tree.pass_time(None)
    tree.check()
    assert not [one for one in tree.log if one.decision.kind is Kind.REJECTED]
    tree.log.clear()
    return tree


def test_no_object_is_left_of_what_has_gone() -> None:
    none = counted()
    few = run(1)
    of_few = counted() - none
    many = run(200)
    of_many = counted() - none - of_few

    assert of_few["Node"] == churn.NODES
    assert of_many == of_few
    assert few.machine.statistics().bound < 20
    assert many.machine.statistics().bound > 600


def test_nor_is_an_entry_but_of_the_names_that_are_remembered() -> None:
    some, more = run(400), run(800)
    names = [len(tree.machine.registry.completed.seen()) for tree in (some, more)]
    there = [entries(one.machine, one.apps, one.queues, one.gangs) for one in (some, more)]

    assert names == [401, 801]
    assert there[1] - there[0] < 2 * (names[1] - names[0]) + KEPT
