"""Random steps of clients, about the asks, nodes and gangs that a program has named so far.

Hypothesis needs tens of microseconds for each choice, and a program has hundreds. So Hypothesis
draws each step as one string of bytes, which it also shrinks byte by byte. A 0 is always the
simplest choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, final

import attrs

from muster.testing.fuzz._program import Key, Step

T = TypeVar("T")


@final
class Choices:
    """Makes a choice from each byte.

    Args:
        drawn: The bytes; after the last, all choices are the simplest ones.
    """

    def __init__(self, drawn: bytes) -> None:
        self._drawn = drawn
        self._next = 0

    def number(self, below: int) -> int:
        """Return a number from 0, less than ``below`` (at most 256)."""
        byte = self._drawn[self._next] if self._next < len(self._drawn) else 0
        self._next += 1
        return byte % below

    def large(self) -> int:
        """Return a number of two bytes."""
        return self.number(256) * 256 + self.number(256)

    def of(self, options: Sequence[T]) -> T:
        """Return one of some options, whose simplest comes first."""
        return options[self.number(len(options))]

    def one_in(self, chances: int) -> bool:
        """Return True in one of ``chances`` cases; the simplest choice is False."""
        return self.number(chances) == chances - 1


S: Final = 1_000_000
NODES: Final = ("n0", "n1", "n2", "n3")
GANGS: Final = ("default/g0", "default/g1", "other/g0")
_TAINTS: Final[tuple[Sequence[Mapping[str, Any]] | None, ...]] = (
    *(None,) * 8,
    (),
    (),
    ({"key": "k", "effect": "NoSchedule"},),
    ({"key": "k", "value": "v", "effect": "NoExecute"},),
    ({"key": "l", "effect": "PreferNoSchedule"},),
)
_TOLERATIONS: Final[tuple[Sequence[Mapping[str, Any]] | None, ...]] = (
    *(None,) * 5,
    ({"key": "k"},),
    ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, {"key": "l", "value": "v"}),
    ({"operator": "Exists"},),
)
_AFFINITIES: Final[tuple[Sequence[Sequence[Mapping[str, Any]]] | None, ...]] = (
    *(None,) * 12,
    (({"key": "zone", "operator": "In", "values": ("x", "y")},),),
    (({"key": "zone", "operator": "DoesNotExist"},), ()),
    (({"key": "metadata.name", "operator": "NotIn", "values": ("n0",)},),),
)
_AMOUNTS: Final[tuple[Mapping[str, Any], ...]] = (
    {"vcore": 1},
    {"vcore": 1},
    {"vcore": 2},
    {"vcore": "500m", "memory": "1Ki"},
    {"vcore": 1, "memory": 2048},
    {"vcore": 1},
    {"vcore": 1, "gpu": 1},
)
_CAPACITIES: Final[tuple[Mapping[str, Any], ...]] = (
    {"vcore": 4, "memory": "8Ki", "gpu": 1},
    {"vcore": 2, "memory": "4Ki"},
    {"vcore": 6, "memory": "8Ki", "gpu": 2},
    {"vcore": 1},
    {"vcore": 3, "memory": 1024},
)
_BAD: Final[tuple[Mapping[str, Any], ...]] = (
    {"vcore": -1},
    {"vcore": "0.0001"},
    {"vcore": "many"},
    {},
    {"vcore": 0},
)
_SUBMITTED: Final = (
    "add_ask",
    "add_ask",
    "release",
    "release",
    "remove_ask",
    "add_app",
    "fail_bind",
)
_UNREADABLE: Final = ("unreadable",)
_CLASSES: Final = ("low", "high")
_THE_CLASSES: Final[tuple[Mapping[str, Any], ...]] = (
    {"name": "low", "value": 7},
    {"name": "high", "value": 100, "preemption_policy": "PreemptLowerPriority"},
)
_USERS: Final = (None, None, "u", "vv")
_GROUPS: Final[tuple[Sequence[str] | None, ...]] = (None, None, ("g",), ("h", "g"))
_TAGS: Final[tuple[Mapping[str, str] | None, ...]] = (
    *(None,) * 6,
    {"team": "q"},
    {"application.create.force": "true"},
)
_RUN_FOR: Final = (None, None, None, None, 3, "1500ms", 0.25, "30s")
_RETRIES: Final = (None, None, None, 1, 3)
_RESERVED: Final[tuple[Mapping[str, Any], ...]] = (
    {"vcore": 1},
    {"vcore": 100, "memory": 1},
)
_RUN_LIMITS: Final = (*(None,) * 6, 1, "1500ms", "10s")
_STARTS: Final = (*(None,) * 8, 0, 1, 3, 10, 30)
_ENDS: Final[tuple[Mapping[str, Any], ...]] = (
    {},
    {},
    {"outcome": "failed"},
    {"outcome": "failed", "message": "exit status 3"},
    {"message": "done"},
    {"outcome": "cancelled"},
    {"outcome": "cancelled", "message": "by sue"},
)
_WITHIN: Final = (S, 3 * S, 1, 10 * S, 60 * S, 0)
_PLAIN: Final = (
    *("add_ask",) * 8,
    *("work",) * 10,
    *("bound",) * 5,
    *("jump",) * 4,
    *("settle",) * 3,
    *("sleep",) * 3,
    *("add_asks",) * 2,
    *("release_mine",) * 3,
    *("running_mine",) * 2,
    *("ended_mine",) * 2,
    *("release",) * 2,
    *("remove_ask",) * 2,
    *("submit",) * 2,
    *("submit_many",) * 2,
    *("add_app", "add_node", "add_node", "add_node", "remove_node", "remove_node", "update_node"),
    *("update_node",) * 2,
    *("remove_app", "check"),
    *("snapshot", "why", "statistics", "bad", "watch", "configure", "add_priority_class"),
    "set_usage",
    *("configure",) * 2,
)
_GANG: Final = (
    *("members",) * 10,
    *("add_gang",) * 3,
    *("satisfied",) * 3,
    *("remove_gang", "apply", "apply", "delete", "remove_node", "add_node"),
)


@final
class Moves:
    """Draws the steps of a program in order, and remembers the asks so far.

    Args:
        choices: The choices for the program as a whole.
        leaves: The paths of the queues for applications.
        configs: How many configurations there are to change to.
    """

    def __init__(self, choices: Choices, leaves: list[str], configs: int) -> None:
        self._leaves = leaves[: 1 + choices.number(4)]
        self._apps = [f"a{number}" for number in range(1 + choices.number(4))]
        self._gangs = GANGS[: 1 + choices.number(3)]
        self._ops = (_PLAIN, _PLAIN + _GANG, _GANG * 2 + _PLAIN)[choices.number(3)]
        self._priorities = choices.of(((None,), (None, 0, 1, 5), (None, None, -1, 9, 2**31 - 1)))
        self._preempts = choices.one_in(2)
        self._cancels = choices.of((0, 12, 5, 3))
        self._configs = configs
        self._asks: list[tuple[str, str]] = []
        self._makers: dict[str, Callable[[Choices], Step]] = {
            "add_node": self._add_node,
            "update_node": self._update_node,
            "remove_node": lambda choices: _about("RemoveNode", "remove_node", node=_node(choices)),
            "add_app": self._add_app,
            "remove_app": lambda choices: _about(
                "RemoveApp", "remove_app", app=choices.of(self._apps)
            ),
            "add_ask": self._add_ask,
            "add_asks": lambda choices: self._add_asks(choices, None),
            "members": lambda choices: self._add_asks(choices, choices.of(self._gangs)),
            "remove_ask": lambda choices: self._about_ask("RemoveAsk", "remove_ask", choices),
            "release": self._release,
            "add_gang": self._add_gang,
            "remove_gang": lambda choices: _about(
                "RemoveGang", "remove_gang", gang=choices.of(self._gangs)
            ),
            "add_priority_class": self._add_class,
            "set_usage": self._set_usage,
            "configure": self._configure,
            "apply": self._apply,
            "delete": self._delete,
            "submit": self._submit,
            "submit_many": self._submit_many,
            "bound": self._bound,
            "work": self._work,
            "release_mine": lambda choices: Step("release_mine", {"which": choices.number(4)}),
            "running_mine": self._running,
            "ended_mine": self._ended,
            "satisfied": lambda choices: _waits(
                Step("satisfied", {"gang": choices.of(self._gangs)}), choices
            ),
            "watch": self._watch,
            "why": lambda choices: Step("why", _named(self._ask(choices))),
            "bad": self._bad,
            "jump": lambda choices: Step("jump", {"by_us": choices.of(_WITHIN)}),
            "sleep": lambda choices: Step("sleep", {"for_us": choices.of((*_WITHIN[:4], 0))}),
        }

    def beginning(self, choices: Choices) -> list[Step]:
        """Draw the steps before clients begin, which add nearly all nodes and applications."""
        known = [name for name in self._apps if not choices.one_in(8)]
        steps = [
            _about("AddNode", "add_node", node=node, capacity=choices.of(_CAPACITIES))
            for node in NODES[: 1 + choices.number(3)]
        ]
        steps += [
            _about("AddApp", "add_app", app=name, queue=choices.of(self._leaves)) for name in known
        ]
        if self._preempts:
            steps += [
                _about("AddPriorityClass", "add_priority_class", **args) for args in _THE_CLASSES
            ]
        if self._ops is not _PLAIN:
            steps += [self._add_gang(choices) for _ in range(choices.number(3))]
        return steps

    def shrinking(self, choices: Choices) -> list[Step]:
        """Draw steps after which queues have more than the last configuration lets them have."""
        configure = Step("configure", {"which": self._configs - 1}, (("Configure",),))
        jump = Step("jump", {"by_us": choices.of((S, S // 4, 2 * S))})
        return [self._add_asks(choices, None), Step("settle", {}), configure, jump]

    # The whole step

    def step(self, choices: Choices) -> Step:
        """Draw a step of any operation, with its pause and its cancellation."""
        step = self.of(choices.of(self._ops), choices)
        pause = choices.of((0, 0, 0, 1, 2, 5))
        cancel = self._cancels and choices.one_in(self._cancels)
        after = choices.number(200) // (1 + choices.number(12)) if cancel else None
        return attrs.evolve(step, pause=pause, cancel_after=after)

    def of(self, op: str, choices: Choices) -> Step:
        """Draw a step of one operation."""
        make = self._makers.get(op)
        return Step(op, {}) if make is None else make(choices)

    # Nodes and applications

    def _add_node(self, choices: Choices) -> Step:
        return _about(
            "AddNode",
            "add_node",
            node=_node(choices),
            capacity=choices.of(_CAPACITIES),
            attributes=choices.of((None, None, {"zone": "x"})),
            taints=choices.of(_TAINTS),
        )

    def _update_node(self, choices: Choices) -> Step:
        return _about(
            "UpdateNode",
            "update_node",
            node=_node(choices),
            capacity=choices.of((None, None, *_CAPACITIES)),
            schedulable=choices.of((None, True, False)),
            reserved=choices.of((None, {}, *_RESERVED)),
            taints=choices.of(_TAINTS),
        )

    def _add_app(self, choices: Choices) -> Step:
        name, queue = choices.of(self._apps), choices.of(self._leaves)
        return _about(
            "AddApp",
            "add_app",
            app=name,
            queue=None if choices.one_in(8) else queue,
            user=choices.of(_USERS),
            groups=choices.of(_GROUPS),
            tags=choices.of(_TAGS),
        )

    # Asks

    def _ask(self, choices: Choices) -> tuple[str, str]:
        newest = self._asks[-8:][::-1]
        return choices.of(newest or [("a0", "missing")])

    def _about_ask(self, kind: str, op: str, choices: Choices) -> Step:
        app, ask = self._ask(choices)
        return Step(op, {"app": app, "ask": ask}, ((kind, app, ask),))

    def _release(self, choices: Choices) -> Step:
        step = self._about_ask("Release", "release", choices)
        return attrs.evolve(step, args={**step.args, **choices.of(_ENDS)})

    def _new(self, choices: Choices) -> dict[str, Any]:
        app, ask = choices.of(self._apps), f"k{len(self._asks)}"
        if choices.one_in(20):
            app, ask = self._ask(choices)
        self._asks.append((app, ask))
        args: dict[str, Any] = {"app": app, "ask": ask, "resources": choices.of(_AMOUNTS)}
        optional = {
            "priority": choices.of(self._priorities),
            "node": choices.of((None,) * 14 + NODES[:2]),
            "selector": {"zone": "x"} if choices.one_in(12) else None,
            "tolerations": choices.of(_TOLERATIONS),
            "affinity": choices.of(_AFFINITIES),
            "run_for": choices.of(_RUN_FOR),
            "retries": choices.of(_RETRIES),
            "run_limit": choices.of(_RUN_LIMITS),
            "start_by": choices.of(_STARTS),
        }
        if choices.one_in(4):
            optional |= {"once": True, "retries": None}
        if self._preempts and choices.one_in(3):
            optional["priority"] = None
            optional["priority_class"] = choices.of(("high", "low", "system-node-critical"))
        args |= {name: value for name, value in optional.items() if value is not None}
        return args

    def _add_ask(self, choices: Choices) -> Step:
        args = self._new(choices)
        return Step("add_ask", args, (("AddAsk", args["app"], args["ask"]),))

    def _add_asks(self, choices: Choices, gang: str | None) -> Step:
        args = self._new(choices)
        app, ask = self._asks.pop()
        args["count"] = choices.of((2, 3, 1, 4))
        self._asks += [(app, f"{ask}-{number}") for number in range(args["count"])]
        if gang is not None:
            args["gang"] = gang
        return Step("add_asks", args, (("AddAsk", app, ask),))

    def _work(self, choices: Choices) -> Step:
        args = self._new(choices)
        body = {"body_us": choices.of(_WITHIN), "holds": choices.one_in(3)}
        step = Step("work", {**args, **body}, (("AddAsk", args["app"], args["ask"]),))
        return _waits(step, choices)

    def _bound(self, choices: Choices) -> Step:
        then = choices.of(("keep", "release", "running", "ended"))
        named = _named(self._ask(choices))
        by_handle = choices.one_in(2)
        return _waits(Step("bound", {**named, "then": then, "by_handle": by_handle}), choices)

    def _running(self, choices: Choices) -> Step:
        args = {"which": choices.number(4), "body_us": choices.of(_WITHIN)}
        return _waits(Step("running_mine", args), choices)

    def _ended(self, choices: Choices) -> Step:
        return _waits(Step("ended_mine", {"which": choices.number(4)}), choices)

    # Gangs, classes, configurations, manifests

    def _add_gang(self, choices: Choices) -> Step:
        args: dict[str, Any] = {
            "gang": choices.of(self._gangs),
            "min_member": choices.of((2, 3, 1, 4)),
            "mode": choices.of((None, "NonStrict")),
            "wait_time": choices.of((None, 2, "5s", 0.5)),
            "groups": choices.of(((), (), self._gangs[:2])),
        }
        return _about("AddGang", "add_gang", **args)

    def _add_class(self, choices: Choices) -> Step:
        policy = choices.of(("PreemptLowerPriority", "Never"))
        args = {"name": choices.of(_CLASSES), "value": choices.of((100, 7, 0, -3))}
        return _about("AddPriorityClass", "add_priority_class", **args, preemption_policy=policy)

    def _set_usage(self, choices: Choices) -> Step:
        args: dict[str, Any] = {
            "queue": choices.of(self._leaves),
            "usage": choices.of(({"vcore": 3}, {"vcore": 60}, {"memory": "1Mi", "vcore": 0})),
            "user": choices.of((None, None, *_USERS, "")),
        }
        return _about("SetUsage", "set_usage", **args)

    def _configure(self, choices: Choices) -> Step:
        if not self._configs:
            return Step("settle", {})
        return Step("configure", {"which": choices.number(self._configs)}, (("Configure",),))

    def _apply(self, choices: Choices) -> Step:
        make = choices.of((self._pod, self._pod_group, self._node_object))
        manifest, key = make(choices)
        return Step("apply", {"manifest": manifest}, (key,))

    def _pod(self, choices: Choices) -> tuple[Mapping[str, Any], Key]:
        app, name = choices.of(self._apps), f"k{len(self._asks)}"
        self._asks.append((app, name))
        labels = {"applicationId": app, "queue": choices.of(self._leaves)}
        if choices.one_in(2):
            labels["pod-group.scheduling.sigs.k8s.io"] = "g0"
        requests = {"cpu": choices.of(("1", "500m", "2"))}
        metadata: dict[str, Any] = {"name": name, "labels": labels}
        if choices.one_in(4):
            metadata["annotations"] = {"yunikorn.apache.org/user.info": '{"user": "u"}'}
        manifest = {
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
        }
        return manifest, ("Apply", "PodObject", name)

    def _pod_group(self, choices: Choices) -> tuple[Mapping[str, Any], Key]:
        name = choices.of(self._gangs).rpartition("/")[2]
        spec = {"minMember": choices.of((2, 1, 3)), "scheduleTimeoutSeconds": 5}
        manifest = {"kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
        return manifest, ("Apply", "AddGang", f"default/{name}")

    def _node_object(self, choices: Choices) -> tuple[Mapping[str, Any], Key]:
        name = _node(choices)
        manifest = {
            "kind": "Node",
            "metadata": {"name": name, "labels": {"zone": "x"}},
            "spec": {"unschedulable": choices.one_in(5)},
            "status": {"allocatable": {"cpu": choices.of(("4", "2")), "memory": "8Ki"}},
        }
        return manifest, ("Apply", "NodeObject", name)

    def _delete(self, choices: Choices) -> Step:
        if choices.one_in(2):
            name = choices.of(self._gangs).rpartition("/")[2]
            manifest: Mapping[str, Any] = {"kind": "PodGroup", "metadata": {"name": name}}
            key = ("Delete", "PodGroup", f"default/{name}")
        else:
            app, name = self._ask(choices)
            metadata = {"name": name, "labels": {"applicationId": app}}
            manifest, key = {"kind": "Pod", "metadata": metadata}, ("Delete", "Pod", name)
        return Step("delete", {"manifest": manifest}, (key,))

    # Events, and invalid values

    def _event(self, choices: Choices) -> tuple[Mapping[str, Any], Key]:
        if choices.one_in(8):
            return {"op": "add_ask", "app": "a0", "ask": "k/0"}, _UNREADABLE
        op = choices.of(_SUBMITTED)
        if op == "fail_bind":
            app, ask = self._ask(choices)
            return {"op": op, "app": app, "ask": ask}, ("FailBind", app, ask)
        step = self.of(op, choices)
        return {"op": op, **step.args}, step.keys[0]

    def _submit(self, choices: Choices) -> Step:
        event, key = self._event(choices)
        return _as_it_is(Step("submit", {"event": event}, (key,)))

    def _submit_many(self, choices: Choices) -> Step:
        if choices.one_in(2):
            return self._again(choices)
        events = [self._event(choices) for _ in range(1 + choices.number(4))]
        args = {"events": tuple(event for event, _ in events)}
        return _as_it_is(Step("submit_many", args, tuple(key for _, key in events)))

    def _again(self, choices: Choices) -> Step:
        """Draw a batch that removes an ask and adds another ask of the same name."""
        named = _named(self._ask(choices))
        events = (
            {"op": choices.of(("remove_ask", "release")), **named},
            {"op": "remove_ask", **named},
            {"op": "add_ask", **named, "resources": choices.of(_AMOUNTS)},
        )
        kinds = {"remove_ask": "RemoveAsk", "release": "Release", "add_ask": "AddAsk"}
        keys = tuple((kinds[str(event["op"])], *named.values()) for event in events)
        return Step("submit_many", {"events": events}, keys)

    def _bad(self, choices: Choices) -> Step:
        args = {"app": choices.of(self._apps), "ask": "bad", "resources": choices.of(_BAD)}
        wrong = choices.of(
            (
                Step("add_ask", args),
                Step("add_node", {"node": "", "capacity": {"vcore": 1}}),
                Step("add_gang", {"gang": "g/h/i", "min_member": 1}),
                Step("add_gang", {"gang": "g0", "min_member": 0}),
                Step("add_priority_class", {"name": "system-mine", "value": 1}),
                Step("apply", {"manifest": {"kind": "Sofa"}}),
                Step("submit", {"event": {"op": "nonsense"}}),
                Step("configure", {"which": None}),
            )
        )
        return attrs.evolve(wrong, args={**wrong.args, "bad": True})

    def _watch(self, choices: Choices) -> Step:
        args = {"take": choices.one_in(2), "readings": choices.of((3, 1, 10)), "buffer": 16}
        return _waits(Step("watch", args), choices)


def _as_it_is(step: Step) -> Step:
    """Mark a step as bad if one of its events is invalid."""
    if _UNREADABLE not in step.keys:
        return step
    return attrs.evolve(step, args={**step.args, "bad": True}, keys=())


def _about(kind: str, op: str, **fields: object) -> Step:
    args = {name: value for name, value in fields.items() if value is not None}
    return Step(op, args, ((kind, str(next(iter(fields.values())))),))


def _named(ask: tuple[str, str]) -> dict[str, Any]:
    return {"app": ask[0], "ask": ask[1]}


def _node(choices: Choices) -> str:
    return choices.of(NODES)


def _waits(step: Step, choices: Choices) -> Step:
    """Give a step a timeout; sometimes run it aside, and then perhaps without a timeout."""
    aside = choices.one_in(3)
    within = None if aside and choices.one_in(3) else choices.of(_WITHIN)
    return attrs.evolve(step, within_us=within, aside=aside)
