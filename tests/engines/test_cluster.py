"""The clusters of the tests are what they say, and end with the process that started them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines import cluster as clusters
from tests.engines.cluster import Cluster, ClusterError, wait_until
from tests.engines.daemons import running_in, state_of

# A task on each node: what Ray says of the cluster, and who runs there.
PROGRAM = """
import importlib, json, os, sys
ray = importlib.import_module("ray")
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
where = ray.remote(lambda: os.environ["RAY_TMPDIR"])
found = {
    node["Labels"]["node_name"]: ray.get(
        where.options(label_selector={"node_name": node["Labels"]["node_name"]}).remote()
    )
    for node in ray.nodes() if "CPU" in node["Resources"]
}
print(json.dumps(found))
"""


def test_program_in_the_namespace_runs_tasks_on_the_nodes(cluster: Cluster) -> None:
    done = subprocess.run(
        [cluster.python, "-c", PROGRAM, cluster.address],
        capture_output=True,
        text=True,
        check=False,
        timeout=clusters.PATIENCE_S,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"a": str(cluster.folder), "b": str(cluster.folder)}


def test_processes_of_users_are_found_and_daemons_are_not(cluster: Cluster) -> None:
    with subprocess.Popen([cluster.python, "-c", "input('ready')"], stdin=-1, stdout=-1) as user:
        assert user.stdout is not None
        user.stdout.read(5)
        assert user.pid in cluster.processes()
        assert not set(cluster.pids().values()) & set(cluster.processes())
        user.kill()
    assert user.pid not in cluster.processes()


def test_raylet_is_killed_and_comes_back_under_its_name(needs_ray: None) -> None:
    with clusters.cluster("a") as running:
        before = running.pids()
        running.kill("a")
        assert state_of(before["a"]) == "Z"
        node = running.add("a")
        after = running.pids()
        assert after[""] == before[""]
        assert after["a"] != before["a"]
        assert node in running.alive()
        free = running.available  # Ray lists a node before what it has free
        wait_until(lambda: free().get(node, {}).get("CPU") == 2, "its CPUs are free")

        running.kill_head()
        assert state_of(before[""]) == "Z"
        address = running.address
        running.start_head()
        assert running.address == address
        assert running.add("a") in running.alive()


def test_request_that_fails_says_why(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match="kill: KeyError: 'nobody'"):
        cluster.kill("nobody")
    assert set(cluster.pids()) == {"", "a", "b"}


# Starts a cluster, says where it is, and is killed.
STARTER = """
import sys, time
from tests.engines import cluster as clusters
with clusters.cluster("a") as running:
    print(running.namespace, running.folder, flush=True)
    time.sleep(600)
"""


def test_nothing_is_left_when_the_tests_are_killed(needs_ray: None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER], stdout=-1, text=True, cwd=Path(__file__).parents[2]
    ) as starter:
        assert starter.stdout is not None
        namespace, folder = starter.stdout.readline().split()
        there = len(running_in(namespace))
        os.kill(starter.pid, signal.SIGKILL)
    assert there > 3
    wait_until(lambda: not running_in(namespace), "all processes have ended")
    wait_until(lambda: not Path(folder).exists(), "the folder has been removed")
