"""What a program says to a scheduler: every method, and every kind of value."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import attrs
import pytest

import muster
from muster_core.config import default_configuration
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Configure,
    Event,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from tests.actors.service import Notes, service

ONE: Final = {"vcore": 1}
CORE: Final = Resources({"vcore": 1000})


Say = Callable[[muster.Scheduler], Awaitable[object]]


async def said(say: Say) -> Event | str:
    """Give the event that a call lets in, whether it is refused or not."""
    notes = Notes()
    async with service(record=notes) as scheduler:
        with contextlib.suppress(muster.RefusedError):
            await say(scheduler)
    return notes.events[-1]


# Every argument of every method reaches the event

PARTITIONS: Final = [{"name": "default", "queues": [{"name": "root"}]}]

METHODS: Final[list[tuple[Say, Event]]] = [
    (
        lambda s: s.add_priority_class("high", 5, preemption_policy="PreemptLowerPriority"),
        AddPriorityClass("high", 5, preempts=True),
    ),
    (lambda s: s.add_priority_class("low", -5), AddPriorityClass("low", -5)),
    (lambda s: s.add_node("m", ONE), AddNode("m", CORE)),
    (
        lambda s: s.add_node("m", ONE, attributes={"disk": "ssd"}, schedulable=False),
        AddNode("m", CORE, {"disk": "ssd"}, schedulable=False),
    ),
    (lambda s: s.update_node("n"), UpdateNode("n")),
    (
        lambda s: s.update_node("n", capacity=ONE, attributes={}, schedulable=False),
        UpdateNode("n", CORE, {}, schedulable=False),
    ),
    (lambda s: s.remove_node("n"), RemoveNode("n")),
    (lambda s: s.add_app("b", "root.q"), AddApp("b", "root.q")),
    (
        lambda s: s.add_app("b", "q", user="u", groups=["g", "h"], tags={"t": "1"}),
        AddApp("b", "q", "u", ("g", "h"), {"t": "1"}),
    ),
    (lambda s: s.add_app("b", user="u"), AddApp("b", user="u")),
    (lambda s: s.remove_app("a"), RemoveApp("a")),
    (lambda s: s.app("a").remove(), RemoveApp("a")),
    (lambda s: s.add_ask("a", "k", ONE), AddAsk("a", "k", CORE)),
    (lambda s: s.remove_ask("a", "k"), RemoveAsk("a", "k")),
    (lambda s: s.ask("a", "k").remove(), RemoveAsk("a", "k")),
    (lambda s: s.release("a", "k"), Release("a", "k")),
    (lambda s: s.add_gang("g", 2), AddGang("default/g", GangFields(2))),
    (
        lambda s: s.add_gang(
            "x/g", 2, total=3, mode="nonstrict", wait_time="1m", groups=("x/g", "y/h")
        ),
        AddGang("x/g", GangFields(2, 3, GangMode.NON_STRICT, 60_000_000, ("x/g", "y/h"))),
    ),
    (lambda s: s.remove_gang("g"), RemoveGang("default/g")),
    (lambda s: s.gang("g").remove(), RemoveGang("default/g")),
    (lambda s: s.configure({"partitions": PARTITIONS}), Configure(default_configuration())),
    (lambda s: s.submit(RemoveNode("n")), RemoveNode("n")),
    (lambda s: s.submit({"op": "remove_node", "node": "n"}), RemoveNode("n")),
]


@pytest.mark.parametrize(("say", "event"), METHODS, ids=range(len(METHODS)))
async def test_a_method_lets_its_event_in(say: Say, event: Event) -> None:
    seen = await said(say)
    assert seen == event


ASKING: Final[dict[str, Any]] = {
    "priority": 7,
    "gang": "g",
    "annotations": {"unrelated": "x"},
    "node": "n",
    "selector": {"disk": "ssd"},
    "run_for": "1m30s",
}


@pytest.mark.parametrize("by_app", [True, False])
async def test_every_argument_of_an_ask(by_app: bool) -> None:
    wanted = AddAsk(
        "a",
        "k",
        CORE,
        priority=7,
        node="n",
        selector={"disk": "ssd"},
        run_for_us=90_000_000,
        gang="default/g",
    )
    if by_app:
        one = await said(lambda s: s.app("a").add_ask("k", ONE, **ASKING))
        many = await said(lambda s: s.app("a").add_asks("k", ONE, 3, **ASKING))
    else:
        one = await said(lambda s: s.add_ask("a", "k", ONE, **ASKING))
        many = await said(lambda s: s.add_asks("a", "k", ONE, 3, **ASKING))

    assert one == wanted
    assert many == attrs.evolve(wanted, count=3)


@pytest.mark.parametrize("by_app", [True, False])
async def test_the_class_of_an_ask_and_annotations_of_its_gang(by_app: bool) -> None:
    marks = {
        "pod-group.scheduling.sigs.k8s.io/name": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": "1",
    }

    async def say(scheduler: muster.Scheduler) -> None:
        await scheduler.add_priority_class("high", 9)
        rest: dict[str, Any] = {"priority_class": "high", "annotations": marks}
        if by_app:
            await scheduler.app("a").add_ask("k", ONE, **rest)
        else:
            await scheduler.add_ask("a", "k", ONE, **rest)

    event = await said(say)
    assert isinstance(event, AddAsk)
    assert event.priority_class == "high"


@pytest.mark.parametrize("name", ["priorty", "count", "app", "op"])
async def test_what_is_no_option_of_an_ask(name: str) -> None:
    wrong: dict[str, Any] = {"priority": 1, name: 5}
    message = rf"add_asks?\(\) got .* argument '{name}'.*"
    async with service() as scheduler:
        app = scheduler.app("a")
        with pytest.raises(TypeError, match=message):
            await app.add_ask("k", ONE, **wrong)
        if name != "app":
            with pytest.raises(TypeError, match=message):
                await scheduler.add_ask("a", "k", ONE, **wrong)
        if name != "count":
            with pytest.raises(TypeError, match=message + "priority, priority_class, gang, "):
                await app.add_asks("k", ONE, 1, **wrong)


async def test_the_names_of_many_asks() -> None:
    async with service() as scheduler:
        asks = await scheduler.add_asks("a", "k", ONE, 3)

        assert [(ask.app, ask.name) for ask in asks] == [("a", "k-0"), ("a", "k-1"), ("a", "k-2")]


# Values


class Name(StrEnum):
    MACHINE = "m"


AMOUNTS: Final[list[tuple[Mapping[str, Any], dict[str, int]]]] = [
    ({"vcore": 2}, {"vcore": 2000}),
    ({"vcore": 0.5}, {"vcore": 500}),
    ({"vcore": "250m"}, {"vcore": 250}),
    ({"vcore": "1.5"}, {"vcore": 1500}),
    ({"memory": "4Gi"}, {"memory": 4 << 30}),
    ({"memory": 1024}, {"memory": 1024}),
    ({"nvidia.com/gpu": 3, "pods": 1}, {"nvidia.com/gpu": 3, "pods": 1}),
    (Resources({"vcore": 1500, "memory": 7}), {"vcore": 1500, "memory": 7}),
    (Resources({"nvidia.com/gpu": 2}), {"nvidia.com/gpu": 2}),
    (Resources({"vcore": 2**63 - 1}), {"vcore": 2**63 - 1}),
    (Resources(), {}),
    ({"vcore": 0, "memory": 1}, {"memory": 1}),
    ({}, {}),
]


@pytest.mark.parametrize(("written", "units"), AMOUNTS, ids=range(len(AMOUNTS)))
async def test_amounts(written: Mapping[str, Any], units: dict[str, int]) -> None:
    event = await said(lambda scheduler: scheduler.add_node("m", written))

    assert event == AddNode("m", Resources(units))


@pytest.mark.parametrize(
    ("run_for", "us"),
    [(3, 3_000_000), (0.5, 500_000), ("90s", 90_000_000), ("1h", 3_600_000_000)],
    ids=repr,
)
async def test_durations(run_for: float | str, us: int) -> None:
    event = await said(lambda scheduler: scheduler.add_ask("a", "k", ONE, run_for=run_for))

    assert event == AddAsk("a", "k", CORE, run_for_us=us)


@pytest.mark.parametrize(
    "groups",
    [["x"], ("x",), {"x"}, frozenset({"x"}), {"x": 1}.keys()],
    ids=lambda one: type(one).__name__,
)
async def test_groups_of_any_collection(groups: Any) -> None:  # noqa: ANN401
    event = await said(lambda scheduler: scheduler.add_app("b", "q", groups=groups))

    assert event == AddApp("b", "q", groups=("x",))


async def test_names_that_are_members_of_an_enumeration() -> None:
    event = await said(lambda scheduler: scheduler.add_node(Name.MACHINE, ONE))

    assert event == AddNode("m", CORE)
