"""Compare when Muster starts each job of a log with a plain simulator, for FCFS and for EASY.

Both read the same log in the Standard Workload Format: ``plain.py`` by itself, Muster by
``muster import swf`` and ``muster replay``. Either the machine is one node with all processors, as
the plain simulator knows only one pool of them; or each processor is a node, and each job a gang.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

import attrs

from examples.evidence.logs import Log
from examples.evidence.named import NamedNodes
from examples.evidence.plain import Job, Machine, Policy, read, simulate, write
from examples.philly.demo import bound, run

HERE: Final = Path(__file__).resolve().parent


@attrs.frozen
class Trial:
    """A log, and how it runs.

    Attributes:
        log: The jobs.
        policy: By which rule they start.
        is_pool: Whether Muster has one node with all processors; else a node for each processor,
            so that a job is a gang.
        has_names: Whether what is reserved are certain nodes in the plain simulator, too.
        has_states: Whether it looks again, too, when Muster does for the states of applications.
    """

    log: Log
    policy: Policy
    is_pool: bool = True
    has_names: bool = False
    has_states: bool = False

    @property
    def nodes(self) -> str:
        """Muster's nodes, as ``--nodes`` of an import takes them."""
        size = self.log.processors
        return f"1x vcore={size}" if self.is_pool else f"{size}x vcore=1"


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

    def __str__(self) -> str:
        """Say what differs."""
        said = ["never" if at is None else f"at {at:,g} s" for at in (self.expected, self.found)]
        return f"job {self.job}: expected to start {said[0]}, found {said[1]}"


@attrs.frozen
class Outcome:
    """What a comparison gave.

    Attributes:
        jobs: How many jobs were compared.
        waited: How many of them did not start at once, in the plain simulator.
        passed: How many of them started before one that came earlier.
        differences: The jobs that start at different times, the earliest first.
        took_s: How long Muster's replay took, in seconds.
    """

    jobs: int
    waited: int
    passed: int
    differences: list[Difference]
    took_s: float


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


def replay(log: Path, nodes: str, policy: Policy) -> tuple[dict[int, float], float]:
    """Import a log, replay it, and read when each job started.

    Args:
        log: The log.
        nodes: The nodes, as ``--nodes`` of an import takes them.
        policy: Whose configuration to take.

    Returns:
        The starts by the numbers of the jobs, in the seconds of the log, and how many seconds the
        replay took.

    Raises:
        click.ClickException: A command failed, or something was refused.
    """
    feed = log.with_suffix(f".{policy}.jsonl")
    decisions = feed.with_suffix(".decisions.jsonl")
    run(
        *("-m", "muster", "import", "swf", log, "--nodes", nodes, "-o", feed),
        *("--config", HERE / f"{policy}.yaml", "--mapping", HERE / "mapping.yaml"),
    )
    began = time.perf_counter()
    run("-m", "muster", "replay", feed, "--decisions", decisions, "--strict", "--format", "json")
    took_s = time.perf_counter() - began
    with feed.open(encoding="utf-8") as stream:
        first = cast(dict[str, object], json.loads(stream.readline()))
    # A feed with dates begins at its first job, one without where the log does.
    zero = read(log.read_text(encoding="utf-8"))[0][0].submit if isinstance(first["at"], str) else 0
    starts = {int(app): {zero + at for at in ats} for app, ats in bound(decisions).items()}
    return {job: ats.pop() for job, ats in starts.items() if len(ats) == 1}, took_s


def compare(trial: Trial, *, altered: Mapping[int, float] = MappingProxyType({})) -> Outcome:
    """Run a log with both.

    Args:
        trial: The log, and how it runs.
        altered: Starts to put in the place of those that Muster chose, by the number of the job.

    Raises:
        click.ClickException: A command failed, or something was refused.
    """
    log = trial.log
    machine = (NamedNodes if trial.has_names else Machine)(trial.policy, log.processors)
    expected = simulate(log.jobs, machine, _states if trial.has_states else lambda _: ())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.swf")
        path.write_text(write(log.jobs, log.processors, log.name), encoding="utf-8")
        found, took_s = replay(path, trial.nodes, trial.policy)
    latest, passed = -1, 0
    for job in sorted(log.jobs, key=lambda job: job.submit):
        passed += expected[job.number] < latest
        latest = max(latest, expected[job.number])
    waited = sum(expected[job.number] > job.submit for job in log.jobs)
    return Outcome(len(log.jobs), waited, passed, differences(expected, found | altered), took_s)


def _states(job: Job) -> Iterator[int]:
    """Yield when Muster looks again because of the states of the application of a job.

    They change 300 seconds after it began to run, if it still runs then, and 30 after it ended.
    """
    if job.run > 300:
        yield 300
    yield job.run + 30
