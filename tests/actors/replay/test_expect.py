from __future__ import annotations

import pytest

from muster.replay import Check
from tests.actors.replay.helpers import items

SETUP = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: p, parent: true, properties: {queue.create: enabled}},
    {name: q, resources: {guaranteed: {vcore: 3}}}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 2, memory: 1Gi}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1, memory: 512Mi}}
- {op: add_ask, app: a, ask: y, resources: {vcore: 1.5}, priority: 4}
- {op: add_app, app: done, queue: root.p.new}
- {op: add_ask, app: done, ask: x, resources: {gpu: 1}}
- {op: settle}
- {op: remove_ask, app: done, ask: x}
- {op: add_app, at: 30, app: b, queue: root.q}
"""


async def differences(expect: str, setup: str = SETUP) -> list[str]:
    """Compare one ``expect``; give the differences as ``field: expected / found``."""
    check = Check()
    await check.run(items(f"{setup}- {{op: expect, {expect}}}\n"))
    return [f"{found.field}: {found.expected} / {found.found}" for found in check.differences]


GOOD = [
    "order: [a/y]",
    "bound: [a/y]",
    "pending: [a/x]",
    "waiting: [], parked: []",
    "placed: {a/y: n1}",
    "apps: {a: {state: Starting, priority: 0}, b: {state: New, priority: null}}",
    "apps: {done: {state: Completed, priority: null}, a: {}}",
    "queues: {root.q: {priority: 0, allocated: {vcore: 1500m}, share: 0.5, state: active}}",
    "queues: {root.q: {pending: {memory: 0.5Gi, vcore: 1, gpu: 0}, exists: true}}",
    "queues: {Q: {priority: 0}, ROOT: {priority: 0}, root.p: {allocated: {}, priority: null}}",
    "queues: {root.p.new: {exists: false}, 'no such. name': {exists: false}}",
    "preempted: [], reclaimed: [], rejected: [], warnings: []",
    "reasons: {a/x: NoNodeFits}",
    "reasons: {a/x: too little}",
    "reasons: {a/x: ''}",
    "reservations: {a/x: null}",
]


@pytest.mark.parametrize("expect", GOOD)
async def test_as_it_is(expect: str) -> None:
    assert await differences(expect) == []


WRONG = [
    ("reservations: {a/x: {node: n1}}", "reservations.a/x: a reservation / None"),
    ("reservations: {a/none: null}", "reservations.a/none: an ask / unknown"),
    ("order: []", "order: [] / ['a/y']"),
    ("order: [a/y, a/x]", "order: ['a/y', 'a/x'] / ['a/y']"),
    ("bound: []", "bound: [] / ['a/y']"),
    ("bound: [a/y, a/nobody]", "bound: ['a/nobody', 'a/y'] / ['a/y']"),
    ("pending: []", "pending: [] / ['a/x']"),
    ("waiting: [a/x]", "waiting: ['a/x'] / []"),
    ("parked: [a/x]", "parked: ['a/x'] / []"),
    ("placed: {a/y: n2}", "placed.a/y: n2 / n1"),
    ("placed: {a/x: n1}", "placed.a/x: n1 / pending"),
    ("placed: {a/x: pending}", "placed.a/x: pending / pending"),
    ("placed: {a/z: n1}", "placed.a/z: n1 / unknown"),
    ("apps: {a: {state: Running}}", "apps.a.state: Running / Starting"),
    ("apps: {a: {priority: 4}}", "apps.a.priority: 4 / 0"),
    ("apps: {a: {priority: null}}", "apps.a.priority: None / 0"),
    ("apps: {done: {state: Completing}}", "apps.done.state: Completing / Completed"),
    ("apps: {done: {priority: 0}}", "apps.done.priority: 0 / None"),
    ("apps: {c: {}}", "apps.c: an application / unknown"),
    ("queues: {root.q: {priority: null}}", "queues.root.q.priority: None / 0"),
    ("queues: {q: {allocated: {}}}", "queues.q.allocated: {} / {'vcore': '1500m'}"),
    (
        "queues: {q: {pending: {vcore: 1}}}",
        "queues.q.pending: {'vcore': '1'} / {'memory': '512Mi', 'vcore': '1'}",
    ),
    ("queues: {q: {share: 0.25}}", "queues.q.share: 0.25 / 0.5"),
    ("queues: {q: {share: inf}}", "queues.q.share: inf / 0.5"),
    ("queues: {q: {state: draining}}", "queues.q.state: draining / active"),
    ("queues: {q: {exists: false}}", "queues.q.exists: False / True"),
    ("queues: {r: {exists: true}}", "queues.r.exists: True / False"),
    ("queues: {r: {}}", "queues.r: a queue / unknown"),
    ("queues: {r: {state: active}}", "queues.r: a queue / unknown"),
    ("queues: {r: {state: active, exists: false}}", "queues.r: a queue / unknown"),
    ("gangs: {default/g: {}}", "gangs.default/g: a gang / unknown"),
    ("preempted: [a/x]", "preempted: ['a/x'] / []"),
    ("reclaimed: [a/x]", "reclaimed: ['a/x'] / []"),
    ("rejected: [vcore]", "rejected[0]: vcore / nothing"),
    ("warnings: [root]", "warnings[0]: root / nothing"),
    ("reasons: {a/y: fits}", "reasons.a/y: fits / bound"),
    ("reasons: {a/z: fits}", "reasons.a/z: fits / unknown"),
]


@pytest.mark.parametrize(("expect", "difference"), WRONG)
async def test_not_as_it_is(expect: str, difference: str) -> None:
    assert await differences(expect) == [difference]


DEVICES = """
- {op: add_node, node: n, capacity: {vcore: 1}, devices: {gpu: 3, nic: 1}}
- {op: add_app, app: a, queue: root.default}
- {op: add_ask, app: a, ask: x, devices: {gpu: 2, nic: {milli: 5}}}
- {op: add_ask, app: a, ask: y, resources: {vcore: 1}}
- {op: add_ask, app: a, ask: z, devices: {gpu: 2}}
"""


# DEVICE-13
@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ("devices: {a/x: {nic: [0], gpu: [0, 1]}, a/y: {}}", []),
        ("devices: {a/x: {gpu: [0, 1]}}", "{'gpu': [0, 1]} / {'gpu': [0, 1], 'nic': [0]}"),
        ("devices: {a/x: {gpu: [1, 0], nic: [0]}}", "{'gpu': [1, 0], 'nic': [0]} / "),
        ("devices: {a/y: {gpu: [2]}}", "{'gpu': [2]} / {}"),
        ("devices: {a/z: {gpu: [2]}}", "{'gpu': [2]} / pending"),
        ("devices: {a/w: {}}", "{} / unknown"),
    ],
)
async def test_devices(expect: str, found: str | list[str]) -> None:
    told = await differences(expect, DEVICES)
    assert told == [] if found == [] else str(found) in told[0]


async def test_any_reason_that_holds_will_do() -> None:
    for part in ("NoNodeFits: of 1 node", "ReclaimInsufficient: ", "what root.q is guaranteed"):
        assert await differences(f"reasons: {{a/x: '{part}'}}") == []


async def test_a_reason_that_is_another() -> None:
    """All that hold are shown, the dominant one first."""
    (difference,) = await differences("reasons: {a/x: QueueMax}")

    assert difference.startswith("reasons.a/x: QueueMax / ['NoNodeFits: of 1 node ")
    assert "vcore', 'ReclaimInsufficient: it may reclaim what " in difference


async def test_the_only_reason_is_shown_as_a_text() -> None:
    setup = SETUP + "- {op: add_ask, app: b, ask: x, gang: g, resources: {vcore: 0.5}}\n"
    (difference,) = await differences("reasons: {b/x: QueueMax}", setup)

    assert difference == (
        "reasons.b/x: QueueMax / GangUndefined: gang default/g is not defined: "
        "nothing says how many members it needs"
    )


async def test_an_infinite_share() -> None:
    setup = """
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}}
- op: configure
  at: 1
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: q, resources: {max: {vcore: 0}}}]}]}]}
"""
    assert await differences("queues: {q: {share: inf}}", setup) == []
    assert await differences("queues: {q: {share: 5}}", setup) == ["queues.q.share: 5.0 / inf"]


async def test_every_difference_is_found() -> None:
    found = await differences("order: [], placed: {a/y: n2}, queues: {q: {share: 1, priority: 9}}")

    assert [difference.partition(":")[0] for difference in found] == [
        "order",
        "placed.a/y",
        "queues.q.priority",
        "queues.q.share",
    ]


RESERVED = """
- op: configure
  config: {partitions: [{name: default, queues: [{name: root, queues: [
    {name: q, properties: {scheduling.order: backfill}}]}]}]}
