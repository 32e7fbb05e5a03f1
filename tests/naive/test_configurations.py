"""The drawn configurations are what the loader makes of the same, written out."""

from __future__ import annotations

import attrs
from hypothesis import given, strategies as st

from muster_core.config import load_configuration
from muster_core.config.model import Configuration
from tests.core.building import from_python
from tests.naive.choices import Choices, drawn
from tests.naive.config_strategies import configurations
from tests.naive.devices.strategies import device_configurations
from tests.naive.limit_strategies import faults
from tests.naive.operator_strategies import operator_configurations
from tests.naive.rule_strategies import is_legal
from tests.naive.theme import themed
from tests.naive.writing import written
from tests.share import share


@st.composite
def some_configurations(draw: st.DrawFn) -> list[Configuration]:
    choices: Choices = draw(drawn(24))
    return draw(configurations(themed(choices)))


@given(some_configurations())
def test_the_loader_makes_the_same_of_them(configs: list[Configuration]) -> None:
    _accepted(configs)


@given(operator_configurations())
def test_the_loader_makes_the_same_of_limits_and_rules(configs: list[Configuration]) -> None:
    _accepted(configs)


@share(0.3)
@given(device_configurations())
def test_the_loader_makes_the_same_of_orders_by_ask(configs: list[Configuration]) -> None:
    _accepted(configs)


@given(operator_configurations())
def test_no_limit_is_drawn_that_the_specification_refuses(configs: list[Configuration]) -> None:
    for config in configs:
        assert not faults(config.root)
        assert all(is_legal(rule, config.root) for rule in config.placement_rules)


def _accepted(configs: list[Configuration]) -> None:
    for config in configs:
        loaded = load_configuration(from_python(written(config)))
        assert attrs.evolve(loaded, warnings=config.warnings) == config
