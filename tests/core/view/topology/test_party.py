"""Which members are to find room in one domain together, seen in whether they do."""

from __future__ import annotations

import pytest

from muster_core.events import Release
from tests.core.admission.objects import members
from tests.core.building import configuration, queue
from tests.core.view.topology.racks import SAME, cluster, gang, racked, where


@pytest.mark.parametrize(("first", "held"), [("a", ["p/m-0", "p/m-1", "q/n-0"]), ("b", [])])
def test_the_others_are_the_first_in_the_order_of_queues(first: str, held: list[str]) -> None:
    # TOPOLOGY-8
    leaves = [
        queue(name, properties={"queue.priority": "1"} if name == first else {}) for name in "ab"
    ]
    made = cluster(racked("a", 3, "x"), racked("b", 2, "y"), config=configuration(*leaves))
    large = members("g", "large", 1, app="q", vcore=4)
    made.settle(gang(SAME, 3), members("g", "m", 2), members("g", "n", 1, app="q"), large)

    assert sorted(where(made)) == held


@pytest.mark.parametrize(("priority", "held"), [(-1, ["p/m-0", "p/m-1"]), (1, [])])
def test_the_others_are_the_first_in_the_order_of_asks(priority: int, held: list[str]) -> None:
    # TOPOLOGY-8
    made = cluster(racked("a", 2, "x"))
    large = members("g", "large", 1, priority=priority, vcore=3)
    made.settle(gang(SAME, 2), members("g", "m", 2), large)

    assert sorted(where(made)) == held


def test_the_member_at_hand_need_not_be_one_of_the_first() -> None:
    # TOPOLOGY-7
    made = cluster(racked("a", 3, "x"))
    made.settle(gang(SAME, 2), members("g", "m", 2, vcore=2), members("g", "n", 1, priority=-1))

    assert set(where(made)) == {"p/m-0", "p/n-0"}


def test_a_satisfied_gang_lacks_nobody() -> None:
    # TOPOLOGY-9
    made = cluster(racked("a", 2, "x"))
    made.settle(gang(SAME, 2), members("g", "m", 2), members("g", "n", 1, vcore=2))
    made.settle(Release("p", "m-0"), Release("p", "m-1"))

    assert set(where(made)) == {"p/n-0"}
