"""What a program says to a scheduler.

Every method, every kind of value, bad values, Kubernetes objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from pathlib import Path
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
from muster_core.values.affinity import (
    Operator,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from tests.actors.service import Notes, service

ONE: Final = {"vcore": 1}
CORE: Final = Resources({"vcore": 1000})


Say = Callable[[muster.Scheduler], Awaitable[object]]


async def submitted(say: Say) -> Event | str:
    """Return the event that a call lets in, whether it is refused or not."""
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
    (
        lambda s: s.add_node("m", ONE, taints=[{"key": "k", "effect": "NoSchedule"}]),
        AddNode("m", CORE, taints=(Taint("k", TaintEffect.NO_SCHEDULE),)),
    ),
    (lambda s: s.update_node("n", taints=()), UpdateNode("n", taints=())),
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
    seen = await submitted(say)
    assert seen == event


ASKING: Final[dict[str, Any]] = {
    "priority": 7,
    "gang": "g",
    "annotations": {"unrelated": "x"},
    "node": "n",
    "selector": {"disk": "ssd"},
    "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}],
    "affinity": [[{"key": "zone", "operator": "In", "values": ("a", "b")}], []],
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
        tolerations=(Toleration("k", TolerationOperator.EXISTS, effect=TaintEffect.NO_EXECUTE),),
        affinity=((Requirement("zone", Operator.IN, ("a", "b")),), ()),
        run_for_us=90_000_000,
        gang="default/g",
    )
    if by_app:
        one = await submitted(lambda s: s.app("a").add_ask("k", ONE, **ASKING))
        many = await submitted(lambda s: s.app("a").add_asks("k", ONE, 3, **ASKING))
    else:
        one = await submitted(lambda s: s.add_ask("a", "k", ONE, **ASKING))
        many = await submitted(lambda s: s.add_asks("a", "k", ONE, 3, **ASKING))

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

    event = await submitted(say)
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
    event = await submitted(lambda scheduler: scheduler.add_node("m", written))

    assert event == AddNode("m", Resources(units))


@pytest.mark.parametrize(
    ("run_for", "us"),
    [(3, 3_000_000), (0.5, 500_000), ("90s", 90_000_000), ("1h", 3_600_000_000)],
    ids=repr,
)
async def test_durations(run_for: float | str, us: int) -> None:
    event = await submitted(lambda scheduler: scheduler.add_ask("a", "k", ONE, run_for=run_for))

    assert event == AddAsk("a", "k", CORE, run_for_us=us)


@pytest.mark.parametrize(
    "groups",
    [["x"], ("x",), {"x"}, frozenset({"x"}), {"x": 1}.keys()],
    ids=lambda one: type(one).__name__,
)
async def test_groups_of_any_collection(groups: Any) -> None:  # noqa: ANN401
    event = await submitted(lambda scheduler: scheduler.add_app("b", "q", groups=groups))

    assert event == AddApp("b", "q", groups=("x",))


async def test_names_that_are_members_of_an_enumeration() -> None:
    event = await submitted(lambda scheduler: scheduler.add_node(Name.MACHINE, ONE))

    assert event == AddNode("m", CORE)


# Bad values: which field, which value, and what would be right

SELF: Final[dict[str, object]] = {"op": "remove_node"}
SELF["node"] = SELF
DEEP: Final[dict[str, object]] = {}
inner = DEEP
for _ in range(5_000):
    outer, inner = inner, dict[str, object]()
    outer["x"] = inner

ANY: Any = object()

BAD: Final[list[tuple[Say, str]]] = [
    (lambda s: s.add_node("m", {"vcore": "x"}), r"capacity.*vcore.*'x'"),
    (lambda s: s.add_node("m", {"vcore": -1}), r"capacity.*vcore.*-1"),
    (lambda s: s.add_node("m", {"vcore": True}), r"capacity.*vcore.*(True|true)"),
    (lambda s: s.add_node("m", {"vcore": float("nan")}), r"capacity.*vcore.*nan"),
    (lambda s: s.add_node("m", {"vcore": float("inf")}), r"capacity.*vcore.*inf"),
    (lambda s: s.add_node("m", {"vcore": 2**63}), r"capacity.*vcore"),
    (lambda s: s.add_node("m", {"vcore": ANY}), r"object"),
    (lambda s: s.add_node("m", {ANY: 1}), r"object"),
    (lambda s: s.add_node("m", "1"), r"capacity.*'1'"),  # type: ignore[arg-type]
    (lambda s: s.add_node("", ONE), r"node: ''"),
    (lambda s: s.add_node("\ud800", ONE), r"not Unicode"),
    (lambda s: s.add_node(b"m", ONE), r"bytes"),  # type: ignore[arg-type]
    (lambda s: s.add_node("m", ONE, attributes={"x": ANY}), r"object"),
    (lambda s: s.add_node("m", ONE, schedulable="yes"), r"schedulable.*'yes'.*true or false"),  # type: ignore[arg-type]
    (lambda s: s.add_ask("a", "k", {}), r"resources"),
    (lambda s: s.add_ask("a", "k", {"vcore": 0}), r"resources"),
    (lambda s: s.add_ask("a", "k", ONE, priority=2**31), r"priority: 2147483648"),
    (lambda s: s.add_ask("a", "k", ONE, priority="1"), r"priority: '1'.*quotes"),  # type: ignore[arg-type]
    (lambda s: s.add_ask("a", "k", ONE, run_for=0), r"run_for: 0 is not above 0"),
    (lambda s: s.add_ask("a", "k", ONE, run_for=-1), r"run_for: -1"),
    (lambda s: s.add_ask("a", "k", ONE, run_for="10"), r"run_for: '10'.*unit such as 's'"),
    (lambda s: s.add_ask("a", "k", ONE, run_for=float("nan")), r"run_for: nan"),
    (lambda s: s.add_ask("a", "k", ONE, gang="No Gang"), r"gang: 'No Gang'"),
    (lambda s: s.add_asks("a", "k", ONE, 0), r"count: 0"),
    (lambda s: s.add_asks("a", "k", ONE, 1.5), r"count: 1.5"),  # type: ignore[arg-type]
    (lambda s: s.add_app("b", ""), r"queue: ''"),
    (lambda s: s.add_app("b", "q", groups="staff"), r"groups: 'staff'"),
    (lambda s: s.add_gang("g", 0), r"min_member: 0"),
    (lambda s: s.add_gang("g", 2, mode="loose"), r"mode: 'loose'"),
    (lambda s: s.add_gang("g", 2, total=1), r"total: 1"),
    (lambda s: s.gang("No Gang").satisfied(), r"'No Gang'"),
    (lambda s: s.gang("No Gang").remove(), r"gang: 'No Gang'"),
    (lambda s: s.add_priority_class("system-x", 1), r"name: 'system-x'"),
    (lambda s: s.add_priority_class("x", 10**9 + 1), r"value: 1000000001"),
    (lambda s: s.add_priority_class("x", 1, preemption_policy="Always"), r"'Always'"),
    (lambda s: s.submit({}), r"op"),
    (lambda s: s.submit({"op": "jump"}), r"op: 'jump'"),
    (lambda s: s.submit({"op": 5}), r"op: 5"),
    (lambda s: s.submit({5: 5}), r"op: is missing"),  # type: ignore[dict-item]
    (lambda s: s.submit({"op": "remove_node", "node": "n", "why": 1}), r"why"),
    (lambda s: s.submit({"op": "remove_node", "node": "n", "at": 1}), r"at: 1"),
    (lambda s: s.submit({"op": "settle"}), r"op: 'settle' is only for feeds"),
    (lambda s: s.submit({"op": "expect"}), r"op: 'expect' is only for feeds"),
    (lambda s: s.submit(SELF), r"nested deeper than 200"),
    (lambda s: s.submit({"op": "apply", "manifest": DEEP}), r"nested deeper than 200"),
    (lambda s: s.submit(42), r"42"),  # type: ignore[arg-type]
    (lambda s: s.submit("remove_node"), r"remove_node"),  # type: ignore[arg-type]
    (lambda s: s.submit_many([RemoveNode("n"), {"op": "jump"}]), r"op: 'jump'"),
    (lambda s: s.submit_many([RemoveNode("n"), ANY]), r"object"),
]


@pytest.mark.parametrize(("say", "message"), BAD, ids=[f"{n}" for n in range(len(BAD))])
async def test_a_bad_value(say: Say, message: str) -> None:
    notes = Notes()
    async with service(record=notes) as scheduler:
        before = list(notes.events)
        with pytest.raises(muster.EventError, match=message):
            await say(scheduler)

        assert notes.events == before
        await scheduler.remove_node("n")


REFUSED: Final[list[tuple[Say, str]]] = [
    (lambda s: s.add_node("n", ONE), "node: 'n'"),
    (lambda s: s.update_node("m"), "node: 'm'"),
    (lambda s: s.remove_node("m"), "node: 'm'"),
    (lambda s: s.add_app("a", "q"), "app: 'a'"),
    (lambda s: s.add_app("b", "root"), "queue: 'root'"),
    (lambda s: s.add_app("b"), "queue: it is missing, and there are no placement rules"),
    (lambda s: s.remove_app("b"), "app: 'b'"),
    (lambda s: s.add_ask("b", "k", ONE), "app: 'b'"),
    (lambda s: s.add_ask("a", "k", ONE, priority_class="high"), "'high'"),
    (lambda s: s.remove_ask("a", "k"), "ask: 'k'"),
    (lambda s: s.release("a", "k"), "ask: 'k'"),
    (lambda s: s.remove_gang("g"), "gang: 'default/g'"),
    (lambda s: s.submit({"op": "bind_failed", "app": "a", "ask": "k"}), "ask: 'k'"),
    (lambda s: s.delete({"kind": "Node", "metadata": {"name": "m"}}), "'m'"),
]


@pytest.mark.parametrize(("say", "message"), REFUSED, ids=range(len(REFUSED)))
async def test_what_makes_no_sense_now(say: Say, message: str) -> None:
    async with service() as scheduler:
        with pytest.raises(muster.RefusedError, match=message):
            await say(scheduler)


@pytest.mark.parametrize("again", ["add_gang", "add_priority_class", "add_ask"])
async def test_what_is_there_already(again: str) -> None:
    fields: dict[str, tuple[Any, ...]] = {
        "add_gang": ("g", 2),
        "add_priority_class": ("high", 2),
        "add_ask": ("a", "k", ONE),
    }
    async with service() as scheduler:
        await getattr(scheduler, again)(*fields[again])
        with pytest.raises(muster.RefusedError):
            await getattr(scheduler, again)(*fields[again])


# Many at once


async def test_many_events() -> None:
    async with service() as scheduler:
        add = {"op": "add_app", "app": "b", "queue": "q"}
        events: list[Event | Mapping[str, object]] = [RemoveNode("m"), add, RemoveNode("n")]
        refusals = await scheduler.submit_many(iter(events))

        (first, *others) = refusals
        assert isinstance(first, muster.RefusedError)
        assert "node: 'm'" in str(first)
        assert others == [None, None]
        assert set((await scheduler.snapshot()).apps) == {"a", "b"}


async def test_no_events() -> None:
    async with service() as scheduler:
        assert await scheduler.submit_many([]) == ()


def node(name: str) -> dict[str, Any]:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": {"cpu": "2"}}}


def text_of(name: str) -> str:
    return f"kind: Node\nmetadata: {{name: {name}}}\nstatus: {{capacity: {{cpu: 2}}}}\n"


IN_LINE: Final = "{kind: Node, metadata: {name: x}, status: {capacity: {cpu: 2}}}"
BOTH: Final = {"kind": "List", "items": [node("x"), node("y")]}

MANIFESTS: Final[dict[str, Any]] = {
    "a map": node("x"),
    "a list": BOTH,
    "a text": text_of("x"),
    "a text of several": f"{text_of('x')}---\n{text_of('y')}",
    "a text with dashes around": f"---\n{text_of('x')}---\n{text_of('y')}---\n",
    "a text with comments only": f"# nothing\n---\n# x\n{text_of('x')}",
    "a text in braces": IN_LINE,
    "a list and more": f"kind: List\nitems:\n- {IN_LINE}\n---\n{text_of('y')}",
    "lines of Windows": f"{text_of('x')}---\n{text_of('y')}".replace("\n", "\r\n"),
}


async def nodes(scheduler: muster.Scheduler) -> set[str]:
    return set((await scheduler.snapshot()).nodes) - {"n"}


@pytest.mark.parametrize("name", MANIFESTS)
async def test_applying_and_deleting(name: str) -> None:
    manifest = MANIFESTS[name]
    two = {"a list", "a text of several", "a text with dashes around", "lines of Windows"}
    async with service() as scheduler:
        await scheduler.apply(manifest)
        assert await nodes(scheduler) == (
            {"x", "y"} if name in two | {"a list and more"} else {"x"}
        )

        await scheduler.apply(manifest)
        await scheduler.delete(manifest)

        assert await nodes(scheduler) == set()


async def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(f"{text_of('x')}---\n{text_of('y')}", "utf-8")
    async with service() as scheduler:
        await scheduler.apply(path)
        assert await nodes(scheduler) == {"x", "y"}
        await scheduler.delete(path)
        assert await nodes(scheduler) == set()


async def test_all_of_them_or_none() -> None:
    async with service() as scheduler:
        await scheduler.apply(node("y"))
        with pytest.raises(muster.RefusedError, match=r"items\[0\].*'x'"):
            await scheduler.delete(BOTH)
        assert await nodes(scheduler) == {"y"}

        bad = f"{text_of('x')}---\nkind: Node\n"
        with pytest.raises(muster.EventError, match=r"manifest.items\[1\]"):
            await scheduler.apply(bad)
        assert await nodes(scheduler) == {"y"}


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ({}, "kind"),
        ({"kind": "Banana", "metadata": {"name": "x"}}, "Banana"),
        ({"kind": "Node"}, "metadata"),
        ({"kind": "Node", "metadata": {"name": object()}}, "object"),
        ("\n", "there is no object in"),
        ("# nothing\n---\n", "manifest"),
        ("kind: [\n", "manifest"),
        ("kind: Node\nkind: Node\n", "manifest.*kind"),
        ("- 1\n- 2\n", "manifest"),
        ("a: \ud800\n", "manifest"),
        ({"kind": "List", "items": 5}, "items"),
        ("kind: List\nitems: 5\n---\nkind: Node\n", "items"),
    ],
    ids=range(12),
)
async def test_bad_manifests(manifest: Any, message: str) -> None:  # noqa: ANN401 - of any kind
    async with service() as scheduler:
        with pytest.raises(muster.EventError, match=message):
            await scheduler.apply(manifest)
        with pytest.raises(muster.EventError, match=message):
            await scheduler.delete(manifest)
