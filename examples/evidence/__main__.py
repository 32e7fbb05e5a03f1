"""Run all that docs/evidence.md claims, and print one table of what was expected and found.

Run it in the root folder of the project: ``python -m examples.evidence``, or ``make evidence``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import attrs
import click
from rich import box
from rich.console import Console
from rich.table import Table

from examples.evidence import loads, logs, starts
from examples.openb import evidence as openb
from examples.philly import backfill, demo

CONSOLE: Final = Console()


@attrs.frozen
class Claim:
    """A claim of docs/evidence.md, and the result of its check.

    Attributes:
        what: What is claimed of.
        expected: What should be found.
        found: What was.
        holds: Whether these agree.
    """

    what: str
    expected: str
    found: str
    holds: bool


Section: TypeAlias = Callable[[int], Iterator[Claim]]
"""Prints a table of its own, and yields claims; the argument is how many replays may run at a time."""


def philly(_: int) -> Iterator[Claim]:
    """Yield claims about the mean delays of two virtual clusters of Philly."""
    with tempfile.TemporaryDirectory() as folder:
        found = demo.run_all(Path(folder), None)
    CONSOLE.print(demo.table(found))
    for one in found:
        tolerance = f" ± {one.experiment.tolerance_s:.0f}" if one.experiment.tolerance_s else ""
        yield Claim(
            f"Philly {one.experiment.cluster.name}, {one.experiment.policy}: mean delay",
            f"{one.experiment.published_s:,}{tolerance} s",
            f"{one.average_s:,} s",
            one.holds,
        )


def gpus(jobs: int) -> Iterator[Claim]:
    """Yield claims about the GPUs of openb that are allocated."""
    found = openb.measure(10, jobs)
    CONSOLE.print(openb.layout(found))
    for one in found:
        yield Claim(
            f"openb, {one.policy.name}: GPUs allocated",
            f"{one.published:.2f} ± {openb.TOLERANCE} %",
            f"{one.mean:.2f} %",
            one.holds,
        )


#: Mean delay of all jobs, and longest of those of more than 8 GPUs, in seconds, by the order.
WAITS: Final = {
    "greedy": (8_745.3, 159_056),
    "strict": (21_171.6, 137_506),
    "backfill": (8_752.2, 119_166),
}


def orders(jobs: int) -> Iterator[Claim]:
    """Yield claims about Philly's jobs with each ``scheduling.order``."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        figures = pool.map(partial(backfill.replay, folder=Path(folder)), backfill.TRIALS)
        found = list(zip(backfill.TRIALS, figures, strict=True))
    CONSOLE.print(backfill.table(found))
    for trial, one in found:
        if trial.cluster != demo.WIDE or trial.estimates != "exact":
            continue
        mean_s, wide_s = WAITS[trial.order]
        yield Claim(
            f"Philly 2869ce, {trial.order}: mean, and longest over 8 GPUs",
            f"{mean_s:,.1f}, {wide_s:,} s",
            f"{one.mean_s:,.1f}, {one.wide_s or 0:,.0f} s",
            abs(one.mean_s - mean_s) <= 0.05 and one.wide_s == wide_s,
        )


def every_start(jobs: int) -> Iterator[Claim]:
    """Yield claims about each start of FCFS and EASY."""
    trials = list(starts.trials())
    with ThreadPoolExecutor(jobs) as pool:
        found = list(zip(trials, pool.map(starts.compare, trials), strict=True))
    CONSOLE.print(starts.layout(found))
    for trial, one in found:
        yield of_starts(trial, one)


def of_starts(trial: starts.Trial, found: starts.Outcome) -> Claim:
    """Claim that a log's jobs start when they should, and print the first few that do not."""
    title = f"{trial.log.name}, {trial.title}"
    for difference in found.differences[:3]:
        CONSOLE.print(f"{title}: {difference}")
    counts = [(0, len(found.differences), "differ")]
    if trial.has_names or trial.has_states:
        counts.append((trial.apart, found.plain, "in a pool"))
    return Claim(
        what=f"{title}: {found.jobs:,} starts",
        expected=", ".join(f"{expected:,} {where}" for expected, _, where in counts),
        found=", ".join(f"{differ:,} {where}" for _, differ, where in counts),
        holds=all(expected == differ for expected, differ, _ in counts),
    )


