"""Warnings about what a feed says, found while it is read. No decision depends on them.

The warnings of a configuration are announced without a place when it is loaded; here they have
their file, line and path. The others are about names of resource types, some that look like a slip
and those in a configuration that no node and no ask has, and about requests of asks and gangs that
no node of the feed has. The nodes may come after the asks, so the latter is known only at the end
of the feed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias, final

import attrs

from muster.feeds import FeedItem
from muster.replay._census import Beginning
from muster_core.config.loader import similar_type, type_name_warning
from muster_core.config.model import Configuration
from muster_core.events import (
    AddAsk,
    AddGang,
    AddNode,
    Apply,
    Configure,
    NodeObject,
    PodObject,
    UpdateNode,
)
from muster_core.gangs import Topology, TopologyRule
from muster_core.values.configuration import NamedType
from muster_core.values.devices import DeviceStock, resource_type
from muster_core.values.names import did_you_mean
from muster_core.values.resources import has_parts, shown


@final
@attrs.frozen
class FeedWarning:
    """A warning about a feed.

    Attributes:
        file: The file of the configuration that it is about; None if it is about the feed itself.
        index: The index of the event, from 0, or None if no single event brought it.
        line: The line in the file or in the feed, from 1, or None if it is not known.
        path: The path of the field, or an empty text.
        message: The message.
    """

    file: str | None
    index: int | None
    line: int | None
    path: str
    message: str


_FirstRequest: TypeAlias = tuple[int, int | None]
"""The index and the line of the event that named something first."""

_EFFECTS: Final = {
    TopologyRule.SAME: "no member gets a node",
    TopologyRule.PREFER: "the gang prefers nothing",
    TopologyRule.SPREAD: "no member gets a node",
}
"""The fate of a gang if no node has the attribute of its topology."""


_MOST_NAMED: Final = 5
"""How many attributes of nodes a warning names at most."""


@final
class UnmetRequests:
    """Collects the types, models and attributes of nodes, and the first event that asks for each."""

    def __init__(self) -> None:
        self._began_with_nodes = False
        self._has_nodes = False
        #: The types that nodes have as resources.
        self._types: set[str] = set()
        #: The models that nodes have of each type of devices, in the order of the feed.
        self._models: dict[str, dict[str, None]] = {}
        #: The names of the attributes of nodes, in the order of the feed.
        self._attributes: dict[str, None] = {}
        self._asked_types: dict[str, _FirstRequest] = {}
        self._asked_models: dict[tuple[str, tuple[str, ...]], _FirstRequest] = {}
        self._asked_attributes: dict[Topology, _FirstRequest] = {}

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

    def _saw_ask(self, ask: AddAsk, place: _FirstRequest) -> None:
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
        seen: set[tuple[str, str]] = set()
        for (device, models), (index, line) in self._asked_models.items():
            known = self._models.get(device, {})
            for model in models:
                likely = _in_another_case(model, models, known)
                if likely is None or (device, model) in seen:
                    continue
                seen.add((device, model))
                message = (
                    f"no node has {device} of the model {shown(model)}; did you mean {likely}?"
                )
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
        """Return the likely attribute in place of one that no node has."""
        if not self._attributes:
            return f": nodes say what they have in attributes, such as {{{attribute}: a}}"
        return f": nodes have {', '.join(map(shown, islice(self._attributes, _MOST_NAMED)))}"


def _in_another_case(model: str, asked: tuple[str, ...], known: Iterable[str]) -> str | None:
    """Return the model that nodes have in another case; None if the ask names it in both ways."""
    alike = [one for one in known if one.casefold() == model.casefold()]
    return alike[0] if alike and set(alike).isdisjoint(asked) else None


_NO_SLIPS: Final = frozenset({"vcore", "memory"})
"""Types that a feed without any of them may limit: they are no slips for other types."""


@final
class FeedWarnings:
    """Looks at the items of a feed, and passes on every warning about them.

    Args:
        warn: Gets each warning.

    Attributes:
        configured: The indexes of the events that brought configurations: the warnings that are
            announced about these have been passed on.
    """

    def __init__(self, warn: Callable[[FeedWarning], None]) -> None:
        self._warn = warn
        self.configured: set[int] = set()
        #: The types of nodes and asks.
        self._real: dict[str, None] = {}
        #: The types of configurations, each with the event that named it first.
        self._configured_types: dict[str, tuple[int, NamedType]] = {}
        self._of_nodes = UnmetRequests()

    def begin(self, beginning: Beginning) -> None:
        """Begin with a state, whose nodes and asks have types."""
        self._of_nodes.begin(beginning.nodes.values())
        for amounts in beginning.nodes.values():
            self._real |= dict.fromkeys(amounts)
        for old in beginning.asks:
            self._real |= dict.fromkeys(old.ask.resources)

    def saw(self, item: FeedItem) -> None:
        """Look at an item."""
        self._of_nodes.saw(item)
        content = item.content
        if isinstance(content, AddAsk):
            self._has(item, "resources", content.resources)
            self._has(item, "devices", map(resource_type, content.devices))
        elif isinstance(content, AddNode | UpdateNode):
            self._has(item, "capacity", content.capacity or ())
            self._has(item, "devices", map(resource_type, content.devices or ()))
        elif isinstance(content, Configure):
            self._configures(item.index, content.config)
        elif isinstance(content, Apply):
            for manifest in content.objects:
                match manifest.content:
                    case NodeObject(capacity=amounts) if amounts is not None:
                        self._has(item, f"{manifest.field}.status", amounts)
                    case PodObject(ask=AddAsk(resources=amounts)):
                        self._has(item, f"{manifest.field}.spec", amounts)
                    case _:
                        pass

    # CONFIG-85
    def end(self) -> None:
        """Pass on the warnings that are known only at the end of the feed, such as unused types."""
        for warning in self._of_nodes.warnings():
            self._warn(warning)
        if not self._real:
            return
        for name, (index, named) in self._configured_types.items():
            if name not in self._real and name not in _NO_SLIPS:
                message = f"no node and no ask of the feed has the type {shown(name)}"
                hint = did_you_mean(name, self._real) or self._as_devices(name)
                self._warn(FeedWarning(named.file, index, named.line, named.path, message + hint))

    def _as_devices(self, name: str) -> str:
        """Return how devices of this name are limited, or an empty text if there are none."""
        own = resource_type(name.rpartition("/")[2])
        return f"; did you mean {own}?" if own in self._real else ""

    # CONFIG-84
    def _has(self, item: FeedItem, path: str, types: Iterable[str]) -> None:
        """Look at the types of a node or an ask."""
        for name in types:
            if name in self._real:
                continue
            message = type_name_warning(name, self._others(name))
            self._real[name] = None
            if message is not None:
                place = FeedWarning(None, item.index, item.line, f"{path}.{name}", message)
                self._warn(place)

    def _others(self, name: str) -> Iterator[str]:
        """Yield the types that are known so far; none if a configuration has the same one."""
        if name not in self._configured_types:
            yield from self._real
            yield from self._configured_types

    # CONFIG-86
    def _configures(self, index: int, configuration: Configuration) -> None:
        """Pass on the warnings of a configuration, and look at its types."""
        self.configured.add(index)
        for warning in configuration.located_warnings:
            self._warn(
                FeedWarning(warning.file, index, warning.line, warning.path, warning.message)
            )
        known = [*self._real, *self._configured_types]
        for named in configuration.types:
            if named.name in self._configured_types:
                continue
            self._configured_types[named.name] = (index, named)
            other = None if named.name in self._real else similar_type(named.name, known)
            if other is not None:
                message = (
                    f"the type {shown(named.name)} differs little from {shown(other)}, "
                    "which is used as well"
                )
                self._warn(FeedWarning(named.file, index, named.line, named.path, message))
