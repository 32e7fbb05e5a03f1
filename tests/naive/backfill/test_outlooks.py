"""The core says of pending asks when they will start as the model does."""

from __future__ import annotations

from hypothesis import assume, given, strategies as st

from muster_core.coordinator.plain_scheduler import PlainScheduler, forecast
from muster_core.reasons import UNKNOWN_START, Forecast, Outlook, Start
from tests.naive.backfill.forecast import fits_at, fits_now, position, starts_at_us
from tests.naive.backfill.outlooks import for_ask
from tests.naive.backfill.strategies import backfills
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import SETTLE, Drive, Marker, Scenario, Step
from tests.naive.scheduler import NaiveScheduler
from tests.naive.state import Ask
from tests.naive.strategies import scenarios
from tests.share import share

_ANY = backfills() | backfills() | scenarios(lists=2) | gang_scenarios(lists=2) | evictions()
_ASKED = 4
"""Of how many asks the forecasts are compared."""


# OUTLOOK-1, OUTLOOK-2, OUTLOOK-3, OUTLOOK-6, OUTLOOK-7
@share(0.4)
@given(_ANY, st.data())
def test_the_core_foretells_what_the_model_does(scenario: list[Step], data: st.DataObject) -> None:
    assume(scenario)
    steps = scenario[: data.draw(st.integers(1, len(scenario)), label="steps")]
    model, scheduler = _both([*steps, Step(steps[-1].at_us, SETTLE)])
    pending = list(model.world.pending())
    assume(pending)

    for ask in pending:
        explanation = scheduler.explain_fully(ask.app.name, ask.name)
        outlook = None if explanation is None else explanation.outlook
        reserved = for_ask(model.world, ask)
        assert outlook == Outlook(position(model.world, ask), reserved=reserved), ask.full
    facts = scheduler.facts()
    for ask in data.draw(st.permutations(pending), label="asks")[:_ASKED]:
        found = forecast(facts, ask.app.name, ask.name)
        starts = starts_at_us(model, ask.app.name, ask.name)
        now = fits_now(model.world, ask)
        assert found == Forecast(_fits_at(model, ask), starts, fits_now=now), ask.full


def _fits_at(model: NaiveScheduler, ask: Ask) -> Start:
    found = fits_at(model.world, ask)
    if found is None:
        return None
    return UNKNOWN_START if found.is_unknown else found.place


def _both(steps: Scenario) -> tuple[NaiveScheduler, PlainScheduler]:
    """Let the model and the core take the same steps."""
    drive, scheduler = Drive(NaiveScheduler()), PlainScheduler()
    for index, step in enumerate(steps):
        drive.step(index, step)
        if isinstance(step.what, Marker):
            scheduler.settle(step.at_us)
        else:
            scheduler.submit(step.what, step.at_us, index)
    return drive.model, scheduler
