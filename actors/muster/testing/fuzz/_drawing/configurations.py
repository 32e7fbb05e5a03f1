"""Random configurations: small, valid trees of queues with tight limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from muster.testing.fuzz._drawing.choices import Choices
from muster.testing.fuzz._program import Config

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
}
_MAY_CREATE: Final = {"queue.create": "enabled"}
_ROOT: Final[Mapping[str, Sequence[str | None]]] = {
    "gang.wait.time": (None, "5s", "2s"),
    "gang.deadlock.policy": (None, None, "report"),
    "application.sort.priority": (None, None, None, None, "disabled"),
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
    return {"partitions": [partition]}


def _leaf(choices: Choices, name: str) -> dict[str, Any]:
    leaf = _with_properties({"name": name}, choices, _LEAF)
    return _with_amounts(leaf, choices.of(_LEAF_MAX), choices.of(_GUARANTEED))


def _parent(choices: Choices) -> dict[str, Any]:
    leaves = [_leaf(choices, name) for name in ("x", "y", "z")[: choices.number(4)]]
    parent: dict[str, Any] = {"name": "p", "parent": True, "properties": dict(_MAY_CREATE)}
    if leaves:
        parent["queues"] = leaves
    # Its leaves guarantee at most 6 together, and no leaf has a larger maximum.
    return _with_amounts(parent, choices.of(_PARENT_MAX), 6 if choices.one_in(3) else None)


def _with_properties(
    queue: dict[str, Any], choices: Choices, options: Mapping[str, Sequence[str | None]]
) -> dict[str, Any]:
    drawn = {name: choices.of(values) for name, values in options.items()}
    said = {name: value for name, value in drawn.items() if value is not None}
    return {**queue, "properties": said} if said else queue


def _with_amounts(
    queue: dict[str, Any], most: int | None, guaranteed: int | None
) -> dict[str, Any]:
    resources: dict[str, dict[str, str]] = {}
    if most is not None:
        resources["max"] = {"vcore": str(most)}
    if guaranteed is not None:
        resources["guaranteed"] = {"vcore": str(guaranteed)}
    return {**queue, "resources": resources} if resources else queue


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
