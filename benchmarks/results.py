"""The last figures, saved in ``benchmarks/results.json`` with the computers that measured them.

Each part of the suite has its own date and commit, since a single part can be measured again. A new
part drops all parts of another computer, as figures of two computers cannot be compared. The
history of counted instructions is kept for all computers.
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
"""The files that change after a measurement; they do not count as changes of the commit."""


@final
@attrs.frozen
class Machine:
    """The computer of a measurement.

    Attributes:
        processor: The name of the processor.
        cores: The number of cores.
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
    """The results of a part.

    Attributes:
        about: Its description.
        machine: The computer.
        date: The day of the measurement, in UTC: `2026-01-31`.
        commit: The measured commit; with a `+` if files were changed after it.
        turns: The number of turns; the figures are medians.
        scale: The share of the full size.
        figures: The figures.
    """

    about: str
    machine: Machine
    date: str
    commit: str
    turns: int
    scale: float
    figures: Sequence[Figure]


@final
@attrs.frozen
class Count:
    """A count of instructions.

    Attributes:
        date: The day of the count, in UTC.
        commit: The measured commit.
        python: The version of Python.
        instructions: The number of instructions of each run, by name.
    """

    date: str
    commit: str
    python: str
    instructions: dict[str, int]


@final
@attrs.frozen
class Results:
    """The content of ``benchmarks/results.json``."""

    parts: dict[str, PartResult] = attrs.field(factory=dict[str, PartResult])
    history: Sequence[Count] = ()

    def with_parts(self, parts: dict[str, PartResult]) -> Results:
        """Return the results with new parts, without those that they replace."""
        return attrs.evolve(self, parts={**self.parts, **parts})

    def with_count(self, count: Count) -> Results:
        """Return the results with a count; it replaces one of the same commit and Python."""
        key = (count.commit, count.python)
        kept = [one for one in self.history if (one.commit, one.python) != key]
        return attrs.evolve(self, history=[*kept, count])


def load(file: Path = FILE) -> Results:
    """Read the saved results; without a file, return empty ones."""
    if not file.exists():
        return Results()
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    parts = {name: _part(part) for name, part in document["parts"].items()}
    return Results(parts, [Count(**one) for one in document["history"]])


def _part(part: dict[str, Any]) -> PartResult:
    figures = [Figure(**one) for one in part.pop("figures")]
    return PartResult(machine=Machine(**part.pop("machine")), figures=figures, **part)


def save(results: Results, file: Path = FILE) -> None:
    """Save the results."""
    text = json.dumps(attrs.asdict(results), indent=1, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8")


def this_machine() -> Machine:
    """Return the description of this computer."""
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
    """Return the day, in UTC."""
    return datetime.now(UTC).date().isoformat()


def commit() -> str:
    """Return the measured commit, with a `+` if files were changed after it."""
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
