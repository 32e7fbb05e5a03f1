"""Selecting asks where there are many: the same as looking at each of them.

LISTS-2, LISTS-3, LISTS-4.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from muster.service.ask_index import AskIndex
from muster.service.ledger.ledger import Ledger
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.reader import ReadContext
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, BindFailed, Event, RemoveAsk
from muster_core.gangs import GangFields
from muster_core.reasons import Code
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import all_at_once, in_pieces
from tests.actors.serving.truth import Item, Truth
from tests.core.building import configuration, queue

CONFIG = configuration(
    queue("small", resources={"max": {"vcore": "9"}}),
    queue("strict", properties={"application.sort.blocking": "enabled"}),
    queue("late", properties={"bind.retry.delay": "1h"}),
    queue("few", maxapplications=2),
    queue("free"),
)
QUEUES = ("root.small", "root.strict", "root.late", "root.few", "root.free")


def vcore(number: int) -> Resources:
    return Resources({"vcore": number * 1000})


class Many:
    """Many asks in all places, and a roll that heard of them.

    Args:
        apps: How many applications there are.
        each: How many asks each of them has.
    """

    def __init__(self, apps: int, each: int) -> None:
        self.scheduler, self.roll = PlainScheduler(CONFIG), AskIndex()
        self.chance = Random(apps)
        self.submit([AddNode(f"n{number}", vcore(16)) for number in range(60)])
        self.submit(
            [AddGang(f"default/g{number}", GangFields(min_member=3)) for number in range(30)]
        )
        all_at_once(self.roll.catch_up(self.scheduler.machine))
        numbers = self.chance.sample(range(20, apps), apps - 20)
        # The first ones come while there is room for asks of all queues.
        for some in (list(range(20)), *in_pieces(numbers, 150)):
            self.submit([event for number in some for event in self.events(number, each)])
        bound = [ask for ask in self.truth().asks() if ask["place"] == "bound"]
        late = [ask for ask in bound if ask["queue"] == "root.late"][:3]
        for ask in (*late, *self.chance.sample([ask for ask in bound if ask not in late], 12)):
            self.submit([BindFailed(ask["app"], ask["ask"])])
        for ask in self.chance.sample(self.truth().asks(), 20):
            if ask["place"] == "pending":
                self.submit([RemoveAsk(ask["app"], ask["ask"])])
        self.asks = self.truth().asks()

    def events(self, number: int, each: int) -> Iterator[Event]:
        app, chance = f"a{number}", self.chance
        yield AddApp(app, QUEUES[number % 5], user=f"u{number % 3}")
        yield AddAsk(app, "x", vcore(chance.choice([1, 2, 5])), count=each)
        if chance.random() < 0.1:
            gang = f"default/g{chance.randrange(30)}"
            yield AddAsk(app, "m", vcore(4), gang=gang, priority=chance.randrange(3))
        if chance.random() < 0.1:
            yield AddAsk(app, "huge", vcore(99))

    def submit(self, events: list[Event]) -> None:
        for event in events:
            self.scheduler.submit(event)
        self.scheduler.settle()
        self.roll.hear(events)

    def truth(self) -> Truth:
        return Truth.of(self.scheduler)

    def select(self, wanted: AskFilter, most: int) -> list[tuple[str, str]]:
        """Return the asks that a filter gives, page by page."""
        looking = ReadContext(self.scheduler.machine, Ledger(), self.roll)
        found: list[tuple[str, str]] = []
        place: tuple[int, int] | None = None
        while True:
            rows = all_at_once(select_asks(looking, wanted, place, most))
            found += [(row.app.identity.name, row.ask.name) for row in rows]
            if len(rows) < most:
                return found
            place = rows[-1].ask.seq, rows[-1].ask.number


@pytest.fixture(scope="module", params=[(250, 24), (4_300, 1)], ids=["long", "wide"])
def many(request: pytest.FixtureRequest) -> Many:
    return Many(*request.param)


def filters() -> Iterator[AskFilter]:
    yield AskFilter()
    for place in AskPlace:
        yield AskFilter(places=frozenset({place}))
        yield AskFilter(places=frozenset(AskPlace) - {place})
    for code in Code:
        yield AskFilter(codes=frozenset({code}))
        yield AskFilter(codes=frozenset({code}), user="u1", queue="root.strict")
    yield AskFilter(codes=frozenset({Code.BLOCKED, Code.PERMIT_WAITING, Code.NEVER_FITS}))
    yield AskFilter(codes=frozenset(Code), places=frozenset({AskPlace.PENDING}))
    for path in (*QUEUES, "root"):
        yield AskFilter(queue=path)
        yield AskFilter(queue=path, places=frozenset({AskPlace.BOUND, AskPlace.PENDING}))
    for app in ("a0", "a7", "a249"):
        yield AskFilter(app=app)
    yield AskFilter(user="u2")
    yield AskFilter(gang="default/g3")
    yield AskFilter(gang="default/g4", codes=frozenset(Code))


def admits(wanted: AskFilter, ask: Item) -> bool:
    return (
        (wanted.places is None or ask["place"] in wanted.places)
        and (wanted.codes is None or ask["reason"] in wanted.codes)
        and (wanted.queue in {None, "root", ask["queue"]})
        and (wanted.app in {None, ask["app"]})
        and (wanted.user in {None, ask["user"]})
        and (wanted.gang in {None, ask["gang"]})
    )


def test_there_is_something_to_select(many: Many) -> None:
    places = {ask["place"] for ask in many.asks}
    codes = {ask["reason"] for ask in many.asks}

    assert len(many.asks) > 4_200
    assert {"pending", "bound"} <= places
    assert {"QueueMax", "NeverFits", "Blocked", "BackingOff", "QueueMaxApps"} <= codes


@pytest.mark.parametrize("wanted", list(filters()))
def test_a_filter_gives_what_it_admits(many: Many, wanted: AskFilter) -> None:
    expected = [(ask["app"], ask["ask"]) for ask in many.asks if admits(wanted, ask)]

    assert many.select(wanted, 700) == expected
    if len(expected) > 20:
        assert many.select(wanted, len(expected) // 3) == expected
