"""Kubernetes objects around a configuration: which of the documents of a file is meant.

YuniKorn reads its configuration from a ConfigMap, whose ``data`` has it as the text of the key
``queues.yaml``. So a file may be that ConfigMap as it is, a List of objects, or several manifests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, final

import attrs

from muster_core.config.document import Listing, Node, Scalar, Table, describe
from muster_core.errors import ConfigError, Problem
from muster_core.values.nearest import did_you_mean

QUEUES: Final = "queues.yaml"
"""The key in the ``data`` of a ConfigMap; its other keys configure what is not the queues."""

_PARTITIONS: Final = "partitions"
_MOST_NAMED: Final = 5
"""How many objects a message names."""


@final
@attrs.frozen
class Embedded:
    """A configuration that is a text in a ConfigMap.

    Attributes:
        text: The text.
    """

    text: Scalar


# CONFIG-6
def find_configuration(documents: Sequence[Node], file: str | None) -> Node | Embedded:
    """Return the only configuration in the documents of a file.

    Args:
        documents: The documents, without empty ones.
        file: The name of the file, for messages.

    Raises:
        ConfigError: If there are several configurations, or only Kubernetes objects without one.
    """
    found: Node | Embedded | None = None
    objects: list[Table] = []
    for document in documents:
        for part in _parts(document):
            candidate = _candidate(part, file)
            if candidate is None:
                assert isinstance(part, Table), "only an object can be without a configuration"
                objects.append(part)
            elif found is None:
                found = candidate
            else:
                raise _refusal(_second(found), _line_of(candidate), file)
    if found is not None:
        return found
    if objects:
        raise _refusal(_without(objects), objects[0].line, file)
    return Scalar("", 1)


def _parts(document: Node, depth: int = 0) -> Iterator[Node]:
    """Yield a document, or the items of a List of objects."""
    items = _field(document, "items") if _is_object(document) else None
    kind = _text(document, "kind")
    if kind is not None and kind.endswith("List") and isinstance(items, Listing):
        for item in items.items:
            yield from _parts(item, depth + 1)
    elif depth == 0 or _is_object(document):
        yield document


# CONFIG-80
def _candidate(part: Node, file: str | None) -> Node | Embedded | None:
    """Return the configuration that a document is or contains; None for any other object.

    Raises:
        ConfigError: If it is a ConfigMap in which something else stands for the text.
    """
    if not _is_object(part):
        return part
    text = _field(_field(part, "data"), QUEUES) if _text(part, "kind") == "ConfigMap" else None
    if text is None:
        return None
    if not isinstance(text, Scalar):
        message = f"{describe(text)} stands where a text is expected: write | behind {QUEUES}:"
        raise ConfigError([Problem(message, f"data.{QUEUES}", file, text.line)])
    return Embedded(text)


def _is_object(node: Node) -> bool:
    """Return whether a document is a Kubernetes object, and no configuration."""
    return _text(node, "kind") is not None and _field(node, _PARTITIONS) is None


def _field(node: Node | None, name: str) -> Node | None:
    """Return the value of a field, or None."""
    for key, value in node.entries if isinstance(node, Table) else ():
        if isinstance(key, Scalar) and key.text == name:
            return value
    return None


def _text(node: Node | None, name: str) -> str | None:
    """Return the text of a field, or None."""
    value = _field(node, name)
    return value.text if isinstance(value, Scalar) else None


def _line_of(found: Node | Embedded) -> int | None:
    return found.text.line if isinstance(found, Embedded) else found.line


def _second(first: Node | Embedded) -> str:
    line = _line_of(first)
    place = "" if line is None else f" in line {line}"
    return f"a second configuration starts here, after the first{place}: leave out one of them"


def _without(objects: Sequence[Table]) -> str:
    """Return the message that none of the objects has a configuration."""
    named = ", ".join(_name_of(one) for one in objects[:_MOST_NAMED])
    more = f" and {len(objects) - _MOST_NAMED} more" if len(objects) > _MOST_NAMED else ""
    keys = [
        key.text
        for one in objects
        if _text(one, "kind") == "ConfigMap"
        for part in ("data", "binaryData")
        for key in _keys(_field(one, part))
    ]
    packed = f"{QUEUES}.gz" in keys
    hint = f"; unpack {QUEUES}.gz" if packed else did_you_mean(QUEUES, keys)
    return f"there is no ConfigMap with the key {QUEUES} in its data, only {named}{more}{hint}"


def _keys(node: Node | None) -> list[Scalar]:
    entries = node.entries if isinstance(node, Table) else ()
    return [key for key, _ in entries if isinstance(key, Scalar)]


def _name_of(one: Table) -> str:
    name = _text(_field(one, "metadata"), "name")
    kind = (_text(one, "kind") or "")[:80]
    return f"the {kind}" if name is None else f"the {kind} {name[:80]!r}"


def _refusal(message: str, line: int | None, file: str | None) -> ConfigError:
    return ConfigError([Problem(message, file=file, line=line)])
