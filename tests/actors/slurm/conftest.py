"""A fake Slurm, whose commands are in ``PATH``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.actors.slurm import fake_commands

PATIENCE_S = 60.0


class FakeSlurm:
    """The fake Slurm, as a test controls and inspects it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        fake_commands.begin(folder)

    def set(self, **changes: object) -> None:
        """Change how it behaves."""
        with fake_commands.state_in(self._folder) as state:
            state.update(changes)

    def job(self, number: int, **changes: object) -> None:
        """Change a job."""
        with fake_commands.state_in(self._folder) as state:
            state["jobs"][number - 1].update(changes)

    def add(self, **job: object) -> None:
        """Add a job of another user, or of an earlier program."""
        with fake_commands.state_in(self._folder) as state:
            number = len(state["jobs"]) + 1
            state["jobs"].append({"job_id": number, "job_state": "RUNNING", "nodes": "n1"} | job)

    def forget(self, number: int) -> None:
        """Let Slurm forget a job."""
        with fake_commands.state_in(self._folder) as state:
            state["jobs"] = [job for job in state["jobs"] if job["job_id"] != number]

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The jobs."""
        with fake_commands.state_in(self._folder) as state:
            return list(state["jobs"])

    @property
    def nodes(self) -> list[str]:
        """The nodes, as scontrol prints them."""
        with fake_commands.state_in(self._folder) as state:
            return list(state["nodes"])

    def calls(self, command: str) -> list[list[str]]:
        """Return the arguments of all calls of a command."""
        text = (self._folder / "calls").read_text(encoding="utf-8")
        calls = [one.split(fake_commands.BETWEEN) for one in text.split(fake_commands.END)]
        return [one[1:] for one in calls if one[0] == command]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; other processes make it hold."""
        with trio.fail_after(PATIENCE_S):
            while not condition():  # noqa: ASYNC110
                await trio.sleep(0.02)


def fake_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    """Put the commands of a Slurm into ``PATH``."""
    fake_commands.write_commands(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("FAKE_SLURM", str(tmp_path / "slurm"))
    return FakeSlurm(tmp_path / "slurm")


fake = pytest.fixture(fake_slurm)
