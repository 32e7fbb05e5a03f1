"""Hypothesis strategies for scenarios with limits of users, placement rules and node services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration
from muster_core.events import AddApp, AddAsk
from muster_core.resources import Resources
from muster_core.values.configuration import PlacementRule
from tests.naive.choices import Choices, drawn
from tests.naive.config_strategies import configurations
from tests.naive.eviction_strategies import EvictionAssembly, enabled, played
from tests.naive.eviction_theme import EvictionTheme, crowded, eviction_themed
from tests.naive.gang_theme import GangTheme
from tests.naive.harness import SETTLE, Step, What
from tests.naive.limit_strategies import ENTRY_BYTES, limited
from tests.naive.operator_theme import OperatorTheme, about, governed, operator_themed
from tests.naive.placement import FORCE
from tests.naive.rule_strategies import RULE_BYTES, is_legal, ruled, without_rules
from tests.naive.theme import Theme, themed

_NAMES: Final = ("a", "b", "New", "u2", "root.a", "a.b", "root.made.too", "ROOT.b")
_ODD: Final = ("no name", "root.a..b", "root", "root.@recovery@", "@recovery@.x")
_SPACES: Final = ("a", "b", "New", "", "a.b", "root.b.a", "no name")


class OperatorAssembly(EvictionAssembly):
    """Makes moves into steps, and gives applications users, tags and queues as rules need them.

    Args:
        theme: What the scenario is made of.
        gangs: The same of gangs.
        evictions: The same of evictions.
        configs: The configurations.
        operator: The same of what an operator does.
    """

    def __init__(
        self,
        theme: Theme,
        gangs: GangTheme,
        evictions: EvictionTheme,
        configs: list[Configuration],
        operator: OperatorTheme,
    ) -> None:
        super().__init__(theme, gangs, evictions, configs)
        self._operator = operator

    @override
    def add_app(self, choices: Choices) -> What:
        """Give an application that comes, of one of the users."""
        what = super().add_app(choices)
        if not isinstance(what, AddApp):
            return what
        operator = self._operator
        user, groups = choices.of(operator.users), choices.of(operator.groups)
        what = attrs.evolve(what, user=user, groups=groups)
        if not operator.rules:
            return what
        queues: tuple[str | None, ...] = (what.queue, None, *_NAMES)
        if choices.one_in(10) and self.drive.model.world.config.placement_rules:
            queues = _ODD
        queue = choices.of(queues)
        return attrs.evolve(what, queue=queue, tags=_tags(choices))

    @override
    def top_up(self) -> None:
        """Fill the nodes, then let services come that want much of them, and asks for little."""
        super().top_up()
        if not self._operator.services:
            return
        world = self.drive.model.world
        serving = [
            app.name for app in world.in_queues() if world.queues[app.queue].settings.required_node
        ]
        for number, node in enumerate(sorted(world.nodes) if serving else ()):
            ask = AddAsk(
                serving[number % len(serving)],
                f"s{number}",
                Resources({"vcore": 2 + number % 2}),
                priority=(None, 1)[number // 2 % 2],
                node=node,
            )
            self.put(0, ask)
        self.put(0, SETTLE)
        for app in world.in_queues()[-2:]:
            self.put(0, AddAsk(app.name, "little", Resources({"vcore": 1}), count=2))

    @override
    def comer(self, number: int, path: str) -> AddApp:
        """Give one of the first applications, which comes to a leaf if the rules let it."""
        operator = self._operator
        user = operator.users[number % len(operator.users)]
        groups = operator.groups[number // 2 % len(operator.groups)]
        tags = {FORCE: "true"} if operator.rules and number % 4 == 3 else {}
        return AddApp(f"p{number}", path, user, groups, tags)


def _tags(choices: Choices) -> dict[str, str]:
    tags: dict[str, str] = {}
    if choices.one_in(2):
        tags[choices.of(("namespace", "Namespace"))] = choices.of(_SPACES)
    if choices.one_in(3):
        tags["team"] = choices.of(_SPACES)
    if choices.one_in(3):
        tags[FORCE] = choices.of(("true", "true", "false", "TRUE"))
    return tags


@st.composite
def operated(
    draw: st.DrawFn, configs: list[Configuration], operator: OperatorTheme
) -> list[Configuration]:
    """Draw limits and rules for some configurations, and configurations that change these."""
    entries = draw(
        st.lists(st.binary(min_size=ENTRY_BYTES, max_size=ENTRY_BYTES * 3), min_size=1, max_size=5)
    )
    choices = draw(st.lists(drawn(RULE_BYTES), min_size=operator.rules, max_size=operator.rules))
    change = draw(drawn(8))
    rules = ruled(configs[0].root, choices)
    with_all = [_operated(configs[0], operator, entries, rules, 0)]
    others = [*configs[1:], configs[0], configs[0]]
    for place, config in enumerate(others):
        more = operator.changed[place % len(operator.changed)]
        changed = without_rules(rules, change) if operator.rules else ()
        legal = tuple(rule for rule in changed if is_legal(rule, config.root))
        with_all.append(_operated(config, operator, entries, legal, more))
    return with_all if change.of((True, True, False)) else with_all[: len(configs)]


def _operated(
    config: Configuration,
    operator: OperatorTheme,
    entries: Sequence[bytes],
    rules: tuple[PlacementRule, ...],
    change: int | None,
) -> Configuration:
    """Give a configuration its limits, none if their change is None, and its rules."""
    root = config.root
    if change is not None and (operator.limits.users or operator.limits.groups):
        root = limited(root, operator.limits, entries, change, {})
    return attrs.evolve(config, root=root, placement_rules=rules)


@st.composite
def operator_configurations(draw: st.DrawFn) -> list[Configuration]:
    """Draw the configurations of one scenario."""
    operator = operator_themed(draw(drawn(10)))
    theme = governed(crowded(themed(draw(drawn(24))), draw(drawn(26))), operator, draw(drawn(8)))
    return draw(operated(draw(configurations(theme)), operator))


@st.composite
def operations(draw: st.DrawFn, lists: int = 4) -> list[Step]:
    """Draw a whole scenario: a crowded cluster whose operator has a say in everything.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    operator = operator_themed(draw(drawn(10)))
    choices = draw(drawn(8))
    theme = governed(crowded(themed(draw(drawn(24))), draw(drawn(26))), operator, choices)
    evictions = about(eviction_themed(draw(drawn(12))), operator, choices)
    configs = draw(operated(draw(configurations(theme)), operator))

    def make(
        theme: Theme, gangs: GangTheme, one: EvictionTheme, configs: list[Configuration]
    ) -> EvictionAssembly:
        return OperatorAssembly(theme, gangs, one, configs, operator)

    return draw(played(theme, evictions, enabled(configs, evictions), lists, make))
