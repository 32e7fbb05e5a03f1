"""Queues that are in no file: the first root, dynamic queues, and queues from objects.

OBJECT-23 to OBJECT-27: Volcano's Queue gives the settings of a queue. The checks are those of a
configuration: an object is refused if a file with the resulting tree of queues would be refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, final

import attrs

from muster_core.config.properties import QUEUE_PRIORITY, QUEUE_RECLAIMABLE, resolve
from muster_core.config.queues import ROOT, check_queue_name, check_quotas
from muster_core.values.configuration import Configuration, QueueConfig, Settings, Template
from muster_core.values.errors import RefusedError
from muster_core.values.events import QueueObject
from muster_core.values.resources import format_quantity

DEFAULT_PARTITION = "default"
"""The partition that runs if there are several and none is chosen."""


# CONFIG-24
def default_configuration() -> Configuration:
    """Return the configuration before the first one: only the root, without limits."""
    settings = resolve({}, None)
    root = QueueConfig(name=ROOT, path=ROOT, is_parent=True, settings=settings)
    return Configuration(partition=DEFAULT_PARTITION, root=root)


# QUEUE-14, QUEUE-15
def dynamic_queue(
    parent: QueueConfig, template: Template | None, name: str, *, is_parent: bool
) -> QueueConfig:
    """Create the settings of a dynamic queue.

    It inherits from its parent like any other queue. A leaf gets all settings of the template, as
    if they were its own settings in the file; a parent gets none of them.

    Args:
        parent: Its parent.
        template: The nearest ``childtemplate`` above, or None.
        name: The new queue's own name.
        is_parent: Whether it is a parent on the path to the new leaf.

    Raises:
        ValueError: If the name is invalid.
    """
    lowered = check_queue_name(name)
    path = f"{parent.path}.{lowered}"
    if is_parent or template is None:
        settings = resolve({}, parent.settings)
        return QueueConfig(name=lowered, path=path, is_parent=is_parent, settings=settings)
    return QueueConfig(
        name=lowered,
        path=path,
        is_parent=False,
        guaranteed=template.guaranteed,
        max=template.max,
        max_applications=template.max_applications,
        settings=resolve(dict(template.properties), parent.settings),
        own_properties=template.properties,
    )


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


def with_inherited_settings(config: QueueConfig, above: Settings) -> QueueConfig:
    """Return the settings of a queue whose parent has new settings."""
    properties = dict(config.own_properties)
    return attrs.evolve(config, settings=resolve(properties, above))


def as_parent(config: QueueConfig) -> QueueConfig:
    """Return the settings of a leaf that becomes a parent."""
    return attrs.evolve(config, is_parent=True)


class QueueTreeEntry(Protocol):
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
    def children(self) -> Mapping[str, QueueTreeEntry]:
        """Its children by name."""
        ...


@final
@attrs.frozen
class _ObjectField:
    """A field of the object; each problem with it refuses the object."""

    field: str

    def refuse(self, message: str, /) -> None:
        msg = f"{self.field}: {message}"
        raise RefusedError(msg)


@final
@attrs.frozen
class _ObjectAmounts:
    amounts: Mapping[str, int]
    field: str

    @property
    def fields(self) -> Mapping[str, _ObjectField]:
        return dict.fromkeys(self.amounts, _ObjectField(self.field))


@final
@attrs.frozen
class _QuotaQueue:
    """A queue in the form that :func:`check_quotas` needs."""

    entry: QueueTreeEntry

    @property
    def guaranteed(self) -> _ObjectAmounts:
        return _ObjectAmounts(dict(self.entry.config.guaranteed), "guaranteed")

    @property
    def max(self) -> _ObjectAmounts:
        return _ObjectAmounts(dict(self.entry.config.max.amounts), "max")

    @property
    def max_applications(self) -> int:
        # Volcano's queues have no limit of applications: the limits above them still apply.
        return 0

    @property
    def applications_field(self) -> _ObjectField:
        return _ObjectField("max_applications")

    @property
    def children(self) -> Sequence[_QuotaQueue]:
        # Dynamic queues are not checked against their siblings.
        return [_QuotaQueue(child) for child in self.entry.children.values() if not child.dynamic]


# OBJECT-26
def check_object(config: QueueConfig, root: QueueTreeEntry) -> None:
    """Check the tree of queues that results from an object.

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
    check_quotas(_QuotaQueue(root))
