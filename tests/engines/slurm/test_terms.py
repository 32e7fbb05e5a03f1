"""Two leaders, one after the other, on a real Slurm."""

from __future__ import annotations

from pathlib import Path

from muster.service.access import Principal, Role, mint
from tests.actors.serving.served import (
    APP,
    QUEUES,
    Served,
    decisions_until,
    ends_of,
    patiently,
    submit,
)
from tests.engines.slurm.cluster import Cluster
from tests.engines.slurm.test_serve import UNTIL, comments, go, job, pids_of


def test_a_follower_takes_jobs_over(cluster: Cluster, tmp_path: Path) -> None:
    # REPLICA-13, REPLICA-16
    secret, token = mint(Principal("root", Role.ADMIN))
    tokens, own = tmp_path / "tokens", tmp_path / "secret"
    tokens.write_text(f"{token.line()}\n", encoding="utf-8")
    own.write_text(secret, encoding="utf-8")

    def serve(state: str, *more: str, until_ready: bool = True) -> Served:
        access = ("--tokens", str(tokens), "--trust-submitters")
        where = ("--state", str(tmp_path / state), "--grace", "1s")
        run = ("--run", "slurm", *access, *where, *more)
        served = Served(tmp_path, *run, config=QUEUES, until_ready=until_ready)
        served.client.headers["Authorization"] = f"Bearer {secret}"
        return served

    with serve("leader") as one:
        follow = ("--follow", one.urls[0], "--token-file", str(own))
        with serve("follower", *follow) as other:
            first = job("k", UNTIL.format(tmp_path))
            submit(one.client, APP, first)
            patiently(lambda: len(pids_of(tmp_path)) == 1)
            decisions_until(one.client, ask="k", kind="bound")
            last = one.client.get("/api/v1/replica").json()["batch"]
            patiently(lambda: other.client.get("/api/v1/replica").json()["batch"] >= last)
            one.kill()
            assert other.client.post("/api/v1/replica/promote").status_code == 200
            ring = {"op": "add_gang", "gang": "default/ring", "min_member": 2}
            member = {"count": 2, "gang": "default/ring"}
            submit(other.client, ring, job("m", UNTIL.format(tmp_path), **member))
            patiently(lambda: len(pids_of(tmp_path)) == 3)
            of_gang, of_first = sorted(comments(cluster), key=len, reverse=True)
            assert of_first == "muster:a/k/1"
            assert of_gang.startswith("muster:default%2Fring/*/")
            assert of_gang.endswith("@2")
            with serve("leader", until_ready=False) as again:
                again.line("of Slurm knows of term 2: another server leads")
                assert again.process.wait(60) == 2
            go(tmp_path, 5)
            found = decisions_until(other.client, ask="k", kind="released")
            decisions_until(other.client, ask="m-0", kind="released")
            members = decisions_until(other.client, ask="m-1", kind="released")
    assert ends_of(found, "k") == [("failed", "exit status 5")]
    assert ends_of(members, "m-1") == [("failed", "exit status 5")]
    assert len(pids_of(tmp_path)) == 3
