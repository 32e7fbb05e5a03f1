"""The first decision that differs, in words."""

from __future__ import annotations

from collections.abc import Iterator

from muster.cli._progress import instant
from muster.compare import Elsewhere, FirstDifference, Version
from muster.figures.text import counted
from muster_core.decisions import Decision, Kind


def words_of(
    what: str,
    counts: str,
    first: FirstDifference,
    names: tuple[str, str],
    origin_us: int | None,
    letters: tuple[str, str] = ("A", "B"),
) -> Iterator[str]:
    """Yield the lines that describe a first difference.

    Args:
        what: What differs.
        counts: The noun for the equal decisions before it.
        first: The first difference.
        names: The names of the feeds or logs of both sides.
        origin_us: The origin of time, in microseconds since 1970 in UTC, or None.
        letters: The letters of both sides.
    """
    yield f"{what} from {instant(first.at_us, origin_us)} on, after {counted(first.same, counts)}:"
    yield ""
    a, b = letters
    for side, other, version, name in ((a, b, first.a, names[0]), (b, a, first.b, names[1])):
        if version is None:
            yield f"{side}  nothing more at this instant"
            continue
        yield f"{side}  {_told(version.announced.decision)}{_place(version, name)}"
        if version.elsewhere is not None:
            yield from _elsewhere(other, version.elsewhere)


def _place(version: Version, name: str) -> str:
    if version.line is not None:
        return f"  ({name}:{version.line})"
    return "" if version.index is None else f"  ({name}: event {version.index})"


def _told(decision: Decision) -> str:
    """Return a decision as one line of text."""
    if decision.kind is Kind.QUEUE_PRIORITY:
        priority = "none" if decision.priority is None else decision.priority
        return f"{decision.kind} of {decision.queue}: {priority}"
    ask = "" if decision.ask is None else f"/{decision.ask}"
    on = "from" if decision.kind is Kind.RELEASED else "on"
    parts = (
        decision.kind.value,
        None if decision.app is None else f"{decision.app}{ask}",
        decision.state,
        None if decision.node is None else f"{on} {decision.node}",
        None if decision.queue is None else f"in {decision.queue}",
        None if decision.gang is None else f"of {decision.gang}",
    )
    said = (decision.reason, decision.message)
    return ": ".join(
        [" ".join(part for part in parts if part is not None), *(str(one) for one in said if one)]
    )


def _elsewhere(side: str, elsewhere: Elsewhere) -> Iterator[str]:
    name = f"   in {side} {elsewhere.app}/{elsewhere.ask}"
    if elsewhere.place is None:
        yield f"{name} does not exist"
        return
    node = "" if elsewhere.node is None else f" on {elsewhere.node}"
    yield f"{name} is {elsewhere.place}{node}"
    if elsewhere.turn is not None:
        yield f"      {elsewhere.turn}"
    yield from (f"      {reason}" for reason in elsewhere.reasons)
