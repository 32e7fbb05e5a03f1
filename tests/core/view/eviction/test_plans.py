"""Plans: on which node an ask could be placed if others went, and who these are."""

from __future__ import annotations

import pytest

from muster_core.events import AddAsk, AddNode, Event, UpdateNode
from muster_core.resources import Resources
from tests.core.admission.objects import LOOSE, gang, members
from tests.core.building import wish
from tests.core.view.eviction.contest import SIX, Contest, contest, share, urgent


def duel(*events: Event, wanted: AddAsk | None = None, **nodes: int) -> Contest:
    """Give ``a``, which is guaranteed six and may preempt, and ``b`` with what has come there."""
    made = contest(share("a", guaranteed=SIX), share("b"), share("c"), **nodes)
    for event in events:
        made.tell(event)
    made.tell(wanted or urgent("a"))
    return made


def on(node: str, name: str, priority: int = 0, vcore: int = 1) -> AddAsk:
    """Give the event of an ask in ``b`` that can only be on one node."""
    return wish("b", name, priority, node=node, vcore=vcore)


def agreed(made: Contest) -> str | None:
    """Give the plan for ``a/x``, where reclaim and preemption have the same."""
    planned = made.planned(made.reclaim("a/x"))
    assert planned == made.planned(made.preempt("a/x"))
    return planned


def test_the_first_in_order_goes() -> None:
    assert agreed(duel(on("n", "y"), on("n", "z"), n=2)) == "n: b/z"


def test_as_many_as_it_takes_in_order() -> None:
    made = duel(on("n", "y"), on("n", "z", -1), on("n", "w"), wanted=urgent("a", vcore=2), n=3)

    assert agreed(made) == "n: b/z b/w"


def test_nothing_is_taken_that_does_not_suffice() -> None:
    made = duel(on("n", "y"), on("n", "z", 10), wanted=urgent("a", vcore=2), n=2)

    assert made.planned(made.preempt("a/x")) is None
    assert made.planned(made.reclaim("a/x")) == "n: b/y b/z"


def test_an_ask_larger_than_every_node() -> None:
    made = duel(on("n", "y"), wanted=urgent("a", vcore=2), m=1, n=1)

    assert agreed(made) is None


def test_where_nobody_has_anything() -> None:
    assert agreed(duel(n=0)) is None


def test_without_any_node() -> None:
    assert agreed(duel()) is None


# What is useful


def test_only_what_stands_on_the_node() -> None:
    made = duel(on("m", "y"), on("n", "z", vcore=2), wanted=urgent("a", vcore=2), m=1, n=2)

    assert agreed(made) == "n: b/z"


def test_only_of_a_type_that_is_lacking() -> None:
    made = contest(share("a", guaranteed=SIX), share("b"))
    made.tell(AddNode("n", Resources({"vcore": 2, "memory": 2})))
    made.tell(wish("b", "y", vcore=2), wish("b", "z", -5, memory=1))
    made.tell(urgent("a"))

    assert agreed(made) == "n: b/y"


@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_useless_takes_no_useful_ones_place(elsewhere: bool) -> None:
    """If ``b/z`` went, ``b/y`` would have to stay, since ``b`` keeps a millicore."""
    b = share("b", guaranteed={"vcore": 1})
    made = contest(share("p", share("a", guaranteed=SIX), b, most={"memory": 1}), m=1)
    made.tell(AddNode("n", Resources({"vcore": 1, "memory": 1, "gpu": 1})))
    made.tell(wish("b", "y", vcore=1, memory=1))
    if not elsewhere:
        made.tell(UpdateNode("n", Resources({"vcore": 3, "memory": 1, "gpu": 1})))
    made.tell(wish("b", "z", -5, node="m" if elsewhere else "n"))
    made.tell(urgent("a", vcore=1, memory=1))

    assert agreed(made) == "n: b/y"


def test_what_was_useful_before_others_went_is_spared() -> None:
    made = duel(on("n", "y", -1), on("n", "z", vcore=3), wanted=urgent("a", vcore=3), n=4)

    assert agreed(made) == "n: b/z"


def test_from_the_last_to_the_first() -> None:
    """Without ``v`` it fits if ``w`` goes; and without ``w``, but that is asked first."""
    wanted = urgent("a", vcore=3)
    made = duel(on("n", "v", -2), on("n", "w", -1), on("n", "y", vcore=2), wanted=wanted, n=4)

    assert agreed(made) == "n: b/v b/y"


def test_headroom_is_made_wherever_it_is_held() -> None:
    p = share("p", share("a", guaranteed={"vcore": 2}), share("b"), most={"vcore": 4})
    made = contest(p, m=3, n=1)
    made.tell(wish("b", "y", vcore=3, node="m"), wish("b", "z", 1, node="n"))
    made.tell(AddNode("o", Resources({"vcore": 1, "memory": 1})), urgent("a", memory=1, vcore=1))

    assert agreed(made) == "o: b/y"


def test_all_of_a_queue_goes_if_its_whole_quota_is_wanted() -> None:
    p = share("p", share("a", guaranteed={"vcore": 4}), share("b"), most={"vcore": 4})
    made = contest(p, m=4, n=4)
    made.tell(wish("b", "y", vcore=3, node="m"), wish("b", "z", node="m"))
    made.tell(urgent("a", vcore=4))

    assert agreed(made) == "n: b/z b/y"


