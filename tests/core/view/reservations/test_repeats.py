"""A round that would do and reserve the same is not run again."""

from __future__ import annotations

import pytest

from muster_core.events import AddApp, AddAsk, AddNode, Configure, Event, RemoveApp
from muster_core.reasons import Code
from muster_core.values.devices import WHOLE, DeviceNeed, DeviceStock
from tests.core.building import configuration, queue
from tests.core.view.reservations.site import Site, backfill, gang, job, vcores


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
        self.site.tell(AddApp("c", "root.q"), gang(2), members)
        self.site.tell(job("low", 2, 20), at_s=1)
        self.site.tell(job("low", 2, 20, app="c"), at_s=2)

    def runs_for(self, *events: Event, at_s: int = 3) -> bool:
        """Return whether an ask is tried because of some events."""
        before = self.site.scheduler.machine.view.steps
        self.site.tell(*events, at_s=at_s)
        return self.site.scheduler.machine.view.steps > before


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
    site.tell(job("y", 3, 50, node="n2"), gang(2), at_s=0)
    site.tell(job("m", 4, gang="default/g", count=2, priority=5))
    for at_s in (1, 2):
        site.tell(job(f"low-{at_s}", 4, 90), at_s=at_s)
    before = site.scheduler.machine.view.steps

    site.tell(job("later", 5, 90), at_s=3)

    assert site.scheduler.machine.view.steps == before
    assert site.reserved == {"a/m-0": ("n1", 50), "a/m-1": ("n2", 50)}


def test_a_member_that_ends_too_late_by_now_fails_instead_of_another() -> None:
    # BACKFILL-25: m passes up to 7, and n fails; from then on m is held back.
    site = Site(4, 4)
    site.tell(job("w", 3, 10, node="n1"), job("x", 4, node="n2"), job("large", 4), gang(2), at_s=0)
    site.tell(job("m", 1, 3, gang="default/g"), job("n", 4, gang="default/g"), at_s=0)
    for at_s, failed in ((1, "n"), (2, "n"), (7, "n"), (8, "m"), (9, "m")):
        site.tell(at_s=at_s)

        explanation = site.scheduler.explain("a", "n")

        assert explanation is not None
        told = {reason.code: reason.facts for reason in explanation.reasons}
        assert told[Code.GANG_CYCLE_INVALID]["failed"] == f"a/{failed}"


def test_queues_outside_a_scope_decide_who_of_a_gang_is_tried_first() -> None:
    # BACKFILL-15: once r comes first, the member there fails, and takes q's from its turn.
    site = Site(3)
    scope = queue("q", properties=backfill())
    site.tell(Configure(configuration(scope, queue("r"))), job("w", 1, app="b", count=3))
    site.tell(gang(1), job("m", 1, app="b", gang="default/g"), job("n", 1, gang="default/g"))
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
