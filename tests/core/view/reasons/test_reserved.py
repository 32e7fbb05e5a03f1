"""What is reserved for an ask, and with whose end it starts."""

from __future__ import annotations

from muster_core.reasons import Code, Reserved
from tests.core.view.reasons.test_held_back import explained
from tests.core.view.reservations.site import S, Site, gang, job


def reserved(site: Site, ask: str) -> Reserved | None:
    app, _, name = ask.partition("/")
    explanation = site.scheduler.explain_fully(app, name)
    found = None if explanation is None else explanation.outlook
    assert found is not None
    return found.reserved


def test_the_asks_that_end_at_the_start_on_its_nodes() -> None:
    # OUTLOOK-6
    site = Site(4, 4)
    site.tell(job("w", 2, 10, node="n1"), job("x", 1, 10, node="n1"), job("y", 1, 5, node="n1"))
    site.tell(job("elsewhere", 4, 10, node="n2"), job("large", 4, 10, node="n1"), job("no", 9))

    ends = ("a/w", "n1"), ("a/x", "n1")
    assert reserved(site, "a/large") == Reserved("root", 10 * S, (("a/large", "n1"),), ends)
    assert reserved(site, "a/no") is None


def test_of_an_unknown_start_all_whose_end_is_not_known() -> None:
    # OUTLOOK-6
    site = Site(4, 4)
    site.tell(job("w", 2, node="n2"), job("y", 1, 5, node="n1"), job("x", 1, 5, node="n2"))
    site.tell(job("last", 1, node="n2"), gang(2), job("m", 4, gang="default/g", count=2))

    found = reserved(site, "a/m-0")
    assert found is not None
    assert found.start_us is None
    assert found.places == (("a/m-0", "n1"), ("a/m-1", "n2"))
    assert found.waits_for == (("a/w", "n2"), ("a/last", "n2"))


def test_an_ask_that_ends_elsewhere_and_leaves_a_quota() -> None:
    # OUTLOOK-6
    site = Site(4, 4, most=6)
    site.tell(job("w", 4, 10, node="n2"), job("next", 4, 10, node="n1"))
    site.tell(job("fits the quota", 1, node="n2"))

    assert reserved(site, "a/next") == Reserved(
        "root", 10 * S, (("a/next", "n1"),), (("a/w", "n2"),)
    )


def test_a_member_that_its_gang_does_not_need() -> None:
    # OUTLOOK-6
    site = Site(4)
    site.tell(job("w", 4, 10), gang(1), job("m", 4, gang="default/g", count=2))

    found = reserved(site, "a/m-1")
    assert found is not None
    assert found.places == (("a/m-0", "n1"),)


def test_the_reason_of_a_strict_gang_names_its_reservation() -> None:
    # OUTLOOK-6
    site = Site(*(4,) * 6)
    site.tell(*(job(f"w{n}", 3, 10 * n, node=f"n{n}") for n in range(1, 7)))
    site.tell(gang(6), job("m", 4, gang="default/g", count=6))
    why = explained(site, "a/m-0").dominant

    assert why.code is Code.GANG_CYCLE_INVALID
    assert why.message.endswith(
        "; n1, n2, n3 and 3 other nodes are reserved for it from 60 s, when a/w6 on n6 is expected "
        "to end"
    )
    assert why.facts["reserved"] == ("n1", "n2", "n3", "n4", "n5", "n6")
    assert (why.facts["start_us"], why.facts["waits_for"]) == (60 * S, ("a/w6",))


def test_what_a_strict_gang_lacks_in_all() -> None:
    # REASON-2
    site = Site(8, 8, 8, 8, properties={})
    site.tell(*(job(f"w{n}", 6, node=f"n{n}") for n in range(1, 5)))
    site.tell(gang(3), job("m", 8, gang="default/g", count=2), job("half", 4, gang="default/g"))
    fragmented = [one for one in explained(site, "a/m-0").reasons if one.code is Code.FRAGMENTED]

    (found,) = fragmented
    assert found.message == (
        "it asks for 8 vcore; 8 vcore are free on 4 nodes in all, but not on one; the 3 members "
        "that its group lacks ask for 20 vcore in all"
    )
    assert found.facts["lacks"] == {"vcore": 20_000}


def test_the_last_member_and_one_of_a_loose_gang_lack_nothing_else() -> None:
    # REASON-2
    site = Site(8, 8, properties={})
    site.tell(job("w", 4, node="n1"), job("x", 4, node="n2"))
    site.tell(gang(1), job("m", 8, gang="default/g"))
    site.tell(gang(2, name="default/h", loose=True), job("l", 8, gang="default/h", count=2))

    for ask in ("a/m", "a/l-0"):
        (found,) = [one for one in explained(site, ask).reasons if one.code is Code.FRAGMENTED]
        assert found.message.endswith("but not on one")
        assert "lacks" not in found.facts
