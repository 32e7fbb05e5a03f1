"""Random programs, created from drawn bytes, with small valid configurations and tight limits.

It runs nothing.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

import attrs

from muster.testing.fuzz._program import (
    Bind,
    Client,
    Config,
    Fate,
    Leave,
    LeaveMethod,
    Order,
    Program,
    Store,
    Watcher,
)
from muster.testing.fuzz._steps import Choices, Moves, S

# With these numbers, all sums fit the limits above them: three leaves with at most 2 guaranteed
# each fit the smallest maximum of a parent.
_LEAF_MAX: Final = (None, None, None, 3, 4, 6, 2)
_PARENT_MAX: Final = (None, None, 6, 8, 12)
_GUARANTEED: Final = (None, None, 1, 2)
_OFF: Final = (None,)

_LEAF: Final[Mapping[str, Sequence[str | None]]] = {
    "application.sort.policy": (None, None, "fair", "stateaware", "fifo"),
    "application.sort.priority": (None, None, None, "disabled"),
    "application.sort.blocking": (None, None, None, None, "enabled"),
    "priority.policy": (None, None, None, "fence"),
    "priority.offset": (None, None, "1", "-5", "10"),
    "queue.priority": (None, None, None, "1", "7"),
    "queue.reclaimable": (None, None, None, None, "false"),
    "preemption.policy": (None, None, None, None, "fence", "disabled"),
    "preemption.delay": ("0s", None, "1s", "2500ms"),
    "preemption.required.node": (None, None, None, "enabled"),
    "bind.retry.delay": (None, None, None, "1s", "2500ms"),
    "run.limit": (None, None, None, None, "3s", "0"),
    "usage.half.life": (None, None, None, None, "10s", "0"),
    "usage.users": (None, None, None, "enabled"),
    "preemption.min.runtime": (None, None, None, "1s", "4s"),
    "quota.preemption.delay": (None, "1s", "500ms"),
    "priority.aging": (None, None, None, "1s", "500ms", "0"),
    "priority.aging.limit": (None, None, "2", "1"),
    "queue.weight": (None, None, "2", "5"),
}
_MAY_CREATE: Final = {"queue.create": "enabled"}
_ROOT: Final[Mapping[str, Sequence[str | None]]] = {
    "gang.wait.time": (None, "5s", "2s"),
    "gang.deadlock.policy": (None, None, "report"),
    "gang.second.try": (None, None, "enabled"),
    "gang.retry.delay": (None, "2s", "500ms"),
    "gang.retry.limit": (None, "1", "2"),
    "application.sort.priority": (None, None, None, None, "disabled"),
    "usage.half.life": (None, None, "5s", "1h"),
    "share.policy": (None, None, "weight"),
}
_PARENT: Final[Mapping[str, Sequence[str | None]]] = {
    "share.policy": (None, None, "weight"),
    "queue.weight": (None, None, "2", "5"),
}
# Each of them fits the smallest maximum of a leaf.
_LIMITS: Final[tuple[Sequence[Mapping[str, Any]], ...]] = (
    ({"users": ["u"], "maxresources": {"vcore": "2"}},),
    (
        {"users": ["v"], "maxapplications": 1},
        {"users": ["*"], "maxresources": {"vcore": "1"}, "maxapplications": 2},
    ),
    (
        {"groups": ["g"], "maxresources": {"vcore": "2"}},
        {"groups": ["*"], "users": ["w"], "maxresources": {"vcore": "1"}},
    ),
)
_RULES: Final[tuple[Sequence[Mapping[str, Any]], ...]] = (
    ({"name": "provided", "create": True},),
    (
        {"name": "user", "create": True, "parent": {"name": "fixed", "value": "p"}},
        {"name": "provided"},
        {"name": "fixed", "value": "root.made", "create": True},
    ),
    (
        {"name": "tag", "value": "Team", "filter": {"users": ["u", "w"]}},
        {"name": "user", "create": True, "filter": {"type": "deny", "users": ["^v+"]}},
        {"name": "provided", "create": True},
    ),
)


def draw_config(choices: Choices) -> Config:
    """Draw a configuration: a root with up to three queues, one of which may be a parent."""
    queues = [_leaf(choices, name) for name in ("q", "r")[: 1 + choices.number(2)]]
    if not choices.one_in(3):
        queues.append(_parent(choices))
    root = _with_properties({"name": "root", "queues": queues}, choices, _ROOT)
    if choices.one_in(3):
        limited = choices.of((root, *queues))
        limited["limits"] = list(choices.of(_LIMITS))
    partition: dict[str, Any] = {"name": "default", "queues": [root]}
    if choices.one_in(3):
        partition["nodesortpolicy"] = {"type": "binpacking"}
    if choices.one_in(4):
        partition["placementrules"] = list(choices.of(_RULES))
    if choices.one_in(2):
        partition["preemption"] = {"quotapreemptionenabled": "true"}
    return {"partitions": [partition]}


def _leaf(choices: Choices, name: str) -> dict[str, Any]:
    leaf = _with_properties({"name": name}, choices, _LEAF)
    return _with_amounts(leaf, choices.of(_LEAF_MAX), choices.of(_GUARANTEED))


def _parent(choices: Choices) -> dict[str, Any]:
    leaves = [_leaf(choices, name) for name in ("x", "y", "z")[: choices.number(4)]]
    parent = _with_properties({"name": "p", "parent": True}, choices, _PARENT)
    parent["properties"] = _MAY_CREATE | parent.get("properties", {})
    if leaves:
        parent["queues"] = leaves
    # Its leaves guarantee at most 6 together, and no leaf has a larger maximum.
    return _with_amounts(parent, choices.of(_PARENT_MAX), 6 if choices.one_in(3) else None)


def _with_properties(
    queue: dict[str, Any], choices: Choices, options: Mapping[str, Sequence[str | None]]
) -> dict[str, Any]:
    drawn = {name: choices.of(values) for name, values in options.items()}
    properties = {name: value for name, value in drawn.items() if value is not None}
    return {**queue, "properties": properties} if properties else queue


def _with_amounts(
    queue: dict[str, Any], most: int | None, guaranteed: int | None
) -> dict[str, Any]:
    resources: dict[str, dict[str, str]] = {}
    if most is not None:
        resources["max"] = {"vcore": str(most)}
    if guaranteed is not None:
        resources["guaranteed"] = {"vcore": str(guaranteed)}
    return {**queue, "resources": resources} if resources else queue


def _lowered(queue: Mapping[str, Any]) -> dict[str, Any]:
    """Return a queue in which no leaf may have any cores."""
    rest = {name: value for name, value in queue.items() if name not in {"resources", "limits"}}
    children = cast("Sequence[Mapping[str, Any]]", queue.get("queues", ()))
    if children:
        return {**rest, "queues": [_lowered(child) for child in children]}
    return rest if queue.get("parent") else {**rest, "resources": {"max": {"vcore": "0"}}}


def _with_less(config: Config) -> list[Config]:
    """Return a configuration after which queues lose asks, if they may lose any."""
    (partition,) = cast("Sequence[Mapping[str, Any]]", config["partitions"])
    if "preemption" not in partition:
        return []
    less = {**partition, "queues": [_lowered(queue) for queue in partition["queues"]]}
    return [{"partitions": [less]}]


def leaves_of(config: Config) -> list[str]:
    """Return the paths of all leaves, and of a dynamic queue below each parent without leaves."""
    found: list[str] = []
    for partition in cast("Sequence[Mapping[str, Any]]", config.get("partitions", ())):
        for queue in cast("Sequence[Mapping[str, Any]]", partition.get("queues", ())):
            _collect(queue, "", found)
    return found or ["root.q"]


def _collect(queue: Mapping[str, Any], above: str, found: list[str]) -> None:
    name = str(queue.get("name", ""))
    path = f"{above}.{name}" if above else name
    if not path.lower().startswith("root"):
        path = f"root.{path}"
    children = cast("Sequence[Mapping[str, Any]]", queue.get("queues") or ())
    for child in children:
        _collect(child, path, found)
    if not children and path.lower() != "root":
        # An application creates a dynamic queue below a parent without queues.
        found.append(f"{path}.made" if queue.get("parent") in {True, "true"} else path)


_GENERAL: Final = slice(0, 100)
_CONFIGS: Final = slice(100, 360)
_BEGINNING: Final = slice(360, 440)

FRAME_BYTES: Final = _BEGINNING.stop
"""How many bytes are drawn for a program as a whole."""

STEP_BYTES: Final = 24
"""How many bytes are drawn for a step."""

_BUFFERS: Final = (64, 1, 2, 5, 1024)
_KINDS: Final = (None, None, ("bound", "released"), ("app_state",), ("gang_satisfied", "bound"))
_FATES: Final = (
    Fate.FINISHES,
    Fate.GOES_ON,
    Fate.FINISHES,
    Fate.GOES_ON,
    Fate.FAILS_BEFORE,
    Fate.FAILS_AFTER,
    Fate.HANGS,
    Fate.FORGETS,
    Fate.REPORTS,
)


@final
@attrs.frozen
class DrawnBytes:
    """The bytes from which a program is created.

    Attributes:
        frame: The bytes for the program as a whole.
        clients: The bytes for each step of each client.
    """

    frame: bytes = b""
    clients: tuple[tuple[bytes, ...], ...] = ()

    def token(self) -> str:
        """Return the bytes as a short text, for a command that replays the program."""
        parts = [self.frame.hex(), [[step.hex() for step in steps] for steps in self.clients]]
        packed = zlib.compress(json.dumps(parts, separators=(",", ":")).encode(), 9)
        return base64.urlsafe_b64encode(packed).decode()

    @staticmethod
    def of_token(token: str) -> DrawnBytes:
        """Return the bytes of a text from :meth:`token`.

        Raises:
            ValueError: If the text is invalid.
        """
        try:
            text = zlib.decompress(base64.urlsafe_b64decode(token.encode()))
            frame, clients = cast("tuple[str, list[list[str]]]", json.loads(text))
            steps = tuple(tuple(bytes.fromhex(one) for one in client) for client in clients)
            return DrawnBytes(bytes.fromhex(frame), steps)
        except (zlib.error, TypeError, ValueError) as error:
            msg = "no program can be made of this text"
            raise ValueError(msg) from error


@final
@attrs.frozen
class FixedParts:
    """The parts of programs that are given instead of drawn.

    Attributes:
        config: The configuration with which all programs are opened, or None to draw one.
        binder: Whether a binder is given, so that none is planned.
    """

    config: Config | None = None
    binder: bool = False


NOTHING_FIXED: Final = FixedParts()


def draw_program(drawn: DrawnBytes, given: FixedParts = NOTHING_FIXED) -> Program:
    """Create a program from bytes; the same bytes give the same program."""
    choices = Choices(drawn.frame[_GENERAL])
    order = _order(choices)
    leave = _leave(choices)
    binds = () if given.binder else _binds(choices)
    timeout_us, attempts = choices.of((30 * S, 2 * S, S)), choices.of((3, 1, None, 2))
    watchers = tuple(_watcher(choices) for _ in range(choices.number(4)))
    clock_us = choices.of((0, 0, 12_345_678_901, 1_700_000_000_123_457))
    places = [choices.one_in(3) for _ in range(6)]
    cuts = [choices.large() % 900 if choices.one_in(8) else None for _ in range(6)]
    store = _store(choices)
    if store is not None and store.restarts:
        attempts = None  # A new process does not know how often work has failed.
    if attempts is None and binds:
        binds = (*binds, Bind())  # Otherwise work that always fails would run for ever.
    choices = Choices(drawn.frame[_CONFIGS])
    if given.config is None:
        configs = [draw_config(choices) for _ in range(choices.of((1, 1, 2, 3)))]
        configs += _with_less(configs[0])
        config = None if choices.one_in(12) else configs[0]
        leaves = [path for one in configs for path in leaves_of(one)]
    else:
        configs, config = [given.config], given.config
        leaves = leaves_of(given.config)
    choices = Choices(drawn.frame[_BEGINNING])
    moves = Moves(choices, leaves, len(configs))
    prelude = tuple(moves.beginning(choices))
    if given.config is None and _with_less(configs[0]):
        prelude += tuple(moves.shrinking(choices))
    clients = tuple(
        Client(tuple(moves.step(Choices(step)) for step in steps), outside, cut)
        for steps, outside, cut in zip(drawn.clients, places, cuts, strict=False)
    )
    return Program(
        config=config,
        configs=tuple(configs),
        clock_us=clock_us,
        prelude=prelude,
        clients=clients,
        watchers=watchers,
        binds=binds,
        bind_timeout_us=timeout_us,
        bind_attempts=attempts,
        leave=leave,
        order=order,
        store=store,
    )


def _order(choices: Choices) -> Order:
    return Order(
        chance=choices.large(),
        unfair=choices.one_in(3),
        delays=None if choices.one_in(4) else choices.large(),
        longest=choices.of((3, 1, 2, 8)),
        pauses=choices.one_in(3),
    )


def _store(choices: Choices) -> Store | None:
    if not choices.one_in(5):
        return None
    return Store(choices.of((50_000, 1, 5, 20)), restarts=choices.one_in(2))


def _leave(choices: Choices) -> Leave:
    method = choices.of(
        (
            LeaveMethod.DONE,
            LeaveMethod.DONE,
            LeaveMethod.DONE,
            LeaveMethod.EARLY,
            LeaveMethod.ERROR,
            LeaveMethod.CANCELLED,
        )
    )
    at = choices.large() % (60, 300, 1500)[choices.number(3)]
    return Leave(method, at if method is not LeaveMethod.DONE else 0)


def _binds(choices: Choices) -> tuple[Bind, ...]:
    bad = choices.of((0, 2, 1))
    binds = [
        Bind(
            fate=choices.of(_FATES if bad else _FATES[:2]),
            start_us=choices.of((0, 0, S, 1, 5 * S)),
            work_us=choices.of((S, 3 * S, 0, 10 * S)),
            cleanup_us=choices.of((0, 0, 0, S, 4 * S)),
            pause=choices.of((0, 1, 3)),
        )
        for _ in range(1 + choices.number(4))
    ]
    return () if choices.one_in(3) else tuple(binds)


def _watcher(choices: Choices) -> Watcher:
    wanted: dict[str, object] = {
        "buffer": choices.of(_BUFFERS),
        "lag": choices.of(("drop", "skip")),
    }
    optional = {
        "kinds": choices.of(_KINDS),
        "app": choices.of((None, None, None, "a0")),
        "queue": choices.of((None, None, None, "root.p", "root.q")),
        "gang": choices.of((None, None, None, None, "default/g0")),
        "where": choices.of((None, None, None, 0, 1)),
    }
    return Watcher(
        wanted={**wanted, **{name: value for name, value in optional.items() if value is not None}},
        together=choices.one_in(3),
        pause=choices.of((0, 0, 2, 7)),
        pause_us=choices.of((0, 0, 0, S)),
        leaves_after=choices.of((None, None, None, 1, 5)),
        outside=choices.one_in(2),
    )
