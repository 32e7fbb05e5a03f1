"""Two nodes, an application with an ask that does not fit, and a gang member that waits."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, cast

from muster.config_files import parse_configuration
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Configure, RemoveAsk
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from tests.actors.kept import Keeper

GI: Final = 2**30

ORIGIN_US: Final = (int(time.time()) - 21_600) * 1_000_000
"""Six hours ago, to the second: a service that starts now goes on from there."""

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {gang.wait.time: 1000h}
        queues:
          - name: prod
            queues:
              - name: etl
                resources: {max: {vcore: 8}}
                properties: {application.sort.policy: fair, priority.offset: "100"}
          - name: train
          - name: lab
            parent: true
            maxapplications: 7
            resources: {guaranteed: {vcore: 1}}
            childtemplate:
              maxapplications: 3
              properties: {preemption.policy: fence}
              resources: {max: {vcore: 2}, guaranteed: {memory: 1Gi}}
"""


def ns(seconds: float) -> int:
    """Give an instant in nanoseconds, by its seconds since the origin."""
    return (ORIGIN_US + round(seconds * 1e6)) * 1_000


def kept_scene(directory: Path) -> Path:
    """Keep the scene in a state directory."""
    keeper = Keeper(directory, origin_us=ORIGIN_US)
    part = Resources({"vcore": 4000, "memory": 8 * GI})
    node = Resources({"vcore": 8000, "memory": 32 * GI})
    keeper.run(0, [Configure(parse_configuration(CONFIG))])
    keeper.run(
        10_000_000,
        [AddApp("old", "root.train"), AddAsk("old", "x", part), RemoveAsk("old", "x")],
    )
    keeper.run(60_000_000, [AddApp("nightly-1", "root.prod.etl", "olga", ("data",))])
    big = Resources({"vcore": 12000, "memory": 8 * GI})
    keeper.run(
        60_500_000,
        [
            AddAsk("nightly-1", "load-0", part, priority=10),
            AddAsk("nightly-1", "load-1", big, priority=10),
        ],
    )
    keeper.run(
        61_000_000,
        [AddNode("node-a", node), AddNode("node-b", node, {"zone": "east"})],
    )
    keeper.run(
        100_000_000,
        [
            AddGang("ml/ring", GangFields(min_member=2, mode=GangMode.NON_STRICT)),
            AddApp("train-3", "root.train"),
            AddAsk("train-3", "w-0", part, gang="ml/ring"),
            AddAsk("train-3", "w-1", Resources({"vcore": 64000}), gang="ml/ring"),
        ],
    )
    keeper.pass_until(400_000_000)
    return keeper.close()


def lacks(expected: object, actual: object, place: str = "") -> list[str]:
    """Tell what an answer lacks of what is expected; it may have more fields."""
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return [f"{place}: {actual!r} is no map"]
        wanted, found = cast("dict[str, object]", expected), cast("dict[str, object]", actual)
        told = [f"{place}.{name}: is missing" for name in wanted if name not in found]
        for name in [name for name in wanted if name in found]:
            told += lacks(wanted[name], found[name], f"{place}.{name}")
        return told
    if isinstance(expected, list):
        items = cast("list[object]", expected)
        others = cast("list[object]", actual) if isinstance(actual, list) else []
        if len(items) != len(others):
            return [f"{place}: {actual!r} has not {len(items)} items"]
        wrong: list[str] = []
        for number, (one, two) in enumerate(zip(items, others, strict=True)):
            wrong += lacks(one, two, f"{place}[{number}]")
        return wrong
    same = type(expected) is type(actual) and expected == actual
    return [] if same else [f"{place}: {actual!r} is not {expected!r}"]
