"""Reservations, as rounds use them.

Who has one, what is kept from round to round, what they allow to others, and how others see
them.
"""

from __future__ import annotations

import pytest

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import (
    AddApp,
    AddAsk,
    AddNode,
    Configure,
    Event,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
)
from muster_core.reasons import Code, Passed
from muster_core.structures.steps import all_at_once
from muster_core.values.devices import WHOLE, DeviceNeed, DeviceStock
from muster_core.view.reservations.backfill import ActiveReservations
from muster_core.view.reservations.parties import Party, Reservation
from muster_core.view.reservations.reservations import (
    ReservationRenewal,
    reservation_facts,
    reservation_from_facts,
    reservation_snapshots,
    reserved_by,
)
from tests.core.building import configuration, queue
from tests.core.view.sites import S, Site, backfill, gang_of, job, reserved_lines, vcores
from tests.naive.harness import through_bytes


def test_what_was_reserved_goes_on_after_a_checkpoint() -> None:
    site = Site(5, 4)
    site.tell(job("x", 4, 30, node="n1"), job("y", 4, 30, node="n2"), job("large", 4))
    site.tell(job("small", 1, 100), at_s=1)
    assert site.reserved == {"a/large": ("n1", 30)}

    facts = through_bytes(site.scheduler.facts())
    site.scheduler = PlainScheduler(facts=facts)
    site.tell(at_s=2)

    assert site.reserved == {"a/large": ("n1", 30)}
    assert reserved_lines(site) == []
    view = site.scheduler.machine.view
    assert all_at_once(view.facts()).last_round.reservations == (
        facts.coordinator.view.last_round.reservations
    )


def test_a_gang_is_bound_where_its_nodes_were_reserved() -> None:
    # BACKFILL-21
    site = Site(2, 2, 2)
    site.tell(job("x", 2, 10, node="n1"), job("y", 2, 10, node="n2"), job("z", 1, 50, node="n3"))
    site.tell(gang_of(2), job("m", 2, gang="default/g", count=2))
    assert site.reserved == {"a/m-0": ("n1", 10), "a/m-1": ("n2", 10)}

    site.tell(Release("a", "x"), at_s=9)
    assert site.reserved == {"a/m-0": ("n1", 10), "a/m-1": ("n2", 10)}
    site.tell(Release("a", "y"), at_s=10)

    assert (site.placed["a/m-0"], site.placed["a/m-1"]) == ("n1", "n2")


def test_a_failed_bind_seeks_no_reservation() -> None:
    # BACKFILL-15
    site = Site(4)
    site.tell(job("x", 1), FailBind("a", "x", times=1), job("large", 5))

    assert site.reserved == {}


def test_a_member_behind_a_blocked_leaf_has_no_party() -> None:
    # BACKFILL-16
    own = {**backfill(backfill_depth="9"), "application.sort.blocking": "enabled"}
    site = Site(4, properties=own)
    site.tell(job("w", 4, 10))
    site.tell(gang_of(2), job("first", 4, priority=5), job("m", 1, gang="default/g"))
    site.tell(job("m", 1, gang="default/g", app="b"))

    assert "a/m" not in site.reserved
    assert site.reserved["a/first"] == ("n1", 10)


def test_a_node_that_is_closed_is_reserved_no_longer() -> None:
    # BACKFILL-22
    site = Site(4, 4)
    site.tell(job("x", 4, 10, node="n1"), job("y", 4, 20, node="n2"), job("large", 4))
    assert site.reserved == {"a/large": ("n1", 10)}

    site.tell(UpdateNode("n1", schedulable=False), at_s=1)

    assert site.reserved == {"a/large": ("n2", 20)}


def site_with(*asks: str) -> Site:
    site = Site(1)
    site.tell(*(job(name, 2) for name in asks))
    return site


def reserve(site: Site, name: str, start_s: int = 10, node: str = "n1") -> Reservation:
    member = site.member(name)
    party = Party((member,), ())
    return Reservation(site.state.root, party, (False, start_s * S), ((member, node),))


def run(in_force: ActiveReservations, now_s: int, *reservations: Reservation) -> None:
    """Carry out a round that finds some reservations."""
    in_force.start_round(now_s * S)
    in_force.reservations.extend(reservations)
    in_force.end_round()


