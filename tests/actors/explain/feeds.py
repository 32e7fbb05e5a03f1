"""Feeds in which an ask is not running for one reason, as texts."""

from __future__ import annotations

from typing import Final

import attrs


@attrs.frozen
class Case:
    """A feed with the expected explanation of one of its asks.

    Attributes:
        feed: The feed.
        ask: The ask to be explained.
        code: The dominant reason.
        kinds: The expected kinds of remedies, in order.
    """

    feed: str
    ask: str
    code: str
    kinds: tuple[str, ...]


def _queues(*queues: str, preemption: bool = True) -> str:
    partition = f"name: default, preemption: {{enabled: {str(preemption).lower()}}}"
    root = f"queues: [{{name: root, queues: [{', '.join(queues)}]}}]"
    return f"- {{op: configure, config: {{partitions: [{{{partition}, {root}}}]}}}}\n"


_NODE: Final = "- {op: add_node, node: n1, capacity: {vcore: 4}}\n"


def _app(app: str, queue: str = "q") -> str:
    return f"- {{op: add_app, app: {app}, queue: {queue}}}\n"


def _ask(app: str, ask: str, vcore: float, more: str = "") -> str:
    return f"- {{op: add_ask, app: {app}, ask: {ask}, resources: {{vcore: {vcore}}}{more}}}\n"


_ZONE: Final = "{key: zone, operator: In, values: [b]}"

