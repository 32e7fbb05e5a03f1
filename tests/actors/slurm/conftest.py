"""A Slurm that is no Slurm, in ``PATH``, and what is done with it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.actors.slurm import fake_commands

PATIENCE_S = 60.0


class FakeSlurm:
    """What a test says to the Slurm, and sees of it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_text(json.dumps(fake_commands.new_state()), encoding="utf-8")

    def set(self, **changes: object) -> None:
        """Change how it behaves."""
        with fake_commands.state_in(self._file) as state:
            state.update(changes)

    def job(self, number: int, **changes: object) -> None:
        """Change a job."""
        with fake_commands.state_in(self._file) as state:
            state["jobs"][number - 1].update(changes)

    def add(self, **job: object) -> None:
        """Add a job of somebody else, or of an earlier program."""
        with fake_commands.state_in(self._file) as state:
            number = len(state["jobs"]) + 1
            state["jobs"].append({"job_id": number, "job_state": "RUNNING", "nodes": "n1"} | job)

    def forget(self, number: int) -> None:
        """Let Slurm not know a job any more."""
        with fake_commands.state_in(self._file) as state:
            state["jobs"] = [job for job in state["jobs"] if job["job_id"] != number]

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The jobs."""
        with fake_commands.state_in(self._file) as state:
            return list(state["jobs"])

    @property
    def nodes(self) -> list[str]:
        """The nodes, as scontrol prints them."""
        with fake_commands.state_in(self._file) as state:
            return list(state["nodes"])

    def calls(self, command: str) -> list[list[str]]:
        """Return the arguments of all calls of a command."""
        with fake_commands.state_in(self._file) as state:
            return [one[1:] for one in state["calls"] if one[0] == command]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; other processes make it hold."""
        with trio.fail_after(PATIENCE_S):
            while not condition():  # noqa: ASYNC110
                await trio.sleep(0.02)


def fake_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Put the commands of a Slurm into ``PATH``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sbatch", "squeue", "scancel", "sinfo", "scontrol"):
        script = folder / name
        line = f"exec {sys.executable} -S {fake_commands.__file__} {name}"
        script.write_text(f'#!/bin/sh\n{line} "$@"\n', encoding="utf-8")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    monkeypatch.setenv("FAKE_SLURM", str(tmp_path / "state.json"))
    return FakeSlurm(tmp_path / "state.json")


fake = pytest.fixture(fake_slurm)