def others(_: int) -> Iterator[Claim]:
    """Yield claims about loads with which others measured themselves: at most as much as there."""
    run = loads.replay(loads.kueue(loads.BASELINE))
    waits_s = {"large": 6.7, "medium": 76.8, "small": 215.5}
    yield from _kueue_claim("Kueue's baseline", loads.BASELINE, run, 351.1, waits_s)
    yield _at_most("Kueue's baseline: processor time", 139.4, run.cpu_s, "s")
    yield _at_most("Kueue's baseline: memory", 445_012, run.memory_kib, "KiB")
    run = loads.replay(loads.yunikorn(nodes=4_000))
    yield Claim(
        "YuniKorn's 50,000 pods on 4,000 nodes: bound",
        "50,000",
        f"{len(run.bound):,}",
        len(run.bound) == 50_000,
    )
    yield _at_most("YuniKorn's 50,000 pods: processor time", 122, run.cpu_s, "s")
    yield _slurm_claim("one node", starts.Trial(logs.synthetic(), "easy"))


def large(_: int) -> Iterator[Claim]:
    """Yield claims about loads that take minutes."""
    run = loads.replay(loads.kueue(loads.LARGE))
    waits_s = {"large": 98.8, "medium": 256.4, "small": 700.4}
    yield from _kueue_claim("Kueue's large scale", loads.LARGE, run, 1_179.4, waits_s)
    yield _slurm_claim("500 nodes", starts.Trial(logs.synthetic(), "easy", per_node=16))


def _kueue_claim(
    title: str, shape: loads.Kueue, run: loads.Run, end_s: float, waits_s: Mapping[str, float]
) -> Iterator[Claim]:
    yield _at_most(f"{title}: last workload ends", end_s, run.end_s, "s")
    found_s = loads.mean_waits_s(shape, run)
    for kind, most_s in waits_s.items():
        yield _at_most(f"{title}: mean wait, {kind}", most_s, found_s[kind], "s")
    CONSOLE.print(f"{title}: {run.cpu_s:.1f} s of the processor, {run.evictions:,} evictions")


def _slurm_claim(where: str, trial: starts.Trial) -> Claim:
    took_s = starts.replay(trial)[1]
    return _at_most(f"20 days of 8,000 processors, {where}: a replay", 5 * 3600, took_s, "s")


def _at_most(what: str, most: float, found: float, unit: str) -> Claim:
    digits = 0 if most >= 1000 else 1
    return Claim(what, f"≤ {most:,.{digits}f} {unit}", f"{found:,.{digits}f} {unit}", found <= most)


SECTIONS: Final[Mapping[str, Section]] = {
    "philly": philly,
    "openb": gpus,
    "backfill": orders,
    "starts": every_start,
    "others": others,
    "large": large,
}
NOT_ASKED: Final = ("large",)
"""The sections that run only on demand, as they take long."""


def verdict(claims: Sequence[Claim]) -> int:
    """Print all claims, and return the exit status."""
    shown = Table(title="Evidence", box=box.SIMPLE, pad_edge=False, collapse_padding=True)
    shown.add_column("claim")
    for heading in ("expected", "found"):
        shown.add_column(heading, justify="right")
    shown.add_column("")
    for claim in claims:
        mark = "ok" if claim.holds else "DIFFERS"
        shown.add_row(claim.what, claim.expected, claim.found, mark)
    CONSOLE.print(shown)
    return 0 if all(claim.holds for claim in claims) else 1


@click.command()
@click.option(
    "--only",
    type=click.Choice(list(SECTIONS)),
    multiple=True,
    help="Only this section; may be repeated. Default: all but large.",
)
@click.option("--jobs", default=2, show_default=True, help="How many replays at a time.")
def main(only: tuple[str, ...], jobs: int) -> None:
    """Check what docs/evidence.md claims; the exit status is 1 if something does not hold."""
    chosen = [
        section
        for name, section in SECTIONS.items()
        if name in (only or SECTIONS.keys() - NOT_ASKED)
    ]
    claims = [claim for section in chosen for claim in section(jobs)]
    sys.exit(verdict(claims))


if __name__ == "__main__":
    main()
