"""The jobs of the benchmark whose backlog grows, decided by the core and by the plain algorithm."""

from __future__ import annotations

import attrs
import pytest

from benchmarks.backlog import VARIANTS, configuration, trace
from muster_core.events import Configure
from tests.naive.harness import Step, compare
from tests.naive.plain import run_plainly


@pytest.mark.parametrize(
    "name",
    [
        "a limit of 64 cores",
        pytest.param("depth 100 and a limit of 64 cores", marks=pytest.mark.takes_long),
    ],
)
def test_a_backlog_is_decided_as_by_the_plain_algorithm(name: str) -> None:
    # ROUND-10, BACKFILL-20, LIMIT-9
    few = attrs.evolve(VARIANTS[name], cores=32)
    steps = [Step(0, Configure(configuration(few)))]
    steps += [Step(at_us, event) for at_us, event in trace(0.007)]

    compare(steps, run_plainly)
