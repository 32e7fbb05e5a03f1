"""Remedies that concern the nodes that an ask may use: more tolerations, and a shorter affinity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import attrs

from muster.explain._remedies.case import Case, Remedy, RemedyKind
from muster.feeds._kinds import EventFields
from muster.feeds._operations import write
from muster.replay import event_of
from muster_core.events import AddAsk
from muster_core.structures.shapes import Exclusion
from muster_core.values.affinity import Affinity, Taint, Toleration, repelling
from muster_core.view.reasons.shortfalls import listed

_TRIED: Final = 8
"""How many changes of one kind are tried."""

_AGAIN: Final = "withdrawn and submitted again, and counts as created then"


# AFFINITY-15
def place_remedies(case: Case) -> Iterator[Remedy]:
    """Try tolerations that the ask lacks, and its affinity with fewer requirements."""
    exclusions = {node.exclusion(case.ask.shape) for node in case.nodes.values()}
    if exclusions.isdisjoint({Exclusion.TAINTS, Exclusion.AFFINITY}):
        return
    if case.trials.bind(_events(case, case.event.tolerations, case.event.affinity)):
        return  # Then they are not the cause.
    if Exclusion.TAINTS in exclusions:
        yield from _tolerant(case)
    if Exclusion.AFFINITY in exclusions:
        yield from _less_choosy(case)


def _tolerant(case: Case) -> Iterator[Remedy]:
    """Try to tolerate the taints of nodes; what opens more nodes is tried first."""
    shape = case.ask.shape
    sets = Counter(
        tuple(dict.fromkeys(repelling(node.taints, shape.tolerations)))
        for node in case.nodes.values()
        if node.exclusion(shape) is Exclusion.TAINTS
    )
    for taints, _ in sorted(sets.items(), key=lambda one: (len(one[0]), -one[1]))[:_TRIED]:
        more = (*case.event.tolerations, *map(_toleration_of, taints))
        named = f"toleration{'s' if len(taints) > 1 else ''} of {listed(map(str, taints))}"
        text = f"{named}: {_who(case)} {_AGAIN}"
        remedy = case.remedy(RemedyKind.TOLERATION, text, _events(case, more, case.event.affinity))
        if remedy is not None:
            yield remedy


def _toleration_of(taint: Taint) -> Toleration:
    return Toleration(taint.key, value=taint.value, effect=taint.effect)


def _less_choosy(case: Case) -> Iterator[Remedy]:
    """Try the affinity without each of its requirements, and at last none."""
    affinity, found = case.event.affinity or (), False
    shorter: list[tuple[str, Affinity | None]] = [
        (f"an affinity without {left_out}", (*affinity[:at], without, *affinity[at + 1 :]))
        for at, term in enumerate(affinity)
        for left_out in term
        if (without := tuple(one for one in term if one != left_out))
    ]
    for named, changed in (*shorter[:_TRIED], ("no affinity", None)):
        if changed is None and found:
            return
        text = f"{named}: {_who(case)} {_AGAIN}"
        events = _events(case, case.event.tolerations, changed)
        remedy = case.remedy(RemedyKind.AFFINITY, text, events)
        if remedy is not None:
            found = True
            yield remedy


def _who(case: Case) -> str:
    return "the ask is" if len(_alike(case)) == 1 else "it and its gang are"


def _alike(case: Case) -> list[AddAsk]:
    """Return the ask, and the other pending members of its gang that may use the same nodes."""
    if case.gang is None:
        return [case.event]
    found, own, view = [case.event], case.ask.shape, case.machine.view
    classes = case.machine.registry.classes.facts()
    for app, name in case.snapshot.gangs[case.gang.name].pending:
        ask = view.apps[case.machine.registry.app_key(app)].find(name)
        if ask is not None and (app, name) != (case.event.app, case.event.ask):
            chosen = ask.shape.tolerations, ask.shape.affinity
            if chosen == (own.tolerations, own.affinity):
                found.append(event_of(app, ask, classes))
    return found


def _events(
    case: Case, tolerations: tuple[Toleration, ...], affinity: Affinity | None
) -> list[EventFields]:
    """Return the events that submit the ask again, with other nodes that it may use."""
    events: list[EventFields] = []
    for event in _alike(case):
        events.append({"op": "remove_ask", "app": event.app, "ask": event.ask})
        events.append(write(attrs.evolve(event, tolerations=tolerations, affinity=affinity)))
    return events
