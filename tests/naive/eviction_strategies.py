"""Hypothesis strategies for scenarios in which much is taken from some and given to others.

A few small nodes are filled with asks of low priority first. Then come asks of queues
that have less than their guarantee, and asks of classes that preempt, plain and in gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration, QueueConfig
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    Configure,
    Manifest,
)
from muster_core.resources import Resources
from tests.naive.choices import Choices, drawn
from tests.naive.config_strategies import configurations
from tests.naive.eviction_theme import EvictionTheme, crowded, eviction_themed, gangs_for_evictions
from tests.naive.gang_strategies import GangAssembly, moves
from tests.naive.gang_theme import GANGS, GangTheme
from tests.naive.harness import SETTLE, Step, What
from tests.naive.picture import Picture
from tests.naive.theme import Theme, themed

_RISING: Final = tuple(AddPriorityClass(f"p{value}", value, preempts=True) for value in range(1, 9))
CLASSES: Final = (
    AddPriorityClass("high", 5, preempts=True),
    AddPriorityClass("mid", 2, preempts=True),
    AddPriorityClass("calm", 3),
    AddPriorityClass("low", -1, preempts=True),
    *_RISING,
)
_VALUES: Final = (0, 1, 2, 5, 7, -5)


class EvictionAssembly(GangAssembly):
    """Makes moves into steps, and gives asks and nodes what evictions are about."""

    def __init__(
        self,
        theme: Theme,
        gangs: GangTheme,
        evictions: EvictionTheme,
        configs: list[Configuration],
    ) -> None:
        super().__init__(theme, gangs, configs)
        self._evictions = evictions
        self._turns = 0
        self._first = list(_leaves(configs[0].root))

    @override
    def what(self, kind: str, choices: Choices) -> What:
        """Give what a move means."""
        if kind in {"add_priority_class", "apply_class"}:
            names = [one.name for one in CLASSES]
            new = AddPriorityClass(choices.of(names), choices.of(_VALUES), choices.one_in(2))
            return Apply((Manifest(new),))
        what = super().what(kind, choices)
        if isinstance(what, AddAsk):
            return self._dressed(what, choices)
        if isinstance(what, AddNode):
            zone = choices.of(({}, {"zone": "x"}))
            capacity = choices.of(self._evictions.capacities)
            return attrs.evolve(what, capacity=capacity, attributes=zone)
        return what

    @override
    def some_app(self, choices: Choices) -> str:
        """Give mostly another application than last time, so that queues compete."""
        apps = [app.name for app in self.drive.model.world.in_queues()]
        if not apps or choices.one_in(24):
            return super().some_app(choices)
        self._turns += 1
        return apps[(choices.number(256) + self._turns) % len(apps)]

    def settle_in(self, choices: Choices) -> None:
        """Let an application come to each of some leaves; the last has least guaranteed."""
        start = choices.number(256) % max(len(self._first), 1)
        leaves = (self._first[start:] + self._first[:start])[: 3 + choices.of((0, 1, 2))]
        leaves.sort(key=lambda leaf: -leaf.guaranteed["vcore"])
        made = ["root.made", "root.too"][len(leaves) :]
        paths = [*(leaf.path for leaf in leaves), *made] * self._evictions.each
        for number, path in enumerate(paths):
            self.put(0, self.comer(number, path))
        self.apps = max(9, len(paths))

    def comer(self, number: int, path: str) -> AddApp:
        """Give one of the first applications, which comes to a leaf."""
        groups = ("g1",) if number % 2 else ()
        return AddApp(f"p{number}", path, "u1", groups)

    @override
    def add_members(self, choices: Choices) -> What:
        """Give members of a gang that come, mostly as many as it needs."""
        what = super().add_members(choices)
        if not isinstance(what, AddAsk) or choices.one_in(4):
            return what
        # A gang takes nothing from itself, and the first one holds what was filled.
        what = attrs.evolve(what, gang=choices.of((*GANGS[1:4], *GANGS[1:4], GANGS[0])))
        self._define(what.gang, choices)
        found = self.drive.model.world.gangs.get(what.gang or "")
        definition = None if found is None else found.definition
        least = 1 if definition is None else definition.min_member
        return attrs.evolve(what, count=least + choices.of((0, 0, 1)), timed_out=False)

    def fill(self, choices: Choices) -> None:
        """Let asks come that others may take from: of low priority, and often of gangs."""
        apps = [app.name for app in self.drive.model.world.in_queues()]
        app = choices.of(apps[-self._evictions.fillers :] or ["missing"])
        kind = "add_members" if "add_members" in self.theme.kinds else "add_ask"
        what = super().what(choices.of(("add_ask", kind)), choices)
        if not isinstance(what, AddAsk):
            return
        if what.gang is not None:
            what = attrs.evolve(what, gang=GANGS[0])
        self._define(what.gang, choices)
        shape = choices.of(self._evictions.shapes)
        self.put(
            0,
            attrs.evolve(
                what,
                app=app,
                resources=shape,
                priority=choices.of(self._evictions.low),
                priority_class=None,
                count=choices.of((4, 3, 6, 2)),
                node=None,
                selector={},
                timed_out=False,
            ),
        )

    def top_up(self) -> None:
        """Fill what is left of the cores."""
        world = self.drive.model.world
        used = Picture(world).used
        left = sum(
            node.capacity["vcore"] - used[node.name].get("vcore", 0)
            for node in world.nodes.values()
            if node.schedulable
        )
        apps = [app.name for app in world.in_queues()]
        if left and apps:
            self.put(0, AddAsk(apps[-1], "rest", Resources({"vcore": 1}), count=left))
            self.put(0, SETTLE)

    def _define(self, gang: str | None, choices: Choices) -> None:
        """Define a gang, if there is one and it is not defined yet."""
        found = self.drive.model.world.gangs.get(gang or "")
        if gang is not None and (found is None or found.manifest is None):
            least = choices.of((2, 1, 3))
            event = self.what("add_gang", choices)
            if isinstance(event, AddGang):
                says = attrs.evolve(event.says, min_member=least, total=None)
                now_us = self.steps[-1].at_us
                self.put(now_us, attrs.evolve(event, gang=gang, says=says))

    def _dressed(self, ask: AddAsk, choices: Choices) -> AddAsk:
        """Give an ask a class or a number, and a shape, as the theme has them."""
        evictions = self._evictions
        named = choices.of(self.theme.classes)
        if evictions.rising and named in {"high", "mid"}:
            named = _RISING[min(self._turns // 3, len(_RISING) - 1)].name
        nodes = sorted(self.drive.model.world.nodes)
        required = choices.of(nodes) if nodes and choices.one_in(evictions.required) else None
        zone = {"zone": "x"} if choices.one_in(evictions.selects) else {}
        return attrs.evolve(
            ask,
            resources=choices.of(evictions.shapes),
            count=ask.count if ask.gang else choices.of(evictions.counts),
            priority=None if named else ask.priority,
            priority_class=named,
            node=required,
            selector=zone,
        )


def _leaves(queue: QueueConfig) -> Iterator[QueueConfig]:
    for child in queue.children:
        yield from _leaves(child)
    if not queue.is_parent:
        yield queue


@st.composite
def evictions(draw: st.DrawFn, lists: int = 4) -> list[Step]:
    """Draw a whole scenario: a full cluster first, then those who want a part of it.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    theme = crowded(themed(draw(drawn(24))), draw(drawn(26)))
    about = eviction_themed(draw(drawn(12)))
    configs = enabled(draw(configurations(theme)), about)
    return draw(played(theme, about, configs, lists))