CASES: Final[dict[str, Case]] = {
    "too large for any node": Case(
        _NODE + _app("a") + _ask("a", "x", 6), "a/x", "NeverFits", ("capacity", "node")
    ),
    "it comes when nothing else happens": Case(
        _NODE + _app("a") + _ask("a", "y", 6) + "- {op: settle, at: 5}\n" + _ask("a", "x", 7),
        "a/x",
        "NeverFits",
        ("capacity", "node"),
    ),
    "the gang does not come in": Case(
        _queues("{name: q, maxapplications: 1}")
        + _NODE
        + _app("b")
        + _ask("b", "y", 1)
        + _app("a")
        + _ask("a", "x", 1, ", gang: g, count: 2"),
        "a/x-0",
        "GangUndefined",
        ("define_gang", "combined"),
    ),
    "not old enough": Case(
        _queues(
            "{name: q, properties: {application.sort.blocking: enabled, priority.aging: 1s, "
            "priority.aging.limit: '5'}}"
        )
        + _NODE
        + _app("a")
        + _ask("a", "y", 9)
        + _ask("a", "x", 1, ", at: 3, priority: 2"),
        "a/x",
        "Blocked",
        ("priority", "age", "property", "capacity", "remove_ahead"),
    ),
    "too large for its queue": Case(
        _queues("{name: q, resources: {max: {vcore: 1500m}}}")
        + _NODE
        + _app("a")
        + _ask("a", "x", 2),
        "a/x",
        "NeverFits",
        ("max",),
    ),
    "too large for both": Case(
        _queues("{name: q, resources: {max: {vcore: 1}}}") + _NODE + _app("a") + _ask("a", "x", 6),
        "a/x",
        "NeverFits",
        ("combined",),
    ),
    "no node matches": Case(
        _NODE + _app("a") + _ask("a", "x", 1, ", selector: {disk: ssd}"),
        "a/x",
        "NeverFits",
        ("attributes", "node"),
    ),
    # AFFINITY-15
    "a taint that it does not tolerate": Case(
        "- {op: add_node, node: n1, capacity: {vcore: 4}, taints: [{key: k, effect: NoSchedule}]}\n"
        + _app("a")
        + _ask("a", "x", 1),
        "a/x",
        "NeverFits",
        ("toleration", "node"),
    ),
    "an affinity that no node matches": Case(
        "- {op: add_node, node: n1, capacity: {vcore: 4}, attributes: {zone: b}}\n"
        + _app("a")
        + _ask("a", "x", 1, f", affinity: [[{_ZONE}, {{key: disk, operator: Exists}}]]"),
        "a/x",
        "NeverFits",
        ("affinity", "attributes", "node"),
    ),
    "the members of a gang are choosy": Case(
        "- {op: add_node, node: n1, capacity: {vcore: 4}, attributes: {zone: a}}\n"
        "- {op: add_gang, gang: g, min_member: 2}\n"
        + _app("a")
        + _ask("a", "x", 1, f", gang: g, count: 2, affinity: [[{_ZONE}]]"),
        "a/x-0",
        "NeverFits",
        ("affinity", "attributes", "node"),
    ),
    "the node is not there": Case(
        _NODE + _app("a") + _ask("a", "x", 1, ", node: n7"), "a/x", "NeverFits", ("node",)
    ),
    "the queues are full": Case(
        _queues(
            "{name: p, resources: {max: {vcore: 3}}, queues: "
            "[{name: q, resources: {max: {vcore: 2}}}, {name: r}]}"
        )
        + _NODE
        + _app("a", "p.q")
        + _ask("a", "y", 2)
        + _ask("a", "x", 2),
        "a/x",
        "QueueMax",
        ("max", "release"),
    ),
    "the queue made on the fly is full": Case(
        "- {op: configure, config: {partitions: [{name: default, queues: [{name: root, "
        "childtemplate: {resources: {max: {vcore: 2}}}}]}]}}\n"
        + _NODE
        + _app("a", "made")
        + _ask("a", "y", 2)
        + _ask("a", "x", 1),
        "a/x",
        "QueueMax",
        ("max", "release"),
    ),
    "too many applications": Case(
        _queues("{name: q, maxapplications: 1}")
        + _NODE
        + _app("a")
        + _ask("a", "y", 1)
        + _app("b")
        + _ask("b", "x", 1),
        "b/x",
        "QueueMaxApps",
        # Without its ask the application is Completing, and with the next one it is Running.
        ("resubmit", "maxapplications", "release"),
    ),
    "a user has all of a limit": Case(
        _queues("{name: q, limits: [{users: ['*'], maxresources: {vcore: 45}}]}")
        + "- {op: add_node, node: n1, capacity: {vcore: 1000}}\n"
        + "- {op: add_app, app: o, queue: q, user: other}\n"
        # More small asks of others than releases are tried.
        + "- {op: add_ask, app: o, ask: y, count: 45, resources: {vcore: 1}}\n"
        + "- {op: add_app, app: a, queue: q, user: u}\n"
        + "- {op: add_ask, app: a, ask: y, count: 15, resources: {vcore: 3}}\n"
        + "- {op: add_app, app: b, queue: q, user: u}\n"
        + _ask("b", "x", 2),
        "b/x",
        "UserLimit",
        ("limit", "release"),
    ),
    "a group runs as many applications as it may": Case(
        _queues("{name: q, limits: [{groups: [g], maxapplications: 1}]}")
        + _NODE
        + "- {op: add_app, app: a, queue: q, user: u, groups: [g]}\n"
        + _ask("a", "y", 1)
        + "- {op: add_app, app: b, queue: q, user: v, groups: [g]}\n"
        + _ask("b", "x", 1),
        "b/x",
        "GroupLimit",
        ("resubmit", "limit", "release"),
    ),
    "another application starts": Case(
        _queues("{name: q, properties: {application.sort.policy: stateaware}}")
        + _NODE
        + _app("a")
        + _ask("a", "y", 1)
        + _app("b")
        + _ask("b", "x", 1),
        "b/x",
        "StateAwareTurn",
        ("resubmit", "property", "release"),
    ),
    "blocked": Case(
        _queues("{name: q, properties: {application.sort.blocking: enabled}}")
        + _NODE
        + _app("a")
        + _ask("a", "y", 8)
        + _app("b")
        + _ask("b", "x", 1),
        "b/x",
        "Blocked",
        # What comes first is too large for a node like the others.
        ("priority", "property", "capacity", "remove_ahead"),
    ),
    "no room": Case(
        _NODE + _app("a") + _ask("a", "y", 3) + _ask("a", "x", 2),
        "a/x",
        "NoNodeFits",
        ("capacity", "node", "release"),
    ),
    "the free node takes nothing": Case(
        _NODE
        + "- {op: add_node, node: n2, capacity: {vcore: 4}, schedulable: false}\n"
        + _app("a")
        + _ask("a", "y", 3)
        + _ask("a", "x", 2),
        "a/x",
        "NoNodeFits",
        ("schedulable", "capacity", "node", "release"),
    ),
    "fragmented": Case(
        _NODE
        + "- {op: add_node, node: n2, capacity: {vcore: 4}}\n"
        + _app("a")
        + _ask("a", "y", 3, ", count: 2")
        + _ask("a", "x", 2),
        "a/x",
        "Fragmented",
        ("capacity", "node", "release"),
    ),
    "the gang is not defined": Case(
        _NODE + _app("a") + _ask("a", "x", 1, ", gang: g, count: 2"),
        "a/x-0",
        "GangUndefined",
        ("define_gang",),
    ),
    "too few members": Case(
        "- {op: add_gang, gang: g, min_member: 3}\n"
        + _NODE
        + _app("a")
        + _ask("a", "x", 1, ", gang: g, count: 2"),
        "a/x-0",
        "GangTooFewMembers",
        ("more_members", "min_member"),
    ),
    "the gang does not fit": Case(
        "- {op: add_gang, gang: g, min_member: 3}\n"
        + _NODE
        + _app("a")
        + _ask("a", "x", 2, ", gang: g, count: 3"),
        "a/x-0",
        "GangCycleInvalid",
        ("min_member", "capacity", "node"),
    ),
    "the gang waits": Case(
        "- {op: add_gang, gang: g, min_member: 3, mode: NonStrict}\n"
        + _NODE
        + _app("a")
        + _ask("a", "x", 2, ", gang: g, count: 3"),
        "a/x-0",
        "PermitWaiting",
        ("min_member", "capacity", "node"),
    ),
    "the group waits": Case(
        "- {op: add_gang, gang: g, min_member: 1, groups: [h]}\n"
        "- {op: add_gang, gang: h, min_member: 2}\n"
        + _NODE
        + _app("a")
        + _ask("a", "x", 1, ", gang: g, count: 2")
        + _ask("a", "y", 1, ", gang: h"),
        "a/x-1",
        "GangSurplus",
        ("more_members", "min_member"),
    ),
    "the gang has timed out": Case(
        "- {op: add_gang, gang: g, min_member: 3, mode: NonStrict, wait_time: 5}\n"
        + _NODE
        + _app("a")
        + _ask("a", "x", 2, ", gang: g, count: 3")
        + "- {op: add_node, node: n2, capacity: {vcore: 4}, at: 10}\n",
        "a/x-0",
        "GangTimedOut",
        ("renew_gang",),
    ),
    "the bind fails": Case(
        _NODE
        + _app("a")
        + _ask("a", "x", 1)
        + "- {op: fail_bind, app: a, ask: x}\n"
        + _ask("a", "y", 4),
        "a/x",
        "BindFailed",
        ("capacity", "node", "release"),
    ),
    "it may not preempt yet": Case(
        _queues("{name: q, resources: {guaranteed: {vcore: 4}}}", "{name: r}")
        + _NODE
        + _app("a", "r")
        + _ask("a", "y", 4)
        + "- {op: settle, at: 1}\n"
        + _app("b")
        + _ask("b", "x", 1)
        + "- {op: settle, at: 11}\n",
        "b/x",
        "NoNodeFits",
        ("property", "capacity", "node", "release"),
    ),
    "nothing is guaranteed": Case(
        _queues("{name: q, properties: {preemption.delay: 0s}}", "{name: r}")
        + _NODE
        + _app("a", "r")
        + _ask("a", "y", 4)
        + _app("b")
        + _ask("b", "x", 1),
        "b/x",
        "NoNodeFits",
        ("guaranteed", "capacity", "node", "release"),
    ),
    "another one may start": Case(
        _queues("{name: q, properties: {application.sort.policy: stateaware}}")
        + _NODE
        + _app("a")
        + _ask("a", "y", 8)
        + _app("b")
        + _ask("b", "x", 1, ", priority: -3")
        + _ask("b", "z", 1, ", priority: -3"),
        "b/x",
        "StateAwareTurn",
        ("priority", "property", "remove_ahead"),
    ),
    "it may come again": Case(
        _queues("{name: q, properties: {application.sort.policy: stateaware}}")
        + _NODE
        + _app("a")
        + _ask("a", "y", 8)
        + _app("b")
        + _ask("b", "x", 1),
        "b/x",
        "StateAwareTurn",
        ("resubmit", "property", "remove_ahead"),
    ),
    "nothing preempts": Case(
        _queues(
            "{name: q, resources: {guaranteed: {vcore: 4}}, properties: {preemption.delay: 0s}}",
            "{name: r}",
            preemption=False,
        )
        + _NODE
        + _app("a", "r")
        + _ask("a", "y", 4)
        + _app("b")
        + _ask("b", "x", 1),
        "b/x",
        "NoNodeFits",
        ("preemption", "capacity", "node", "release"),
    ),
    "more applications and more room": Case(
        _queues("{name: p, maxapplications: 2, queues: [{name: q, maxapplications: 1}]}")
        + _NODE
        + _app("a", "p.q")
        + _ask("a", "y", 1)
        + _ask("a", "z", 2)
        + _app("b", "p.q")
        + _ask("b", "x", 2)
        + _app("c", "p.q")
        + _app("d", "p.q"),
        "b/x",
        "QueueMaxApps",
        ("combined",),
    ),
    "the limit of applications comes next": Case(
        _queues("{name: q, maxapplications: 2, resources: {max: {vcore: 2}}}")
        + _NODE
        + _app("a")
        + _ask("a", "x", 1, ", count: 2")
        + _app("b")
        + _ask("b", "x", 1)
        + _app("c")
        + _ask("c", "x", 1),
        "c/x",
        "QueueMax",
        ("combined",),
    ),
    "a gang that had too little room": Case(
        "- {op: add_node, node: n1, capacity: {vcore: 1}}\n"
        + _app("a")
        + "- {op: add_gang, gang: g, min_member: 3, mode: NonStrict, wait_time: 1}\n"
        + _ask("a", "x", 1, ", gang: g, count: 3")
        + "- {op: settle, at: 4}\n",
        "a/x-0",
        "GangTimedOut",
        ("combined",),
    ),
    "a gang whose queue is too small": Case(
        _queues("{name: q, resources: {max: {vcore: 2}}}")
        + _NODE
        + _app("a")
        + "- {op: add_gang, gang: g, min_member: 3, mode: NonStrict, wait_time: 1}\n"
        + _ask("a", "x", 1, ", gang: g, count: 3")
        + "- {op: settle, at: 4}\n",
        "a/x-0",
        "GangTimedOut",
        ("combined",),
    ),
    "one type is guaranteed": Case(
        _queues("{name: q, properties: {preemption.delay: 0s}}", "{name: r}")
        + "- {op: add_node, node: n1, capacity: {vcore: 4, memory: 4Gi, gpu: 1}}\n"
        + _app("a", "r")
        + "- {op: add_ask, app: a, ask: y, resources: {vcore: 1, memory: 1Gi, gpu: 1}}\n"
        + "- {op: settle, at: 1}\n"
        + _app("b")
        + "- {op: add_ask, app: b, ask: x, resources: {vcore: 1, memory: 1Gi, gpu: 1}}\n",
        "b/x",
        "NoNodeFits",
        ("guaranteed", "capacity", "node", "release"),
    ),
    "the node that it names takes nothing": Case(
        _NODE
        + "- {op: add_node, node: n2, capacity: {vcore: 4}, schedulable: false}\n"
        + _app("a")
        + _ask("a", "x", 6, ", node: n2"),
        "a/x",
        "NeverFits",
        ("combined",),
    ),
    "too large for its queue, and no node matches": Case(
        _queues("{name: q, resources: {max: {vcore: 1}}}")
        + _NODE
        + _app("a")
        + _ask("a", "x", 2, ", selector: {disk: ssd}"),
        "a/x",
        "NeverFits",
        ("combined",),
    ),
    "what runs has not run for long enough": Case(
        _queues(
            "{name: q, resources: {guaranteed: {vcore: 4}}, properties: {preemption.delay: 0s}}",
            "{name: r, properties: {preemption.min.runtime: 1h}}",
        )
        + _NODE
        + _app("a", "r")
        + _ask("a", "y", 4)
        + _app("b")
        + _ask("b", "x", 1)
        + "- {op: settle, at: 11}\n",
        "b/x",
        "NoNodeFits",
        ("property", "capacity", "node", "release"),
    ),
    "it may not preempt yet, for 11 s": Case(
        _queues(
            "{name: q, resources: {guaranteed: {vcore: 4}}, properties: {preemption.delay: 25s}}",
            "{name: r}",
        )
        + _NODE
        + _app("a", "r")
        + _ask("a", "y", 4)
        + _app("b")
        + _ask("b", "x", 1)
        + "- {op: settle, at: 11}\n",
        "b/x",
        "NoNodeFits",
        ("property", "capacity", "node", "release"),
    ),
    "it backs off after three binds that failed": Case(
        _queues("{name: q, properties: {bind.retry.delay: 4s}}")
        + _NODE
        + _app("a")
        + _ask("a", "x", 1)
        + "- {op: fail_bind, app: a, ask: x, times: 3}\n"
        + "- {op: settle, at: 16.5}\n",
        "a/x",
        "BackingOff",
        ("resubmit", "property"),
    ),
    "it may take room on its node": Case(
        _queues("{name: q}", "{name: r}")
        + _NODE
        + _app("a", "r")
        + _ask("a", "y", 3)
        + _ask("a", "z", 1)
        + _app("b")
        + _ask("b", "x", 2, ", node: n1"),
        "b/x",
        "NoNodeFits",
        ("property", "capacity", "release"),
    ),
    "a node service keeps the node": Case(
        _queues("{name: q, properties: {preemption.required.node: enabled}}", "{name: r}")
        + _NODE
        + _app("a", "r")
        + _ask("a", "y", 3, ", priority: 5")
        + _app("b")
        + _ask("b", "s", 4, ", node: n1")
        + "- {op: settle, at: 1}\n"
        + _ask("a", "x", 1),
        "a/x",
        "NodeKept",
        ("capacity", "node", "remove_ahead"),
    ),
    "a bind has failed, and the ask backs off": Case(
        _queues("{name: q, properties: {bind.retry.delay: 60s}}")
        + _NODE
        + _app("b")
        + _ask("b", "x", 1, ", retries: 2")
        + "- {op: fail_bind, app: b, ask: x}\n",
        "b/x",
        "BackingOff",
        ("resubmit", "property"),
    ),
    "a queue of higher priority": Case(
        _queues("{name: q, properties: {queue.priority: 3}}", "{name: r}")
        + "- {op: add_node, node: n1, capacity: {vcore: 1}}\n- {op: add_node, node: n2, "
        "capacity: {vcore: 9}, schedulable: false}\n"
        + _app("a")
        + _ask("a", "y", 1, ", count: 9")
        + _app("b", "r")
        + _ask("b", "x", 1),
        "b/x",
        "NoNodeFits",
        ("schedulable", "capacity", "node"),
    ),
    "it would delay a reservation": Case(
        _queues("{name: q, properties: {scheduling.order: backfill}}")
        + _NODE
        + _app("a")
        + _ask("a", "y", 3, ", run_for: 95")
        + _ask("a", "large", 4, ", run_for: 9")
        + _ask("a", "x", 1, ", run_for: 200"),
        "a/x",
        "HeldBack",
        ("estimate", "priority", "capacity", "node", "remove_ahead"),
    ),
    "it would delay a reservation with an unknown start": Case(
        _queues("{name: q, properties: {scheduling.order: backfill}}")
        + _NODE
        + _app("a")
        + _ask("a", "y", 3)
        + _ask("a", "large", 4)
        + _ask("a", "x", 1),
        "a/x",
        "HeldBack",
        ("estimate", "priority", "capacity", "node", "remove_ahead"),
    ),
}
"""The feeds by what is the matter."""
