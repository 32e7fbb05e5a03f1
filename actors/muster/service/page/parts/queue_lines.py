"""Where a queue stands in a configuration as the page writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import attrs
import yaml


@final
@attrs.frozen
class Lines:
    """The lines of a queue with what is below it.

    Attributes:
        queue: Its path.
        first: Its first line, from 1.
        last: Its last line.
    """

    queue: str
    first: int
    last: int


# PAGE-54
def lines_of(path: str, text: str) -> Lines | None:
    """Return the lines of a queue, or of the nearest queue above it that stands there.

    Args:
        path: The path of the queue, in lower case.
        text: A configuration as YAML in block style, with one partition.

    Returns:
        The lines; None if not even its root stands there.
    """
    found: Lines | None = None
    for partition in _items(yaml.compose(text), "partitions"):
        below, wanted = _items(partition, "queues"), path.split(".")
        for depth, name in enumerate(wanted, start=1):
            node = next((one for one in below if _name(one) == name), None)
            if node is None:
                break
            first, last = node.start_mark.line + 1, node.end_mark.line
            found = Lines(".".join(wanted[:depth]), first, last)
            below = _items(node, "queues")
    return found


def _items(node: yaml.Node | None, field: str) -> Iterator[yaml.Node]:
    """Yield the items of a list in a field of a map."""
    value = _field(node, field)
    if isinstance(value, yaml.SequenceNode):
        yield from value.value


def _name(node: yaml.Node) -> str | None:
    value = _field(node, "name")
    return value.value.lower() if isinstance(value, yaml.ScalarNode) else None


def _field(node: yaml.Node | None, field: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == field), None)
