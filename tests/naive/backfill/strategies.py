"""Hypothesis strategies for scenarios in which asks keep their order, and small ones go between.

A few nodes are filled with asks that end, most of them when they are expected to. Then come asks
too large for what is left, whose nodes are reserved, gangs, and small asks that may overtake them
or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration, QueueConfig, Settings
from muster_core.events import AddApp, AddAsk, Configure
from muster_core.resources import Resources
from tests.naive.backfill.theme import NAMES, ORDER, Plans, mixed, ordered, parties, planned, served
from tests.naive.choices import Choices, drawn
from tests.naive.config_strategies import configurations, settings_of
from tests.naive.eviction_strategies import CLASSES, EvictionAssembly
from tests.naive.eviction_theme import EvictionTheme, crowded
from tests.naive.gang_strategies import moves
from tests.naive.gang_theme import GangTheme
from tests.naive.harness import SETTLE, Step, What
from tests.naive.limit_strategies import ENTRY_BYTES, limited
from tests.naive.theme import SECOND_US, Theme, themed

_ONE: Final = Resources({"vcore": 1})
_LENGTH_US: Final = 4 * SECOND_US
_USERS: Final = ("u1", "u2", None)


class BackfillAssembly(EvictionAssembly):
    """Makes moves into steps, and lets asks say how long they will run.

    Args:
        theme: What the scenario is made of.
        gangs: The same of gangs.
        mix: The same of a full cluster.
        plans: The same of estimates.
        configs: The configurations.
    """

    def __init__(
        self,
        theme: Theme,
        gangs: GangTheme,
        mix: EvictionTheme,
        plans: Plans,
        configs: list[Configuration],
    ) -> None:
        super().__init__(theme, gangs, mix, configs)
        self._plans = plans
        self._came = 0

    @override
    def put(self, at_us: int, what: What) -> None:
        """Append a step; an ask says how long it will run."""
        super().put(at_us, self._estimated(what) if isinstance(what, AddAsk) else what)

    @override
    def add_members(self, choices: Choices) -> What:
        """Give members of a gang that come, often after a small one that takes its pick first."""
        what = super().add_members(choices)
        if not isinstance(what, AddAsk) or not what.count or choices.one_in(3):
            return what
        first = attrs.evolve(what, ask=f"{what.ask}-first", count=None, resources=_ONE, node=None)
        self.put(self.steps[-1].at_us, first)
        return attrs.evolve(what, count=max(1, what.count - 1))

    def _estimated(self, ask: AddAsk) -> AddAsk:
        self._came += 1
        factor = self._plans.factors[self._came % len(self._plans.factors)]
        if ask.run_for_us is None and self._plans.honest:
            return ask
        length_us = ask.run_for_us or _LENGTH_US
        return attrs.evolve(ask, estimate_us=round(length_us * factor) or None)

    @override
    def comer(self, number: int, path: str) -> AddApp:
        """Give one of the first applications, of one of some users."""
        user = _USERS[number % len(_USERS)] if self._plans.limits else "u1"
        return attrs.evolve(super().comer(number, path), user=user)


Properties = tuple[tuple[str, str], ...]
"""Properties as written."""


def reordered(config: Configuration, theme: Theme, choices: Choices) -> Configuration:
    """Give a configuration that differs from another one in what backfill asks for alone."""
    return _with_own(config, lambda _: _drawn_properties(theme, choices))


def greedy(config: Configuration, order: str | None) -> Configuration:
    """Give a configuration in which every queue is greedy: it says so, or nothing at all."""

    def own(properties: Properties) -> Mapping[str, str]:
        said = {name: text for name, text in properties if name in NAMES}
        return {} if order is None else {**said, ORDER: order}

    def below(queue: QueueConfig) -> QueueConfig:
        """Give a queue whose template, and those below it, say the same."""
        template = queue.template
        if template is not None:
            kept = {name: text for name, text in template.properties if name not in NAMES}
            made = tuple(sorted({**kept, **own(template.properties)}.items()))
            template = attrs.evolve(template, properties=made)
        return attrs.evolve(queue, template=template, children=tuple(map(below, queue.children)))

    made = _with_own(config, lambda queue: own(queue.own_properties))
    return attrs.evolve(made, root=below(made.root))


def unordered(scenario: Sequence[Step], order: str | None) -> list[Step]:
    """Give a scenario in which every queue is greedy: it says so, or no name of this is used."""

    def without(what: What) -> What:
        if isinstance(what, Configure):
            return Configure(greedy(what.config, order))
        if isinstance(what, AddAsk) and order is None:
            return attrs.evolve(what, estimate_us=None)
        return what

    return [Step(step.at_us, without(step.what)) for step in scenario]


def _drawn_properties(theme: Theme, choices: Choices) -> Mapping[str, str]:
    drawn = {name: choices.of((*theme.properties[name], None)) for name in sorted(NAMES)}
    return {name: text for name, text in drawn.items() if text is not None}


def _with_own(
    config: Configuration, said: Callable[[QueueConfig], Mapping[str, str]]
) -> Configuration:
    """Give a configuration whose queues say something else of what backfill asks for."""

    def again(queue: QueueConfig, above: Settings | None) -> QueueConfig:
        own = {name: text for name, text in queue.own_properties if name not in NAMES}
        own |= said(queue)
        settings = settings_of(own, queue.path, above)
        children = tuple(again(child, settings) for child in queue.children)
        return attrs.evolve(
            queue, own_properties=tuple(sorted(own.items())), settings=settings, children=children
        )

    return attrs.evolve(config, root=again(config.root, None))


@st.composite
def backfill_configurations(draw: st.DrawFn, theme: Theme, plans: Plans) -> list[Configuration]:
    """Draw the configurations of one scenario, and some in which only the orders are others."""
    configs = draw(configurations(theme))
    if plans.limits is not None:
        entries = draw(
            st.lists(
                st.binary(min_size=ENTRY_BYTES, max_size=ENTRY_BYTES * 2), min_size=1, max_size=3
            )
        )
        configs = [
            attrs.evolve(config, root=limited(config.root, plans.limits, entries, 0, {}))
            for config in configs
        ]
    if plans.switches:
        configs += [reordered(configs[0], theme, draw(drawn(24))) for _ in range(2)]
    return [attrs.evolve(config, preemption_enabled=plans.enabled) for config in configs]


@st.composite
def backfills(draw: st.DrawFn, lists: int = 4, *, honest: bool = False) -> list[Step]:
    """Draw a whole scenario: a full cluster first, then those who wait for a part of it.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
        honest: Nobody runs for longer than is expected.
    """
    choices = draw(drawn(20))
    plans = planned(choices, honest=honest)
    theme = crowded(themed(draw(drawn(24))), draw(drawn(26)))
    theme = ordered(theme, choices, honest=honest)
    about = mixed(draw(drawn(12)))
    if plans.services:
        theme, about = served(theme, about, choices)
    configs = draw(backfill_configurations(theme, plans))
    if plans.switches:
        theme = attrs.evolve(theme, kinds=(*theme.kinds, *("configure",) * 3))
    assembly = BackfillAssembly(theme, parties(draw(drawn(10))), about, plans, configs)
    assembly.put(0, Configure(configs[0]))
    for one in CLASSES if any(theme.classes) else ():
        assembly.put(0, one)
    for choices in draw(moves(1, 3)):
        assembly.put(0, assembly.what("add_node", choices))
    assembly.settle_in(draw(drawn(2)))
    at_us = 0
    for _ in range(about.filled):
        for choices in draw(moves(1, 4)):
            assembly.fill(choices)
        assembly.put(at_us, SETTLE)
        at_us += choices.of(theme.gaps_us)
    for choices in (choices for _ in range(lists) for choices in draw(moves(2, 10))):
        kind, gap_us = choices.of(theme.kinds), choices.of(theme.gaps_us)
        at_us += gap_us
        assembly.put(at_us, assembly.what(kind, choices))
    return assembly.steps
