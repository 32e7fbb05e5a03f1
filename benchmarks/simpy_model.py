"""The workloads W1 and W3 as typical models in SimPy.

SimPy has resources with a priority queue, the usual base of a model of a cluster. It has no queues
with quotas, no shapes of several resources and no choice of a node: this model leaves them out, or
does them in the cheapest way. So SimPy does less for an allocation than Muster does.

- W1: each node is a ``PriorityResource`` with as many slots as asks fit on it. An ask is a process;
  it uses the least used node, from a heap of the model.
- W3: the cluster is one ``PriorityResource`` with as many slots as Muster has bound asks, since a
  request is always for one slot. All asks wait there by priority; released asks make room for
  others.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Generator
from heapq import heapify, heapreplace

import simpy
from simpy.events import Event

from benchmarks.drive import RELEASES, without_tasks
from benchmarks.workloads import NODE, NODES, WORKLOADS
from muster_core.events import AddAsk

Process = Generator[Event, None, None]


def w1(scale: float) -> dict[str, float]:
    """Place equal asks; return ``binds`` and the time in seconds, ``whole_s``."""
    asks = 2 * max(1, int(5_000 * scale))
    slots = min(NODE["vcore"] // 1_000, NODE["memory"] // 2**30)
    gc.collect()
    start = time.process_time()
    env = simpy.Environment()
    nodes = [simpy.PriorityResource(env, capacity=slots) for _ in range(NODES)]
    by_use = [(0, at) for at in range(NODES)]
    heapify(by_use)
    placed: dict[int, int] = {}

    def ask(number: int, priority: int) -> Process:
        used, at = by_use[0]
        heapreplace(by_use, (used + 1, at))
        turn = nodes[at].request(priority=-priority)
        with turn:
            yield turn
            placed[number] = at
            yield env.event()  # it runs on

    for number in range(asks):
        env.process(ask(number, 0))
    env.run()
    return {"binds": len(placed), "whole_s": time.process_time() - start}


def w3(name: str, scale: float) -> dict[str, float]:
    """Run asks that wait for a full cluster, and release some at a time.

    Args:
        name: `W3a` or `W3b`.
        scale: The share of the full size.

    Returns:
        ``binds``, the number of asks that were bound after a release; ``rounds_s``, their time
        in seconds; ``entry_s``, the time of everything before; and the same for the state
        machines of Muster with as many asks: ``muster_binds``, ``muster_s``, ``muster_entry_s``.
    """
    muster = without_tasks(name, scale)
    workload = WORKLOADS[name]
    asks = [event for event in workload.events(scale) if isinstance(event, AddAsk)]
    gc.collect()
    start = time.process_time()
    env = simpy.Environment()
    cluster = simpy.PriorityResource(env, capacity=max(1, len(asks) // 5))
    ends = [env.event() for _ in asks]
    bound: list[int] = []

    def ask(number: int, priority: int) -> Process:
        turn = cluster.request(priority=-priority)
        with turn:
            yield turn
            bound.append(number)
            yield ends[number]

    for number, event in enumerate(asks):
        env.process(ask(number, event.priority or 0))
    env.run()
    first = len(bound)
    gc.collect()
    between = time.process_time()
    for at in range(0, min(first, RELEASES), workload.releases):
        for number in bound[at : at + workload.releases]:
            ends[number].succeed()
        env.run()
    end = time.process_time()
    return {
        "binds": len(bound) - first,
        "rounds_s": end - between,
        "entry_s": between - start,
        "muster_binds": muster["binds"],
        "muster_s": muster["rounds_s"],
        "muster_entry_s": muster["entry_s"],
    }
