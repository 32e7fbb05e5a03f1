#!/usr/bin/env python3
"""Make a feed that fills the GPU nodes of the openb trace with its pods, in a random order."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import click

HERE = Path(__file__).resolve().parent
NODES = HERE / "openb_node_list_gpu_node.csv.gz"
PODS = HERE / "openb_pod_list_default.csv.gz"

DEMAND = 1.3
"""How much the pods ask for in all, as a multiple of the GPUs that there are."""

POLICIES = ("fair", "binpacking", "bestfit", "fgd")


@attrs.frozen
class Pod:
    """A pod of the trace.

    Attributes:
        cpu_milli: Its processors, in thousandths.
        memory_mib: Its memory, in MiB.
        gpus: How many GPUs it asks for.
        gpu_milli: How much of each, in thousandths.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int

    @property
    def total_milli(self) -> int:
        """Its request of all GPUs together, in thousandths of one."""
        return self.gpus * self.gpu_milli

    def event(self, name: str) -> dict[str, object]:
        """Return the event that asks for it."""
        resources = {"vcore": f"{self.cpu_milli}m", "memory": f"{self.memory_mib}Mi"}
        event: dict[str, object] = {
            "op": "add_ask",
            "app": "pods",
            "ask": name,
            "resources": resources,
        }
        if self.gpus > 1:
            return event | {"devices": {"gpu": {"count": self.gpus}}}
        return event | ({"devices": {"gpu": {"milli": self.gpu_milli}}} if self.gpus else {})


def read_table(path: Path) -> list[dict[str, str]]:
    """Read one of the tables of the trace."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def read_pods() -> list[Pod]:
    """Read the pods in the order of the trace."""
    names = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    return [Pod(*(int(row[name]) for name in names)) for row in read_table(PODS)]


def total_milli() -> int:
    """Return the GPUs of all nodes, in thousandths of one."""
    return sum(1000 * int(row["gpu"]) for row in read_table(NODES))


def in_random_order(pods: Sequence[Pod], most_milli: float, seed: int) -> list[Pod]:
    """Return all pods shuffled, and then some again, until the next one would be too much."""
    chance = random.Random(seed)
    drawn = list(pods)
    chance.shuffle(drawn)
    requested_milli = sum(pod.total_milli for pod in drawn)
    while True:
        pod = chance.choice(pods)
        requested_milli += pod.total_milli
        if requested_milli > most_milli:
            return drawn
        drawn.append(pod)


def events(policy: str, seed: int) -> Iterator[dict[str, object]]:
    """Yield the events of a feed.

    Args:
        policy: The order of nodes.
        seed: The number of the shuffle.
    """
    node_sort = {"type": policy, "resourceweights": {"vcore": 0.5, "device/gpu": 0.5}}
    partition = {
        "name": "default",
        "nodesortpolicy": node_sort,
        "preemption": {"enabled": False},
        "queues": [{"name": "root", "queues": [{"name": "all"}]}],
    }
    yield {"op": "configure", "config": {"partitions": [partition]}}
    for row in read_table(NODES):
        yield {
            "op": "add_node",
            "node": row["sn"],
            "capacity": {"vcore": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"},
            "devices": {"gpu": {"count": int(row["gpu"]), "model": row["model"]}},
        }
    yield {"op": "add_app", "app": "pods", "queue": "root.all"}
    drawn = in_random_order(read_pods(), DEMAND * total_milli(), seed)
    for number, pod in enumerate(drawn):
        yield pod.event(f"pod-{number}")


@click.command()
@click.argument("feed", type=click.Path(path_type=Path))
@click.option("--policy", type=click.Choice(POLICIES), default="fgd", show_default=True)
@click.option("--seed", default=1, show_default=True, help="The number of the shuffle.")
def main(feed: Path, policy: str, seed: int) -> None:
    """Write a feed as JSON Lines to FEED."""
    with feed.open("w", encoding="utf-8") as file:
        for event in events(policy, seed):
            file.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main()
