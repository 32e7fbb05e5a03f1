"""A fixed program that uses everything, to be cancelled at every step."""

from __future__ import annotations

from typing import Any, Final

from muster.testing.fuzz import (
    Bind,
    Client,
    Fate,
    Leave,
    LeaveMethod,
    Order,
    Program,
    Step,
    Watcher,
)

S: Final = 1_000_000


def _named(op: str, kind: str, **args: Any) -> Step:  # noqa: ANN401 - whatever the method takes
    return Step(op, args, ((kind, str(next(iter(args.values())))),))


def _ask(op: str, name: str, within_us: int | None = None, **args: Any) -> Step:  # noqa: ANN401
    fields = {"app": "a", "ask": name, "resources": {"vcore": 1}, **args}
    return Step(op, fields, (("AddAsk", "a", name),), within_us=within_us)


_LEAF: Final = {"name": "q", "properties": {"preemption.delay": "0s"}}
CONFIG: Final = {
    "partitions": [{"name": "default", "queues": [{"name": "root", "queues": [_LEAF]}]}]
}
OTHER: Final = {
    "partitions": [
        {"name": "default", "queues": [{"name": "root", "queues": [_LEAF, {"name": "r"}]}]}
    ]
}
PRELUDE: Final = (
    _named("add_node", "AddNode", node="n", capacity={"vcore": 3}),
    _named("add_app", "AddApp", app="a", queue="root.q"),
    _named(
        "add_priority_class",
        "AddPriorityClass",
        name="high",
        value=9,
        preemption_policy="PreemptLowerPriority",
    ),
)
_RELEASE: Final = {"op": "release", "app": "a", "ask": "k1-1"}
CLIENTS: Final = (
    Client(
        (
            _ask("work", "k0", within_us=9 * S, body_us=S, holds=False),
            _ask("add_asks", "k1", count=2, run_for=1),
            Step("bound", {"app": "a", "ask": "k1-0", "then": "ended"}, within_us=9 * S),
            Step("snapshot", {}),
            Step("why", {"app": "a", "ask": "k1-1"}),
            _named("remove_app", "RemoveApp", app="a"),
        )
    ),
    Client(
        (
            _named("add_gang", "AddGang", gang="default/g", min_member=2, wait_time=2),
            _ask("add_asks", "m", count=2, gang="default/g"),
            Step("satisfied", {"gang": "default/g"}, within_us=4 * S),
            Step("jump", {"by_us": S}),
            _named("remove_gang", "RemoveGang", gang="default/g"),
        ),
        outside=True,
    ),
    Client(
        (
            Step("configure", {"which": 0}, (("Configure",),)),
            _ask("work", "k2", within_us=9 * S, body_us=S, holds=True, priority_class="high"),
            Step("running_mine", {"which": 0, "body_us": 2 * S}, aside=True),
            Step("watch", {"take": True, "readings": 2, "buffer": 4}, aside=True),
            Step("sleep", {"for_us": S}),
            Step("submit_many", {"events": (_RELEASE,)}, (("Release", "a", "k1-1"),)),
            _named("remove_node", "RemoveNode", node="n"),
            Step("check", {}),
            _named("add_node", "AddNode", node="n", capacity={"vcore": 2}),
        ),
    ),
)
WATCHERS: Final = (
    Watcher({"buffer": 2, "lag": "drop"}, pause=3),
    Watcher({"buffer": 2, "lag": "skip", "kinds": ("bound", "released")}, together=True),
)
BINDS: Final = (
    Bind(Fate.FINISHES, start_us=1, work_us=S),
    Bind(Fate.FAILS_BEFORE),
    Bind(Fate.GOES_ON, cleanup_us=S),
    Bind(Fate.HANGS),
)


def everything(
    chance: int, *, block_at: int | None = None, client: int = 0, client_at: int | None = None
) -> Program:
    """Return the program, with the block or one client cancelled at a step of all tasks."""
    clients = tuple(
        Client(one.steps, one.outside, client_at if number == client else None)
        for number, one in enumerate(CLIENTS)
    )
    return Program(
        config=CONFIG,
        configs=(OTHER,),
        prelude=PRELUDE,
        clients=clients,
        watchers=WATCHERS,
        binds=BINDS,
        bind_timeout_us=2 * S,
        bind_attempts=2,
        leave=Leave() if block_at is None else Leave(LeaveMethod.CANCELLED, block_at),
        order=Order(chance=chance, delays=chance, longest=1),
    )
