"""A small cluster of Ray in a process of its own: ``python small_cluster.py NODES CPUS``.

It says its address and its nodes in a line of JSON, and then after each line that it reads:
``add``, ``kill NODE`` (``kill -9`` of the raylet), ``idle`` (what is free, once all is free again),
``actors`` (the detached ones). It ends with its input, and all its daemons with it.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from typing import Any

ROOM = {"object_store_memory": 80_000_000}


def add(cluster: Any, cpus: int) -> dict[str, Any]:  # noqa: ANN401
    node = cluster.add_node(num_cpus=cpus, resources={"slot": 4}, **ROOM)
    raylet = node.all_processes["raylet"][0].process.pid
    return {"node": node.node_id, "raylet": raylet}


def idle(ray: Any) -> dict[str, Any]:  # noqa: ANN401
    """Wait until everything is free again."""
    until = time.monotonic() + 60
    while True:
        # What is free comes and goes with small errors of floating point.
        there = {name: round(amount, 4) for name, amount in ray.cluster_resources().items()}
        free = {name: round(amount, 4) for name, amount in ray.available_resources().items()}
        lacks = {k: v for k, v in there.items() if free.get(k) != v and k != "object_store_memory"}
        if not lacks or time.monotonic() > until:
            return {"lacks": lacks}
        time.sleep(0.1)


def main() -> None:
    ray = importlib.import_module("ray")
    utils = importlib.import_module("ray.cluster_utils")
    nodes, cpus = int(sys.argv[1]), int(sys.argv[2])
    head = {"num_cpus": 0, "include_dashboard": False, **ROOM}
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    cluster = utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        ray.init(address=cluster.address, namespace="muster", log_to_driver=False)
        added = [add(cluster, cpus) for _ in range(nodes)]
        print(json.dumps({"address": cluster.address, "nodes": added}), file=out)
        for line in sys.stdin:
            what, *about = line.split()
            answer: Any = {}
            if what == "add":
                answer = add(cluster, cpus)
            elif what == "kill":
                os.kill(int(about[0]), signal.SIGKILL)
            elif what == "idle":
                answer = idle(ray)
            elif what == "actors":
                answer = ray.util.list_named_actors()
            print(json.dumps(answer), file=out)
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()
