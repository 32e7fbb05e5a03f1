"""Hypothesis strategies for scenarios in which asks are pending for many reasons at once.

A cluster is full from the beginning, as for evictions, and each scenario is about one
thing more that keeps asks waiting: quotas, limits of applications, strict leaves, nodes
that do not serve, binds that fail, delays, or configurations that leave queues and users
behind. All other scenarios are mostly about who goes first.
"""

from __future__ import annotations

from typing import Final

import attrs
from hypothesis import strategies as st

from muster_core.config.model import Acl, Configuration, QueueConfig
from muster_core.resources import Resources
from tests.naive.choices import Choices, drawn
from tests.naive.config_strategies import configurations
from tests.naive.eviction_strategies import enabled, played
from tests.naive.eviction_theme import EvictionTheme, crowded, eviction_themed
from tests.naive.harness import Step
from tests.naive.theme import SECOND_US, Texts, Theme, themed

_LISTS: Final = (None, None, Acl(users=frozenset({"u2"})), Acl(groups=frozenset({"g1"})))
_LARGE: Final = tuple(Resources({"vcore": cores}) for cores in (3, 2))
_UNEVEN: Final = tuple(Resources({"vcore": cores}) for cores in (4, 5, 2))
_CHANGES: Final = ("configure",) * 6 + ("add_app",) * 5
_NODES: Final = ("add_node", "update_node", "update_node", "remove_node") * 2
_FAILURES: Final = ("fail_bind",) * 6 + ("bind_failed",) * 3


def tangled(theme: Theme, choices: Choices) -> Theme:
    """Make a theme for evictions one that is about one thing more, or two."""
    for _ in range(choices.of((1, 2, 1))):
        theme = choices.of(_MORE)(theme)
    return theme


def _with(theme: Theme, **values: Texts) -> dict[str, Texts]:
    dotted = {name.replace("_", "."): texts for name, texts in values.items()}
    return {**theme.properties, **dotted}


def _quotas(theme: Theme) -> Theme:
    return attrs.evolve(theme, limits=True)


def _limits(theme: Theme) -> Theme:
    return attrs.evolve(theme, max_applications=(0, 1, 2, 1), hot=2)


def _turns(theme: Theme) -> Theme:
    properties = _with(theme, application_sort_policy=("stateaware",))
    return attrs.evolve(theme, properties=properties, hot=1)


def _strict(theme: Theme) -> Theme:
    properties = _with(theme, application_sort_blocking=("enabled", "enabled", None))
    return attrs.evolve(theme, properties=properties, hot=2)


def _served(theme: Theme) -> Theme:
    return attrs.evolve(theme, kinds=theme.kinds + _NODES)


def _failing(theme: Theme) -> Theme:
    return attrs.evolve(theme, kinds=theme.kinds + _FAILURES)


def _delayed(theme: Theme) -> Theme:
    properties = _with(theme, preemption_delay=("5s", "1s", "30s", "2s"))
    gaps_us = (*(0,) * 4, SECOND_US, 2 * SECOND_US, 5 * SECOND_US)
    return attrs.evolve(
        theme, properties=properties, guaranteed=True, guarantees=(2, 1, 3), gaps_us=gaps_us
    )


def _left(theme: Theme) -> Theme:
    return attrs.evolve(theme, kinds=theme.kinds + _CHANGES, templates=True, hot=1)


_MORE: Final = (
    *(_quotas, _limits, _turns, _strict, _served, _failing, _delayed, _left),
    *(_turns, _left),
)


def _roomy(theme: Theme) -> Theme:
    """Let nodes become larger and smaller, than what is used of them too."""
    return attrs.evolve(theme, kinds=theme.kinds + ("update_node",) * 3)


def _uneven(about: EvictionTheme) -> EvictionTheme:
    """Let asks be larger than what is left on a node, though not than all of it."""
    return attrs.evolve(about, shapes=_LARGE, capacities=_UNEVEN, topped=False)


def _changed(queue: QueueConfig, choices: Choices) -> QueueConfig:
    """Take away some of the queues below one, and give the others other access lists."""
    kept = tuple(_changed(child, choices) for child in queue.children if not choices.one_in(3))
    return attrs.evolve(queue, submit_acl=choices.of(_LISTS), children=kept)


def _followed(configs: list[Configuration], choices: Choices) -> list[Configuration]:
    """Let configurations follow that leave queues and users of the first one behind."""
    first = configs[0]
    changed = [attrs.evolve(first, root=_changed(first.root, choices)) for _ in range(2)]
    return [*configs, *changed] if choices.one_in(2) else [first, *changed]


@st.composite
def tangles(draw: st.DrawFn, lists: int = 3) -> list[Step]:
    """Draw a whole scenario, at the end of which and on the way much is pending.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    theme = tangled(crowded(themed(draw(drawn(24))), draw(drawn(26))), draw(drawn(3)))
    choices = draw(drawn(12))
    about = eviction_themed(choices)
    about = attrs.evolve(about, each=choices.of((1, 2, 3)))
    if choices.one_in(2):
        theme, about = _roomy(theme), _uneven(about)
    configs = _followed(draw(configurations(theme)), draw(drawn(32)))
    return draw(played(theme, about, enabled(configs, about), lists))
