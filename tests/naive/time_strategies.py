"""Hypothesis strategies for scenarios in which asks may not run, or wait to begin, for ever."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.config.model import Configuration, QueueConfig, Settings
from muster_core.events import AddAsk, Configure
from tests.naive.back_off_strategies import back_offs
from tests.naive.backfill_strategies import backfills
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step, What
from tests.naive.strategies import settings_of
from tests.naive.theme import SECOND_US

RUN_LIMIT: Final = "run.limit"
_TEXTS: Final = (None, None, "3s", "0", "5s", "1us", "8s")
_LIMITS_US: Final = (None, None, SECOND_US, 3 * SECOND_US, 4 * SECOND_US, 9 * SECOND_US, 1)
_STARTS_US: Final = (None, None, 0, SECOND_US, 2 * SECOND_US, 3 * SECOND_US, 10 * SECOND_US, -1, 1)


@st.composite
def time_limits(draw: st.DrawFn, lists: int = 3) -> list[Step]:
    """Draw a scenario of another kind, and limit the times of its asks.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    kinds = (back_offs(lists), backfills(lists), gang_scenarios())
    steps = draw(draw(st.sampled_from(kinds)))
    random = Random(draw(st.integers(0, 2**32)))
    return limited(steps, random)


def limited(steps: Sequence[Step], random: Random) -> list[Step]:
    """Limit the times of asks, as chance has it."""
    texts = _TEXTS[: random.randint(1, len(_TEXTS))]
    limits, starts = random.choice((1, 3, len(_LIMITS_US))), random.choice((1, 5, len(_STARTS_US)))
    return [
        Step(step.at_us, _limited(step, random, texts, _LIMITS_US[:limits], _STARTS_US[:starts]))
        for step in steps
    ]


def _limited(
    step: Step,
    random: Random,
    texts: Sequence[str | None],
    limits: Sequence[int | None],
    starts: Sequence[int | None],
) -> What:
    match step.what:
        case Configure(config):
            return attrs.evolve(step.what, config=_with_limits(config, random, texts))
        case AddAsk():
            limit_us, within_us = random.choice(limits), random.choice(starts)
            start_by_us = None if within_us is None else max(0, step.at_us + within_us)
            return attrs.evolve(step.what, run_limit_us=limit_us, start_by_us=start_by_us)
        case what:
            return what


def _with_limits(
    config: Configuration, random: Random, texts: Sequence[str | None]
) -> Configuration:
    def again(queue: QueueConfig, above: Settings | None) -> QueueConfig:
        own, text = dict(queue.own_properties), random.choice(texts)
        if text is not None:
            own[RUN_LIMIT] = text
        settings = settings_of(own, queue.path, above)
        children = tuple(again(child, settings) for child in queue.children)
        return attrs.evolve(
            queue, own_properties=tuple(sorted(own.items())), settings=settings, children=children
        )

    return attrs.evolve(config, root=again(config.root, None))
