"""Clusters whose pages are looked at: none at all, a small one, and a large one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

Event = dict[str, Any]

CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: production
            properties: {priority.offset: "10"}
            resources: {guaranteed: {vcore: 32, memory: 128Gi}, max: {vcore: 96, memory: 384Gi}}
          - name: research
            resources: {guaranteed: {vcore: 48, memory: 192Gi}, max: {vcore: 64, memory: 256Gi}}
            queues:
              - {name: vision}
              - {name: language, properties: {priority.policy: fence}}
          - name: batch
            resources: {max: {vcore: 40}}
          - name: render
            properties: {scheduling.order: backfill, backfill.depth: "3"}
"""


def a_little() -> Iterator[list[Event]]:
    """Yield what happens on a small cluster; each list is one request."""
    yield [
        *(node(f"cpu-{number}", 32, "128Gi", "a" if number < 3 else "b") for number in range(1, 5)),
        *(node(f"gpu-{number}", 16, "256Gi", "b", gpus=4) for number in range(1, 3)),
        {"op": "update_node", "node": "cpu-4", "schedulable": False},
    ]
    yield [
        app("shop", "root.production", "ann"),
        ask("shop", "web", {"vcore": 2, "memory": "4Gi"}, count=12, priority=5),
        app("etl", "root.batch", "bob"),
        ask("etl", "part", {"vcore": 4, "memory": "8Gi"}, count=30, estimate="2h"),
        app("label", "root.research.vision", "cleo"),
        ask("label", "image", {"vcore": 1, "memory": "2Gi"}, count=14),
    ]
    members = [
        ask("train", f"worker-{number}", {"vcore": 8, "nvidia.com/gpu": 2}, gang="all")
        for number in range(6)
    ]
    gang = {"op": "add_gang", "gang": "all", "min_member": 6, "wait_time": "30m"}
    yield [gang, app("train", "root.research.language", "dora"), *members]
    yield [
        app("film", "root.render", "emil"),
        ask("film", "frame", {"vcore": 20, "memory": "16Gi"}, count=5, estimate="1h"),
        ask("film", "thumbnail", {"vcore": 6, "memory": "4Gi"}, count=3),
        {"op": "add_app", "app": "odd", "queue": "root.nowhere"},
    ]
    yield [
        node("dgx-1", 15, "512Gi", "b", devices={"gpu": {"count": 8, "model": "A100"}, "nic": 2}),
        app("chat", "root.production", "ann"),
        ask("chat", "tune", {"vcore": 8}, devices={"gpu": 4, "nic": 1}),
        ask("chat", "reply", {"vcore": 1}, count=7, devices={"gpu": {"milli": 300}}),
    ]


def much() -> Iterator[list[Event]]:
    """Yield what happens on a large cluster."""
    queues = [{"name": f"team-{number:03}", "queues": [{"name": "a"}]} for number in range(500)]
    queues.append({"name": "research", "queues": [{"name": "language"}]})
    root = {"name": "root", "submitacl": "*", "queues": queues}
    yield [{"op": "configure", "config": {"partitions": [{"name": "default", "queues": [root]}]}}]
    for first in range(0, 10_000, 5_000):
        numbers = range(first, first + 5_000)
        yield [node(f"node-{number:05}", 32, "128Gi", "abcdef"[number % 6]) for number in numbers]
    for number in range(100):
        name = f"job-{number:03}"
        yield [
            app(name, f"root.team-{number * 5:03}.a", f"user-{number % 7}"),
            ask(name, "part", {"vcore": 7 + number % 9, "memory": "16Gi"}, count=1_300),
        ]
    # What the pages of single things are about.
    yield [
        node("gpu-1", 2_000, "2000Gi", "b", gpus=8),
        app("small", "root.research.language", "cleo"),
        ask("small", "part", {"vcore": "500m"}, count=3_000, selector={"zone": "b"}),
        {"op": "add_gang", "gang": "all", "min_member": 2_000, "wait_time": "30m"},
        app("train", "root.research.language", "dora"),
        ask("train", "worker", {"vcore": 8, "nvidia.com/gpu": 2}, count=2_000, gang="all"),
    ]


def node(name: str, vcore: int, memory: str, zone: str, *, gpus: int = 0, **more: object) -> Event:
    """Return the event that adds a node."""
    capacity: Event = {"vcore": vcore, "memory": memory}
    if gpus:
        capacity["nvidia.com/gpu"] = gpus
    there = {"op": "add_node", "node": name, "capacity": capacity, "attributes": {"zone": zone}}
    return there | more


def app(name: str, queue: str, user: str, **more: object) -> Event:
    """Return the event that adds an application."""
    return {"op": "add_app", "app": name, "queue": queue, "user": user, **more}


def ask(of: str, name: str, resources: Event, **more: object) -> Event:
    """Return the event that adds an ask."""
    return {"op": "add_ask", "app": of, "ask": name, "resources": resources, **more}


def nothing() -> Iterator[list[Event]]:
    """Yield nothing."""
    yield from ()


DATA: Final = {"none": nothing, "little": a_little, "much": much}