def enabled(configs: list[Configuration], about: EvictionTheme) -> list[Configuration]:
    """Let preemption be enabled in some configurations, as a theme has it."""
    return [
        attrs.evolve(config, preemption_enabled=about.enabled[place % len(about.enabled)])
        for place, config in enumerate(configs)
    ]


@st.composite
def played(
    draw: st.DrawFn,
    theme: Theme,
    about: EvictionTheme,
    configs: list[Configuration],
    lists: int,
    make: Callable[
        [Theme, GangTheme, EvictionTheme, list[Configuration]], EvictionAssembly
    ] = EvictionAssembly,
    *,
    nodes: tuple[int, int] = (1, 3),
) -> list[Step]:
    """Draw what comes in, under some configurations.

    Args:
        draw: Given by Hypothesis.
        theme: What it is made of.
        about: The same of evictions.
        configs: The configurations, the first of which is in force from the beginning.
        lists: How many lists of up to ten moves follow the beginning.
        make: Makes moves into steps.
        nodes: How many nodes there are in the beginning, at least and at most.
    """
    gangs = gangs_for_evictions(draw(drawn(12)))
    assembly = make(theme, gangs, about, configs)
    assembly.put(0, Configure(configs[0]))
    for one in CLASSES if any(theme.classes) else ():
        assembly.put(0, one)
    for choices in draw(moves(*nodes)):
        assembly.put(0, assembly.what("add_node", choices))
    assembly.settle_in(draw(drawn(2)))
    for _ in range(about.filled):
        for choices in draw(moves(1, 4)):
            assembly.fill(choices)
    assembly.put(0, SETTLE)
    if about.topped:
        assembly.top_up()
    at_us = 0
    for choices in (choices for _ in range(lists) for choices in draw(moves(3, 10))):
        kind, gap_us = choices.of(theme.kinds), choices.of(theme.gaps_us)
        at_us += gap_us
        assembly.put(at_us, assembly.what(kind, choices))
    return assembly.steps
