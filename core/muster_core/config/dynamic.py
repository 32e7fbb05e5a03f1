"""Queues that are in no file: the root before the first configuration, and dynamic queues."""

from __future__ import annotations

from muster_core.config.names import ROOT, check_queue_name
from muster_core.config.properties import resolve
from muster_core.values.configuration.partition import Configuration, QueueConfig, Template

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
