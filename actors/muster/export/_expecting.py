"""What happened in a batch, and the state after it, as fields of ``expect``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from muster.feeds import Raw
from muster.feeds._written.amounts import Written, amounts, without
from muster.replay._record import Record
from muster_core.decisions import Announced, Kind
from muster_core.resources import MAX_QUANTITY, Resources
from muster_core.snapshots import AskPlace, Snapshot

# Looking up a member of an enum takes ten times as long.
_BOUND: Final = Kind.BOUND
_RELEASED: Final = Kind.RELEASED
_WAITING: Final = Kind.WAITING


# COMMAND-13
def happened(batch: Sequence[Announced]) -> Written:
    """Return what a batch has decided: ``order`` always, the other fields if they say something.

    Args:
        batch: Its decisions.
    """
    record = Record()
    record.write(batch)
    written: Written = {"order": [*record.bound]}
    placed = _placed(batch)
    if placed:
        written["placed"] = placed
    return written | without(
        {
            "preempted": [*record.preempted],
            "reclaimed": [*record.reclaimed],
            "rejected": [refusal.message for refusal in record.refusals],
            "warnings": [*record.warnings],
        }
    )


def _placed(batch: Sequence[Announced]) -> Written:
    """Return the nodes of the asks that got one and still have it at the end of the batch."""
    nodes: Written = {}
    for announced in batch:
        decision = announced.decision
        name = f"{decision.app}/{decision.ask}"
        if decision.kind is _BOUND or decision.kind is _WAITING:
            nodes[name] = decision.node
        elif decision.kind is _RELEASED:
            nodes.pop(name, None)
    return nodes


def state(snapshot: Snapshot) -> Written:
    """Return the whole state that ``expect`` can name."""
    places: dict[str, list[str]] = {place.value: [] for place in AskPlace}
    placed: Written = {}
    for app in snapshot.apps.values():
        for ask in app.asks:
            name = f"{app.name}/{ask.name}"
            places[str(ask.place)].append(name)
            if ask.node is not None:
                placed[name] = ask.node
    written: Written = {place: [*names] for place, names in places.items()}
    if placed:
        written["placed"] = placed
    written["queues"] = {
        path: {
            "priority": queue.priority,
            **_summed("allocated", queue.allocated),
            **_summed("pending", queue.pending),
            "state": "draining" if queue.draining else "active",
        }
        for path, queue in snapshot.queues.items()
    }
    apps: dict[str, Raw] = {
        app.name: {"state": str(app.state), "priority": app.priority}
        for app in snapshot.apps.values()
    }
    gangs: dict[str, Raw] = {
        gang.name: {
            "waiting": len(gang.waiting),
            "bound": len(gang.bound),
            "satisfied": gang.satisfied,
            "timed_out": gang.timed_out,
        }
        for gang in snapshot.gangs.values()
    }
    return written | without({"apps": apps, "gangs": gangs})


def _summed(field: str, sums: Mapping[str, int]) -> Written:
    """Return a field with sums; nothing if one is larger than any quantity of a feed."""
    if max(sums.values(), default=0) > MAX_QUANTITY:
        return {}
    return {field: amounts(Resources(dict(sums)))}
