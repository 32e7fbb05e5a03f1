"""``--nodes``: the nodes of a feed where the dump does not have them, as a text or a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, final

import attrs

from muster.feeds import FeedError
from muster.feeds._affinity import TAINTS
from muster.feeds._encodings import read_raw
from muster.feeds._kinds import RESOURCES, WORDS, FieldError
from muster.feeds._raw import Raw, RawEvent
from muster_core.config.tree import LocatedMap, Plain
from muster_core.values.affinity import Taint
from muster_core.values.names import did_you_mean
from muster_core.values.resources import parse_quantity

_COUNTED: Final = re.compile(r"\s*([1-9][0-9]{0,6})\s*[x*:]\s*(\S.*)", re.DOTALL)
_FIELDS: Final = ("node", "count", "capacity", "attributes", "taints")
_BEGUN: Final = re.compile(r"\s*[0-9]+\s*[x*:]")
MAX_NODES: Final = 1_000_000
"""The most nodes that one entry makes; more are surely a mistake."""

FORM: Final = "write '32x vcore=64,memory=256Gi,nvidia.com/gpu=8', or the name of a file"


@final
@attrs.frozen
class NodeFields:
    """One node.

    Attributes:
        name: Its name.
        capacity: Its resources, as a feed writes them.
        attributes: Its attributes for selectors.
        schedulable: Whether it accepts asks.
        taints: Its taints.
        weight: Its weight in Slurm, where nodes of the lowest get jobs first; no feed has it.
    """

    name: str
    capacity: Mapping[str, int | float | str]
    attributes: Mapping[str, str] = attrs.Factory(dict[str, str])
    schedulable: bool = True
    taints: tuple[Taint, ...] = ()
    weight: int = 1

    def event(self) -> dict[str, object]:
        """Return the event that adds it."""
        return event_fields(
            op="add_node",
            node=self.name,
            capacity=self.capacity,
            attributes=self.attributes or None,
            schedulable=None if self.schedulable else False,
            taints=TAINTS.write(self.taints) or None,
        )


def event_fields(**fields: object) -> dict[str, object]:
    """Return the fields of an event without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


TOO_LARGE: Final = "asks for more than any node has: it never starts"
"""Why a job that is in the feed waits to the end."""


# IMPORT-6
def largest_of(nodes: Iterable[NodeFields]) -> dict[str, int]:
    """Return the most that a node has of each resource, in base units."""
    largest: dict[str, int] = {}
    seen: set[int] = set()
    for node in nodes:
        if id(node.capacity) not in seen:  # nodes that are alike may share it
            seen.add(id(node.capacity))
            for name, written in node.capacity.items():
                largest[name] = max(parse_quantity(name, written), largest.get(name, 0))
    return largest


def parse_nodes(text: str) -> list[NodeFields]:
    """Return the nodes of ``32x vcore=64,memory=256Gi``; several groups are parted by ``;``.

    Raises:
        ValueError: If the text is none, with a hint.
    """
    groups = [group for group in text.split(";") if group.strip()]
    nodes: list[NodeFields] = []
    for number, group in enumerate(groups):
        match = _COUNTED.fullmatch(group)
        if match is None:
            msg = f"{group.strip()!r} is no number of nodes with their resources: {FORM}"
            raise ValueError(msg)
        capacity = _capacity(match[2])
        prefix = "node" if len(groups) == 1 else f"node-{chr(ord('a') + number % 26)}"
        nodes += _numbered(NodeFields(prefix, capacity), int(match[1]))
    if not nodes:
        msg = f"{text!r} names no node: {FORM}"
        raise ValueError(msg)
    return nodes


def _capacity(text: str) -> dict[str, int | float | str]:
    written: dict[str, Raw] = {}
    for part in text.split(","):
        name, equals, amount = part.partition("=")
        if not (equals and name.strip() and amount.strip()):
            msg = f"{part.strip()!r} is no resource with its amount: {FORM}"
            raise ValueError(msg)
        written[name.strip()] = Plain(amount.strip())
    return _checked(written)


def _checked(written: Raw) -> dict[str, int | float | str]:
    try:
        RESOURCES.parse(written)
    except FieldError as error:
        raise ValueError(str(error)) from None
    normal = RESOURCES.normal(written)
    assert isinstance(normal, dict)
    return {
        name: int(amount) if isinstance(amount, str) and amount.isdigit() else amount
        for name, amount in normal.items()
        if isinstance(amount, int | float | str)
    }


def _numbered(node: NodeFields, count: int) -> list[NodeFields]:
    # Equally full nodes are taken in the order of their names, as texts.
    digits = max(len(str(count - 1)), 2)
    return [attrs.evolve(node, name=f"{node.name}-{number:0{digits}}") for number in range(count)]


def read_nodes(file: str) -> list[NodeFields]:
    """Read a file of nodes: a feed's form, YAML or JSON, a list of maps.

    Each map has ``node`` (its name; with ``count`` the beginning of the names), ``capacity``, and
    may have ``attributes`` and ``taints``. The ``add_node`` events of a feed are such maps; its
    other events are passed over.

    Raises:
        FeedError: If it cannot be read, or a node in it is wrong.
    """
    nodes: list[NodeFields] = []
    for raw in read_raw(file):
        if isinstance(raw.value, dict) and raw.value.get("op", "add_node") != "add_node":
            continue
        try:
            nodes += _entry(raw)
        except ValueError as error:
            raise FeedError(file, str(error), raw.line) from None
    if not nodes:
        raise FeedError(file, "has no node: write a list of maps with `node` and `capacity`")
    return nodes


def _entry(raw: RawEvent) -> Iterator[NodeFields] | list[NodeFields]:
    value = raw.value
    if raw.problem is not None:
        raise ValueError(raw.problem)
    if not isinstance(value, dict):
        msg = f"{str(value)[:40]!r} is not a map with `node` and `capacity`"
        raise ValueError(msg)
    unknown = [name for name in value if name not in {*_FIELDS, "op", "at", "schedulable", "lease"}]
    if unknown:
        msg = f"{unknown[0]!r} is no field of a node{did_you_mean(unknown[0], _FIELDS)}"
        raise ValueError(msg)
    if "capacity" not in value:
        msg = "has no `capacity`"
        raise ValueError(msg)
    count = value.get("count")
    node = NodeFields(
        str(value.get("node", "node")),
        _checked(value["capacity"]),
        _words(value.get("attributes", {})),
        taints=_taints(value.get("taints", [])),
    )
    if count is None:
        return [node]
    if not re.fullmatch("[1-9][0-9]*", str(count)) or int(str(count)) > MAX_NODES:
        msg = f"count: {count!r} is not a whole number from 1 to {MAX_NODES}"
        raise ValueError(msg)
    return _numbered(node, int(str(count)))


def _words(written: Raw) -> dict[str, str]:
    if isinstance(written, LocatedMap) and not written:
        return {}
    try:
        parsed = WORDS.parse(written)
    except FieldError as error:
        msg = f"attributes: {error}"
        raise ValueError(msg) from None
    return {str(name): str(value) for name, value in parsed.items()}


def _taints(written: Raw) -> tuple[Taint, ...]:
    try:
        return TAINTS.parse(written)
    except FieldError as error:
        raise ValueError(str(error.inside("taints"))) from None


# IMPORT-6
def nodes_of(text: str) -> list[NodeFields]:
    """Return the nodes that ``--nodes`` means: a file if there is one of this name, else a text.

    Raises:
        FeedError: If the file cannot be used.
        ValueError: If the text cannot be used.
    """
    return parse_nodes(text) if _BEGUN.match(text) and not Path(text).exists() else read_nodes(text)
