"""Hypothesis strategies for scenarios in which queues come to have more than their ``max``, and in
which asks may run for some time before they are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.config.model import Configuration, Limits, QueueConfig, Settings
from muster_core.events import AddAsk, AddNode, Configure
from muster_core.resources import Resources
from tests.naive.backfill_strategies import backfills
from tests.naive.eviction_strategies import evictions, tangles
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import SETTLE, Step, What
from tests.naive.operator_strategies import operations
from tests.naive.strategies import settings_of
from tests.naive.theme import SECOND_US

DELAY: Final = "quota.preemption.delay"
RUNTIME: Final = "preemption.min.runtime"
_DELAYS: Final = ("1us", "1s", "3s", "2s", None, "0", "10s")
_RUNTIMES: Final = (None, "2s", None, "0", "5s", "1us", "20s")
_GAPS_US: Final = (0, 1, SECOND_US, SECOND_US, 2 * SECOND_US, 4 * SECOND_US)


@attrs.frozen
class QuotaTheme:
    """What chance makes of a scenario.

    Attributes:
        delays: The values of ``quota.preemption.delay``; None is not named.
        runtimes: The values of ``preemption.min.runtime``.
        types: The types of which a ``max`` is lowered.
        limited: How likely a queue has a ``max`` that is lowered.
        highest: The most of a type that a lowered ``max`` allows.
        spared: How likely a ``guaranteed`` stays.
        factors: How many times as much asks want.
        on: How likely the partition has quota preemption.
    """

    delays: Sequence[str | None]
    runtimes: Sequence[str | None]
    types: Sequence[str]
    limited: float
    highest: int
    spared: float
    factors: Sequence[int]
    on: float

    def enlarged(self, what: What, random: Random) -> What:
        """Let an ask want more, and a node have more."""
        if isinstance(what, AddAsk):
            factor = random.choice(self.factors)
            if len(self.factors) > 1 and random.random() < 0.5:  # What is large goes last.
                what = attrs.evolve(what, priority=factor, priority_class=None)
            return attrs.evolve(what, resources=_times(what.resources, factor))
        if isinstance(what, AddNode):
            return attrs.evolve(what, capacity=_times(what.capacity, max(self.factors)))
        return what


def _times(amounts: Resources, factor: int) -> Resources:
    return Resources({name: amount * factor for name, amount in amounts.items()})


@st.composite
def quotas(draw: st.DrawFn, lists: int = 3) -> list[Step]:
    """Draw a scenario of another kind, and lower what its queues may have.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    kinds = (
        evictions(lists),
        tangles(lists),
        gang_scenarios(),
        backfills(lists),
        operations(),
    )
    steps = draw(draw(st.sampled_from(kinds)))
    return lowered(steps, Random(draw(st.integers(0, 2**32))))


def lowered(steps: Sequence[Step], random: Random) -> list[Step]:
    """Lower the ``max`` of queues on the way, as chance has it."""
    theme = QuotaTheme(
        delays=_DELAYS[: random.randint(1, len(_DELAYS))],
        runtimes=_RUNTIMES[: random.randint(1, len(_RUNTIMES))],
        types=random.choice((("vcore",), ("vcore",), ("vcore", "memory"))),
        limited=random.choice((0.5, 0.8, 1.0)),
        highest=random.choice((1, 2, 4)),
        spared=random.choice((0.0, 0.0, 0.5, 1.0)),
        factors=random.choice(((1,), (1, 2), (1, 1, 2, 3))),
        on=random.choice((1.0, 1.0, 1.0, 0.7)),
    )
    places = sorted(
        random.randint(len(steps) // 4, len(steps)) for _ in range(random.randint(1, 4))
    )
    found: list[Step] = []
    last: Configuration | None = None
    late_us = 0
    for place in range(len(steps) + 1):
        while places and places[0] == place:
            places.pop(0)
            if last is None:
                continue
            late_us += random.choice(_GAPS_US)
            at_us = (steps[place - 1].at_us if place else 0) + late_us
            if random.random() < 0.5:
                found.append(Step(at_us, SETTLE))
            found.append(Step(at_us, Configure(_changed(last, random, theme, lowers=True))))
        if place == len(steps):
            break
        what = theme.enlarged(steps[place].what, random)
        if isinstance(what, Configure):
            last = what.config
            lowers = random.random() < 0.2
            what = attrs.evolve(what, config=_changed(last, random, theme, lowers=lowers))
        found.append(Step(steps[place].at_us + late_us, what))
    return found


def _changed(
    config: Configuration, random: Random, theme: QuotaTheme, *, lowers: bool
) -> Configuration:
    root = config.root
    if lowers:
        root = _lowered(root, random, theme)
    return attrs.evolve(
        config,
        quota_preemption=random.random() < theme.on,
        root=_with_settings(root, None, random, theme),
    )


def _lowered(queue: QueueConfig, random: Random, theme: QuotaTheme) -> QueueConfig:
    """Lower the ``max`` of a queue and those below it, to no less than what is guaranteed."""
    most = {name: value for name, value in queue.max.amounts if name not in theme.types}
    guaranteed = queue.guaranteed
    if random.random() >= theme.spared and not queue.children:
        guaranteed = type(guaranteed)()
    children = [_lowered(child, random, theme) for child in queue.children]
    for name in theme.types:
        if queue.path != "root" and random.random() < theme.limited:
            below = sum(child.guaranteed[name] for child in children)
            inner = [dict(child.max.amounts).get(name, 0) for child in children]
            most[name] = max([random.randint(0, theme.highest), guaranteed[name], below, *inner])
    return attrs.evolve(queue, guaranteed=guaranteed, max=Limits.of(most), children=tuple(children))


def _with_settings(
    queue: QueueConfig, above: Settings | None, random: Random, theme: QuotaTheme
) -> QueueConfig:
    own = dict(queue.own_properties)
    for name, texts in ((DELAY, theme.delays), (RUNTIME, theme.runtimes)):
        text = random.choice(texts)
        own.pop(name, None)
        if text is not None:
            own[name] = text
    settings = settings_of(own, queue.path, above)
    template = queue.template
    if template is not None and random.random() < 0.5:
        properties = tuple(sorted({**dict(template.properties), DELAY: "1s"}.items()))
        template = attrs.evolve(template, properties=properties)
    return attrs.evolve(
        queue,
        own_properties=tuple(sorted(own.items())),
        settings=settings,
        template=template,
        children=tuple(_with_settings(one, settings, random, theme) for one in queue.children),
    )
