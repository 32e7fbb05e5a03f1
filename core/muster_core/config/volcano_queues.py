"""Settings of queues that come as objects: Volcano's Queue (OBJECT-23 to OBJECT-27).

The checks are those of a configuration: what an object would make of the tree of queues
is refused if a file that says so would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, final

import attrs

from muster_core.config.properties import QUEUE_PRIORITY, QUEUE_RECLAIMABLE, resolve
from muster_core.config.quotas import check_quotas
from muster_core.values.errors import RefusedError
from muster_core.values.quantities import format_quantity

if TYPE_CHECKING:
    from muster_core.values.configuration import QueueConfig, Settings
    from muster_core.values.events import QueueObject


def with_object(config: QueueConfig, event: QueueObject, above: Settings | None) -> QueueConfig:
    """Give the settings of a queue with those that an object says.

    Args:
        config: What it has.
        event: The object.
        above: The settings of the queue above, or None for the root.
    """
    properties = dict(config.own_properties)
    if event.priority is not None:
        properties[QUEUE_PRIORITY.name] = str(event.priority)
    if event.reclaimable is not None:
        properties[QUEUE_RECLAIMABLE.name] = "true" if event.reclaimable else "false"
    return attrs.evolve(
        config,
        max=config.max if event.max is None else event.max,
        guaranteed=config.guaranteed if event.guaranteed is None else event.guaranteed,
        own_properties=tuple(properties.items()),
        settings=resolve(properties, above, is_parent=config.is_parent),
    )


def inheriting(config: QueueConfig, above: Settings) -> QueueConfig:
    """Give the settings of a queue where the one above it has other ones now."""
    properties = dict(config.own_properties)
    return attrs.evolve(config, settings=resolve(properties, above, is_parent=config.is_parent))


def as_parent(config: QueueConfig, above: Settings | None) -> QueueConfig:
    """Give the settings of a leaf that becomes a parent."""
    settings = resolve(dict(config.own_properties), above, is_parent=True)
    return attrs.evolve(config, is_parent=True, settings=settings)


class Entry(Protocol):
    """What is known of a queue: its settings, and what is below it."""

    @property
    def config(self) -> QueueConfig:
        """Its settings."""
        ...

    @property
    def dynamic(self) -> bool:
        """Whether it was made on the fly."""
        ...

    @property
    def children(self) -> Mapping[str, Entry]:
        """Its children by name."""
        ...


@final
@attrs.frozen
class _Refusal:
    """Where every problem is a reason to refuse the object."""

    field: str

    def refuse(self, message: str, /) -> None:
        msg = f"{self.field}: {message}"
        raise RefusedError(msg)


@final
@attrs.frozen
class _Amounts:
    amounts: Mapping[str, int]
    field: str

    @property
    def fields(self) -> Mapping[str, _Refusal]:
        return dict.fromkeys(self.amounts, _Refusal(self.field))


@final
@attrs.frozen
class _Queue:
    """A queue as the checks want it.

    Attributes:
        entry: What the directory knows of it.
    """

    entry: Entry

    @property
    def guaranteed(self) -> _Amounts:
        return _Amounts(dict(self.entry.config.guaranteed), "guaranteed")

    @property
    def max(self) -> _Amounts:
        return _Amounts(dict(self.entry.config.max.amounts), "max")

    @property
    def max_applications(self) -> int:
        # Volcano's queues limit no applications: what is above them goes on to count.
        return 0

    @property
    def applications_field(self) -> _Refusal:
        return _Refusal("max_applications")

    @property
    def children(self) -> Sequence[_Queue]:
        # What is made on the fly is not checked against its siblings.
        return [_Queue(child) for child in self.entry.children.values() if not child.dynamic]


def check_object(config: QueueConfig, root: Entry) -> None:
    """Check the tree of queues that an object leads to.

    Args:
        config: The settings of the queue that it speaks of.
        root: The tree.

    Raises:
        RefusedError: If a configuration that says so would be refused.
    """
    for name, most in config.max.amounts:
        amount = config.guaranteed[name]
        if amount > most:
            msg = (
                f"guaranteed: {format_quantity(name, amount)} of {name} is over "
                f"max {format_quantity(name, most)}"
            )
            raise RefusedError(msg)
    check_quotas(_Queue(root))
