"""Two leaders, one after the other, on a real cluster of Ray."""

from __future__ import annotations

from pathlib import Path

from tests.actors.serving.served import (
    APP,
    QUEUES,
    Served,
    decisions_until,
    ends_of,
    job,
    patiently,
    submit,
)
from tests.engines.agents import LONG_S, Agent
from tests.engines.cluster import Cluster
from tests.engines.test_serve_ray import UNTIL, go, pids_of


def test_an_agent_with_a_lower_term_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    # REPLICA-15
    old, new = Agent(cluster), Agent(cluster)
    name = "app/of-terms/1"
    try:
        old.send(do="lead", scheduler="s", term=9)  # as a number: not before 10
        run = old.command(old.node("a"), UNTIL.format(tmp_path), name=name, detached=True)
        old.wait_for("started", run)
        new.send(do="lead", scheduler="s", term=10)
        new.send(do="adopt", id=1, name=name, grace_s=1.0)
        new.wait_for("started", 1)

        old.send(do="end", name=name, grace_s=0.0)
        assert old.wait_for("outdone")["term"] == 10
        assert old.process.wait(LONG_S) == 0
        go(tmp_path, 7)
        assert new.end_of(1)["status"] == 7
        new.send(do="fetched", id=1)
    finally:
        old.close()
        new.close()


def test_a_follower_takes_commands_over(cluster: Cluster, tmp_path: Path) -> None:
    # REPLICA-13, REPLICA-15
    def serve(state: str, *more: str, until_ready: bool = True) -> Served:
        ray = ("--run", "ray", "--ray-address", cluster.address, "--ray-python", cluster.python)
        names = ("--ray-node-name", "node_name", "--ray-namespace", tmp_path.name)
        where = ("--state", str(tmp_path / state), "--grace", "1s")
        return Served(tmp_path, *ray, *names, *where, *more, config=QUEUES, until_ready=until_ready)

    with serve("leader") as one, serve("follower", "--follow", one.urls[0]) as other:
        submit(one.client, APP, job("k", UNTIL.format(tmp_path)))
        patiently(lambda: len(pids_of(tmp_path)) == 1)
        decisions_until(one.client, ask="k", kind="bound")
        last = one.client.get("/api/v1/replica").json()["batch"]
        patiently(lambda: other.client.get("/api/v1/replica").json()["batch"] >= last)
        one.kill()
        assert other.client.post("/api/v1/replica/promote").status_code == 200
        patiently(lambda: other.client.get("/healthz").json()["ray"]["connected"])
        submit(other.client, job("l", "true"))
        decisions_until(other.client, ask="l", kind="released", reason="completed")
        with serve("leader", until_ready=False) as again:
            again.line("the agent of Ray knows of term 2: another server leads")
            assert again.process.wait(60) == 2
        go(tmp_path, 5)
        found = decisions_until(other.client, ask="k", kind="released")
    assert ends_of(found, "k") == [("failed", "exit status 5")]
    assert len(pids_of(tmp_path)) == 1
