"""What is drawn of work that fails: the model keeps the back-offs, told from its log alone."""

from __future__ import annotations

from typing import Final

import attrs
from hypothesis import given

from muster_core.config import load_configuration
from muster_core.decisions import Decision, Kind, Reason
from muster_core.events import Configure
from tests.core.building import from_python
from tests.naive.back_off_strategies import back_offs, retimed
from tests.naive.choices import Choices, drawn
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Batch, Drive, Step
from tests.naive.scheduler import NaiveScheduler
from tests.naive.state import Ask
from tests.naive.strategies import scenarios
from tests.naive.writing import written
from tests.share import share

_FAILED: Final = {Reason.BIND_FAILED, Reason.FAILED}
_GONE: Final = {Reason.COMPLETED, Reason.REMOVED, Reason.FAILED}


@share(0.2)
@given(scenarios() | gang_scenarios() | back_offs())
def test_nobody_is_assigned_before_a_back_off_is_over(scenario: list[Step]) -> None:
    Drive(NaiveScheduler(), _Rows().after).run(scenario)


@share(0.2)
@given(back_offs(lists=1), drawn(20))
def test_the_loader_makes_the_same_of_other_delays(scenario: list[Step], choices: Choices) -> None:
    configs = [step.what.config for step in scenario if isinstance(step.what, Configure)]
    for config in (*configs, retimed(configs[0], choices)):
        loaded = load_configuration(from_python(written(config)))
        assert attrs.evolve(loaded, warnings=config.warnings) == config


@attrs.define
class _Rows:
    """Follows the rows of failed binds.

    Attributes:
        rows: How many binds of an ask failed in a row, and when the last of them did.
        known: The asks that there were at the end of the batch before.
        bound: Those of them that were bound.
    """

    rows: dict[Ask, tuple[int, int]] = attrs.field(factory=dict[Ask, tuple[int, int]])
    known: set[Ask] = attrs.field(factory=set[Ask])
    bound: set[Ask] = attrs.field(factory=set[Ask])

    def after(self, model: NaiveScheduler, batch: Batch) -> None:
        for ask in model.world.asks():
            said = [
                one for one in batch.decisions if (one.app, one.ask) == (ask.app.name, ask.name)
            ]
            if ask not in self.known:
                said = _of_the_last(said)
            for one in said:
                self._follow(model, ask, one, batch.at_us)
        self.known, self.bound = set(model.world.asks()), set(model.world.bound())

    def _follow(self, model: NaiveScheduler, ask: Ask, one: Decision, at_us: int) -> None:
        count, last_us = self.rows.get(ask, (0, 0))
        if one.kind is Kind.RELEASED and one.reason in _FAILED:
            self.rows[ask] = (count + 1, at_us)
        elif one.kind is Kind.RELEASED and ask in self.bound:
            self.rows[ask] = (0, 0)
        elif one.kind is Kind.ASSIGNED and count:
            delay_us = model.world.queues[ask.app.queue].settings.bind_retry_us
            assert at_us >= last_us + delay_us * min(2 ** (count - 1), 64)
        if one.kind is Kind.RELEASED:
            self.bound.discard(ask)


def _of_the_last(said: list[Decision]) -> list[Decision]:
    """Leave of what was said that which is of the last ask of a name."""
    gone = [place for place, one in enumerate(said) if one.reason in _GONE]
    return said[gone[-1] + 1 :] if gone else said
