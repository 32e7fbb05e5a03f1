"""Warnings about what a feed says, found while it is read. No decision depends on them.

The warnings of a configuration are announced without a place when it is loaded; here they have their
file, line and path. The others are about names of resource types, some that look like a slip and those
in a configuration that no node and no ask has, and about what asks and gangs want of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, final

from muster.feeds import FeedItem
from muster.replay._beginning import Beginning
from muster.replay._reading.wanted import Wanted
from muster.replay._reading.warning import FeedWarning
from muster_core.config.model import Configuration
from muster_core.config.type_names import similar_type, warning_about
from muster_core.events import AddAsk, AddNode, Apply, Configure, NodeObject, PodObject, UpdateNode
from muster_core.values.configuration.partition import NamedType
from muster_core.values.devices import resource_type
from muster_core.values.nearest import did_you_mean
from muster_core.values.quantities import shown

_NO_SLIPS: Final = frozenset({"vcore", "memory"})
"""Types that a feed without any of them may limit: whoever writes them does not mean others."""


@final
class Reading:
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
        self._wanted: dict[str, tuple[int, NamedType]] = {}
        self._of_nodes = Wanted()

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
        """Pass on what is known only at the end of the feed, such as types that nothing has."""
        for warning in self._of_nodes.warnings():
            self._warn(warning)
        if not self._real:
            return
        for name, (index, named) in self._wanted.items():
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
            message = warning_about(name, self._others(name))
            self._real[name] = None
            if message is not None:
                place = FeedWarning(None, item.index, item.line, f"{path}.{name}", message)
                self._warn(place)

    def _others(self, name: str) -> Iterator[str]:
        """Yield the types that are known so far; none if a configuration has the same one."""
        if name not in self._wanted:
            yield from self._real
            yield from self._wanted

    # CONFIG-86
    def _configures(self, index: int, configuration: Configuration) -> None:
        """Pass on the warnings of a configuration, and look at its types."""
        self.configured.add(index)
        for told in configuration.told:
            self._warn(FeedWarning(told.file, index, told.line, told.path, told.message))
        known = [*self._real, *self._wanted]
        for named in configuration.types:
            if named.name in self._wanted:
                continue
            self._wanted[named.name] = (index, named)
            other = None if named.name in self._real else similar_type(named.name, known)
            if other is not None:
                message = (
                    f"the type {shown(named.name)} differs little from {shown(other)}, "
                    "which is used as well"
                )
                self._warn(FeedWarning(named.file, index, named.line, named.path, message))
