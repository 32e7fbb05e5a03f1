"""What is drawn of topologies and devices reaches each rule, and not just now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from tests.naive.devices.strategies import devices
from tests.naive.harness import Step, compare
from tests.naive.plain import run_plainly
from tests.naive.topology.strategies import topologies

_SCENARIOS: Final = 20

_DRAWS: Final = 18
"""How often so many scenarios are drawn at most."""

_TOPOLOGY: Final = (
    *("same chosen", "same none", "same stays", "same keeps off", "same differs"),
    *("prefer chosen", "prefer none", "prefer stays"),
    *("spread stays", "spread differs", "spread keeps off"),
    *("same tries asks of several leaves", "same keeps off in a plan"),
    *("same stays, satisfied", "same keeps off, satisfied", "prefer stays, satisfied"),
)
_DEVICES: Final = (
    *("whole ones", "a share, of several devices", "a share, by least fragmentation"),
    *("enough in all, not on one", "another model", "victims by devices"),
    *("devices held", "devices replaced", "learned", "learned again"),
    *("by leftover", "step before leftover", "leftover among equal steps"),
    *("name among equal steps", "less fragmentation than before"),
)
"""The beginnings of what is counted; what is counted of members of satisfied gangs ends so."""


@pytest.mark.parametrize(
    ("drawn", "rules"), [(topologies, _TOPOLOGY), (devices, _DEVICES)], ids=["topology", "devices"]
)
def test_each_rule_is_reached_and_decides_the_same(
    drawn: Callable[[], st.SearchStrategy[list[Step]]], rules: tuple[str, ...]
) -> None:
    reached: Counter[str] = Counter()

    def missing() -> list[str]:
        return [rule for rule in rules if not any(one.startswith(rule) for one in +reached)]

    # Which scenarios are drawn depends on what else has run, so that a rare rule may be missing.
    for number in range(_DRAWS):
        _play(drawn(), number, reached)
        if not missing():
            break
    assert missing() == []


def _play(drawn: st.SearchStrategy[list[Step]], number: int, reached: Counter[str]) -> None:
    @seed(number)
    @settings(
        max_examples=_SCENARIOS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    @given(drawn)
    def play(scenario: list[Step]) -> None:
        reached.update(compare(scenario, run_plainly).world.reached)

    play()
