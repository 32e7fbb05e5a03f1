"""The clusters of the tests are what they say, and end with their process.

The programs of the examples run on them.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines import cluster as clusters
from tests.engines.cluster import PATIENCE_S, Cluster, ClusterError, wait_until
from tests.engines.daemons import running_in, state_of

# A task on each node: the cluster as Ray shows it, and the processes there.
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


DEMO = Path(__file__).parents[2] / "examples" / "ray" / "demo.py"


def run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in the namespace of a cluster; it starts a cluster of its own there."""
    return subprocess.run(
        [cluster.python, str(DEMO), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )


def test_plain_ray_stands_still_and_muster_does_not(cluster: Cluster) -> None:
    current = cluster.folder / "ray" / "ray_current_cluster"
    current.parent.mkdir(exist_ok=True)
    current.write_text("the cluster of somebody else")
    done = run(cluster)

    assert done.returncode == 0, done.stderr
    assert current.read_text() == "the cluster of somebody else"
    current.unlink()
    gangs, groups, urgent = (
        part.splitlines() for part in re.split(r"\n(?=\w)", done.stdout.strip())
    )
    assert [line.split()[:2] for line in gangs[1:]] == [["plain", "Ray"]] * 3 + [
        ["with", "Muster"]
    ] * 2
    assert "stands still: 0 of 8 workers have ended" in gangs[1]
    assert "2 of 4 workers of red hold a CPU" in gangs[2]
    assert "2 of 4 workers of blue hold a CPU" in gangs[3]
    assert "red has ended after" in gangs[4]
    assert "blue has ended after" in gangs[5]
    assert "stands still" in groups[1]
    assert "red holds 2 CPUs for its trainers" in groups[2]
    assert "blue holds 2 CPUs for its trainers" in groups[3]
    assert "red has ended after" in groups[4]
    assert "blue has ended after" in groups[5]
    plain, with_muster = (waited_s(line) for line in urgent[1:3])
    assert plain > 2
    assert with_muster < plain / 2
    assert "1 of the others has made room for it" in urgent[3]


def waited_s(line: str) -> float:
    found = re.search(r"has waited ([\d.]+) s", line)
    assert found is not None, line
    return float(found[1])


def test_unknown_program_is_named(cluster: Cluster) -> None:
    done = run(cluster, "gang")
    assert done.returncode == 2
    assert done.stderr == "there are gangs, groups, urgent; not gang\n"
