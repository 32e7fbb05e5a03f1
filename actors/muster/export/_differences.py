"""What two states differ in, in sentences for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeVar

from muster_core.snapshots import AppSnapshot, GangSnapshot, QueueSnapshot, Snapshot

T = TypeVar("T")

_MOST: Final = 3
"""How many of one kind are named."""


def differences(wanted: Snapshot, found: Snapshot) -> Iterator[str]:
    """Yield what is not as it was, a sentence for each kind."""
    yield from _compared("nodes", wanted.nodes, found.nodes, lambda one: one)
    yield from _compared("queues", wanted.queues, found.queues, _queue)
    yield from _compared("applications", wanted.apps, found.apps, _app)
    yield from _compared("asks", _asks(wanted), _asks(found), lambda one: one)
    yield from _compared("gangs", wanted.gangs, found.gangs, _gang)
    if wanted.limits != found.limits:
        yield "what users and groups have of their limits differs"


def _compared(
    what: str, wanted: Mapping[str, T], found: Mapping[str, T], look: Callable[[T], object]
) -> Iterator[str]:
    names = [
        name
        for name in {**wanted, **found}
        if name not in wanted or name not in found or look(wanted[name]) != look(found[name])
    ]
    if names:
        more = f", … {len(names):,} in all" if len(names) > _MOST else ""
        yield f"{what} that are not as they were: {', '.join(names[:_MOST])}{more}"


def _queue(queue: QueueSnapshot) -> object:
    return queue.draining, queue.allocated, queue.pending


def _app(app: AppSnapshot) -> object:
    return app.queue, app.state, app.user, app.group


def _asks(snapshot: Snapshot) -> Mapping[str, object]:
    return {
        f"{app.name}/{ask.name}": (
            *(ask.place, ask.node, ask.priority, ask.resources, ask.gang),
            ask.devices,
        )
        for app in snapshot.apps.values()
        for ask in app.asks
    }


def _gang(gang: GangSnapshot) -> object:
    return gang.definition, gang.satisfied, gang.timed_out