- {op: add_node, node: n1, capacity: {vcore: 2}}
- {op: add_app, app: a, queue: root.q}
- {op: add_ask, app: a, ask: x, resources: {vcore: 1}, run_for: 90}
- {op: settle}
- {op: add_ask, app: a, ask: y, resources: {vcore: 2}}
"""


@pytest.mark.parametrize(
    ("expect", "found"),
    [
        ("{start: 90, node: n1}", []),
        ("{start: 1m30s}", []),
        ("{}", []),
        ("{start: 91}", ["reservations.a/y.start: 91 / 90"]),
        ("{start: unknown}", ["reservations.a/y.start: unknown / 90"]),
        ("{node: n2}", ["reservations.a/y.node: n2 / n1"]),
        ("null", ["reservations.a/y: None / {'start': '90', 'node': 'n1'}"]),
    ],
)
async def test_what_is_reserved(expect: str, found: list[str]) -> None:
    # EXPECT-15
    assert await differences(f"reservations: {{a/y: {expect}}}", RESERVED) == found


@pytest.mark.parametrize(
    ("expect", "why"),
    [
        ("7", "reservations.a/y: '7' is not a map"),
        ("{start: soon}", "reservations.a/y.start: 'soon'"),
        ("{since: 7}", "reservations.a/y.since: unknown field"),
    ],
)
async def test_what_cannot_be_reserved(expect: str, why: str) -> None:
    check = Check()
    await check.run(items(f"{RESERVED}- {{op: expect, reservations: {{a/y: {expect}}}}}\n"))

    [found] = check.differences
    assert why in str(found.found)
