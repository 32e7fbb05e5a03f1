"""What there is too little of, even if nothing else ran (REASON-6 to REASON-9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import attrs
from hypothesis import given, strategies as st

from muster_core.config.model import Configuration
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    Configure,
    Release,
    RemoveApp,
    RemoveAsk,
    UpdateNode,
)
from muster_core.gangs import GangFields
from muster_core.reasons import Shortfall
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import all_at_once
from tests.core.admission.objects import LOOSE, gang
from tests.core.building import Queue, configuration, queue
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import SETTLE, Drive, Scenario, Step, What, run_plainly
from tests.naive.scheduler import NaiveScheduler
from tests.share import share


def node(name: str, **capacity: int) -> AddNode:
    return AddNode(name, Resources(capacity))


def member(name: str, count: int | None = None, app: str = "p", **amounts: int) -> AddAsk:
    return AddAsk(app, name, Resources(amounts), count=count, gang="default/g")


def scheduler_after(*steps: What, config: Configuration | None = None) -> PlainScheduler:
    scheduler = PlainScheduler(config)
    for step in (*steps, SETTLE):
        if isinstance(step, str | int) or step is SETTLE:
            scheduler.settle()
        else:
            scheduler.submit(step)
    return scheduler


def messages_of(scheduler: PlainScheduler, ask: str = "x-0", app: str = "p") -> list[str]:
    found = scheduler.explain_fully(app, ask)
    assert found is not None
    return [str(one) for one in found.shortfalls]


def has_started(scheduler: PlainScheduler) -> bool:
    return scheduler.machine.view.gangs["default/g"].satisfied


def facts(scheduler: PlainScheduler, ask: str = "x-0") -> Mapping[str, object]:
    found = scheduler.explain_fully("p", ask)
    assert found is not None
    (one,) = found.shortfalls
    return one.facts


def in_queue(*events: What, app: AddApp | None = None, **fields: object) -> PlainScheduler:
    """Return a scheduler with a large node, and a queue with some fields."""
    first: list[What] = [node("n", gpu=500, vcore=500_000), app or AddApp("p", "root.a")]
    return scheduler_after(*first, *events, config=configuration(queue("a", **fields)))


# REASON-6
def test_a_gang_that_needs_more_than_the_max_of_its_queue() -> None:
    events = gang("g", 14), member("x", 14, gpu=8)
    scheduler = in_queue(*events, resources={"max": {"gpu": 100}})

    assert messages_of(scheduler) == [
        "The gang needs 112 gpu in all; its queue root.a may have 100."
    ]
    assert facts(scheduler) == {"queue": "root.a", "needs": {"gpu": 112}, "has": {"gpu": 100}}
    assert has_started(in_queue(*events, resources={"max": {"gpu": 112}}))


# REASON-6
def test_a_gang_that_needs_more_than_its_user_may_have() -> None:
    events = gang("g", 6), member("x", 6, gpu=8)
    limits = [{"users": ["bob"], "maxresources": {"gpu": 40}}]
    scheduler = in_queue(*events, app=AddApp("p", "root.a", user="bob"), limits=limits)

    assert messages_of(scheduler) == [
        "The gang needs 48 gpu in all; the limit of user bob in root.a is 40."
    ]
    assert facts(scheduler) == {
        "queue": "root.a",
        "user": "bob",
        "needs": {"gpu": 48},
        "has": {"gpu": 40},
    }
    assert has_started(in_queue(*events, app=AddApp("p", "root.a", user="ann"), limits=limits))
    limits[0]["maxresources"] = {"gpu": 48}
    assert has_started(in_queue(*events, app=AddApp("p", "root.a", user="bob"), limits=limits))


# REASON-6
def test_a_gang_that_needs_more_than_its_group_may_have() -> None:
    limits = [{"groups": ["vision"], "maxresources": {"gpu": 0, "vcore": 1}}]
    app = AddApp("p", "root.a", user="bob", groups=("vision",))
    scheduler = in_queue(gang("g", 2), member("x", 2, gpu=8, vcore=500), app=app, limits=limits)

    assert messages_of(scheduler) == [
        "The gang needs 16 gpu in all; the limit of group vision in root.a is none."
    ]


# REASON-6
def test_an_ask_alone_that_needs_more_than_its_user_may_have() -> None:
    limits = [{"users": ["bob"], "maxresources": {"gpu": 4}}]
    app = AddApp("p", "root.a", user="bob")
    scheduler = in_queue(AddAsk("p", "x", Resources({"gpu": 5})), app=app, limits=limits)

    assert messages_of(scheduler, "x") == [
        "The ask needs 5 gpu in all; the limit of user bob in root.a is 4."
    ]
    both = [AddAsk("p", name, Resources({"gpu": 3})) for name in ("x", "y")]
    assert messages_of(in_queue(*both, app=app, limits=limits), "y") == []


# REASON-7
def test_all_nodes_together_have_too_little() -> None:
    nodes = node("n", gpu=4), node("m", gpu=4)
    events = AddApp("p", "root.a"), gang("g", 3), member("x", 3, gpu=3)

    assert messages_of(scheduler_after(*nodes, *events)) == [
        "The gang needs 9 gpu in all; all nodes together have 8."
    ]
    closed = AddNode("o", Resources({"gpu": 4}), schedulable=False)
    assert messages_of(scheduler_after(*nodes, closed, *events)) == [
        "The gang needs 9 gpu in all; all schedulable nodes together have 8."
    ]


# REASON-8
def test_members_that_need_a_node_each() -> None:
    nodes = [node(name, gpu=8) for name in "abcd"]
    events = AddApp("p", "root.a"), gang("g", 5)
    scheduler = scheduler_after(*nodes, *events, member("x", 5, gpu=5))
    lacks = "The gang needs room for 5 members; all nodes together have room for 4, even if they were empty."

    assert messages_of(scheduler) == [lacks]
    assert facts(scheduler) == {"members": 5, "room": 4}
    assert messages_of(
        scheduler_after(*nodes, *events, member("x", 3, gpu=5), member("y", 2, gpu=6))
    ) == [lacks]
    assert has_started(
        scheduler_after(*nodes, *events, member("x", 4, gpu=5), member("y", 1, gpu=3))
    )


# REASON-8
def test_members_that_no_node_could_hold() -> None:
    events = node("n", gpu=4, vcore=1), node("m", vcore=4_000), AddApp("p", "root.a"), gang("g", 2)
    assert messages_of(scheduler_after(*events, member("x", 2, gpu=1, vcore=1_000))) == [
        "The gang needs room for 2 members; no node has room for one of them, even an empty node."
    ]


# REASON-9
def test_what_members_hold_counts_though_their_node_has_become_smaller() -> None:
    smaller = UpdateNode("n", capacity=Resources({"gpu": 1}))
    steps = node("n", gpu=4), AddApp("p", "root.a"), gang("g", 5, mode=LOOSE), member("x", 5, gpu=1)
    scheduler = scheduler_after(*steps, SETTLE, smaller, node("m", gpu=1))
    assert has_started(scheduler)

    scheduler = scheduler_after(*steps, SETTLE, smaller)
    assert messages_of(scheduler, "x-4") == [
        "The gang needs 5 gpu in all; all nodes together have 4."
    ]


# REASON-9
def test_a_member_on_a_node_that_takes_no_more_needs_no_other() -> None:
    closed = UpdateNode("n", schedulable=False)
    steps = node("n", gpu=4), AddApp("p", "root.a"), gang("g", 5, mode=LOOSE), member("x", 5, gpu=1)
    assert messages_of(scheduler_after(*steps, SETTLE, closed), "x-4") == [
        "The gang needs 1 gpu in all; all schedulable nodes together have none."
    ]


# By brute force


@attrs.frozen
class Cluster:
    """A small cluster, and a gang in it.

    Attributes:
        nodes: The capacities of the nodes.
        members: What each member asks for, and whether it is of the user with the limit.
        least: How many members the gang needs.
        most: The ``max`` of its queue.
        limit: The limit of the user.
    """

    nodes: Sequence[Mapping[str, int]]
    members: Sequence[tuple[Mapping[str, int], bool]]
    least: int
    most: Mapping[str, int]
    limit: Mapping[str, int]

    def steps(self) -> list[Step]:
        """Return the events that make it."""
        events: list[What] = [
            Configure(self._configuration()),
            AddApp("u", "root.a", user="u"),
            AddApp("v", "root.a", user="v"),
            *(node(f"n{number}", **amounts) for number, amounts in enumerate(self.nodes)),
            AddGang("default/g", GangFields(self.least)),
            *(
                member(f"x{number}", app="u" if limited else "v", **amounts)
                for number, (amounts, limited) in enumerate(self.members)
            ),
            SETTLE,
        ]
        return [Step(0, event) for event in events]

    def _configuration(self) -> Configuration:
        fields: Queue = {"resources": {"max": texts(self.most)}} if self.most else {}
        limits = [{"users": ["u"], "maxresources": texts(self.limit)}] if self.limit else []
        return configuration(queue("a", **fields), limits=limits)

    def fits(self) -> bool:
        """Return whether as many members as needed can be arranged: all choices are tried."""
        return any(
            self._placed([dict(one) for one in self.nodes], [amounts for amounts, _ in chosen])
            for chosen in combinations(self.members, self.least)
            if within(self.most, [amounts for amounts, _ in chosen])
            and within(self.limit, [amounts for amounts, limited in chosen if limited])
        )

    def _placed(self, free: list[dict[str, int]], asks: Sequence[Mapping[str, int]]) -> bool:
        if not asks:
            return True
        first, *others = asks
        for at, there in enumerate(free):
            if all(there.get(kind, 0) >= amount for kind, amount in first.items()):
                rest = {kind: amount - first.get(kind, 0) for kind, amount in there.items()}
                if self._placed([*free[:at], rest, *free[at + 1 :]], others):
                    return True
        return False


def texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {
        kind: f"{amount}m" if kind == "vcore" else f"{amount}" for kind, amount in amounts.items()
    }


def within(most: Mapping[str, int], asks: Sequence[Mapping[str, int]]) -> bool:
    return all(sum(one.get(kind, 0) for one in asks) <= amount for kind, amount in most.items())


_AMOUNTS = st.fixed_dictionaries({"gpu": st.integers(1, 4)}, optional={"vcore": st.integers(1, 3)})
_BOUNDS = st.fixed_dictionaries(
    {}, optional={"gpu": st.integers(1, 10), "vcore": st.integers(1, 6)}
)
_CAPACITIES = st.fixed_dictionaries({"gpu": st.integers(0, 5), "vcore": st.integers(0, 5)})


@st.composite
def clusters(draw: st.DrawFn, *, alike: bool = False) -> Cluster:
    nodes = draw(st.lists(_CAPACITIES, min_size=1, max_size=3))
    each = draw(_AMOUNTS)
    members = draw(
        st.lists(
            st.tuples(st.just(each) if alike else _AMOUNTS, st.booleans()), min_size=1, max_size=5
        )
    )
    least = draw(st.integers(1, len(members)))
    if alike:
        return Cluster(nodes, members, least, draw(_BOUNDS), {})
    return Cluster(nodes, members, least, draw(_BOUNDS), draw(_BOUNDS))


def shortfalls(scheduler: PlainScheduler, name: str) -> tuple[Shortfall, ...]:
    view = scheduler.machine.view
    return all_at_once(view.explainer.shortfalls_of_gang(view.gangs[name]))


# REASON-6, REASON-7, REASON-8
@given(clusters())
def test_a_gang_with_a_shortfall_cannot_be_arranged_and_never_starts(cluster: Cluster) -> None:
    scheduler = PlainScheduler()
    run_plainly(cluster.steps(), scheduler)
    if not shortfalls(scheduler, "default/g"):
        return
    assert not cluster.fits()
    model = NaiveScheduler()
    drive = Drive(model)
    for index, step in enumerate(cluster.steps()):
        drive.step(index, step)
    assert not model.gangs["default/g"].satisfied


# REASON-6, REASON-8
@given(clusters(alike=True))
def test_of_equal_members_it_is_exact(cluster: Cluster) -> None:
    scheduler = PlainScheduler()
    run_plainly(cluster.steps(), scheduler)

    assert bool(shortfalls(scheduler, "default/g")) is not cluster.fits()


# REASON-6, REASON-9
@share(0.3)
@given(gang_scenarios())
def test_a_gang_with_a_shortfall_does_not_start_when_all_others_are_gone(
    scenario: Scenario,
) -> None:
    """Members may hold nodes that have become smaller, or are closed, and groups are drawn, too."""
    for end in range(len(scenario) // 2, len(scenario) + 1, 5):
        scheduler = PlainScheduler()
        for index, step in enumerate(scenario[:end]):
            if step.what is SETTLE:
                scheduler.settle(step.at_us)
            else:
                scheduler.submit(step.what, step.at_us, index)
        scheduler.settle()
        gangs = scheduler.machine.view.gangs
        short = {name for name in gangs if shortfalls(scheduler, name)}
        if short:
            leave_alone(scheduler, short)
            scheduler.settle()
            assert not [name for name in short if name in gangs and gangs[name].satisfied]


def leave_alone(scheduler: PlainScheduler, names: set[str]) -> None:
    """Let everything go that is in no gang of some names."""
    for app in scheduler.snapshot().apps.values():
        if all(ask.gang not in names for ask in app.asks):
            scheduler.submit(RemoveApp(app.name))
            continue
        for ask in app.asks:
            if ask.gang not in names and ask.place is AskPlace.BOUND:
                scheduler.submit(Release(app.name, ask.name))
            elif ask.gang not in names:
                scheduler.submit(RemoveAsk(app.name, ask.name))
