"""Compare when Muster starts each job of a log with a plain simulator, for FCFS and for EASY.

Both read the same log in the Standard Workload Format: ``plain.py`` by itself, Muster by
``muster import swf`` and ``muster replay``. Either the machine is one node with all processors, as
the plain simulator knows only one pool of them; or each processor is a node, and each job a gang.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import attrs
from rich import box
from rich.table import Table
from typing_extensions import override

from examples.evidence.logs import Log, openb, philly, synthetic, week, whole_nodes
from examples.evidence.named import NamedNodes
from examples.evidence.plain import Job, Machine, Policy, simulate, write
from examples.philly.demo import bound, run

HERE: Final = Path(__file__).resolve().parent


@attrs.frozen
class Trial:
    """A log, and how it runs.

    Attributes:
        log: The jobs.
        policy: By which rule they start.
        per_node: How many processors a node of Muster has; None if one node has them all. A job
            that needs several nodes is a gang.
        has_names: Whether reservations name certain nodes in the plain simulator, too.
        has_states: Whether it adds the rounds, too, that Muster adds for the states of applications.
        apart: How many starts differ in a plain simulator that does neither.
    """

    log: Log
    policy: Policy
    per_node: int | None = None
    has_names: bool = False
    has_states: bool = False
    apart: int = 0

    @property
    def title(self) -> str:
        """Its title in a table."""
        more = (" by name" if self.has_names else "") + (" and states" if self.has_states else "")
        return self.policy.upper() + more

    @property
    def nodes(self) -> str:
        """Muster's nodes, as ``--nodes`` of an import takes them."""
        each = self.per_node or self.log.processors
        return f"{self.log.processors // each}x vcore={each}"

    def members(self, job: Job) -> int:
        """Return on how many nodes a job runs."""
        return math.ceil(job.size / (self.per_node or self.log.processors))

    def extra_rounds(self, job: Job) -> Iterator[int]:
        """Yield the times of rounds that Muster adds because of the states of the application of a job.

        One with a single ask changes its state 300 seconds after it began to run, if it still runs
        then, and each does 30 seconds after it ended.
        """
        if self.has_states:
            if job.run > 300 and self.members(job) == 1:
                yield 300
            yield job.run + 30


@attrs.frozen
class Difference:
    """A job that does not start when it should; times are in seconds.

    Attributes:
        job: Its number in the log.
        expected: When the plain simulator starts it; None if never.
        found: When Muster does; None if never.
    """

    job: int
    expected: float | None
    found: float | None

    @override
    def __str__(self) -> str:
        """Describe the difference."""
        times = ["never" if at is None else f"at {at:,g} s" for at in (self.expected, self.found)]
        return f"job {self.job}: expected to start {times[0]}, found {times[1]}"


@attrs.frozen
class Outcome:
    """The result of a comparison.

    Attributes:
        jobs: How many jobs were compared.
        waited: How many of them did not start at once, in the plain simulator.
        passed: How many of them started before one that came earlier.
        differences: The jobs that start at different times, the earliest first.
        plain: How many start at other times than in a plain simulator without `Trial.has_names`
            and `Trial.has_states`.
        took_s: How long Muster's replay took, in seconds.
    """

    jobs: int
    waited: int
    passed: int
    differences: list[Difference]
    plain: int
    took_s: float


def trials() -> Iterator[Trial]:
    """Yield the trials."""
    policies: tuple[Policy, ...] = ("fcfs", "easy")
    pools = (week(), philly("0e4a51", 32), philly("2869ce", 16), openb(), synthetic())
    for log in pools:
        for policy in policies:
            yield Trial(log, policy)
    yield Trial(synthetic(are_ended=False), "easy", has_states=True, apart=1_858)
    for nodes, apart in (
        (whole_nodes(week(), 16), 235),
        (whole_nodes(philly("2869ce", 16), 8), 95),
    ):
        yield Trial(nodes, "fcfs", per_node=1)
        yield Trial(nodes, "easy", per_node=1, has_names=True, apart=apart)


