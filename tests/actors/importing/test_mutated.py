"""Dumps that are not quite right, of every kind: a small dose of what ``mutated`` does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from muster.importing import Workload
from muster.importing.nodes import parse_nodes
from muster.importing.workload import AskGroup, Job
from tests.actors.importing.mutated import (
    IMPORTED,
    KINDS,
    UNUSABLE,
    FaultError,
    Kind,
    attack,
    kind_of,
    outcome_of,
)

_MUTANTS = 60


@pytest.mark.parametrize("name", KINDS)
def test_an_import_stands_dumps_with_mistakes(name: str) -> None:
    outcomes, faults = attack(name, _MUTANTS, seed=1)
    assert not faults, faults[0]
    assert sum(outcomes.values()) == _MUTANTS
    assert {outcome.partition(": ")[2] for outcome in outcomes} == {IMPORTED, UNUSABLE}


@pytest.mark.parametrize("name", KINDS)
def test_the_samples_themselves_are_right(name: str) -> None:
    kind = kind_of(name)
    for sample, dump in kind.samples.items():
        assert outcome_of(kind, sample, dump) == IMPORTED, sample


def _twice(sample: str, dump: bytes, workload: Workload) -> None:
    workload.nodes = parse_nodes("1x vcore=4")
    for _ in dump.split():
        workload.submit(Job(0, "a", "root.q", [AskGroup("task", {"vcore": 1})], is_alone=True))


def _unaccounted(sample: str, dump: bytes, workload: Workload) -> None:
    workload.account.read["job"] += 1


@pytest.mark.parametrize("read", [_twice, _unaccounted])
def test_faults_are_found(read: Callable[[str, bytes, Workload], None]) -> None:
    with pytest.raises(FaultError):
        outcome_of(Kind({}, read), "sample", b"one other")
