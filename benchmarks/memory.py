"""How much memory asks need, how fast they are admitted, and whether memory grows forever.

    python -m benchmarks.memory              all of it
    python -m benchmarks.memory --scale 0.1  a tenth

W5: a million pending asks in 10,000 applications, with ten priorities and sixteen shapes, without
nodes; once with an event for each ask, and once with a hundred asks in an event. The memory is the
growth of the resident set of the process. The time includes creating the events, admitting them
and applying them to the view.

Then a day with a new application every second (see ``churn.py``), and some hours of the same
through the scheduler with its tasks. What remains of an application is the growth of the peak of
memory from the second third of the time to the last, divided by the applications of a third. The
kept names of completed applications count as well.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import trio

import muster
from benchmarks import churn
from benchmarks.figures import Better, Figure, cells, with_unit
from benchmarks.processes import python
from benchmarks.workloads import tree
from muster_core.config.model import SortPolicy
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from muster_core.events import AddApp, AddAsk, Configure
from muster_core.resources import Resources

APPS: Final = 10_000
EACH: Final = 100
"""The number of asks of an application."""

DAY: Final = 86_400
SOME_HOURS: Final = 9 * 3_600
"""The time of the run with tasks, and the shortest time of the run without them, in seconds."""

EVERY: Final = 900
"""The interval between two measurements of memory, in seconds."""

PAGE: Final = 4_096


def _resident() -> int:
    """Return the resident memory of the process, in bytes; 0 if it is unknown."""
    gc.collect()
    known = Path("/proc/self/statm")
    return int(known.read_text(encoding="ascii").split()[1]) * PAGE if known.exists() else 0


def asks(scale: float, at_once: int) -> dict[str, float]:
    """Add many asks that stay pending.

    Args:
        scale: The share of the full size.
        at_once: The number of asks in one event.
    """
    config = tree(10, 10, SortPolicy.FIFO)
    scheduler = PlainScheduler(config)
    scheduler.submit(Configure(config=config))
    scheduler.settle()
    sizes = [
        Resources({"vcore": 100 + 25 * at, "memory": (1 + at % 4) * 2**28}) for at in range(16)
    ]
    before, start = _resident(), time.process_time()
    apps = max(1, round(APPS * scale))
    for at in range(apps):
        name = f"app-{at:05}"
        scheduler.submit(AddApp(name, f"root.p{at % 10}.l{at // 10 % 10}"))
        for ask in range(0, EACH, at_once):
            count = at_once if at_once > 1 else None
            priority, size = (at * 7 + ask * 3) % 10, sizes[(at + ask) % 16]
            scheduler.submit(AddAsk(name, f"ask-{ask}", size, priority, count=count))
    scheduler.settle()
    seconds = time.process_time() - start
    scheduler.announced.clear()
    number = apps * EACH
    return {"bytes": (_resident() - before) / number, "a_second": number / seconds}


def day(scale: float) -> dict[str, float]:
    """Run a day of changes, only in the core."""
    last = max(SOME_HOURS, round(DAY * scale))
    scheduler = PlainScheduler(churn.configuration())
    samples: list[int] = []
    for at_us, events in churn.seconds(last):
        if at_us % (EVERY * churn.SECOND) == 0:
            samples.append(_resident())
        for event in events:
            scheduler.submit(event, at_us)
        scheduler.announced.clear()
    scheduler.finish()
    return _growth(samples)


def some_hours(_: float) -> dict[str, float]:
    """Run some hours of changes through the scheduler with its tasks."""
    return trio.run(_some_hours)


class NullJournal:
    """A journal that writes nothing."""

    def write(self, batch: Sequence[Announced]) -> None:
        """Ignore a batch."""


async def _some_hours() -> dict[str, float]:
    samples: list[int] = []
    async with muster.open_simulation(churn.configuration(), journal=NullJournal()) as scheduler:
        for at_us, events in churn.seconds(SOME_HOURS):
            if at_us % (EVERY * churn.SECOND) == 0:
                await scheduler.settle()
                samples.append(_resident())
            for event in events:
                await scheduler.submit(event, at_us=at_us)
        await scheduler.finish()
    return _growth(samples)


def _growth(samples: Sequence[int]) -> dict[str, float]:
    """Return the peak in the second third of the time, and the growth of the peak in the last."""
    third = len(samples) // 3
    before, after = max(samples[third:-third]), max(samples[-third:])
    return {"bytes": before, "more": after - before, "each": (after - before) / (third * EVERY)}


PARTS: Final[dict[str, Callable[[float], dict[str, float]]]] = {
    "one-by-one": lambda scale: asks(scale, 1),
    "in-rows": lambda scale: asks(scale, EACH),
    "day": day,
    "some-hours": some_hours,
}
"""The parts, each in a process of its own, as a process does not return all its memory."""


def measure(scale: float) -> list[Figure]:
    """Measure everything.

    Args:
        scale: The share of a million asks, and of a day.
    """
    figures: list[Figure] = []
    for part, what in (("one-by-one", "an event each"), ("in-rows", "a hundred an event")):
        found = _run(part, scale)
        rate = found["a_second"]
        figures += [
            Figure("W5", f"an ask, {what}", found["bytes"], "bytes", 500),
            Figure("W5", f"ingest, {what}", rate, "asks a second", 100_000, Better.HIGHER),
        ]
    for part, what in (("day", "a day"), ("some-hours", "nine hours with tasks")):
        found = _run(part, scale)
        raw = f"{with_unit(found['more'] / 2**10, 'KiB')} on {with_unit(found['bytes'] / 2**20, 'MiB')}"
        # Its name is kept, as one of the latest, whose number is limited.
        figures.append(
            Figure("churn", f"{what}, left of an application", found["each"], "bytes", 200, raw=raw)
        )
    return figures


def _run(part: str, scale: float) -> dict[str, float]:
    cost = python("-m", "benchmarks.memory", "--part", part, "--scale", scale)
    found: dict[str, float] = json.loads(cost.out)
    return found


def main() -> None:
    """Print all figures, or those of one part as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    parser.add_argument("--part", choices=PARTS, help="only this, here, as JSON")
    arguments = parser.parse_args()
    if arguments.part is not None:
        gc.set_threshold(100_000, 50, 100)  # as in the command
        print(json.dumps(PARTS[arguments.part](arguments.scale)))
        return
    for figure in measure(arguments.scale):
        print(" | ".join(cells(figure)))


if __name__ == "__main__":
    main()
