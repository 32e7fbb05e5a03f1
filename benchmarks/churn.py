"""A cluster on which something comes and goes every second, for as long as one likes.

Nothing of it is there for good but the queues and most of the nodes: applications come, are bound
or wait in vain, end, are released or removed, their names with them; so do gangs that are
satisfied, gangs that never are, queues made on the fly, nodes, and sizes of asks. What is left
after an hour is as much as is left after a day, unless something is never forgotten.
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
from muster_core.gangs.definition import GangFields
from muster_core.resources import Resources

SECOND: Final = 1_000_000
"""A second, in microseconds."""

MONTH: Final = 30 * 86_400 * SECOND
NODES: Final = 20
LEAVES: Final = 10


def configuration() -> Configuration:
    """Ten leaves, and a parent in which leaves are made on the fly."""
    leaves = [queue(f"root.l{at}", Settings(create=False)) for at in range(LEAVES)]
    made = attrs.evolve(queue("root.made", Settings(create=True)), is_parent=True)
    return partition([*leaves, made])


def seconds(last: int) -> Iterator[tuple[int, list[Event]]]:
    """Give what comes in each second that something comes in.

    Args:
        last: The last second in which an application comes. What has come goes after that.

    Yields:
        The instant, in microseconds, and the events.
    """
    later: defaultdict[int, list[Event]] = defaultdict(list)
    capacity = Resources({"vcore": 64_000, "memory": 2**40})
    later[0] += [AddNode(f"node-{at}", capacity) for at in range(NODES)]
    second = 0
    while later or second <= last:
        if second <= last:
            _come(second, later)
        events = later.pop(second, [])
        if events:
            yield second * SECOND, events
        second += 1


def _come(second: int, later: defaultdict[int, list[Event]]) -> None:
    """Let an application come, and take note of what comes of it."""
    app = f"app-{second}"
    made = second % 5 == 0
    path = f"root.made.q{second % 50}" if made else f"root.l{second % LEAVES}"
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
        _come_together(second, later)
    if second % 300 == 0:
        name = f"spare-{second}"
        later[second].append(AddNode(name, Resources({"vcore": 8_000, "memory": 2**34})))
        later[second + 900].append(RemoveNode(name))


def _come_together(second: int, later: defaultdict[int, list[Event]]) -> None:
    """Let two gangs come, of which one never has all of its members."""
    size = Resources({"vcore": 1_000, "memory": 2**30})
    for name, members in (("whole", 4), ("part", 3)):
        app, gang = f"{name}-{second}", f"default/{name}-{second}"
        later[second] += [
            AddGang(gang, GangFields(min_member=4, wait_us=30 * SECOND)),
            AddApp(app, f"root.l{second % LEAVES}"),
            AddAsk(app, "member", size, count=members, gang=gang, run_for_us=90 * SECOND),
        ]
        later[second + 120] += [RemoveApp(app), RemoveGang(gang)]
