"""Schemathesis finds nothing: what the service answers is what its document says, for any input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from tests.actors.serving.served import CONFIG, PATIENCE_S, Served

TOKEN = "token-of-a-test"
FOLDER = Path(__file__).parent

SOMETHING = (
    {"op": "add_node", "node": "node-1", "capacity": {"vcore": 5, "memory": "1Gi"}},
    {"op": "add_app", "app": "etl", "queue": "root.dev", "user": "u"},
    {"op": "add_gang", "gang": "default/train", "min_member": 2},
    {"op": "add_ask", "app": "etl", "ask": "load", "resources": {"vcore": 1}, "count": 9},
    {"op": "add_ask", "app": "etl", "ask": "t", "resources": {"vcore": 1}, "gang": "train"},
)
"""So that the examples of the document name something."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    tokens = tmp_path / "tokens"
    digest = sha256(TOKEN.encode()).hexdigest()
    tokens.write_text(f"root admin root - {digest}\n", encoding="utf-8")
    tokens.chmod(0o600)
    arguments = ("--state", str(tmp_path / "state"), "--tokens", str(tokens))
    with Served(tmp_path, *arguments, config=CONFIG) as running:
        running.client.headers["authorization"] = f"Bearer {TOKEN}"
        answer = running.client.post("/api/v1/events", json=SOMETHING)
        assert answer.status_code == 200, answer.text
        assert all(one["ok"] for one in answer.json()), answer.text
        yield running


def schemathesis(served: Served, folder: Path, *arguments: str) -> str:
    """Run the command against a service; return what it says."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file"]
    command += [str(FOLDER / "schemathesis.toml"), "run", f"{served.urls[0]}/openapi.json"]
    command += ["-H", f"Authorization: Bearer {TOKEN}", "--generation-database", "none"]
    command += ["--no-color", "--continue-on-failure", *arguments]
    command += ["--suppress-health-check", "filter_too_much,too_slow"]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# STREAM-9


def test_it_finds_nothing(served: Served, tmp_path: Path) -> None:
    said = schemathesis(
        served,
        tmp_path,
        "--checks",
        "all",
        "--phases",
        "examples,coverage,fuzzing",
        "--max-examples",
        "10",
        "--seed",
        "1",
    )

    assert "No issues found" in said or "passed" in said
    assert served.client.get("/healthz", timeout=PATIENCE_S).status_code == 200
    assert not [line for line in served.lines if "Traceback" in line]