def test_a_victim_elsewhere_is_no_use_for_the_node() -> None:
    p = share("p", share("a", guaranteed={"vcore": 2}), share("b"), most={"vcore": 4})
    made = contest(p, m=3, n=1)
    made.tell(wish("b", "y", vcore=3, node="m"), wish("b", "z", 1, node="n"))
    made.tell(urgent("a", vcore=1))

    # On either node one goes, which makes the headroom too; the lowest goes.
    assert made.planned(made.preempt("a/x")) == "m: b/y"


# Which node


def test_the_node_whose_highest_victim_stands_lowest() -> None:
    events = on("m", "y", 3, vcore=2), on("n", "z", 2), on("n", "w", 1)
    made = duel(*events, wanted=urgent("a", vcore=2), m=2, n=2)

    assert made.planned(made.preempt("a/x")) == "n: b/w b/z"
    assert made.planned(made.reclaim("a/x")) == "m: b/y"


def test_the_highest_of_the_victims_counts_not_the_lowest() -> None:
    events = on("m", "v", 0), on("m", "w", 5), on("n", "y", 3), on("n", "z", 4)
    made = duel(*events, wanted=urgent("a", vcore=2), m=2, n=2)

    assert made.planned(made.preempt("a/x")) == "n: b/y b/z"


def test_the_node_with_the_lowest_queue_priority() -> None:
    made = contest(share("a", guaranteed=SIX), share("b", queue_priority="1"), share("c"), m=2, n=2)
    made.tell(wish("b", "y", vcore=2, node="m"), wish("c", "z", node="n"), wish("c", "w", node="n"))
    made.tell(urgent("a", vcore=2))

    assert made.planned(made.reclaim("a/x")) == "n: c/w c/z"
    assert made.planned(made.preempt("a/x")) == "m: b/y"


def test_then_that_with_the_fewest() -> None:
    events = on("m", "y"), on("m", "z"), on("n", "w", vcore=2)

    assert agreed(duel(*events, wanted=urgent("a", vcore=2), m=2, n=2)) == "n: b/w"


def test_then_the_first_in_the_order_of_nodes() -> None:
    events = on("m", "y", vcore=2), on("n", "z", vcore=2)

    assert agreed(duel(*events, wanted=urgent("a", vcore=2), m=2, n=3)) == "n: b/z"
    assert agreed(duel(*events, wanted=urgent("a", vcore=2), m=2, n=2)) == "m: b/y"


def test_a_node_that_is_closed_or_does_not_match_is_passed_over() -> None:
    made = duel(on("l", "v"), on("m", "y"), on("n", "z"), l=1, m=1, n=1)
    made.tell(UpdateNode("l", schedulable=False))
    assert agreed(made) == "m: b/y"

    made.tell(wish("a", "w", node="n"))
    assert made.planned(made.reclaim("a/w")) == "n: b/z"


def test_a_node_with_less_than_is_used() -> None:
    made = duel(on("n", "y"), on("n", "z"), wanted=urgent("a", vcore=9), n=2)
    made.tell(UpdateNode("n", Resources({"vcore": 1})))
    made.tell(wish("a", "w"))

    assert made.planned(made.reclaim("a/w")) == "n: b/z b/y"


# Gangs


def test_a_gang_goes_as_one_where_its_first_member_stands() -> None:
    three = members("g", "m", 2, app="b", priority=1), members("g", "low", app="b")
    before = duel(gang("g", 3), *three, wish("b", "y"), n=4)
    after = duel(wish("b", "y"), gang("g", 3), *three, n=4)

    assert agreed(before) == "n: b/y"
    assert agreed(after) == "n: b/low b/m-1 b/m-0"


def test_of_a_gang_with_more_than_it_needs_one_goes() -> None:
    made = duel(gang("g", 2), members("g", "m", 3, app="b"), n=3)

    assert agreed(made) == "n: b/m-2"


def test_of_a_gang_with_just_enough_all_go() -> None:
    made = duel(gang("g", 2), members("g", "m", 2, app="b"), n=2)

    assert agreed(made) == "n: b/m-1 b/m-0"


def test_waiting_members_go_together_wherever_they_are() -> None:
    made = duel(gang("g", 3, mode=LOOSE), members("g", "m", 3, app="b"), m=1, n=1)

    assert agreed(made) == "m: b/m-1 b/m-0"


def test_one_member_that_may_not_go_keeps_them_all() -> None:
    pair = members("g", "m", app="b", priority=10), members("g", "low", app="b")
    made = duel(gang("g", 2), *pair, n=2)

    assert made.planned(made.preempt("a/x")) is None
    assert made.planned(made.reclaim("a/x")) == "n: b/low b/m"


def test_a_gang_is_spared_whole() -> None:
    made = duel(
        gang("g", 2),
        members("g", "m", 2, app="b"),
        wish("b", "y", 1, vcore=4),
        wanted=urgent("a", vcore=4),
        n=6,
    )

    assert agreed(made) == "n: b/y"


def test_a_unit_that_spares_nothing_stays_taken() -> None:
    """All three go one by one, and of the last two none can come back alone."""
    made = duel(gang("g", 2), members("g", "m", 3, app="b", vcore=1), n=3)
    made.tell(wish("a", "w", vcore=2))

    assert made.planned(made.reclaim("a/w")) == "n: b/m-2 b/m-1 b/m-0"
