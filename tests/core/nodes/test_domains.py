"""Domains: their order, and how much room they have."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, strategies as st

from muster_core.config.model import NodeSortPolicy
from muster_core.nodes.domains import Domains
from tests.core.building import shape
from tests.core.nodes.node_index import Nodes

ONE = shape(vcore=1)
TWO = shape(vcore=2, selector=(("disk", "ssd"),))


def racks() -> Nodes:
    made = Nodes()
    made.add("a", vcore=4, attributes={"rack": "x"})
    made.add("b", vcore=4, attributes={"rack": "y", "disk": "ssd"})
    made.add("c", vcore=8, attributes={"rack": "y"}, schedulable=False)
    made.add("d", vcore=9)
    return made


def test_domains_are_ordered_like_nodes_with_the_sums_of_those_that_are_schedulable() -> None:
    # TOPOLOGY-10
    made = racks()
    domains = Domains(made.index)
    assert domains.in_order("rack") == ("x", "y")
    made.take("a", vcore=1)
    assert domains.in_order("rack") == ("y", "x")
    made.index.configure(NodeSortPolicy.BINPACKING, (("vcore", 1.0),))
    assert domains.in_order("rack") == ("x", "y")
    assert domains.in_order("zone") == ()


def test_the_order_that_domains_would_have_if_more_or_less_were_used() -> None:
    # TOPOLOGY-10, BACKFILL-19
    made = racks()
    made.take("a", vcore=2)
    domains = Domains(made.index)
    assert domains.in_order("rack") == ("y", "x")

    assert domains.in_order("rack", {"a": {"vcore": -2000}}) == ("x", "y")
    assert domains.in_order("rack", {"b": {"vcore": 3000}, "gone": {"vcore": 1}}) == ("x", "y")
    # What is closed, or in no domain, does not count.
    assert domains.in_order("rack", {"c": {"vcore": 8000}, "d": {"vcore": 9000}}) == ("y", "x")
    assert domains.in_order("rack") == ("y", "x")


def test_room_counts_what_matches_and_is_schedulable() -> None:
    made = racks()
    domains = Domains(made.index)
    assert domains.rooms("rack", ONE) == {"x": 4, "y": 4}
    assert domains.rooms("rack", TWO) == {"y": 2}
    made.index.keep("a", kept=True)
    assert domains.rooms("rack", ONE).get("x", 0) == 0


_CHANGES: tuple[Callable[[Nodes, str, int], object], ...] = (
    lambda made, name, number: made.take(name, (number, name), vcore=1),
    lambda made, name, number: made.update(name, vcore=number + 1),
    lambda made, name, number: made.update(name, attributes={"rack": "xyz"[number % 3]}),
    lambda made, name, number: made.update(name, attributes={}),
    lambda made, name, number: made.update(name, schedulable=number % 2 == 0),
    lambda made, name, number: made.index.remove(name),
    lambda made, name, number: made.add(f"n{number}", vcore=3, attributes={"rack": "z"}),
)


@given(st.lists(st.tuples(st.sampled_from(_CHANGES), st.integers(0, 9), st.booleans()), max_size=9))
def test_what_is_kept_equals_what_is_found_anew(
    changes: list[tuple[Callable[[Nodes, str, int], object], int, bool]],
) -> None:
    made = racks()
    kept = Domains(made.index)
    for change, number, looks in changes:
        names = sorted(made.index.nodes)
        if names and f"n{number}" not in names:
            change(made, names[number % len(names)], number)
        if looks:
            kept.in_order("rack")
            kept.rooms("rack", ONE)
    fresh = Domains(made.index)

    assert kept.in_order("rack") == fresh.in_order("rack")
    rooms = {domain: room for domain, room in kept.rooms("rack", ONE).items() if room}
    assert rooms == fresh.rooms("rack", ONE)
