"""The names of Ray's nodes in Muster: a label, or else their ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final, final

from muster.ray._messages import NodeMap


@final
class Names:
    """Gives nodes their names.

    Nodes that are called by a label may have the same name. Then it is that of the one that has had
    it so far; of new ones it is that of the lowest id. One with nothing to schedule leaves it to
    the others.

    Args:
        label: The label that has the names; None for the ids.
        has_room: Whether a node has anything to schedule.
    """

    def __init__(self, label: str | None, has_room: Callable[[NodeMap], bool]) -> None:
        self.label: Final = label
        self._has_room = has_room
        #: The id of the node that has had a name last.
        self._held: dict[str, str] = {}

    def hold(self, name: str, number: str) -> None:
        """Note that a node has had a name so far."""
        self._held[name] = number

    def of(self, nodes: Iterable[NodeMap]) -> Mapping[str, NodeMap]:
        """Return nodes by their names."""
        found = {name: alike[0] for name, alike in self._by_name(nodes).items()}
        self._held.update((name, node["id"]) for name, node in found.items())
        return found

    def doubles(self, nodes: Iterable[NodeMap]) -> Iterable[tuple[str, NodeMap, NodeMap]]:
        """Iterate over the names of several nodes: each with the node that has it, and another."""
        for name, (first, *others) in self._by_name(nodes).items():
            for other in others:
                yield name, first, other

    def _by_name(self, nodes: Iterable[NodeMap]) -> Mapping[str, list[NodeMap]]:
        """Return all nodes of each name, the one that has it first."""
        found: dict[str, list[NodeMap]] = {}
        for node in sorted(nodes, key=itemgetter("id")):
            found.setdefault(self._name(node), []).append(node)
        for name, alike in found.items():
            if len(alike) > 1:
                held = self._held.get(name)
                alike.sort(key=lambda node: (not self._has_room(node), node["id"] != held))
        return found

    def _name(self, node: NodeMap) -> str:
        return node["id"] if self.label is None else node["labels"].get(self.label, node["id"])
