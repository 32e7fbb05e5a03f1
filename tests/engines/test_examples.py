"""The programs for plain Ray stand still, and those with Muster do not, by the command that docs name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.engines.cluster import PATIENCE_S, Cluster

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
    plain, with_muster = (waited(line) for line in urgent[1:3])
    assert plain > 2
    assert with_muster < plain / 2
    assert "1 of the others has made room for it" in urgent[3]


def waited(line: str) -> float:
    found = re.search(r"has waited ([\d.]+) s", line)
    assert found is not None, line
    return float(found[1])


def test_unknown_program_is_named(cluster: Cluster) -> None:
    done = run(cluster, "gang")
    assert done.returncode == 2
    assert done.stderr == "there are gangs, groups, urgent; not gang\n"
