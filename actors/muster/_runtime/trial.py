"""Trying events on a copy of the state: what would be refused, and what would follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from muster_core.coordinator.plain import PlainScheduler

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from muster._runtime.clients.calls import Guard
    from muster_core.events import Event
    from muster_core.facts import Facts


@final
@attrs.frozen
class Tried:
    """What events would lead to.

    Attributes:
        errors: Why events would be refused, by their number.
        decisions: The decisions of their batch, as lines of the decision log.
    """

    errors: Mapping[int, str]
    decisions: Sequence[dict[str, object]] = ()


def try_events(
    facts: Facts, now_us: int, events: Sequence[Event], guard: Guard | None, *, decides: bool = True
) -> Tried:
    """Return what events would lead to if they were let in now; it may take long.

    Args:
        facts: The state.
        now_us: The present instant, in microseconds.
        events: The events.
        guard: Judges which of them are let in, or None to let in all.
        decides: Whether the decisions are wanted, too, not only what would be refused.
    """
    scheduler = PlainScheduler(facts=facts)
    machine = scheduler.machine
    scheduler.pass_until(now_us)  # Timers that are due go off before, in batches of their own.
    scheduler.announced = []
    index = facts.coordinator.requests
    denied: dict[int, str] = {}
    positions: dict[int, int] = {}
    for number, event in enumerate(events):
        if guard is not None:
            if guard.must_hear_first(event, machine):
                scheduler.hear()
            if (refusal := guard.refusal(event, machine)) is not None:
                denied[number] = refusal
                continue
        scheduler.submit(event, index=index)
        index += 1
        positions[number] = machine.entered
    if positions and decides:
        scheduler.settle()
    elif positions:
        scheduler.hear()
    refusals = {number: machine.refusal_of(position) for number, position in positions.items()}
    refused = {number: one for number, one in refusals.items() if one is not None}
    tried = Tried(denied | refused, [one.as_map() for one in scheduler.announced])
    # Freeing all of it at once would hold up the other threads.
    for _ in scheduler.free():
        pass
    return tried
