"""What queues deserve below parents that share by weight: how and when it is divided."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hypothesis import given, strategies as st

from muster_core.config.model import Configuration
from muster_core.events import Configure, Release, RemoveApp
from muster_core.structures.amounts import divide
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree
from tests.naive.picture import divided

BY_WEIGHT: Final = {"share.policy": "weight"}
_AMOUNTS: Final = st.one_of(st.integers(0, 12), st.integers(0, 2**40))
_QUEUES: Final = st.lists(
    st.tuples(st.one_of(st.integers(1, 5), st.integers(1, 2**31 - 1)), _AMOUNTS, _AMOUNTS),
    max_size=8,
)


# SHARE-7, SHARE-8, SHARE-9, SHARE-10, SHARE-11
@given(whole=_AMOUNTS, queues=_QUEUES)
def test_it_divides_step_by_step(whole: int, queues: list[tuple[int, int, int]]) -> None:
    weights, floors, ceilings = [[one[index] for one in queues] for index in range(3)]
    ceilings = [max(least, most) for least, most in zip(floors, ceilings, strict=True)]
    found, _ = divide(whole, weights, floors, ceilings)

    by_path = map(_by_path, (weights, floors, ceilings))
    assert _by_path(found) == divided(whole, next(by_path), next(by_path), next(by_path), Counter())


def _by_path(amounts: list[int]) -> dict[str, int]:
    return {str(place): amount for place, amount in enumerate(amounts)}


@given(whole=_AMOUNTS, queues=_QUEUES, changes=st.lists(st.tuples(st.integers(0, 7), _AMOUNTS)))
def test_ceilings_above_what_was_had_change_nothing(
    whole: int, queues: list[tuple[int, int, int]], changes: list[tuple[int, int]]
) -> None:
    weights, floors, ceilings = [[one[index] for one in queues] for index in range(3)]
    ceilings = [max(least, most) for least, most in zip(floors, ceilings, strict=True)]
    found, peaks = divide(whole, weights, floors, ceilings)
    others = list(ceilings)
    for place, more in changes:
        if place < len(queues) and ceilings[place] >= peaks[place]:
            others[place] = max(floors[place], peaks[place]) + more

    assert divide(whole, weights, floors, others)[0] == found


def weighing(**weights: int) -> Tree:
    """Make a tree of queues that share 12 units, with an application of the same name in each."""
    tree = Tree(weighed(**weights))
    tree.add_nodes("n", gpu=12)
    for name in weights:
        tree.add_app(name, f"root.{name}")
    return tree


def weighed(**weights: int) -> Configuration:
    queues = [
        queue(name, properties={"queue.weight": str(weight)}) for name, weight in weights.items()
    ]
    return configuration(*queues, props=BY_WEIGHT)


def deserved(tree: Tree) -> dict[str, int]:
    tree.check()
    return {path: some.get("gpu", 0) for path, some in tree.snapshot().deserved.items()}


# SHARE-17
def test_a_snapshot_says_what_is_deserved() -> None:
    tree = weighing(a=1, b=2)
    tree.settle(wish("a", count=20, gpu=1), wish("b", count=20, gpu=1))
    assert deserved(tree) == {"root.a": 4, "root.b": 8}


def test_it_says_nothing_of_queues_that_do_not_share_by_weight() -> None:
    tree = Tree(configuration(queue("a", resources={"guaranteed": {"gpu": "4"}})))
    tree.add_nodes("n", gpu=12)
    tree.settle()
    assert tree.snapshot().deserved == {}


def test_it_is_divided_again_when_an_ask_comes_or_goes() -> None:
    tree = weighing(a=1, b=2)
    tree.settle(wish("a", count=20, gpu=1), wish("b", count=4, gpu=1))
    assert deserved(tree) == {"root.a": 8, "root.b": 4}
    tree.settle(wish("b", "y", gpu=1))
    assert deserved(tree) == {"root.a": 7, "root.b": 5}
    tree.settle(Release("b", "x-0"))
    assert deserved(tree) == {"root.a": 8, "root.b": 4}
    tree.settle(RemoveApp("b"))
    assert deserved(tree) == {"root.a": 12, "root.b": 0}


def test_more_asks_than_a_queue_can_have_change_nothing() -> None:
    tree = weighing(a=1, b=2)
    tree.settle(wish("a", count=20, gpu=1), wish("b", count=20, gpu=1))
    before = deserved(tree)
    tree.settle(wish("a", "y", count=20, gpu=1))
    assert deserved(tree) == before


def test_a_type_that_is_new() -> None:
    tree = weighing(a=1, b=2)
    tree.settle(wish("a", count=20, gpu=1))
    tree.add_nodes("m", tpu=9)
    tree.settle(wish("a", "t", count=9, tpu=1), wish("b", "t", count=9, tpu=1))
    tree.check()
    assert tree.snapshot().deserved["root.b"] == {"tpu": 6}


def test_a_configuration_ends_it_and_begins_it() -> None:
    tree = weighing(a=1, b=2)
    tree.settle(wish("a", count=20, gpu=1), wish("b", count=20, gpu=1))
    plain = configuration(queue("a"), queue("b"))
    tree.settle(Configure(plain))
    assert deserved(tree) == {}
    tree.settle(Configure(weighed(a=3, b=1)))
    assert deserved(tree) == {"root.a": 9, "root.b": 3}


def test_what_nobody_asks_for_is_deserved_where_it_is_guaranteed() -> None:
    tree = Tree(configuration(queue("a", resources={"guaranteed": {"gpu": "4"}}), props=BY_WEIGHT))
    tree.add_nodes("n", gpu=12)
    tree.settle()
    assert deserved(tree) == {"root.a": 4}
