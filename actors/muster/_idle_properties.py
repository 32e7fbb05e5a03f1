"""Warnings about properties without effect: a ``backfill.depth`` or a ``queue.weight`` for nothing.

The warnings that the scheduler announces do not change. These ones are for authors of files, and
come beside the others in ``Configuration.located_warnings``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from muster_core.config.document import Field, Report
from muster_core.config.properties import (
    BACKFILL_DEPTH,
    HALF_LIFE,
    QUEUE_WEIGHT,
    SCHEDULING_ORDER,
    SHARE_POLICY,
)
from muster_core.config.queues import ROOT
from muster_core.values.configuration import SchedulingOrder

if TYPE_CHECKING:
    from muster_core.config.model import Configuration, QueueConfig


_DEPTH: Final = BACKFILL_DEPTH.name
_ORDER: Final = SCHEDULING_ORDER.name
_WEIGHT: Final = QUEUE_WEIGHT.name
_POLICY: Final = SHARE_POLICY.name
_HALF_LIFE: Final = HALF_LIFE.name

Idle = tuple[str, str, str]
"""The name of a queue or its template, a property of it without effect, and a message."""


# BACKFILL-31, SHARE-18
def with_idle_warnings(
    configuration: Configuration,
    document: object,
    *,
    file: str | None = None,
    line: int | None = None,
) -> Configuration:
    """Return a configuration with warnings about properties that have no effect where they are.

    Args:
        configuration: The configuration.
        document: The document from which it was loaded.
        file: The name of the file, or None for a configuration given inline.
        line: The line of the parts that know none, or None.
    """
    idle: dict[str, list[tuple[str, str]]] = {}
    for named, name, message in (*_depths(configuration.root, None), *_weights(configuration.root)):
        idle.setdefault(named, []).append((name, message))
    if not idle:
        return configuration
    report = Report(file)
    for path, queue in _queues(configuration, Field.top(document, report, line)):
        for named, owner in _owners(path, queue):
            for name, message in idle.get(named, ()):
                owner["properties"].fields()[name].warn(f"{named}: {message}")
    warnings = (warned.problem for warned in report.warnings)
    return attrs.evolve(
        configuration, located_warnings=(*configuration.located_warnings, *warnings)
    )


# SHARE-18
def _weights(queue: QueueConfig) -> Iterator[Idle]:
    """Yield the weights that nothing reads below a queue."""
    reads = queue.settings.share_by_weight or queue.settings.half_life_us > 0
    template = {} if queue.template is None else dict(queue.template.properties)
    if _WEIGHT in template and not reads and not {_POLICY, _HALF_LIFE} & template.keys():
        yield _template_of(queue.path), _WEIGHT, _why_no_weight(template[_WEIGHT], queue.path)
    for child in queue.children:
        weight = dict(child.own_properties).get(_WEIGHT)
        if weight is not None and not reads:
            yield child.path, _WEIGHT, _why_no_weight(weight, queue.path)
        yield from _weights(child)


def _why_no_weight(weight: str, parent: str) -> str:
    return (
        f"{_WEIGHT} {weight} has no effect: weights count where the parent has {_POLICY}: weight or "
        f"a {_HALF_LIFE}, and {parent} has neither"
    )


def _depths(queue: QueueConfig, scope: QueueConfig | None) -> Iterator[Idle]:
    """Yield the depths that are not read, and why they are not.

    Args:
        queue: The queue to begin at.
        scope: The queue above it that makes the scope, or None.
    """
    above = scope
    order = queue.settings.scheduling_order
    if scope is None and order is not SchedulingOrder.GREEDY:
        scope = queue
    depth = dict(queue.own_properties).get(_DEPTH)
    if depth is not None and (above is not None or order is not SchedulingOrder.BACKFILL):
        message = _why_no_depth(depth, queue if above is None else above, order)
        yield queue.path, _DEPTH, message
    template = {} if queue.template is None else dict(queue.template.properties)
    if _DEPTH in template:
        own = SCHEDULING_ORDER.of(template, SchedulingOrder.GREEDY)
        if scope is not None or own is not SchedulingOrder.BACKFILL:
            message = _why_no_depth(template[_DEPTH], scope or queue, own)
            yield _template_of(queue.path), _DEPTH, message
    for child in queue.children:
        yield from _depths(child, scope)


def _why_no_depth(depth: str, scope: QueueConfig, own: SchedulingOrder) -> str:
    """Return why a depth is not read.

    Args:
        depth: The depth.
        scope: The queue that makes the scope; without a scope, the queue with the depth.
        own: The order beside the depth.
    """
    idle = f"{_DEPTH} {depth} has no effect"
    match scope.settings.scheduling_order:
        case SchedulingOrder.BACKFILL:
            return f"{idle}: write it on {scope.path}, whose {_ORDER} rules all queues below it"
        case SchedulingOrder.STRICT:
            return f"{idle}: the {_ORDER} of {scope.path} is strict, and only backfill has a depth"
        case SchedulingOrder.GREEDY:
            return (
                f"{idle}: only a queue with {_ORDER}: backfill reads it, and here the order is "
                f"{own}: write both on one queue"
            )


def _template_of(path: str) -> str:
    return f"{path} (childtemplate)"


def _owners(path: str, queue: Mapping[str, Field]) -> Iterator[tuple[str, Mapping[str, Field]]]:
    """Yield the names of a queue and of its template in warnings, with their fields."""
    yield path, queue
    if "childtemplate" in queue:
        yield _template_of(path), queue["childtemplate"].fields()


def _queues(
    configuration: Configuration, document: Field
) -> Iterator[tuple[str, Mapping[str, Field]]]:
    """Yield the path of each queue in the document, with its fields."""
    for partition in document.fields()["partitions"].items():
        fields = partition.fields()
        if (_text(fields, "name") or "default") != configuration.partition:
            continue
        items = fields["queues"].items() if "queues" in fields else []
        # CONFIG-5
        if len(items) == 1 and (_text(items[0].fields(), "name") or "").lower() == ROOT:
            yield from _below([configuration.root], items)
        else:
            yield from _below(configuration.root.children, items)


def _below(
    queues: Sequence[QueueConfig], items: Sequence[Field]
) -> Iterator[tuple[str, Mapping[str, Field]]]:
    for queue, item in zip(queues, items, strict=True):
        fields = item.fields()
        yield queue.path, fields
        if queue.children:
            yield from _below(queue.children, fields["queues"].items())


def _text(fields: Mapping[str, Field], name: str) -> str | None:
    return fields[name].text() if name in fields and not fields[name].is_null else None