def test_nothing_is_reserved_when_a_round_begins_but_what_was_is_known() -> None:
    # BACKFILL-22, BACKFILL-23
    site, in_force = site_with("x", "y"), ActiveReservations()
    one = reserve(site, "a/x")
    run(in_force, 0, one)
    assert in_force.has_one_for(site.member("a/x").ask)
    in_force.start_round(S)

    assert not in_force.reservations
    assert in_force.before(one.party) is one
    assert in_force.before(reserve(site, "a/y").party) is None
    assert not in_force.has_one_for(site.member("a/x").ask)


def test_a_round_would_find_the_same_after_two_that_did_until_a_start_or_an_end() -> None:
    site, in_force = site_with("x", "y"), ActiveReservations()
    run(in_force, 0, reserve(site, "a/x"))
    assert not in_force.holds_at(1 * S)
    run(in_force, 1, reserve(site, "a/x"))
    assert in_force.holds_at(9 * S)
    assert not in_force.holds_at(10 * S)
    for other in (reserve(site, "a/x", 11), reserve(site, "a/x", 11, "n2"), reserve(site, "a/y")):
        run(in_force, 2, other)
        assert not in_force.holds_at(3 * S)

    in_force.start_round(3 * S)
    in_force.reservations.append(reserve(site, "a/y"))
    in_force.hold_until(7 * S)
    in_force.end_round()

    assert in_force.holds_at(6 * S)
    assert not in_force.holds_at(7 * S)


def test_a_scope_has_as_many_reservations_as_its_depth() -> None:
    # BACKFILL-15
    site, in_force = site_with("x"), ActiveReservations()
    root = site.state.root
    assert (in_force.of(root), in_force.is_saturated(root)) == ([], False)
    one = reserve(site, "a/x")
    in_force.load([one], 5 * S)

    assert (in_force.of(root), in_force.is_saturated(root)) == ([one], True)
    assert in_force.now_us == 5 * S


def test_whether_a_start_is_still_to_come() -> None:
    # BACKFILL-22
    site = Site(4)
    site.tell(job("x", 1), job("y", 1))
    age, keeping = site.app("a").bound["x"][0].age, ReservationRenewal(site.state)

    for _ in range(2):
        assert keeping.is_to_come((True, age), 0)
    assert keeping.is_to_come((False, 1), 0)
    assert not keeping.is_to_come((False, 0), 0)

    site.tell(Release("a", "x"))
    assert not keeping.is_to_come((True, age), 0)


def test_a_start_is_unknown_no_more_once_its_end_is_known() -> None:
    # BACKFILL-12, BACKFILL-22: estimate.default may come later.
    site = Site(4)
    site.tell(job("x", 1))
    allocation, _ = site.app("a").bound["x"]
    keeping, start = ReservationRenewal(site.state), (True, allocation.age)
    assert keeping.is_to_come(start, 0)

    own = backfill(estimate_default="10s")
    site.tell(Configure(configuration(queue("q"), queue("r"), props=own)))

    assert not keeping.is_to_come(start, 0)


def test_whether_a_party_still_fits_its_nodes() -> None:
    # BACKFILL-22
    site = Site(4, 4)
    site.tell(job("x", 3, 10), job("y", 3, 20), job("large", 4))
    large, keeping = site.member("a/large"), ReservationRenewal(site.state)
    party = Party((large,), ())
    before = Reservation(site.state.root, party, (False, 10 * S), ((large, "n1"),))
    later = Reservation(site.state.root, party, (False, 10 * S), ((large, "n2"),))

    assert keeping.still_fits(before, party, (), 0)
    assert not keeping.still_fits(later, party, (), 0)

    site.tell(RemoveNode("n1"))
    assert not keeping.still_fits(before, party, (), 0)


def test_an_ask_that_takes_longer_passes_beside_the_party() -> None:
    # BACKFILL-26
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 3), job("small", 1, 1000), job("other", 1, 1000))

    assert site.placed == {"a/x": "n1", "a/small": "n1"}
    assert site.scheduler.machine.now_us < S


def test_who_fits_but_would_delay_another_is_held_back() -> None:
    # BACKFILL-24, BACKFILL-25, BACKFILL-28
    site = Site(4)
    site.tell(job("x", 3, 10), job("large", 4), job("short", 1, 10), job("long", 1, 11))

    assert site.placed == {"a/x": "n1", "a/short": "n1"}
    assert site.reserved == {"a/large": ("n1", 10)}


