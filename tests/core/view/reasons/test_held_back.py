"""Whose reservation an ask would delay, and what blocks a strict scope."""

from __future__ import annotations

from muster_core.events import AddApp
from muster_core.reasons import Code, Explanation
from tests.core.building import configuration, queue, wish
from tests.core.tree import Tree
from tests.core.view.reasons.why import codes
from tests.core.view.reservations.site import Site, gang, job


def explained(site: Site, ask: str) -> Explanation:
    app, _, name = ask.partition("/")
    found = site.scheduler.machine.explain(app, name)
    assert found is not None
    return found


def test_whom_it_would_delay_and_until_when() -> None:
    # BACKFILL-28
    site = Site(4, 4)
    site.tell(job("w", 3, 10, node="n1"), job("x", 3, 20, node="n2"))
    site.tell(gang(2), job("m", 4, gang="default/g", count=2), job("small", 1, 30))
    why = explained(site, "a/small").dominant

    assert str(why) == (
        "HeldBack: it fits on n1 and is held back: it would delay the reservation of a/m-0 and 1 "
        "other member on n1 and 1 other node, which starts at 20 s"
    )
    assert why.facts == {
        "node": "n1",
        "delays": "a/m-0",
        "reserved": "n1",
        "start_us": 20_000_000,
    }


def test_a_start_that_is_not_known() -> None:
    # BACKFILL-28
    site = Site(4)
    site.tell(job("w", 3), job("large", 4), job("small", 1))

    assert str(explained(site, "a/small").dominant).endswith("starts with an end that is not known")


def test_of_a_strict_gang_the_member_that_was_held_back() -> None:
    # BACKFILL-28
    site = Site(4)
    site.tell(job("w", 2, 10), job("large", 4), gang(1), job("m", 1, gang="default/g"))

    assert "m (1 vcore) was held back" in str(explained(site, "a/m").dominant)
    assert Code.HELD_BACK in [reason.code for reason in explained(site, "a/m").reasons]


def test_what_blocks_a_strict_scope() -> None:
    # BACKFILL-4
    site = Site(4, properties={"scheduling.order": "strict"})
    site.tell(job("large", 5, priority=1), job("small", 1), job("other", 1, app="b"))

    for ask in ("a/small", "b/other"):
        assert str(explained(site, ask).dominant) == (
            "Blocked: root keeps strict order, and a/large is before it and not placed"
        )
        app, _, name = ask.partition("/")
        view = site.scheduler.machine.view
        assert view.explainer.dominant(site.app(app), name, 0) is Code.BLOCKED


def test_who_has_no_turn_is_behind_what_blocks_a_strict_scope() -> None:
    # BACKFILL-4, LIMIT-10
    limit = {"limit": "", "users": ["u"], "maxresources": {"vcore": "1m"}}
    strict = {"scheduling.order": "strict"}
    scope = queue(
        "s",
        queue("b", maxapplications=1),
        queue("c", maxapplications=1),
        maxapplications=1,
        properties=strict,
        limits=[limit],
    )
    made = Tree(configuration(scope))
    made.add_nodes("n", vcore=4)
    made.settle(AddApp("runs", "root.s.b"), wish("runs", vcore=4), wish("runs", "y", vcore=4))
    made.settle(AddApp("waits", "root.s.c", user="u"), wish("waits", vcore=4))

    assert codes(made, "waits/x") == [
        *(Code.USER_LIMIT, Code.QUEUE_MAX_APPS, Code.BLOCKED, Code.NO_NODE_FITS)
    ]
