"""A process of its own that tries changes on copies of the state, so that a service goes on meanwhile.

Its standard input is a line of JSON with the task and the names of the application and of the
ask, and then the facts of a checkpoint as they are stored. Of ``remedies`` it writes a line of JSON
for each one when it is found, and a last one with how many trials there were. Of a ``forecast`` it
writes a line, and another one with why the ask is held back later.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Final

import attrs

from muster.explain._output import reason_map, remedy_map, why_held_back_later
from muster.explain._remedies.finder import RemedySearch, event_like
from muster.store._codec import facts_of
from muster_core.coordinator.plain_scheduler import PlainScheduler, forecast
from muster_core.facts import Facts
from muster_core.reasons import Forecast

_LONGEST_S: Final = 300
"""After how many seconds it ends by itself, if its parent does not end it."""

_NICER: Final = 10
"""By how much it gives way to other processes."""


def _lines(wanted: str, app: str, ask: str, state: bytes) -> Iterator[dict[str, object]]:
    facts = facts_of((state,))
    if wanted == "forecast":
        made = forecast(facts, app, ask)
        yield {"forecast": None if made is None else attrs.asdict(made)}
        if made is not None:
            yield {"held_back_later": _later(facts, app, ask, made)}
        return
    scheduler = PlainScheduler(facts=facts)
    explanation, event = scheduler.explain(app, ask), event_like(scheduler, app, ask)
    if explanation is None or event is None:
        yield {"trials": 0, "exhausted": False}
        return
    search = RemedySearch(scheduler, event, explanation, scheduler.machine.now_us)
    for remedy in search:
        yield {"remedy": remedy_map(remedy)}
    yield {"trials": search.made, "exhausted": search.exhausted}


# OUTLOOK-10
def _later(facts: Facts, app: str, ask: str, made: Forecast) -> dict[str, object] | None:
    now_us = facts.coordinator.now_us
    explanation = PlainScheduler(facts=facts).explain(app, ask)
    if explanation is None:
        return None
    found = why_held_back_later(explanation, made, lambda: facts, now_us)
    return None if found is None else reason_map(found)


def main() -> None:
    """Try, and write the results."""
    signal.alarm(_LONGEST_S)
    os.nice(_NICER)
    written = sys.stdin.buffer
    wanted, app, ask = json.loads(written.readline())
    for line in _lines(wanted, app, ask, written.read()):
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