def passed(scheduler: PlainScheduler, ask: str) -> tuple[Passed, ...]:
    app, _, name = ask.partition("/")
    machine = scheduler.machine
    held = machine.view.apps[machine.registry.app_key(app)].allocation(name)
    return () if held is None else held.passed


def test_whom_it_passed_and_why() -> None:
    # OUTLOOK-8
    site = Site(4, 4, 1)
    site.tell(job("w", 3, 10, node="n1"), job("x", 3, 20, node="n2"))
    site.tell(gang_of(2), job("m", 4, gang="default/g", count=2))
    site.tell(job("ends", 1, 15, node="n2"), job("beside", 1, node="n3"), job("none", 1))

    assert passed(site.scheduler, "a/ends") == (Passed("a/m-0", 1, 20 * S, 15 * S),)
    assert passed(site.scheduler, "a/beside") == (Passed("a/m-0", 1, 20 * S, None),)
    assert passed(site.scheduler, "a/none") == passed(site.scheduler, "a/w") == ()


@pytest.mark.parametrize("is_loaded", [False, True])
def test_it_is_known_while_the_ask_holds_its_node(is_loaded: bool) -> None:
    # OUTLOOK-8, CHECKPOINT-5
    site = Site(4)
    site.tell(job("w", 3, 10), job("large", 4, 10), job("ends", 1, 10))
    site.tell(job("first", 1, 5, priority=1))
    scheduler = PlainScheduler(facts=site.scheduler.facts()) if is_loaded else site.scheduler

    assert [one.ask for one in passed(scheduler, "a/ends")] == ["a/large"]


def test_a_member_does_not_pass_its_own_group() -> None:
    # OUTLOOK-8
    site = Site(4, 4)
    site.tell(job("w", 4, 10, node="n1"), job("x", 4, 20, node="n2"))
    site.tell(gang_of(2), job("m", 4, 5, gang="default/g", count=2))
    site.tell(at_s=20)
    site.tell(at_s=21)

    assert passed(site.scheduler, "a/m-0") == passed(site.scheduler, "a/m-1") == ()


def steps(site: Site) -> int:
    return site.scheduler.machine.statistics().steps


def test_equal_asks_are_not_tried_once_everything_is_reserved() -> None:
    # ROUND-10
    site = Site(4)
    site.tell(job("w", 3, 100), job("large", 4), *(job(f"k{n}", 2, 50) for n in range(50)))
    before = steps(site)

    site.tell(AddNode("n2", vcores(1)))

    assert steps(site) - before < 20
    assert site.placed == {"a/w": "n1"}


def test_among_many_that_are_held_back_a_short_one_passes() -> None:
    # ROUND-10, BACKFILL-25
    site = Site(4)
    long = [job(f"k{n}", 1, 500) for n in range(50)]
    site.tell(job("w", 3, 100), job("large", 4), *long, job("short", 1, 50), job("late", 1, 60))

    assert site.placed == {"a/w": "n1", "a/short": "n1"}
    assert steps(site) < 30

    site.tell(Release("a", "short"))
    assert site.placed == {"a/w": "n1", "a/late": "n1"}


def test_nothing_is_tried_again_while_nothing_changes() -> None:
    # BACKFILL-23
    site = Site(4)
    site.tell(job("w", 3, 100), job("large", 4), job("long", 1, 500))
    site.tell(at_s=1)
    before = steps(site)

    site.tell(at_s=2)
    assert steps(site) == before
    assert site.reserved == {"a/large": ("n1", 100)}

    site.tell(at_s=100)
    assert steps(site) > before
    assert site.reserved == {"a/large": ("n1", 200)}


def test_asks_outside_the_scope_are_placed() -> None:
    # BACKFILL-7
    site = Site(4, properties={"scheduling.order": "greedy"})
    site.tell(job("w", 3), *(job(f"k{n}", 2) for n in range(9)), job("small", 1, app="b"))

    assert site.placed == {"a/w": "n1", "b/small": "n1"}


def test_a_strict_gang_is_tried_though_its_members_fit_nowhere() -> None:
    # ROUND-10
    site = Site(4, properties=backfill())
    site.tell(job("w", 3, 100), job("large", 4))
    site.tell(gang_of(1), job("m", 2, 10, gang="default/g"))

    assert not site.scheduler.snapshot().gangs["default/g"].cycle_valid


