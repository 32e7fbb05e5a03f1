"""Warnings about a ``backfill.depth`` that nothing reads.

The warnings that the scheduler announces do not change. These ones are for authors of files, and
come beside the others in ``Configuration.told``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from muster_core.config.document import Field, Report
from muster_core.config.properties import BACKFILL_DEPTH, SCHEDULING_ORDER
from muster_core.config.queues import ROOT
from muster_core.values.configuration import SchedulingOrder

if TYPE_CHECKING:
    from muster_core.config.model import Configuration, QueueConfig


_DEPTH: Final = BACKFILL_DEPTH.name
_ORDER: Final = SCHEDULING_ORDER.name


# BACKFILL-31
def with_depth_warnings(
    configuration: Configuration,
    document: object,
    *,
    file: str | None = None,
    line: int | None = None,
) -> Configuration:
    """Return a configuration that also tells of depths that are not read.

    Args:
        configuration: The configuration.
        document: The document from which it was loaded.
        file: The name of the file, or None for a configuration given inline.
        line: The line of the parts that know none, or None.
    """
    idle = dict(_idle(configuration.root, None))
    if not idle:
        return configuration
    report = Report(file)
    for path, queue in _queues(configuration, Field.top(document, report, line)):
        for named, owner in _owners(path, queue):
            if named in idle:
                owner["properties"].fields()[_DEPTH].warn(f"{named}: {idle[named]}")
    warnings = (warned.problem for warned in report.warnings)
    return attrs.evolve(configuration, told=(*configuration.told, *warnings))


def _idle(queue: QueueConfig, scope: QueueConfig | None) -> Iterator[tuple[str, str]]:
    """Yield who has a depth that is not read, and why it is not.

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
        yield queue.path, _why(depth, queue if above is None else above, order)
    template = {} if queue.template is None else dict(queue.template.properties)
    if _DEPTH in template:
        own = SCHEDULING_ORDER.of(template, SchedulingOrder.GREEDY)
        if scope is not None or own is not SchedulingOrder.BACKFILL:
            yield _template_of(queue.path), _why(template[_DEPTH], scope or queue, own)
    for child in queue.children:
        yield from _idle(child, scope)


def _why(depth: str, scope: QueueConfig, own: SchedulingOrder) -> str:
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
