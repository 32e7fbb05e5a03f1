"""Hypothesis strategies for scenarios in which asks gain priority while they are not bound."""

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
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step, What
from tests.naive.strategies import scenarios, settings_of
from tests.naive.theme import SECOND_US

AGING: Final = "priority.aging"
AGING_LIMIT: Final = "priority.aging.limit"
_TEXTS: Final = ("1s", "2s", None, "500ms", "0", "1us", "7s")
_LIMITS: Final = (None, "1", "2", "3", "10", "2147483647")
_PRIORITIES: Final = (
    *(None, 0, 1, 2, 3, 4, -1, 7),
    *(999_999_998, 999_999_999, 1_000_000_000, 1_000_000_001, 2**31 - 1, -(2**31)),
)
_GAPS_US: Final = (
    (SECOND_US, 0, 0),
    (0, 0, SECOND_US, SECOND_US // 2),
    (0, SECOND_US, SECOND_US - 1, 1, 3 * SECOND_US),
    (0, 0, 0, SECOND_US, 20 * SECOND_US),
)


@st.composite
def agings(draw: st.DrawFn, lists: int = 3) -> list[Step]:
    """Draw a scenario of another kind, and let its asks age.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    kinds = (scenarios(), evictions(), backfills(lists), back_offs(lists), gang_scenarios())
    steps = draw(draw(st.sampled_from(kinds)))
    random = Random(draw(st.integers(0, 2**32)))
    return aged(steps, random)


def aged(steps: Sequence[Step], random: Random) -> list[Step]:
    """Let asks age, as chance has it: other priorities, and more time between what happens."""
    texts = _TEXTS[: random.randint(1, len(_TEXTS))]
    limits = _LIMITS[: random.randint(1, len(_LIMITS))]
    priorities = _PRIORITIES[: random.choice((4, 8, 8, len(_PRIORITIES)))]
    changed, gaps_us = random.choice((0.0, 0.5, 1.0)), random.choice(_GAPS_US)
    later_us, found = 0, list[Step]()
    for step in steps:
        later_us += random.choice(gaps_us)
        what = step.what
        if isinstance(what, Configure):
            what = attrs.evolve(what, config=_with_aging(what.config, random, texts, limits))
        elif isinstance(what, AddAsk) and random.random() < changed:
            what = _with_priority(what, random.choice(priorities))
        found.append(Step(step.at_us + later_us, what))
    return found


def _with_priority(ask: AddAsk, priority: int | None) -> What:
    return ask if ask.priority_class is not None else attrs.evolve(ask, priority=priority)


def _with_aging(
    config: Configuration,
    random: Random,
    texts: Sequence[str | None],
    limits: Sequence[str | None],
) -> Configuration:
    def again(queue: QueueConfig, above: Settings | None) -> QueueConfig:
        more = {AGING: random.choice(texts), AGING_LIMIT: random.choice(limits)}
        own = dict(queue.own_properties)
        own.update((name, text) for name, text in more.items() if text is not None)
        settings = settings_of(own, queue.path, above)
        children = tuple(again(child, settings) for child in queue.children)
        return attrs.evolve(
            queue, own_properties=tuple(sorted(own.items())), settings=settings, children=children
        )

    return attrs.evolve(config, root=again(config.root, None))
