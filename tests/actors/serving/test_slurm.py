"""``muster serve --run slurm``, with commands that tests control, and its options.

No Slurm is needed; ``tests/engines/slurm`` has the same with one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import attrs
import pytest

from muster.service.backends.slurm import SlurmOptions
from muster.service.options import ServeOptions
from muster.service.startup_checks import problems_of
from tests.actors.serving.served import (
    APP,
    QUEUES,
    Served,
    as_user,
    decisions_until,
    ends_of,
    job as job_of,
    patiently,
    submit,
)
from tests.actors.serving.test_ray import serve
from tests.actors.slurm.conftest import FakeSlurm, fake_slurm

fake = pytest.fixture(fake_slurm)

SLURM = ServeOptions(backend=SlurmOptions(), trust_local=True)
TOKENS = Path("tokens")


@pytest.fixture
def not_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the options as without the rights of root."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def on_slurm(**options: object) -> ServeOptions:
    slurm = SlurmOptions(**options)  # type: ignore[arg-type]
    return attrs.evolve(SLURM, backend=slurm)


# SLURM-3


@pytest.mark.usefixtures("not_root")
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (attrs.evolve(SLURM, run_as=(("*", "x"),)), "--run-as needs --run local: on a node of"),
        (
            ServeOptions(backend=SlurmOptions(), tokens=TOKENS),
            "--run slurm with --tokens runs commands of submitters as the user of the service",
        ),
        (
            ServeOptions(backend=SlurmOptions(), listen=("127.0.0.1:0",)),
            "listen: 127.0.0.1:0: every user of this machine could run commands as the user",
        ),
        (on_slurm(detached=True), "--slurm-detached needs --state"),
        (on_slurm(output=Path("out")), "--slurm-output: out: must begin at /"),
        (on_slurm(results=Path("r")), "--slurm-results: r: must begin at /"),
        (on_slurm(namespace="a/b"), "--slurm-namespace: 'a/b': must be letters, digits"),
        (on_slurm(options="--qos high"), "--slurm-options: high: must be an option of sbatch"),
        (on_slurm(options="--qos='x"), "--slurm-options: --qos='x: No closing quotation"),
        (
            attrs.evolve(
                SLURM, backend=None, trust_local=False, unused=(SlurmOptions(output=Path("/o")),)
            ),
            "--slurm-output needs --run slurm: with --run none it means nothing",
        ),
    ],
)
def test_what_makes_no_sense(options: ServeOptions, problem: str) -> None:
    (found,) = problems_of(options)
    assert found.startswith(problem)


@pytest.mark.usefixtures("not_root")
@pytest.mark.parametrize(
    "options",
    [
        SLURM,
        ServeOptions(backend=SlurmOptions(), listen=("unix:s",)),
        ServeOptions(backend=SlurmOptions(), tokens=TOKENS, trust_submitters=True),
        attrs.evolve(on_slurm(detached=True), state=Path("state")),
        on_slurm(options="--account=physics --comment='two words'", output=Path("/out")),
    ],
)
def test_what_makes_sense(options: ServeOptions) -> None:
    assert problems_of(options) == []


def test_a_socket_is_where_it_listens(tmp_path: Path) -> None:
    options = ServeOptions(backend=SlurmOptions(), state=tmp_path)
    assert options.listens() == (f"unix:{tmp_path / 'muster.sock'}",)


def test_root_needs_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    # LOCAL-20
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    (found,) = problems_of(SLURM)
    assert found.startswith("--run slurm as root needs --tokens: without them whoever reaches the")


# SLURM-6


def access(folder: Path) -> tuple[str, ...]:
    """Return the options with which the service starts as root, too."""
    (folder / "tokens").touch()
    return ("--run", "slurm", "--tokens", str(folder / "tokens"), "--trust-submitters")


def test_slurm_must_be_there_at_the_first_start(
    fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (*access(tmp_path), "--state", str(tmp_path / "state"))
    status, output = serve(*arguments, "--slurm-partition", "none")
    assert status == 2
    assert "--run slurm: partition: 'none': there are p, other" in output
    fake.set(away=True)
    status, output = serve(*arguments)
    assert status == 2
    assert "--run slurm: sinfo: sbatch: error: Unable to contact slurm controller" in output
    monkeypatch.setenv("PATH", "/nowhere")
    status, output = serve(*arguments)
    assert status == 2
    assert "--run slurm: sbatch, squeue, scancel, sinfo, scontrol: not in PATH" in output
    assert "Traceback" not in output


def test_commands_are_jobs(fake: FakeSlurm, tmp_path: Path) -> None:
    # SLURM-1, SLURM-2, SLURM-4, SLURM-7, SLURM-8
    more = ("--slurm-options", "--account=physics --comment='not this'", "--slurm-output", "/no")
    with serving(tmp_path, *more) as served:
        submit(served.client, APP, job("k", ["echo", "two words"], env={"X": "1"}))
        patiently(lambda: len(fake.jobs) == 1)
        submit(served.client, job("bad", "exit 3"))
        patiently(lambda: len(fake.jobs) == 2)
        nodes = served.client.get("/api/v1/nodes").json()["items"]
        fake.job(1, job_state="RUNNING", batch_host="n1")
        fake.job(1, job_state="COMPLETED")
        fake.job(2, job_state="FAILED", exit_code=3 << 8)
        completed = decisions_until(served.client, ask="k", kind="released")
        failed = decisions_until(served.client, ask="bad", kind="released")
        assert served.client.get("/healthz").json()["slurm"] == {"connected": True}
        assert "muster_slurm_connected 1.0" in served.client.get("/metrics").text
        detail = served.client.get("/api/v1/asks/a/k/logs").json()["detail"]

    assert ends_of(completed, "k") == [("completed", None)]
    assert ends_of(failed, "bad") == [("failed", "exit status 3")]
    assert "echo 'two words'" in fake.jobs[0]["script"]
    assert detail.startswith("what the command of a/k has written is on the node n")
    assert detail.endswith(", in /no/a+k.log")
    (submitted,) = (one for one in fake.calls("sbatch") if "--comment=muster:a/k/1" in one)
    assert "--account=physics" in submitted
    assert submitted.index("--comment=not this") < submitted.index("--comment=muster:a/k/1")
    assert [one["node"] for one in nodes] == ["n1", "n2"]
    assert nodes[0]["attributes"] == {"slurm/partition": "p"}


def test_a_start_without_slurm(fake: FakeSlurm, tmp_path: Path) -> None:
    # SLURM-5, SLURM-6, SLURM-7
    state = ("--state", str(tmp_path / "state"))
    with serving(tmp_path, *state) as served:
        submit(served.client, APP, job("k", "true"))
        patiently(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING", batch_host="n1")
        decisions_until(served.client, ask="k", kind="bound")
        assert served.stop() == 0
    assert fake.calls("scancel") == []
    fake.set(away=True)
    with serving(tmp_path, *state) as served:
        patiently(lambda: "Unable to contact slurm controller" in slurm_detail(served))
        assert "muster_slurm_connected 0.0" in served.client.get("/metrics").text
        assert "Slurm: not connected: --run slurm: " in served.client.get("/").text
        assert len(served.client.get("/api/v1/nodes").json()["items"]) == 2
        fake.set(away=False)
        fake.job(1, job_state="FAILED", exit_code=5 << 8)
        found = decisions_until(served.client, ask="k", kind="released")

    assert ends_of(found, "k") == [("failed", "exit status 5")]
    assert len(fake.jobs) == 1


def test_what_does_not_end_is_left_to_slurm(fake: FakeSlurm, tmp_path: Path) -> None:
    # SLURM-5
    with serving(tmp_path, "--grace", "600s") as served:
        submit(served.client, APP, job("k", "true"))
        patiently(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING", batch_host="n1")
        decisions_until(served.client, ask="k", kind="bound")
        fake.set(deaf=True)
        assert served.stop() == 0
    assert [one[-1] for one in fake.calls("scancel")][-1] == "1"
    assert fake.jobs[0]["job_state"] == "CANCELLED"


def test_a_service_that_ends_does_not_wait_for_a_silent_slurm(
    fake: FakeSlurm, tmp_path: Path
) -> None:
    # SLURM-5
    with serving(tmp_path) as served:
        submit(served.client, APP, job("k", "true"))
        patiently(lambda: len(fake.jobs) == 1)
        fake.job(1, job_state="RUNNING", batch_host="n1")
        decisions_until(served.client, ask="k", kind="bound")
        fake.set(away=True)
        assert served.stop() == 0
    assert served.lines_with("job 1 of a/k is left behind: Slurm does not say that it has ended")


def serving(folder: Path, *arguments: str) -> Served:
    """Start a service without the rights of root."""
    return Served(
        folder,
        *("--run", "slurm", "--trust-local", *arguments),
        config=QUEUES,
        prefix=as_user(),
    )


def job(ask: str, command: object, **more: object) -> dict[str, object]:
    """Return the event of an ask; Slurm gives memory out, too."""
    return job_of(ask, command, resources={"vcore": 1, "memory": "1Mi"}, **more)


def slurm_detail(served: Served) -> str:
    health: dict[str, Any] = served.client.get("/healthz").json()
    return str(health["slurm"].get("detail", ""))
