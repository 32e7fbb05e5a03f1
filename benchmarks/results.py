"""The last figures, kept in ``benchmarks/results.json`` with the machine that they are from.

Each part of the suite has its own date and commit, since a part can be measured again alone.
What another machine has measured is left out as soon as a new part comes: figures
of two machines are no table. The history of counted instructions stays, whatever the machine.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, final

import attrs

from benchmarks.figures import Figure
from benchmarks.processes import PROJECT

FILE: Final = PROJECT / "benchmarks" / "results.json"
WRITTEN: Final = ("benchmarks/results.json", "docs/performance.md")
"""What is rewritten after measuring; it makes no difference to what was measured."""


@final
@attrs.frozen
class Machine:
    """What was measured on.

    Attributes:
        processor: What it calls itself.
        cores: How many there are.
        python: The version of Python.
        system: The operating system.
    """

    processor: str
    cores: int
    python: str
    system: str


@final
@attrs.frozen
class PartResult:
    """What was found of a part.

    Attributes:
        about: What it is.
        date: When, in UTC: `2026-01-31`.
        commit: Of what; with a `+` if files were changed after it.
        turns: How often; the figures are medians.
        scale: The share of the full size.
        figures: What was found.
    """

    about: str
    date: str
    commit: str
    turns: int
    scale: float
    figures: Sequence[Figure]


@final
@attrs.frozen
class Count:
    """How many instructions were counted.

    Attributes:
        date: When, in UTC.
        commit: Of what.
        python: The version of Python.
        instructions: What ran, and how many instructions it took.
    """

    date: str
    commit: str
    python: str
    instructions: dict[str, int]


@final
@attrs.frozen
class Results:
    """All that is kept."""

    machine: Machine
    parts: dict[str, PartResult] = attrs.field(factory=dict[str, PartResult])
    history: Sequence[Count] = ()

    def with_parts(self, machine: Machine, parts: dict[str, PartResult]) -> Results:
        """Put in what was measured now, and leave out what it replaces."""
        kept = self.parts if machine == self.machine else {}
        return attrs.evolve(self, machine=machine, parts={**kept, **parts})

    def with_count(self, count: Count) -> Results:
        """Put a count in; it replaces one of the same commit and the same Python."""
        key = (count.commit, count.python)
        kept = [one for one in self.history if (one.commit, one.python) != key]
        return attrs.evolve(self, history=[*kept, count])


def load(file: Path = FILE) -> Results:
    """Read what is kept; of what is not there, an empty one for this machine."""
    if not file.exists():
        return Results(this_machine())
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    parts = {name: _part(part) for name, part in said["parts"].items()}
    return Results(Machine(**said["machine"]), parts, [Count(**one) for one in said["history"]])


def _part(said: dict[str, Any]) -> PartResult:
    figures = [Figure(**one) for one in said.pop("figures")]
    return PartResult(figures=figures, **said)


def save(results: Results, file: Path = FILE) -> None:
    """Write what is to be kept."""
    text = json.dumps(attrs.asdict(results), indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def this_machine() -> Machine:
    """Say what this is."""
    return Machine(
        processor=_processor(),
        cores=os.cpu_count() or 1,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        system=f"{platform.system()} {platform.machine()}",
    )


def _processor() -> str:
    known = Path("/proc/cpuinfo")
    if known.exists():
        for line in known.read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or "unknown"


def today() -> str:
    """Give the day, in UTC."""
    return datetime.now(UTC).date().isoformat()


def commit() -> str:
    """Say what is measured: the commit, with a `+` if something was changed after it."""
    head = _git("rev-parse", "--short", "HEAD")
    if head is None:
        return "unknown"
    others = [f":(exclude){name}" for name in WRITTEN]
    return head + ("+" if _git("status", "--porcelain", "--", ".", *others) else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
