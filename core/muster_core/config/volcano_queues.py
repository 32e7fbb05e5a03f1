"""Settings of queues from objects: Volcano's Queue (OBJECT-23 to OBJECT-27).

The checks are those of a configuration: an object is refused if a file with the resulting tree of
queues would be refused.
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
    from muster_core.values.configuration.partition import QueueConfig, Settings
    from muster_core.values.events import QueueObject


# OBJECT-23
def with_object(config: QueueConfig, event: QueueObject, above: Settings | None) -> QueueConfig:
    """Return the settings of a queue, changed by those of an object.

    Args:
        config: The present settings.
        event: The object.
        above: The settings of the parent, or None for the root.
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
        settings=resolve(properties, above),
    )


def inheriting(config: QueueConfig, above: Settings) -> QueueConfig:
    """Return the settings of a queue whose parent has new settings."""
    properties = dict(config.own_properties)
    return attrs.evolve(config, settings=resolve(properties, above))


def as_parent(config: QueueConfig) -> QueueConfig:
    """Return the settings of a leaf that becomes a parent."""
    return attrs.evolve(config, is_parent=True)


class Entry(Protocol):
    """A queue in the tree: its settings and its children."""

    @property
    def config(self) -> QueueConfig:
        """Its settings."""
        ...

    @property
    def dynamic(self) -> bool:
        """Whether it is a dynamic queue."""
        ...

    @property
    def children(self) -> Mapping[str, Entry]:
        """Its children by name."""
        ...


@final
@attrs.frozen
class _Refusal:
    """A field of the object; each problem with it refuses the object."""

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
    """A queue in the form that :func:`check_quotas` needs.

    Attributes:
        entry: The queue.
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
        # Volcano's queues have no limit of applications: the limits above them still apply.
        return 0

    @property
    def applications_field(self) -> _Refusal:
        return _Refusal("max_applications")

    @property
    def children(self) -> Sequence[_Queue]:
        # Dynamic queues are not checked against their siblings.
        return [_Queue(child) for child in self.entry.children.values() if not child.dynamic]


# OBJECT-26
def check_object(config: QueueConfig, root: Entry) -> None:
    """Check the tree of queues that results from an object.

    Args:
        config: The new settings of the queue of the object.
        root: The root of the tree.

    Raises:
        RefusedError: If a configuration with this tree would be refused.
    """
    # CONFIG-28
    for name, most in config.max.amounts:
        amount = config.guaranteed[name]
        if amount > most:
            msg = (
                f"guaranteed: {format_quantity(name, amount)} of {name} is over "
                f"max {format_quantity(name, most)}"
            )
            raise RefusedError(msg)
    check_quotas(_Queue(root))