class Waiting:
    """A gang of application ``b`` waits for most of both nodes and has it reserved; two asks wait, too.

    Args:
        y: The application of what runs on ``n2``.
        priority: That of the gang.
        properties: More properties of the backfill scope.
    """

    def __init__(self, *, y: str = "a", priority: int = 5, **properties: str) -> None:
        self.site = Site(6, 6, properties=backfill(**properties))
        self.site.tell(job("x", 5, 40, node="n1"), job("y", 5, 50, node="n2", app=y), at_s=0)
        members = job("m", 4, 90, gang="default/g", count=2, app="b", priority=priority)
        self.site.tell(AddApp("c", "root.q"), gang_of(2), members)
        self.site.tell(job("low", 2, 20), at_s=1)
        self.site.tell(job("low", 2, 20, app="c"), at_s=2)

    def runs_for(self, *events: Event, at_s: int = 3) -> bool:
        """Return whether an ask is tried because of some events."""
        before = self.site.scheduler.machine.view.rounds.steps
        self.site.tell(*events, at_s=at_s)
        return self.site.scheduler.machine.view.rounds.steps > before


BOTH = {"b/m-0": ("n1", 50), "b/m-1": ("n2", 50)}
"""What is reserved for the gang."""


@pytest.mark.parametrize("depth", [1, 2])
def test_asks_that_fit_nowhere_and_come_after_what_is_reserved(depth: int) -> None:
    # BACKFILL-15, BACKFILL-23
    waiting = Waiting(backfill_depth=str(depth))
    reserved = waiting.site.reserved
    assert {name: at for name, at in reserved.items() if name in BOTH} == BOTH

    assert not waiting.runs_for(job("later", 2, 20))
    assert not waiting.runs_for(job("later", 2, 20, app="c", count=9), at_s=4)

    assert waiting.site.reserved == reserved


@pytest.mark.parametrize(
    ("event", "reserved"),
    [
        pytest.param(job("first", 2, 10, priority=9), {"a/first": ("n1", 40)}, id="comes first"),
        pytest.param(job("small", 1, 20), BOTH, id="has room"),
        pytest.param(job("m", 2, gang="default/h"), BOTH, id="is a member of a gang"),
    ],
)
def test_asks_that_have_an_effect(event: Event, reserved: dict[str, object]) -> None:
    # BACKFILL-15
    waiting = Waiting()

    assert waiting.runs_for(event)

    assert waiting.site.reserved == reserved


def test_asks_that_let_their_queue_come_first() -> None:
    # ORDER-8, BACKFILL-15: shares are equal, and q has more pending then.
    waiting = Waiting(y="b", priority=0)
    assert waiting.site.reserved == BOTH

    assert waiting.runs_for(job("more", 2, 20, count=4))

    assert waiting.site.reserved == {"a/low": ("n1", 40)}


def test_the_second_reservation_counts_as_well() -> None:
    # BACKFILL-15
    waiting = Waiting(backfill_depth="2")

    assert waiting.runs_for(job("second", 2, 10, priority=1))

    assert waiting.site.reserved.keys() == {"b/m-0", "b/m-1", "a/second"}


def test_what_a_strict_gang_took_in_vain_is_no_change() -> None:
    # BACKFILL-17: it takes n1 in each round, and gives it back.
    site = Site(4, 4)
    site.tell(job("y", 3, 50, node="n2"), gang_of(2), at_s=0)
    site.tell(job("m", 4, gang="default/g", count=2, priority=5))
    for at_s in (1, 2):
        site.tell(job(f"low-{at_s}", 4, 90), at_s=at_s)
    before = site.scheduler.machine.view.rounds.steps

    site.tell(job("later", 5, 90), at_s=3)

    assert site.scheduler.machine.view.rounds.steps == before
    assert site.reserved == {"a/m-0": ("n1", 50), "a/m-1": ("n2", 50)}


def test_a_member_that_ends_too_late_by_now_fails_instead_of_another() -> None:
    # BACKFILL-25: m passes up to 7, and n fails; from then on m is held back.
    site = Site(4, 4)
    site.tell(
        job("w", 3, 10, node="n1"), job("x", 4, node="n2"), job("large", 4), gang_of(2), at_s=0
    )
    site.tell(job("m", 1, 3, gang="default/g"), job("n", 4, gang="default/g"), at_s=0)
    for at_s, failed in ((1, "n"), (2, "n"), (7, "n"), (8, "m"), (9, "m")):
        site.tell(at_s=at_s)

        explanation = site.scheduler.explain("a", "n")

        assert explanation is not None
        facts = {reason.code: reason.facts for reason in explanation.reasons}
        assert facts[Code.GANG_CYCLE_INVALID]["failed"] == f"a/{failed}"


