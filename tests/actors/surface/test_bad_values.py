"""Bad values that a program says, and events that make no sense."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import pytest

import muster
from muster_core.events import Event, RemoveNode
from tests.actors.service import Notes, service

ONE: Final = {"vcore": 1}


Say = Callable[[muster.Scheduler], Awaitable[object]]


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
