"""A cluster with changes every second, for any length of time.

Only the queues and most of the nodes stay. Applications are added, are bound or wait in vain, end,
are released or removed, and so do gangs that are satisfied, gangs that never are, dynamic queues,
nodes and sizes of asks. So the state after a day is as large as after an hour, unless something
is kept forever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import attrs

from benchmarks.workloads import partition, queue
from muster_core.config.model import Configuration, Settings
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    Event,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
    RemoveGang,
    RemoveNode,
)
from muster_core.gangs import GangFields
from muster_core.resources import Resources

SECOND: Final = 1_000_000
"""A second, in microseconds."""

MONTH: Final = 30 * 86_400 * SECOND
NODES: Final = 20
LEAVES: Final = 10


def configuration() -> Configuration:
    """Return ten leaves, and a parent for dynamic leaves."""
    leaves = [queue(f"root.l{at}", Settings(create=False)) for at in range(LEAVES)]
    made = attrs.evolve(queue("root.made", Settings(create=True)), is_parent=True)
    return partition([*leaves, made])


def seconds(last: int) -> Iterator[tuple[int, list[Event]]]:
    """Yield the events of each second that has events.

    Args:
        last: The last second in which applications are added. After it, the rest ends.

    Yields:
        The instant, in microseconds, and the events.
    """
    later: defaultdict[int, list[Event]] = defaultdict(list)
    capacity = Resources({"vcore": 64_000, "memory": 2**40})
    later[0] += [AddNode(f"node-{at}", capacity) for at in range(NODES)]
    second = 0
    while later or second <= last:
        if second <= last:
            _plan_app(second, later)
        events = later.pop(second, [])
        if events:
            yield second * SECOND, events
        second += 1


def _plan_app(second: int, later: defaultdict[int, list[Event]]) -> None:
    """Add an application, and plan its later events."""
    app = f"app-{second}"
    is_dynamic = second % 5 == 0
    path = f"root.made.q{second % 50}" if is_dynamic else f"root.l{second % LEAVES}"
    later[second].append(AddApp(app, path, tags={"at": str(second)}))
    size = Resources({"vcore": 100 + second % 997, "memory": 2**28})
    # Two that end by themselves, one that would not in a month, and one that fits nowhere.
    later[second] += [
        AddAsk(app, "short", size, second % 7, count=2, run_for_us=(10 + second % 60) * SECOND),
        AddAsk(app, "long", size, second % 3, run_for_us=MONTH),
        AddAsk(app, "nowhere", size, selector={"zone": f"z{second % 11}"}),
    ]
    if second % 3 == 0:
        later[second].append(FailBind(app, "long"))
    later[second + 45].append(Release(app, "long"))
    later[second + 60].append(RemoveAsk(app, "nowhere"))
    if second % 20 == 0:
        _plan_gangs(second, later)
    if second % 300 == 0:
        name = f"spare-{second}"
        later[second].append(AddNode(name, Resources({"vcore": 8_000, "memory": 2**34})))
        later[second + 900].append(RemoveNode(name))


def _plan_gangs(second: int, later: defaultdict[int, list[Event]]) -> None:
    """Add two gangs, one of which never has all its members."""
    size = Resources({"vcore": 1_000, "memory": 2**30})
    for name, members in (("whole", 4), ("part", 3)):
        app, gang = f"{name}-{second}", f"default/{name}-{second}"
        later[second] += [
            AddGang(gang, GangFields(min_member=4, wait_us=30 * SECOND)),
            AddApp(app, f"root.l{second % LEAVES}"),
            AddAsk(app, "member", size, count=members, gang=gang, run_for_us=90 * SECOND),
        ]
        later[second + 120] += [RemoveApp(app), RemoveGang(gang)]