def test_queues_outside_a_scope_decide_who_of_a_gang_is_tried_first() -> None:
    # BACKFILL-15: once r comes first, the member there fails, and takes q's from its turn.
    site = Site(3)
    scope = queue("q", properties=backfill())
    site.tell(Configure(configuration(scope, queue("r"))), job("w", 1, app="b", count=3))
    site.tell(gang_of(1), job("m", 1, app="b", gang="default/g"), job("n", 1, gang="default/g"))
    site.tell(job("next", 3), at_s=1)
    site.tell(at_s=1)
    assert site.reserved == {"a/n": ("n1", None)}

    site.tell(job("late", 3, app="b", priority=3), at_s=2)

    assert site.reserved == {"a/next": ("n1", None)}


def test_a_round_begins_when_it_is_time_to_learn_from_asks_that_are_gone() -> None:
    # DEVICE-18: 4 are taken once those of c are gone, and whole devices later.
    policy = {"type": "fgd", "resourceweights": {"device/gpu": 1.0}}
    site = Site()
    queues = queue("q"), queue("r")
    site.tell(Configure(configuration(*queues, props=backfill(), nodesortpolicy=policy)))
    site.tell(_with_gpu("broken"), job("large", 5), _share("a", 500))
    for name, ask in (("c", _share("c", 300, 3)), ("d", _share("d", 1000, 2))):
        site.tell(at_s=1)
        site.tell(AddApp(name, "root.q"), ask, RemoveApp(name), at_s=2)

    site.tell(_with_gpu("whole"), at_s=3)
    site.tell(_share("a", 400), at_s=4)

    assert site.placed == {"a/share-500": "broken", "a/share-400": "whole"}


def _with_gpu(name: str) -> AddNode:
    return AddNode(name, vcores(4), devices={"gpu": DeviceStock(count=1, model=None)})


def _share(app: str, milli: int, count: int | None = None) -> AddAsk:
    need = DeviceNeed(milli=milli) if milli < WHOLE else DeviceNeed(count=1)
    return AddAsk(app, f"share-{milli}", vcores(1), devices={"gpu": need}, count=count)


def test_reservations_survive_saving_and_loading() -> None:
    site = Site(4, 4, properties=backfill(backfill_depth="3"))
    site.tell(job("w", 3, 10, node="n1"), job("x", 3, node="n2"))
    site.tell(gang_of(2), job("m", 2, gang="default/g", count=2), job("large", 4))
    reservations = site.scheduler.machine.view.rounds.reservations.in_force.reservations

    again = [reservation_from_facts(site.state, one) for one in reservation_facts(reservations)]

    assert reservation_facts(again) == reservation_facts(reservations)
    assert [one.party.keys for one in again] == [one.party.keys for one in reservations]
    assert reserved_by(again) == {
        ("a", "m-0"): ("n1", 10 * S),
        ("a", "m-1"): ("n1", 10 * S),
        ("a", "large"): ("n2", None),
    }
    assert list(reservation_snapshots(again)) == ["a/m-0", "a/m-1", "a/large"]
    assert {one.scope for one in reservation_snapshots(again).values()} == {"root"}


def test_the_log_tells_what_is_new_or_changed() -> None:
    # BACKFILL-30
    site = Site(4)
    site.tell(job("x", 3, 10))
    site.tell(job("large", 4))
    site.tell(job("late", 4), at_s=5)
    assert reserved_lines(site) == [(0, "a/large", "n1", 10)]

    site.tell(at_s=10)  # It has not ended, and is expected to take twice as long.
    site.tell(RemoveAsk("a", "large"), at_s=11)

    assert reserved_lines(site)[1:] == [
        (10, "a/large", "n1", 20),
        (11, "a/late", "n1", 20),
    ]


def test_a_start_that_is_not_known_is_null_in_the_log() -> None:
    # BACKFILL-30
    site = Site(4)
    site.tell(job("x", 3))
    site.tell(job("large", 4))

    assert reserved_lines(site) == [(0, "a/large", "n1", None)]
    assert site.reserved == {"a/large": ("n1", None)}
