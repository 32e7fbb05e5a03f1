"""Dumps that are not quite right, of every kind: a small dose of what ``mutated`` does."""

from __future__ import annotations

import pytest

from tests.actors.importing.mutated import IMPORTED, KINDS, UNUSABLE, attack, kind_of, outcome_of

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
