"""Remedies that concern reservations: an estimate with which an ask delays none of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from muster.explain._remedies.case import Case
from muster.explain._remedies.remedy import Remedy, RemedyKind
from muster.explain._writing import Written, add_ask
from muster.figures.text import DAY, HOUR, MINUTE, SECOND
from muster_core.reasons import Code
from muster_core.view.reasons.words import seconds

# Looking up a member of an enum takes ten times as long, and this is done for each ask.
_HELD_BACK: Final = Code.HELD_BACK

_TRIED: Final = 10
"""How many starts of reservations are tried at most."""

_ANY_US: Final = HOUR
"""The estimate in the events if any one will do, in microseconds."""

_UNITS: Final = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"))


# BACKFILL-25
def estimate_remedies(case: Case) -> Iterator[Remedy]:
    """Try estimates with which an ask that is held back ends by the starts of reservations."""
    if all(reason.code is not _HELD_BACK for reason in case.explanation.reasons):
        return
    if case.trials.bind(_events(case, case.event.estimate_us)):
        return  # Then the estimate is not the cause.
    spans = _spans(case)
    for span_us in spans[:_TRIED] or [_ANY_US]:
        text = f"an estimate of {_told(span_us)} or less" if spans else "an estimate"
        text = (
            f"{text}, if its work takes no longer: the ask is withdrawn and submitted again, and "
            "counts as created then"
        )
        remedy = case.remedy(RemedyKind.ESTIMATE, text, _events(case, span_us))
        if remedy is not None:
            yield remedy
            return


def _events(case: Case, estimate_us: int | None) -> list[Written]:
    anew = attrs.evolve(case.event, estimate_us=estimate_us)
    gone: Written = {"op": "remove_ask", "app": anew.app, "ask": anew.ask}
    return [gone, add_ask(anew)]


def _spans(case: Case) -> list[int]:
    """Return how long it is to each known start of a reservation of its scope, the longest first."""
    path = {queue.config.path for queue in case.path}
    found = {
        one.start_us - case.at_us
        for one in case.machine.view.reservations().values()
        if one.scope in path and one.start_us is not None and one.start_us > case.at_us
    }
    return sorted((_rounded(span_us) for span_us in found), reverse=True)


def _rounded(span_us: int) -> int:
    """Return a time in whole seconds if it is a minute or more, and not longer."""
    return span_us - span_us % SECOND if span_us >= MINUTE else span_us


def _told(span_us: int) -> str:
    """Return the exact text of a time, such as ``1 h 30 min``."""
    parts: list[str] = []
    for unit_us, name in _UNITS:
        whole, span_us = divmod(span_us, unit_us)
        if whole:
            parts.append(f"{whole:,} {name}")
    if span_us or not parts:
        parts.append(seconds(span_us))
    return " ".join(parts)
