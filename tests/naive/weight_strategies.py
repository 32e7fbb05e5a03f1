"""Hypothesis strategies for scenarios in which queues share by weight."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.config.model import Configuration, QueueConfig, Settings
from muster_core.events import Configure
from tests.naive.eviction_strategies import evictions, tangles
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.strategies import scenarios, settings_of

SHARE_POLICY: Final = "share.policy"
QUEUE_WEIGHT: Final = "queue.weight"
_POLICIES: Final = ("weight", "weight", "weight", None, "guaranteed")
_WEIGHTS: Final = (None, "1", "2", "3", "7", "2147483647")


@st.composite
def weights(draw: st.DrawFn) -> list[Step]:
    """Draw a scenario of another kind, and let queues share by weight.

    Args:
        draw: Given by Hypothesis.
    """
    kinds = (evictions(), evictions(), tangles(), scenarios(), gang_scenarios())
    steps = draw(draw(st.sampled_from(kinds)))
    random = Random(draw(st.integers(0, 2**32)))
    return weighted(steps, random)


def weighted(steps: Sequence[Step], random: Random) -> list[Step]:
    """Give queues of all configurations policies and weights, as chance has it."""
    policies = _POLICIES[: random.choice((1, len(_POLICIES)))]
    texts = _WEIGHTS[: random.randint(1, len(_WEIGHTS))]
    keeps = random.random() < 0.7
    return [
        attrs.evolve(
            step,
            what=attrs.evolve(
                step.what, config=_weighted(step.what.config, random, policies, texts, keeps=keeps)
            ),
        )
        if isinstance(step.what, Configure)
        else step
        for step in steps
    ]


def _weighted(
    config: Configuration,
    random: Random,
    policies: Sequence[str | None],
    texts: Sequence[str | None],
    *,
    keeps: bool,
) -> Configuration:
    def own(queue: tuple[tuple[str, str], ...]) -> dict[str, str]:
        drawn = {SHARE_POLICY: random.choice(policies), QUEUE_WEIGHT: random.choice(texts)}
        return dict(queue) | {name: text for name, text in drawn.items() if text is not None}

    def again(queue: QueueConfig, above: Settings | None) -> QueueConfig:
        properties = own(queue.own_properties)
        settings = settings_of(properties, queue.path, above)
        template = queue.template
        if template is not None:
            weighted = tuple(sorted(own(template.properties).items()))
            template = attrs.evolve(template, properties=weighted)
        least = queue.guaranteed if keeps else QueueConfig("x", "x", is_parent=False).guaranteed
        return attrs.evolve(
            queue,
            own_properties=tuple(sorted(properties.items())),
            settings=settings,
            template=template,
            guaranteed=least,
            children=tuple(again(child, settings) for child in queue.children),
        )

    return attrs.evolve(config, root=again(config.root, None))