def differences(expected: Mapping[int, float], found: Mapping[int, float]) -> list[Difference]:
    """Compare the starts of jobs, and return where they differ, the earliest first."""
    wrong = [
        Difference(job, expected.get(job), found.get(job))
        for job in sorted(expected.keys() | found.keys())
        if expected.get(job) != found.get(job)
    ]
    never = float("inf")
    return sorted(
        wrong,
        key=lambda one: min(never if at is None else at for at in (one.expected, one.found)),
    )


def replay(trial: Trial, call: Callable[..., None] = run) -> tuple[dict[int, float], float]:
    """Import a log, replay it, and read when each job started: all of it, once, at one instant.

    Args:
        trial: The log, and how it runs.
        call: Runs a command of Python.

    Returns:
        The starts by the numbers of the jobs, in the seconds of the log, and how many seconds the
        replay took.

    Raises:
        click.ClickException: A command failed, or something was refused.
    """
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        log, feed, decisions = (folder / name for name in ("log.swf", "feed.jsonl", "log.jsonl"))
        log.write_text(write(trial.log.jobs, trial.log.processors, trial.log.name), "utf-8")
        call(
            *("-m", "muster", "import", "swf", log, "--nodes", trial.nodes, "-o", feed),
            *("--config", HERE / f"{trial.policy}.yaml", "--mapping", HERE / "mapping.yaml"),
        )
        began = time.perf_counter()
        call(
            *("-m", "muster", "replay", feed, "--decisions", decisions),
            *("--strict", "--format", "json"),
        )
        took_s = time.perf_counter() - began
        starts = bound(decisions)
    found = dict[int, float]()
    for job in trial.log.jobs:
        ats = starts.get(str(job.number), [])
        if len(ats) == trial.members(job) and len(set(ats)) == 1:
            found[job.number] = ats[0]
    return found, took_s


def compare(
    trial: Trial,
    *,
    altered: Mapping[int, float] = MappingProxyType({}),
    call: Callable[..., None] = run,
) -> Outcome:
    """Run a log with both.

    Args:
        trial: The log, and how it runs.
        altered: Starts to put in the place of those that Muster chose, by the number of the job.
        call: Runs a command of Python.

    Raises:
        click.ClickException: A command failed, or something was refused.
    """
    log = trial.log
    plain = simulate(log.jobs, Machine(trial.policy, log.processors))
    machine = (NamedNodes if trial.has_names else Machine)(trial.policy, log.processors)
    expected = simulate(log.jobs, machine, trial.extra_rounds)
    found, took_s = replay(trial, call)
    found |= altered
    latest, passed = -1, 0
    for job in sorted(log.jobs, key=lambda job: job.submit):
        passed += expected[job.number] < latest
        latest = max(latest, expected[job.number])
    return Outcome(
        jobs=len(log.jobs),
        waited=sum(expected[job.number] > job.submit for job in log.jobs),
        passed=passed,
        differences=differences(expected, found),
        plain=len(differences(plain, found)),
        took_s=took_s,
    )


def layout(found: Sequence[tuple[Trial, Outcome]]) -> Table:
    """Make a table of the results of comparisons."""
    shown = Table(
        title="When jobs start: Muster and a plain simulator",
        caption="pool: how many differ from a simulator of one pool, without names and states",
        box=box.SIMPLE,
        pad_edge=False,
        collapse_padding=True,
    )
    shown.add_column("log")
    shown.add_column("policy")
    for heading in ("jobs", "wait", "pass others", "differ", "pool", "took"):
        shown.add_column(heading, justify="right")
    for trial, one in found:
        shown.add_row(
            trial.log.name,
            trial.title,
            f"{one.jobs:,}",
            f"{one.waited:,}",
            f"{one.passed:,}",
            f"{len(one.differences):,}",
            f"{one.plain:,}",
            f"{one.took_s:.1f} s",
        )
    return shown
