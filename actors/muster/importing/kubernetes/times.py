"""When a pod was created, began to hold its node, and ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, cast, final

import attrs

from muster.feeds._fields.kinds import FieldError

Values = Mapping[str, object]

_ENDED: Final = frozenset({"Succeeded", "Failed"})


@final
class State(IntEnum):
    """What is known of a pod; of two records of it the higher one says more."""

    PENDING = 0
    RUNNING = 1
    FINISHED = 2


@final
@attrs.frozen
class Times:
    """The instants of a pod, in microseconds since 1970.

    Attributes:
        state: How far it had come when it was dumped.
        created_us: When it was created.
        started_us: Since when it held its node; None if it never did.
        finished_us: When it ended; None if it has not, or if that is not known.
        is_deleted: Whether somebody has deleted it.
    """

    state: State
    created_us: int
    started_us: int | None = None
    finished_us: int | None = None
    is_deleted: bool = False


# KUBERNETES-5, KUBERNETES-6
def times_of(values: Values) -> Times:
    """Return the instants of a pod.

    Raises:
        FieldError: If it ran, and nothing says since when.
    """
    created = cast("int", values["created"])
    deleted = cast("int | None", values.get("deleted"))
    has_ended = values.get("phase") in _ENDED
    if not (has_ended or values.get("node")):
        return Times(State.PENDING, created, is_deleted=deleted is not None)
    started = _started(values)
    if has_ended:
        finished = _finished(values, started)
        return Times(State.FINISHED, created, started, finished, deleted is not None)
    if started is None:
        msg = "nothing says since when it runs"
        raise FieldError(msg, "status.startTime")
    if deleted is not None:
        return Times(State.FINISHED, created, started, deleted, is_deleted=True)
    return Times(State.RUNNING, created, started)


def _started(values: Values) -> int | None:
    """Return since when it holds its node: it was bound, else accepted there, else begun."""
    for condition in _maps(values, "conditions"):
        is_bound = condition.get("type") == "PodScheduled" and condition.get("status") == "True"
        if is_bound and "since" in condition:
            return cast("int", condition["since"])
    if "accepted" in values:
        return cast("int", values["accepted"])
    return min(_of_containers(values, "started", "running_since"), default=None)


def _finished(values: Values, started: int | None) -> int | None:
    """Return when the last container ended, else when the pod was no longer ready."""
    last = max(_of_containers(values, "finished"), default=None)
    if last is not None:
        return last
    changes = [cast("int", one["since"]) for one in _maps(values, "conditions") if "since" in one]
    later = [since for since in changes if started is not None and since > started]
    return max(later, default=None)


def _of_containers(values: Values, *names: str) -> list[int]:
    return [
        cast("int", status[name])
        for statuses in ("init_statuses", "statuses")
        for status in _maps(values, statuses)
        for name in names
        if name in status
    ]


def _maps(values: Values, name: str) -> Iterable[Values]:
    return cast("Iterable[Values]", values.get(name, ()))
