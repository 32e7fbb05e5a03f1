"""The scopes of ``scheduling.order``: a warning about each order that has no effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from muster_core.config.properties import SCHEDULING_ORDER
from muster_core.values.configuration.partition import SchedulingOrder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from muster_core.config.queues import WrittenQueue


# BACKFILL-3
def warn_of_orders(queue: WrittenQueue, ruled_by: str | None = None) -> None:
    """Warn of each ``scheduling.order`` that another one above it makes meaningless.

    Args:
        queue: The queue to begin at.
        ruled_by: The path of the topmost queue above it whose order is not ``greedy``, or None.
    """
    own = SCHEDULING_ORDER.name in dict(queue.properties)
    if ruled_by is not None:
        if own:
            _warn(queue, queue.path, queue.properties, ruled_by)
    elif own and _order_of(queue.properties) is not SchedulingOrder.GREEDY:
        ruled_by = queue.path
    if queue.template is not None and ruled_by is not None:
        properties = queue.template.properties
        if SCHEDULING_ORDER.name in dict(properties):
            _warn(queue, f"{queue.path} (childtemplate)", properties, ruled_by)
    for child in queue.children:
        warn_of_orders(child, ruled_by)


def _order_of(properties: Iterable[tuple[str, str]]) -> SchedulingOrder:
    try:
        return SCHEDULING_ORDER.of(dict(properties), SchedulingOrder.GREEDY)
    except ValueError:  # It is refused already.
        return SchedulingOrder.GREEDY


def _warn(
    queue: WrittenQueue, named: str, properties: Iterable[tuple[str, str]], ruled_by: str
) -> None:
    own = dict(properties)[SCHEDULING_ORDER.name]
    field = queue.properties_field if named == queue.path else queue.field
    field.warn(
        f"{named}: {SCHEDULING_ORDER.name} {own} has no effect: "
        f"that of {ruled_by} rules all queues below it"
    )
