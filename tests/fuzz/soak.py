"""Fuzz for a long time, on every core, with all oracles; ``make soak`` runs it.

Each process takes every n-th seed, so that a number of minutes and a seed say nearly all about
what is run. What has been done so far goes to a file, one JSON object for each seed; a report
follows at the end, and with ``--report`` on such a file at any time.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import sys
import time
from collections import Counter
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any, Final

import attrs
import click

from muster.testing.fuzz import Finding, Session, Tally
from tests.fuzz.naive_oracle import naive

PROGRAMS: Final = 60
"""How many programs are drawn from each seed."""

MOST_SHRUNK: Final = 3
"""How many findings of a process are made small; it takes long, and may be the same again."""

Line = dict[str, Any]
"""The result of one seed."""


def work(first: int, stride: int, until: float, results: Queue[Line]) -> None:
    """Run seeds until the time is over."""
    session = Session(oracles=(naive,))
    found, seed = 0, first
    while time.time() < until:
        tally = Tally()
        began = time.monotonic()
        finding = session.search(seed, PROGRAMS, tally)
        results.put(line_of(seed, tally, finding, time.monotonic() - began))
        if finding is not None:
            found += 1
            if found == MOST_SHRUNK:
                session = attrs.evolve(session, shrink=False)
        seed += stride


def line_of(seed: int, tally: Tally, finding: Finding | None, seconds: float) -> Line:
    """Make the line of one seed."""
    line: Line = {
        "seed": seed,
        "seconds": round(seconds, 3),
        "programs": tally.programs,
        "calls": dict(sorted(tally.calls.items())),
        "decisions": tally.decisions,
        "steps": tally.steps,
        "cancelled": tally.cancelled,
        "jumps": tally.jumps,
        "orders": sorted(tally.orders),
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    if finding is not None:
        line["finding"] = {
            "faults": finding.outcome.faults,
            "program": str(finding.outcome.program).splitlines(),
            "transcript": finding.outcome.transcript,
            "replay": finding.token,
        }
    return line


class Report:
    """Adds up results of seeds."""

    def __init__(self) -> None:
        self.seeds = self.programs = self.decisions = self.steps = 0
        self.cancelled = self.jumps = 0
        self.calls: Counter[str] = Counter()
        self.orders: set[int] = set()
        self.findings: list[tuple[int, Line]] = []
        #: The largest memory of any process after its first seeds, and at the end.
        self.peaks: list[int] = []

    def add(self, line: Line) -> None:
        """Take a seed into account."""
        self.seeds += 1
        self.programs += line["programs"]
        self.decisions += line["decisions"]
        self.steps += line["steps"]
        self.cancelled += line["cancelled"]
        self.jumps += line["jumps"]
        self.calls.update(line["calls"])
        self.orders.update(line["orders"])
        self.peaks.append(line["peak_kib"])
        if "finding" in line:
            self.findings.append((line["seed"], line["finding"]))

    def brief(self) -> str:
        """Return in one line how much was done."""
        return (
            f"{self.seeds:,} seeds, {self.programs:,} programs, {self.calls.total():,} calls, "
            f"{len(self.orders):,} interleavings, {len(self.findings)} findings"
        )

    def text(self, seconds: float | None = None) -> str:
        """Return the report."""
        quarter = max(1, len(self.peaks) // 4)
        early, late = max(self.peaks[:quarter], default=0), max(self.peaks, default=0)
        lines = [
            f"seeds                          {self.seeds:>14,}",
            f"programs                       {self.programs:>14,}",
            f"calls                          {self.calls.total():>14,}",
            *(f"  {name:<28} {count:>14,}" for name, count in self.calls.most_common()),
            f"decisions, each compared       {self.decisions:>14,}",
            f"steps of tasks                 {self.steps:>14,}",
            f"different interleavings        {len(self.orders):>14,}",
            f"cancellations injected         {self.cancelled:>14,}",
            f"clock moved on                 {self.jumps:>14,}",
            f"most memory, first quarter     {early / 1024:>14,.1f} MiB",
            f"most memory, at the end        {late / 1024:>14,.1f} MiB",
            f"findings                       {len(self.findings):>14,}",
        ]
        if seconds is not None:
            lines.insert(0, f"minutes                        {seconds / 60:>14,.1f}")
        for seed, finding in self.findings:
            lines += ["", f"seed {seed}:", *finding["faults"][:3]]
            lines.append(f"  python -m tests.fuzz.soak --replay {finding['replay']}")
        return "\n".join(lines)


def replay(token: str) -> bool:
    """Run one program again, with all oracles; print the finding, if any."""
    finding = Session(oracles=(naive,)).replay(token)
    if finding is None:
        click.echo("nothing found")
        return False
    outcome = finding.outcome
    click.echo("\n".join([str(outcome.program), "", *outcome.transcript, "", *outcome.faults]))
    return True


def soak(minutes: float, jobs: int, seed: int, out: Path) -> Report:
    """Run processes for so many minutes, and write their lines into a file."""
    context = multiprocessing.get_context("spawn")
    results: Queue[Line] = context.Queue()
    began = time.time()
    until = began + minutes * 60
    workers = [
        context.Process(target=work, args=(seed + job, jobs, until, results)) for job in range(jobs)
    ]
    for worker in workers:
        worker.start()
    report, shown = Report(), time.monotonic()
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("w", encoding="utf-8") as file:
        while True:
            alive = any(worker.is_alive() for worker in workers)
            try:
                line = results.get(timeout=1)
            except Empty:
                if not alive:
                    break
                continue
            report.add(line)
            file.write(json.dumps(line) + "\n")
            file.flush()
            if "finding" in line:
                click.echo(f"seed {line['seed']}: {line['finding']['faults'][0]}")
            if time.monotonic() - shown > 60:
                shown = time.monotonic()
                click.echo(f"{(time.time() - began) / 60:6.1f} min: {report.brief()}")
    for worker in workers:
        worker.join()
        if worker.exitcode:
            click.echo(f"a process ended with status {worker.exitcode}")
            report.findings.append((-1, {"faults": ["a process failed"], "replay": ""}))
    click.echo(report.text(time.time() - began))
    return report


@click.command()
@click.option("--minutes", type=float, default=60.0, show_default=True)
@click.option("--jobs", type=int, default=2, show_default=True, help="How many processes.")
@click.option("--seed", type=int, default=1, show_default=True, help="The first seed.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/soak.jsonl"))
@click.option("--report", type=click.Path(path_type=Path, exists=True), help="Only report.")
@click.option("--replay", "token", help="Run one program again.")
def main(
    minutes: float, jobs: int, seed: int, out: Path, report: Path | None, token: str | None
) -> None:
    """Fuzz for a long time; the exit status is 1 if something was found."""
    if token is not None:
        sys.exit(replay(token))
    if report is not None:
        made = Report()
        for line in report.read_text(encoding="utf-8").splitlines():
            made.add(json.loads(line))
        click.echo(made.text())
    else:
        made = soak(minutes, jobs, seed, out)
    sys.exit(1 if made.findings else 0)


if __name__ == "__main__":
    main()
