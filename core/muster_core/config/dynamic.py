"""Queues that no file names: the root before the first configuration, and those made on the fly."""

from __future__ import annotations

from muster_core.config.names import ROOT, check_queue_name
from muster_core.config.properties import resolve
from muster_core.values.configuration import Configuration, QueueConfig, Template

DEFAULT_PARTITION = "default"
"""The partition that runs where several are given and none is chosen."""


def default_configuration() -> Configuration:
    """Give what counts before the first configuration: only the root, without limits."""
    settings = resolve({}, None, is_parent=True)
    root = QueueConfig(name=ROOT, path=ROOT, is_parent=True, settings=settings)
    return Configuration(partition=DEFAULT_PARTITION, root=root)


def dynamic_queue(
    parent: QueueConfig, template: Template | None, name: str, *, is_parent: bool
) -> QueueConfig:
    """Make a queue that an application asked for and that does not exist.

    It inherits from the queue above as any other. A leaf gets the whole of its template
    as if that stood in the file as its own; a queue made only on the way to a leaf gets
    nothing of it.

    Args:
        parent: The queue right above.
        template: The nearest ``childtemplate`` above, or None.
        name: The new queue's own name.
        is_parent: Whether it is made on the way to a leaf.

    Raises:
        ValueError: If the name is illegal.
    """
    lowered = check_queue_name(name)
    path = f"{parent.path}.{lowered}"
    if is_parent or template is None:
        settings = resolve({}, parent.settings, is_parent=is_parent)
        return QueueConfig(name=lowered, path=path, is_parent=is_parent, settings=settings)
    return QueueConfig(
        name=lowered,
        path=path,
        is_parent=False,
        guaranteed=template.guaranteed,
        max=template.max,
        max_applications=template.max_applications,
        settings=resolve(dict(template.properties), parent.settings, is_parent=False),
        own_properties=template.properties,
    )
