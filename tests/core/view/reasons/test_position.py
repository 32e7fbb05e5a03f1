"""The place of an ask if all that are pending were taken in order."""

from __future__ import annotations

from muster_core.events import FailBind
from muster_core.structures.steps import all_at_once
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import Queue, configuration, queue, wish
from tests.core.tree import Tree
from tests.core.view.helpers import BLOCKING, props


def tree(*queues: Queue, vcore: int = 10, **apps: str) -> Tree:
    """Give a tree of one node, and applications in queues."""
    made = Tree(configuration(*queues))
    made.add_nodes("n", vcore=vcore)
    for name, path in apps.items():
        made.add_app(name, f"root.{path}")
    return made


def position(here: Tree, ask: str) -> int | None:
    app, _, name = ask.partition("/")
    found = all_at_once(here.machine.outlook(app, name))
    return None if found is None else found.position


def in_order(here: Tree) -> list[str]:
    """Give all pending asks by their positions, each of which is there once."""
    placed = {position(here, f"{app}/{ask}"): f"{app}/{ask}" for app, ask in here.machine.pending()}
    assert sorted(filter(None, placed)) == list(range(1, len(placed) + 1))
    return [placed[number] for number in range(1, len(placed) + 1)]


# OUTLOOK-1
def test_queues_then_applications_then_asks_are_in_order() -> None:
    low, high = queue("low"), queue("high", properties=props(priority_offset="7"))
    made = tree(queue("q", low, high), queue("z"), p="q.low", r="q.high", s="q.high", t="z")
    for app, priority in (("p", 5), ("r", 1), ("s", 2), ("t", 9)):
        made.enter(wish(app, "x", priority, vcore=20), wish(app, "y", 1, vcore=20))
    made.settle()

    assert in_order(made) == ["s/x", "s/y", "r/x", "r/y", "p/x", "p/y", "t/x", "t/y"]


# OUTLOOK-1
def test_nothing_is_skipped_that_has_no_turn_now() -> None:
    over = queue("over", resources={"max": {"vcore": 1}}, properties=BLOCKING)
    few = queue("few", maxapplications=1)
    aware = queue("turns", properties=props(application_sort_policy="stateaware"))
    made = tree(*(over, few, aware), vcore=9, a="over", b="few", c="few", d="turns", e="turns")
    made.enter(*(wish(app, "x", vcore=20000) for app in "abcde"))
    made.enter(wish("a", "late", vcore=1))
    made.settle()

    assert in_order(made) == ["b/x", "c/x", "d/x", "e/x", "a/x", "a/late"]


# OUTLOOK-1
def test_a_member_is_as_old_as_its_gang_and_one_that_timed_out_has_no_place() -> None:
    made = tree(queue("q"), vcore=1, p="q")
    made.enter(gang("g", 2, mode=LOOSE, wait_us=1_000_000))
    made.enter(wish("p", "old", vcore=20), members("g", "m", 2))
    made.settle()
    assert position(made, "p/old") == 2
    made.pass_time(2_000_000)
    made.settle()

    assert position(made, "p/m-1") is None
    assert position(made, "p/old") == 1


# OUTLOOK-1
def test_one_that_is_bound_or_unknown_has_no_place() -> None:
    made = tree(queue("q"), p="q")
    made.settle(wish("p", "held", vcore=1))

    assert position(made, "p/held") is None
    assert position(made, "p/nobody") is None
    assert all_at_once(made.machine.outlook("nobody", "x")) is None


# OUTLOOK-1
def test_one_that_backs_off_has_its_place() -> None:
    made = tree(queue("q", properties=props(bind_retry_delay="10s")), p="q")
    made.enter(wish("p", "x", vcore=1), FailBind("p", "x"))
    made.settle(wish("p", "y", vcore=20))

    assert in_order(made) == ["p/x", "p/y"]
