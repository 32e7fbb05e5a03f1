"""What `make serve` starts: a service with a few jobs, which run for real."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx
import yaml

from tests.actors.serving.served import PATIENCE_S
from tests.actors.serving.working import decisions, until

PROJECT = Path(__file__).parents[3]


def test_the_example(tmp_path: Path) -> None:
    jobs = yaml.safe_load((PROJECT / "examples" / "serve" / "jobs.yaml").read_text("utf-8"))
    state = tmp_path / "build" / "serve"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
    command = [sys.executable, "examples/serve/serve.py", "--state", str(state)]
    with subprocess.Popen(
        [*command, "--listen", listen],
        cwd=PROJECT,
        env={**os.environ, "STEP": "0.02"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if line.startswith("Muster runs at"))
            assert line.startswith(f"Muster runs at http://{listen}, ")
            url = f"http://{listen}"
            kept = state.with_name("serve.token")
            token = kept.read_text().strip()
            assert {kept.stat().st_mode & 0o777, state.stat().st_mode & 0o777} == {0o600, 0o700}
            assert httpx.get(f"{url}/api/v1/asks", trust_env=False).status_code == 401
            with httpx.Client(
                base_url=url,
                headers={"Authorization": f"Bearer {token}"},
                timeout=PATIENCE_S,
                trust_env=False,
            ) as client:
                until(client, 11, kind="released", reason="completed")
                found = decisions(client)
                told = client.get("/api/v1/asks/flaky/download/logs?attempt=1").text
                gangs = [one for one in jobs if one["op"] == "apply"]
                again = client.post("/api/v1/events", json=gangs).json()
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            status = process.wait(PATIENCE_S)
        finally:
            process.kill()

    assert [one["error"] for one in again] == [None]
    ends = Counter((one["app"], one["reason"]) for one in found if one["kind"] == "released")
    assert ends == {
        ("array", "completed"): 7,
        ("flaky", "completed"): 2,
        ("flaky", "failed"): 1,
        ("together", "completed"): 2,
    }
    assert told == "attempt 1 of a download from mirror-2\nconnection reset\n"
    assert f"    export MUSTER_TOKEN={token}\n" in rest
    assert (status, rest.splitlines()[-1]) == (0, "The service has ended. Jobs that ran go on.")
    shown = re.findall(r"^ +\S*muster (\w+)", rest, re.MULTILINE)
    assert {"get", "why", "logs", "decisions"} == set(shown)
