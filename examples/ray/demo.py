#!/usr/bin/env python3
"""Run three programs on a small cluster of Ray, each with plain Ray and with Muster.

``python demo.py`` runs all; ``python demo.py gangs`` one of them. The cluster is on this machine,
and ends with this program.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).parent
PROGRAMS: Final = {
    "gangs": "Two jobs of four workers that need one another, on four CPUs",
    "groups": "Two jobs that need two groups of two CPUs each, on four CPUs",
    "urgent": "An urgent task behind 32 others of half a second, on four CPUs",
}
HALVES: Final = {"plain": "plain Ray", "muster": "with Muster"}
SMALL: Final = 80 << 20  # of memory for Ray's objects, on each node


def start_cluster() -> Any:  # noqa: ANN401 - Ray has no types where it is not installed
    """Start a head and two nodes with two CPUs each. They end with this program."""
    utils: Any = importlib.import_module("ray.cluster_utils")
    # Ray chooses the address itself, so that drivers and nodes of this machine choose the same one.
    cluster = utils.Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": SMALL},
    )
    for name in ("left", "right"):
        cluster.add_node(num_cpus=2, labels={"node_name": name}, object_store_memory=SMALL)
    return cluster


def main(names: list[str]) -> int:
    """Run programs; return 1 if one of them has failed."""
    unknown = set(names) - set(PROGRAMS)
    if unknown:
        print(f"there are {', '.join(PROGRAMS)}; not {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    try:
        importlib.import_module("ray")
    except ImportError:
        print("needs Ray: pip install '.[ray]' in a checkout of Muster", file=sys.stderr)
        return 2
    # Ray notes the address of the last cluster in its folder, for all who connect to "auto".
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        os.environ["RAY_TMPDIR"] = folder
        cluster = start_cluster()
        try:
            return sum(run(name, cluster.address) for name in names or PROGRAMS) and 1
        finally:
            cluster.shutdown()


def run(name: str, address: str) -> int:
    """Run both halves of a program; return how many of them have failed."""
    print(f"{PROGRAMS[name]}:", flush=True)
    failed = 0
    for half, called in HALVES.items():
        command = [sys.executable, str(HERE / f"{name}.py"), half, address]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        for line in done.stdout.splitlines():
            print(f"  {called:11}  {line}", flush=True)
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
