"""What asks and gangs of a feed want of nodes, and no node of the feed has.

The nodes may come after the asks, so all of this is known only at the end of the feed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias, final

from muster.feeds import FeedItem
from muster.replay._reading.warning import FeedWarning
from muster_core.config.type_names import similar_type
from muster_core.events import AddAsk, AddGang, AddNode, Apply, NodeObject, UpdateNode
from muster_core.gangs.topology import Topology, TopologyRule
from muster_core.values.devices import DeviceStock
from muster_core.values.nearest import did_you_mean
from muster_core.values.quantities import has_parts, shown

_Place: TypeAlias = tuple[int, int | None]
"""The index and the line of the event that named something first."""

_EFFECTS: Final = {
    TopologyRule.SAME: "no member gets a node",
    TopologyRule.PREFER: "the gang prefers nothing",
    TopologyRule.SPREAD: "no member gets a node",
}
"""What becomes of a gang if no node has the attribute of its topology."""


_MOST_NAMED: Final = 5
"""How many attributes of nodes a warning names at most."""


@final
class Wanted:
    """Remembers what nodes have, and who first wanted what of them."""

    def __init__(self) -> None:
        self._began_with_nodes = False
        self._has_nodes = False
        #: The types that nodes have as resources.
        self._types: set[str] = set()
        #: The models that nodes have of each type of devices, in the order of the feed.
        self._models: dict[str, dict[str, None]] = {}
        #: The names of the attributes of nodes, in the order of the feed.
        self._attributes: dict[str, None] = {}
        self._asked_types: dict[str, _Place] = {}
        self._asked_models: dict[tuple[str, tuple[str, ...]], _Place] = {}
        self._asked_attributes: dict[Topology, _Place] = {}

    def begin(self, nodes: Iterable[Iterable[str]]) -> None:
        """Begin with the types of nodes whose models and attributes are not known."""
        for types in nodes:
            self._began_with_nodes = True
            self._types.update(types)

    def saw(self, item: FeedItem) -> None:
        """Look at an item."""
        match item.content:
            case AddAsk() as ask:
                self._saw_ask(ask, (item.index, item.line))
            case AddGang(says=says) if says.topology is not None:
                self._asked_attributes.setdefault(says.topology, (item.index, item.line))
            case AddNode(capacity=amounts, attributes=attributes, devices=devices):
                self._saw_node(amounts, attributes, devices)
            case UpdateNode(capacity=amounts, attributes=attributes, devices=devices):
                self._saw_node(amounts or (), attributes or {}, devices or {})
            case Apply(objects=manifests):
                for manifest in manifests:
                    if isinstance(manifest.content, NodeObject):
                        node = manifest.content
                        self._saw_node(node.capacity or (), node.attributes, {})
            case _:
                pass

    def _saw_ask(self, ask: AddAsk, place: _Place) -> None:
        for name in ask.resources:
            self._asked_types.setdefault(name, place)
        for device, need in ask.devices.items():
            if need.models is not None:
                self._asked_models.setdefault((device, need.models), place)

    def _saw_node(
        self,
        types: Iterable[str],
        attributes: Mapping[str, str],
        devices: Mapping[str, DeviceStock],
    ) -> None:
        self._has_nodes = True
        self._types.update(types)
        self._attributes |= dict.fromkeys(attributes)
        for device, stock in devices.items():
            models = self._models.setdefault(device, {})
            if stock.model is not None:
                models[stock.model] = None

    def warnings(self) -> Iterator[FeedWarning]:
        """Yield the warnings, at the end of the feed."""
        found = [*self._about_types()]
        if self._has_nodes and not self._began_with_nodes:
            found += [*self._about_models(), *self._about_attributes()]
        yield from sorted(found, key=lambda warning: warning.index or 0)

    # DEVICE-22
    def _about_types(self) -> Iterator[FeedWarning]:
        """Yield the warnings about resources that nodes have as devices."""
        for name, (index, line) in self._asked_types.items():
            if name in self._types or has_parts(name):
                continue
            own = name.rpartition("/")[2]
            device = own if own in self._models else similar_type(own, self._models)
            if device is not None:
                message = (
                    f"no node has the resource {shown(name)}, but nodes have devices of the type "
                    f"{device}: an ask names them in devices, such as devices: {{{device}: 1}}"
                )
                yield FeedWarning(None, index, line, f"resources.{name}", message)

    # DEVICE-23
    def _about_models(self) -> Iterator[FeedWarning]:
        """Yield the warnings about models that nodes have in another case."""
        told: set[tuple[str, str]] = set()
        for (device, models), (index, line) in self._asked_models.items():
            known = self._models.get(device, {})
            for model in models:
                meant = _in_another_case(model, models, known)
                if meant is None or (device, model) in told:
                    continue
                told.add((device, model))
                message = f"no node has {device} of the model {shown(model)}; did you mean {meant}?"
                yield FeedWarning(None, index, line, f"devices.{device}.models", message)

    # TOPOLOGY-16
    def _about_attributes(self) -> Iterator[FeedWarning]:
        """Yield the warnings about topologies whose attribute no node has."""
        for topology, (index, line) in self._asked_attributes.items():
            rule, attribute = topology.rule, topology.attribute
            if attribute in self._attributes:
                continue
            message = (
                f"no node of the feed has the attribute {shown(attribute)}, so {_EFFECTS[rule]}"
            )
            right = did_you_mean(attribute, self._attributes) or self._right(attribute)
            yield FeedWarning(None, index, line, f"topology.{rule}", message + right)

    def _right(self, attribute: str) -> str:
        """Return what would be right in place of an attribute that no node has."""
        if not self._attributes:
            return f": nodes say what they have in attributes, such as {{{attribute}: a}}"
        return f": nodes have {', '.join(map(shown, islice(self._attributes, _MOST_NAMED)))}"


def _in_another_case(model: str, asked: tuple[str, ...], known: Iterable[str]) -> str | None:
    """Return the model that nodes have in another case; None if the ask names it in both ways."""
    alike = [one for one in known if one.casefold() == model.casefold()]
    return alike[0] if alike and set(alike).isdisjoint(asked) else None
