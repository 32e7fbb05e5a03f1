from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from muster_core import events
from muster_core.errors import EventError, QuantityError
from muster_core.gangs import GangFields, Topology, TopologyRule
from muster_core.resources import Resources

ONE = Resources({"vcore": 1})
SAME = Topology(TopologyRule.SAME, "rack")


def ask(**fields: Any) -> events.AddAsk:  # noqa: ANN401 - that is what is tested
    given: dict[str, Any] = {"app": "a", "ask": "x", "resources": ONE, **fields}
    return events.AddAsk(**given)


def gang(**fields: Any) -> events.AddGang:  # noqa: ANN401 - that is what is tested
    return events.AddGang("default/g", GangFields(1, **fields))


def made_release(**fields: Any) -> Callable[[], object]:  # noqa: ANN401 - that is what is tested
    return lambda: events.Release("a", "x", **fields)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ask(app="a/b"), "app: 'a/b' is not without a '/'"),
        (lambda: ask(ask="x/y"), "ask: 'x/y' is not without a '/'"),
        (lambda: ask(ask=""), "ask: '' is not a text of at least one character"),
        (lambda: ask(ask=3), "ask: 3 is not a text of at least one character"),
        (lambda: ask(resources=Resources()), "one type above zero"),
        (lambda: ask(resources={"vcore": 1}), "is not of the type Resources"),
        (
            lambda: ask(priority=2**31),
            "priority: 2147483648 is not a whole number from -2147483648",
        ),
        (lambda: ask(priority=1.5), "priority: 1.5 is not a whole number"),
        (lambda: ask(count=0), "count: 0 is not a whole number of at least 1"),
        (lambda: ask(run_for_us=0), "run_for_us: 0 is not a whole number of at least 1"),
        (lambda: ask(run_for_us=1.5), "run_for_us: 1.5 is not a whole number of at least 1"),
        (lambda: ask(retries=-1), "retries: -1 is not a whole number of at least 0"),
        (lambda: ask(retries=True), "retries: True is not a whole number of at least 0"),
        (lambda: ask(work="date"), "work: 'date' is not of the type Work"),
        (lambda: events.Work(("",)), "command: '' is not a text of at least one character"),
        (lambda: events.Work(shell=""), "command: '' is not a text of at least one"),
        (lambda: events.Work(("a",), "a"), "there is one"),
        (lambda: events.Work(("a", "b\0")), "command: 'b\\x00' has a NUL character"),
        (lambda: events.Work(workdir="\0"), "workdir: '\\x00' has a NUL character"),
        (lambda: events.Work(env={"a=b": "c"}), "env: 'a=b' has a '='"),
        (lambda: events.Work(env={"": "c"}), "env: '' is not a text of at least one character"),
        (lambda: events.AddNode("n", ONE, lease_us=0), "lease_us: 0 is not a whole number"),
        (made_release(outcome="failed"), "outcome: 'failed' is not of the type Outcome"),
        (made_release(message=3), "message: 3 is not a text"),
        (lambda: gang(topology="rack"), "says.topology: 'rack' is not of the type Topology"),
        (
            lambda: gang(topology=Topology(TopologyRule.SAME, "")),
            "says.topology.attribute: '' is not a text of at least one character",
        ),
        (
            lambda: gang(topology=Topology(TopologyRule.PREFER, "rack", 2)),
            "says.topology.max: 2 is not allowed with prefer: it is for spread only",
        ),
        (
            lambda: gang(topology=Topology(TopologyRule.SPREAD, "rack", 0)),
            "says.topology.max: 0 is not a whole number between 1 and 2147483647",
        ),
        (
            lambda: ask(gang="default/g", says=GangFields(1, topology=SAME)),
            "is not said by members: add_gang says it",
        ),
        (lambda: events.AddNode("", ONE), "node: '' is not a text"),
        (
            lambda: events.AddPriorityClass("system-x", 1),
            "name: 'system-x' is not free of 'system-'",
        ),
        (
            lambda: events.AddPriorityClass("x", 10**9 + 1),
            "value: 1000000001 is not a whole number",
        ),
        (lambda: events.FailBind("a", "x", 0), "times: 0 is not a whole number of at least 1"),
        (lambda: events.AddApp("a", ""), "queue: '' is not a text of at least one character"),
    ],
)
def test_what_no_event_can_have(make: Callable[[], object], message: str) -> None:
    with pytest.raises(EventError) as caught:
        make()

    assert message in str(caught.value)


def test_what_an_event_can_have() -> None:
    made = ask(priority=-(2**31), count=1, run_for_us=1)

    assert (made.priority, made.count, made.run_for_us) == (-(2**31), 1, 1)
    assert events.UpdateNode("n", capacity=Resources()).capacity == Resources()


def test_an_amount_that_is_no_whole_number() -> None:
    with pytest.raises(QuantityError, match=r"vcore: 1\.5 is not a whole number"):
        Resources({"vcore": 1.5})  # type: ignore[dict-item]
