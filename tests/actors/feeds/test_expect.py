from __future__ import annotations

import math

import pytest

from muster.feeds import UNSET, Encoding, Expect, ExpectedApp, ExpectedGang, ExpectedQueue, Refused
from muster_core.resources import Resources
from tests.actors.feeds.helpers import content, items, refusal


def test_every_field() -> None:
    text = """
    op: expect
    order: [a/x, a/y-0]
    bound: [a/x]
    waiting: []
    pending: [b/x, b/y]
    parked: []
    placed: {a/x: n1}
    queues:
      root.a: {priority: 5, allocated: {vcore: 2}, pending: {}, share: inf, state: draining}
      root.b: {priority: null, exists: no}
    apps:
      a: {state: Running, priority: null}
      12:30: {state: New}
    gangs:
      default/g: {waiting: 1, bound: 2, satisfied: yes, timed_out: false, cycle_valid: true}
    preempted: [a/z]
    reclaimed: []
    rejected: [unknown queue]
    warnings: [over, 5]
    reasons: {b/x: no node}
    """

    assert content(text) == Expect(
        order=("a/x", "a/y-0"),
        bound=frozenset({"a/x"}),
        waiting=frozenset(),
        pending=frozenset({"b/x", "b/y"}),
        parked=frozenset(),
        placed={"a/x": "n1"},
        queues={
            "root.a": ExpectedQueue(
                5, Resources({"vcore": 2000}), Resources(), math.inf, "draining"
            ),
            "root.b": ExpectedQueue(priority=None, exists=False),
        },
        apps={"a": ExpectedApp("Running", None), "12:30": ExpectedApp("New", UNSET)},
        gangs={"default/g": ExpectedGang(1, 2, satisfied=True, timed_out=False, cycle_valid=True)},
        preempted=("a/z",),
        reclaimed=(),
        rejected=("unknown queue",),
        warnings=("over", "5"),
        reasons={"b/x": "no node"},
    )


def test_nothing_is_compared_unless_it_is_named() -> None:
    assert content("op: expect") == Expect()


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("order: ", "order: nothing is not a list"),
        ("order: a/x", "order: 'a/x' is not a list"),
        ("order: [a]", "order[0]: 'a' is not an ask: write 'application/ask'"),
        ("order: [a/b/c]", "order[0]: 'a/b/c' is not an ask"),
        ("bound: [/x]", "bound[0]: '/x' is not an ask"),
        ("bound: {a/x: 1}", "bound: a map is not a list"),
        ("placed: {a: n}", "placed.a: 'a' is not an ask"),
        ("placed: {a/x: }", "placed.a/x: nothing is not a text"),
        ("queues: [root]", "queues: a list is not a map"),
        ("queues: {root: 5}", "queues.root: '5' is not a map"),
        (
            "queues: {root: {size: 5}}",
            "queues.root.size: unknown field (with '5'); the fields are:",
        ),
        ("queues: {root: {priority: high}}", "queues.root.priority: 'high' is not a whole number"),
        ("queues: {root: {share: -1}}", "queues.root.share: '-1' is not a share"),
        ("queues: {root: {state: gone}}", "queues.root.state: 'gone' is none of active, draining"),
        ("queues: {root: {exists: }}", "queues.root.exists: nothing is not a boolean"),
        ("queues: {root: {pending: {vcore: x}}}", "queues.root.pending.vcore: 'x' is not a quant"),
        ("apps: {a: {state: running}}", "apps.a.state: 'running' is none of New, Accepted, "),
        ("gangs: {g: {bound: -1}}", "gangs.g.bound: '-1' is not a whole number"),
        ("rejected: oops", "rejected: 'oops' is not a list"),
        ("reasons: {a/x: [b]}", "reasons.a/x: a list is not a text"),
        ("bounds: []", "bounds: unknown field (with a list); the fields are: order, bound"),
    ],
)
def test_what_is_refused(field: str, message: str) -> None:
    assert refusal(f"op: expect\n{field}").startswith(message)


@pytest.mark.parametrize("share", ['"inf"', "0.5", "0", "1e400"])
def test_shares_in_json(share: str) -> None:
    [item] = items(
        f'{{"op": "expect", "queues": {{"a": {{"share": {share}}}}}}}', Encoding.JSON_LINES
    )

    assert isinstance(item.content, Refused if share == "1e400" else Expect)
