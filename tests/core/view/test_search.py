"""The search for the first instant at which a party can be placed.

Parties, releases, projections, and results that hold.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.events import Configure, Release, RemoveNode, UpdateNode
from muster_core.values.reasons import Start
from muster_core.view.reservations.backfill import StartView
from muster_core.view.reservations.capacity import NOW, Amounts, CapacityCache, FirstNodes
from muster_core.view.reservations.parties import Party, Reservation, group_of
from muster_core.view.reservations.projection import Projection, expected_end_us, releases
from muster_core.view.reservations.search import PartyStart, SearchCache, StartSearch
from muster_core.view.tree.leaf import estimate_now_us
from tests.core.building import allocation, ask, configuration, queue
from tests.core.view.sites import S, Site, backfill, gang_of, job, vcores


def search(site: Site, *others: Reservation) -> StartSearch:
    return StartSearch(site.state, 0, others)


def test_the_first_instant_that_suffices() -> None:
    # BACKFILL-18
    site = Site(4)
    site.tell(job("x", 1, 10), job("y", 1, 20), job("z", 1, 30), job("large", 3))
    large = site.member("a/large")

    start_and_expiry = search(site).find(Party((large,), ()))

    assert start_and_expiry == ((False, 20 * S), ((large, "n1"),))


def test_never() -> None:
    # BACKFILL-20
    site = Site(4)
    site.tell(job("x", 1, 10), job("large", 5))

    assert search(site).find(Party((site.member("a/large"),), ())) is None


def test_others_hold_their_nodes_whatever_their_starts() -> None:
    # BACKFILL-18
    site = Site(4, 4)
    site.tell(job("x", 3, 10), job("y", 3, 20), job("one", 4), job("two", 4))
    one, two = site.member("a/one"), site.member("a/two")
    mine = Party((two,), ())
    other = Reservation(site.state.root, Party((one,), ()), (True, 99), ((one, "n1"),))

    assert search(site).find(mine) == ((False, 10 * S), ((two, "n1"),))
    assert search(site, other).find(mine) == ((False, 20 * S), ((two, "n2"),))


def test_a_group_keeps_what_it_holds() -> None:
    # BACKFILL-18
    site = Site(2, 2)
    site.tell(job("x", 2, 10, node="n2"))
    site.tell(gang_of(2, loose=True), job("m", 2, gang="default/g", count=2))
    assert site.placed == {"a/x": "n2", "a/m-0": "n1"}
    member = site.member("a/m-1")

    start_and_expiry = search(site).find(Party((member,), ("default/g",)))

    assert start_and_expiry == ((False, 10 * S), ((member, "n2"),))


def test_who_is_next_in_a_gang_of_two_applications_depends_on_who_is_placed() -> None:
    # BACKFILL-18, BACKFILL-19: n comes last in its application, but before the second of the other.
    site = Site(4, 4, 4)
    site.tell(*(job(f"x-{at}", 3, 10 * at, node=f"n{at}") for at in (1, 2, 3)))
    site.tell(gang_of(3), job("m", 2, gang="default/g", count=2), job("n", 4, gang="default/g"))
    site.tell(gang_of(3, name="default/h"), job("m-2", 2, gang="default/h"))
    site.tell(job("m", 2, app="b", gang="default/h"), job("n", 4, app="b", gang="default/h"))

    def nodes(group: str, *names: str) -> tuple[object, list[str]]:
        members = tuple(site.member(name) for name in names)
        start_and_expiry = search(site).find(Party(members, (group,)))
        assert start_and_expiry is not None
        return start_and_expiry[0], sorted(node for _, node in start_and_expiry[1])

    one = nodes("default/g", "a/m-0", "a/m-1", "a/n")
    assert one == ((False, 30 * S), ["n1", "n2", "n3"])
    two = nodes("default/h", "a/m-2", "b/m", "b/n")
    assert two == ((False, 20 * S), ["n1", "n1", "n2"])


def test_a_party_waits_for_headroom_as_well() -> None:
    # BACKFILL-19: at 10 there is room on nodes, at 20 the queue may use enough.
    site = Site(4, 4)
    most = queue("q", resources={"max": {"vcore": 6}})
    site.tell(Configure(configuration(most, queue("r"), props=backfill())))
    site.tell(job("x", 2, 20, node="n1"), job("y", 4, 10, node="n2", app="b"))
    site.tell(job("z", 2, 30, node="n1"), gang_of(2), job("m", 2, gang="default/g", count=2))
    party = Party((site.member("a/m-0"), site.member("a/m-1")), ("default/g",))

    start_and_expiry = search(site).find(party)

    assert start_and_expiry is not None
    assert start_and_expiry[0] == (False, 20 * S)


def test_what_is_remembered_of_rooms_changes_with_the_nodes() -> None:
    site = Site(4, 4)
    site.tell(job("x", 4, 10, node="n1"), job("y", 2, 20, node="n2"), job("z", 2, 30, node="n2"))
    site.tell(gang_of(2), job("m", 3, gang="default/g", count=2))
    party, rooms = (
        Party((site.member("a/m-0"), site.member("a/m-1")), ("default/g",)),
        CapacityCache(site.state),
    )

    def start(now_s: int) -> object:
        start_and_expiry = StartSearch(site.state, now_s * S, (), rooms=rooms).find(party)
        return None if start_and_expiry is None else start_and_expiry[0]

    assert start(0) == (False, 30 * S)
    assert start(12) == (False, 30 * S)  # x takes longer than it was to take.
    assert start(25) == (False, 40 * S)  # So does x again, and y.
    site.tell(Release("a", "z"), Release("a", "y"), job("last", 1, 50, node="n2"))
    assert start(26) == (False, 40 * S)
    assert start(45) == (False, 80 * S)


def test_what_has_room_already_needs_a_release() -> None:
    # BACKFILL-18: the start is an instant, so that there is none where nobody holds a node.
    site = Site(4)
    site.tell(gang_of(2), job("m", 2, gang="default/g"))
    member = site.member("a/m")

    assert search(site).find(Party((member,), ("default/g",))) is None

    site.tell(job("x", 1, 10))
    assert search(site).find(Party((member,), ("default/g",))) == (
        (False, 10 * S),
        ((member, "n1"),),
    )


def test_what_is_remembered_for_an_ask_holds_until_an_end_is_overdue() -> None:
    # BACKFILL-18
    site = Site(4, 4)
    site.tell(job("x", 4, 20, node="n1"), job("y", 4, 30, node="n2"), job("large", 4))
    large, rooms = site.member("a/large"), CapacityCache(site.state)
    party = Party((large,), ())

    def find(now_s: int) -> object:
        return StartSearch(site.state, now_s * S, (), rooms).find(party)

    assert find(0) == find(0) == ((False, 20 * S), ((large, "n1"),))
    # It has not ended at 20, and is expected to take twice as long.
    assert find(20) == ((False, 30 * S), ((large, "n2"),))

    site.tell(job("next", 1), Release("a", "y"))
    assert site.placed["a/large"] == "n2"


def start_and_expiry(
    site: Site, searches: SearchCache, party: Party, now_s: int
) -> tuple[PartyStart | None, int | None]:
    """Return what is found for a party, and until when; None for the instant without a search."""
    search = StartSearch(site.state, now_s * S, ())
    what, until_us = searches.find(search, party, (), now_s * S)
    return what, until_us // S if search.until_us == until_us else None


def test_a_plain_ask_is_sought_again_when_something_has_changed_or_ended() -> None:
    site = Site(4)
    site.tell(job("x", 2, 10), job("y", 2, 20), job("large", 4))
    large, searches = site.member("a/large"), SearchCache(site.state)
    party, at_20 = Party((large,), ()), ((False, 20 * S), ((large, "n1"),))

    assert start_and_expiry(site, searches, party, 0) == (at_20, 10)
    assert start_and_expiry(site, searches, party, 9) == (at_20, None)
    assert start_and_expiry(site, searches, party, 10) == (
        at_20,
        20,
    )  # It takes longer than it was to take.

    site.tell(Release("a", "y"), at_s=11)
    assert start_and_expiry(site, searches, party, 11) == (at_20, 20)


def test_a_gang_is_sought_each_time() -> None:
    site = Site(4)
    site.tell(job("x", 4, 10))
    site.tell(gang_of(2), job("m", 2, gang="default/g", count=2))
    party = Party((site.member("a/m-0"), site.member("a/m-1")), ("default/g",))
    searches = SearchCache(site.state)

    first, again = (start_and_expiry(site, searches, party, 0) for _ in range(2))

    assert first == again
    assert first[0] is not None
    assert (first[0][0], first[1]) == ((False, 10 * S), 10)


def test_a_plain_ask_is_a_party_by_itself() -> None:
    site = Site(1)
    site.tell(job("x", 2), job("y", 2))
    one, other = Party((site.member("a/x"),), ()), Party((site.member("a/y"),), ())

    assert one.is_that_of(Party((site.member("a/x"),), ()))
    assert not one.is_that_of(other)


def test_the_party_of_a_group_is_the_same_whatever_it_lacks() -> None:
    site = Site(1)
    site.tell(gang_of(1), job("m", 2, gang="default/g", count=2))
    first, second = site.member("a/m-0"), site.member("a/m-1")
    one, other = Party((first,), ("default/g",)), Party((second,), ("default/g",))

    assert one.is_that_of(other)
    assert one.keys != other.keys


# BACKFILL-15
def test_a_member_has_one_reservation_whether_its_gang_is_satisfied_or_not() -> None:
    site = Site(1)
    site.tell(gang_of(1), job("m", 2, gang="default/g", count=2))
    first, second = site.member("a/m-0"), site.member("a/m-1")
    alone, group = Party((first,), ()), Party((first, second), ("default/g",))

    assert alone.is_that_of(group)
    assert group.is_that_of(alone)
    assert not alone.is_that_of(Party((second,), ("default/g",)))


def test_a_satisfied_gang_makes_no_group() -> None:
    site = Site(2)
    site.tell(gang_of(1), job("m", 2, gang="default/g", count=2))
    site.tell(gang_of(2, name="default/h"), job("n", 2, gang="default/h"))
    group = group_of(site.state, site.member("a/n").ask)

    assert group_of(site.state, site.member("a/m-1").ask) is None
    assert group is not None
    assert group.names == ("default/h",)


def start_of(site: Site, name: str) -> Start:
    app, ask = site.member(name)
    machine = site.scheduler.machine
    return machine.view.fits_at(app.identity.key, ask, machine.now_us)


def test_a_reservation_of_its_own_whatever_others_have() -> None:
    site = Site(4, properties={})
    site.tell(job("w", 4, 10), job("first", 4, 10), job("second", 4, 10), job("never", 5))

    assert start_of(site, "a/first") == start_of(site, "a/second") == 10 * S
    assert start_of(site, "a/never") is None


def test_a_gang_that_holds_nodes_begins_anew_if_it_is_strict() -> None:
    site = Site(4, 4, properties={})
    site.tell(job("w", 2, 10, node="n1"), job("x", 4, 20, node="n2"))
    site.tell(gang_of(2, loose=True), job("m", 2, gang="default/g", count=2))
    assert site.placed["a/m-0"] == "n1"

    assert start_of(site, "a/m-1") == 10 * S
    assert site.placed["a/m-0"] == "n1"


def test_a_gang_short_of_children_has_none() -> None:
    site = Site(4, properties={})
    site.tell(gang_of(3), job("m", 2, gang="default/g", count=2))

    assert start_of(site, "a/m-0") is None


def reservation(site: Site, ask: str, node: str, start_s: int) -> Reservation:
    member = site.member(ask)
    start = (False, start_s * S)
    return Reservation(site.state.root, Party((member,), ()), start, ((member, node),))


def admits(site: Site, ahead: StartView, ask: str, node: str) -> bool:
    return ahead.admits(site.member(ask), site.state.nodes.nodes[node])


def test_who_fits_beside_the_party() -> None:
    # BACKFILL-26
    site = Site(4, 4)
    site.tell(job("x", 3, 10, node="n1"), job("y", 4, 90, node="n2"))
    site.tell(job("large", 3), job("one", 1, app="b", node="n2"), job("two", 2, node="n1"))
    mine = reservation(site, "a/large", "n1", 10)
    ahead = StartView(site.state, 0, mine, [mine])

    assert not admits(site, ahead, "b/one", "n2")
    assert not admits(site, ahead, "a/two", "n1")
    assert admits(site, StartView(site.state, 0, mine, []), "a/two", "n1")


def test_only_parties_with_no_later_start_hold_their_nodes() -> None:
    # BACKFILL-26
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 4), job("other", 3), job("two", 2))
    mine, later = (
        reservation(site, "a/large", "n9", 10),
        reservation(site, "a/other", "n1", 20),
    )
    soon = reservation(site, "a/other", "n1", 10)

    assert admits(site, StartView(site.state, 0, mine, [mine, later]), "a/two", "n1")
    assert not admits(site, StartView(site.state, 0, mine, [mine, soon]), "a/two", "n1")


def test_an_ask_does_not_stand_in_its_own_way() -> None:
    # BACKFILL-26
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 3))
    mine = reservation(site, "a/large", "n1", 10)
    _, large = site.member("a/large")

    assert not admits(site, StartView(site.state, 0, mine, [mine]), "a/large", "n1")
    assert admits(site, StartView(site.state, 0, mine, [mine], large), "a/large", "n1")


def test_the_headroom_at_the_start() -> None:
    # BACKFILL-26
    site = Site(9, 9)
    most = {"max": {"vcore": 5}}
    site.tell(Configure(configuration(queue("q", resources=most), queue("r"), props=backfill())))
    site.tell(job("x", 3, 10, node="n1"), job("large", 4), job("one", 1), job("two", 2))
    mine = reservation(site, "a/large", "n1", 10)
    ahead = StartView(site.state, 0, mine, [mine])

    assert admits(site, StartView(site.state, 0, mine, []), "a/two", "n2")
    assert not admits(site, ahead, "a/two", "n2")


CORES = st.lists(st.integers(1, 6), min_size=1, max_size=5)


@pytest.mark.parametrize("order", ["fair", "binpacking", "bestfit"])
@given(nodes=CORES, wanted=CORES)
def test_as_a_projection_finds_it(order: str, nodes: list[int], wanted: list[int]) -> None:
    # BACKFILL-19
    site = Site(*nodes)
    made = configuration(queue("q"), queue("r"), props=backfill(), nodesortpolicy={"type": order})
    # One that fits nowhere lets all others wait.
    asks = [job(f"m-{at}", cores, gang="default/g") for at, cores in enumerate(wanted)]
    site.tell(Configure(made), gang_of(len(wanted) + 1), job("m-last", 9, gang="default/g"), *asks)
    state = site.state
    plain, projection = Projection(state), Projection(state)
    first = FirstNodes(projection, list(state.nodes.nodes.values()))

    for at in range(len(wanted)):
        member = site.member(f"a/m-{at}")
        node = plain.find_node(member)
        assert first.find(member) is node
        if node is not None:
            plain.place(member, node)
            first.place(member, node)


def test_what_is_released_is_free() -> None:
    site = Site(4)
    site.tell(job("x", 3), job("large", 4))
    projection, large = Projection(site.state), site.member("a/large")
    app = large.app
    assert projection.find_node(large) is None

    allocation, node = app.bound["x"]
    projection.release(app, allocation, node)

    assert projection.find_node(large) is node
    assert projection.used_on(node) == {"vcore": 0}
    assert node.used == {"vcore": 3000}


def test_what_is_placed_takes_room_until_it_is_undone() -> None:
    site = Site(4)
    site.tell(job("one", 5), job("two", 5))
    site.state.nodes.update("n1", vcores(9), None, schedulable=None)
    projection, one, two = Projection(site.state), site.member("a/one"), site.member("a/two")
    node = site.state.nodes.nodes["n1"]
    assert projection.fits_on(two, node)

    with projection.trying():
        projection.place(one, node)
        assert not projection.fits_on(two, node)
        assert set(projection.difference.placed) == {(one.app.identity.key, "one")}

    assert projection.fits_on(two, node)
    assert not projection.difference.placed


@pytest.mark.parametrize(
    "fields",
    [
        {"resources": {"max": {"vcore": 4}}},
        {"limits": [{"users": ["*"], "maxresources": {"vcore": 4}}]},
    ],
)
def test_the_headroom_of_queues_and_limits(fields: dict[str, object]) -> None:
    site = Site(9)
    site.tell(Configure(configuration(queue("q", **fields), queue("r"), props=backfill())))
    site.tell(job("x", 3), job("y", 2))
    projection, (app, y) = Projection(site.state), site.member("a/y")
    assert not projection.difference.has_headroom(app, y)

    allocation, node = app.bound["x"]
    projection.release(app, allocation, node)

    assert projection.difference.has_headroom(app, y)


def test_nodes_have_the_order_of_the_projection() -> None:
    site = Site(4, 4)
    site.tell(job("x", 2, node="n1"), job("y", 1, node="n2"), job("large", 5))
    site.state.nodes.update("n1", vcores(6), None, schedulable=None)
    site.state.nodes.update("n2", vcores(6), None, schedulable=None)
    projection, large = Projection(site.state), site.member("a/large")
    app, start_and_expiry = large.app, projection.find_node(large)
    assert start_and_expiry is not None
    assert start_and_expiry.name == "n2"

    allocation, node = app.bound["x"]
    projection.release(app, allocation, node)

    assert projection.find_node(large) is node


def test_a_node_that_is_closed_has_no_room() -> None:
    site = Site(4)
    site.tell(UpdateNode("n1", schedulable=False), job("x", 1))

    assert Projection(site.state).find_node(site.member("a/x")) is None


@pytest.mark.parametrize(
    ("estimate_s", "run_for_s", "default", "found_s"),
    [
        (7, 5, "3s", 7),
        (None, 5, "3s", 5),
        (None, None, "3s", 3),
        (None, None, None, None),
    ],
)
def test_what_counts_as_an_estimate(
    estimate_s: int | None, run_for_s: int | None, default: str | None, found_s: int | None
) -> None:
    # BACKFILL-10
    own = backfill() if default is None else backfill(estimate_default=default)
    site = Site(1, properties=own)
    run_for_us = None if run_for_s is None else run_for_s * S
    site.tell(attrs.evolve(job("x", 2, estimate_s), run_for_us=run_for_us))

    app, start_and_expiry = site.member("a/x")

    assert estimate_now_us(site.state.leaf_of(app).config.settings, start_and_expiry) == (
        None if found_s is None else found_s * S
    )


def test_the_default_is_that_of_now() -> None:
    # BACKFILL-10
    site = Site(1, properties=backfill(estimate_default="3s"))
    site.tell(job("x", 1), job("next", 1))
    assert site.reserved == {"a/next": ("n1", 3)}

    own = backfill(estimate_default="9s")
    site.tell(Configure(configuration(queue("q"), queue("r"), props=own)))

    assert site.reserved == {"a/next": ("n1", 9)}


@pytest.mark.parametrize(
    ("now_s", "end_s"), [(100, 110), (109, 110), (110, 120), (120, 140), (139, 140), (140, 180)]
)
def test_the_expected_end_is_after_now(now_s: int, end_s: int) -> None:
    # BACKFILL-12
    site = Site(1)
    leaf = site.state.leaf_of(site.app("a"))
    held = attrs.evolve(allocation(ask()._replace(estimate_us=10 * S)), bound_us=100 * S)

    assert expected_end_us(leaf, held, now_s * S) == end_s * S


def test_known_ends_come_before_unknown_ones() -> None:
    # BACKFILL-13, BACKFILL-14
    site = Site(9, properties={})
    site.tell(job("first", 1))
    site.tell(job("late", 1, 30), job("soon", 1, 20), job("as-soon", 1, 20))
    site.tell(
        gang_of(2, loose=True), job("m", 1, 1, gang="default/g"), job("n", 7, gang="default/g")
    )
    site.tell(job("last", 1))

    start_and_expiry = releases(site.state, 0)

    names = [release.allocation.ask.name for release in start_and_expiry]
    assert sorted(names[:2]) == ["as-soon", "soon"]
    assert names[2:] == ["late", "first", "m", "last"]
    assert [release.at for release in start_and_expiry[:3]] == [(False, 20 * S)] * 2 + [
        (False, 30 * S)
    ]
    assert len({release.at for release in start_and_expiry[3:]}) == 3


def waiting() -> Site:
    """Return a site whose nodes are too full for a gang."""
    site = Site(4, 4)
    site.tell(job("x", 3, 10, node="n1"), job("y", 3, 20, node="n2"))
    site.tell(gang_of(3), job("m", 2, gang="default/g", count=2), job("n", 1, gang="default/g"))
    return site


def instants(
    site: Site, rooms: CapacityCache, now_s: int = 0, held: dict[str, Amounts] | None = None
) -> object:
    """Return the instants in seconds at which there may be room, and the nodes with room then."""
    members = [site.member(f"a/{name}") for name in ("m-0", "m-1", "n")]
    start_and_expiry = rooms.timeline(members, ("default/g",), now_s * S, held or {})
    return [(at if at == NOW else at[1] // S, sorted(nodes)) for at, nodes in start_and_expiry]


def test_there_may_be_room_once_enough_is_released() -> None:
    # BACKFILL-18
    site = waiting()

    assert instants(site, CapacityCache(site.state)) == [(10, ["n1", "n2"]), (20, ["n1", "n2"])]


def test_what_others_hold_is_no_room() -> None:
    # BACKFILL-18
    site = waiting()

    held: dict[str, Amounts] = {"n1": (("vcore", 2000),)}
    assert instants(site, CapacityCache(site.state), held=held) == [(20, ["n1", "n2"])]


def test_there_may_be_room_already_if_others_hold_back_the_party() -> None:
    site = waiting()
    site.state.nodes.update("n1", vcores(8), None, schedulable=None)

    assert instants(site, CapacityCache(site.state)) == [
        (NOW, ["n1", "n2"]),
        (10, ["n1", "n2"]),
        (20, ["n1", "n2"]),
    ]


def test_what_is_remembered_holds_until_a_node_changes_or_an_end_is_overdue() -> None:
    site = waiting()
    rooms = CapacityCache(site.state)
    assert (
        instants(site, rooms) == instants(site, rooms) == instants(site, CapacityCache(site.state))
    )

    assert instants(site, rooms, 10) == [(20, ["n1", "n2"])]
    assert instants(site, rooms, 20) == [(40, ["n1", "n2"])]
    site.tell(RemoveNode("n1"))
    assert instants(site, rooms, 20) == instants(site, CapacityCache(site.state), 20)


def test_asks_of_all_leaves_share_what_is_remembered_of_their_shape() -> None:
    site = Site(4)
    site.tell(job("x", 4, 10), job("y", 2), job("z", 2, app="b"))
    rooms = CapacityCache(site.state)

    for name in ("a/y", "b/z"):
        assert [at for at, _ in rooms.timeline([site.member(name)], (), 0)] == [(False, 10 * S)]

    assert len(vars(rooms)["_known"]) == 1


def test_a_kept_node_has_room_for_node_services_alone() -> None:
    # SERVICE-10: those of a leaf with the property, not those of another one with the same shape.
    site = Site(4)
    serving = queue("q", properties={"preemption.required.node": "enabled"})
    site.tell(Configure(configuration(serving, queue("r"), props=backfill())))
    site.tell(job("x", 4, 10, priority=1))
    site.tell(job("y", 2, node="n1"), job("z", 2, node="n1", app="b"))
    assert site.state.nodes.nodes["n1"].kept
    rooms = CapacityCache(site.state)

    start_and_expiry = {
        name: [at for at, _ in rooms.timeline([site.member(name)], (), 0)]
        for name in ("a/y", "b/z")
    }

    assert start_and_expiry == {"a/y": [(False, 10 * S)], "b/z": []}
