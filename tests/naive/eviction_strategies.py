"""Hypothesis strategies for scenarios in which much is taken from some and given to others, or is
pending for many reasons at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Acl, Configuration, QueueConfig
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
from muster_core.gangs import GangMode
from muster_core.resources import Resources
from tests.naive.gang_strategies import GANGS, GangAssembly, GangTheme, moves
from tests.naive.harness import SETTLE, Step, What
from tests.naive.picture import Picture
from tests.naive.strategies import configurations
from tests.naive.theme import SECOND_US, WIDTHS, Choices, Texts, Theme, drawn, retrying, themed

_WIDE: Final = ((2, 3, 2, 3), (0, 2, 0, 2, 3), (0, 2, 0), (0,), (0,))
_OFF: Final[Texts] = (None,)
_SHAPES: Final = tuple(
    Resources(shape)
    for shape in ({"vcore": 1}, {"vcore": 2}, {"vcore": 1, "memory": 1}, {"memory": 1})
)
_CAPACITIES: Final = tuple(
    Resources(capacity)
    for capacity in (
        {"vcore": 3, "memory": 3},
        {"vcore": 2, "memory": 2},
        {"vcore": 4, "memory": 2},
        {"vcore": 1, "memory": 4},
        {"vcore": 6, "memory": 6},
    )
)
_PLAIN: Final = (
    *("add_ask",) * 10,
    *("settle",) * 3,
    *("release",) * 2,
    *("bind_failed",) * 2,
    *("add_app", "remove_ask", "fail_bind", "add_node"),
)
_GANGS: Final = (
    *("add_members",) * 6,
    *("add_ask",) * 6,
    *("settle",) * 4,
    *("release",) * 2,
    *("bind_failed",) * 2,
    *("add_app", "add_gang", "remove_ask", "fail_bind", "fail_bind"),
)
_UPHEAVALS: Final = (
    *("remove_node", "update_node", "remove_app", "remove_gang", "apply_gang"),
    *("apply_class", "apply_pod", "delete_pod", "refused"),
)
_GAPS_US: Final = (
    (*(0,) * 6, SECOND_US),
    (*(0,) * 3, SECOND_US, SECOND_US, 2 * SECOND_US, 6 * SECOND_US),
    (*(0,) * 6, SECOND_US, 5 * SECOND_US, 31 * SECOND_US, 5 * SECOND_US - 1),
)
_DELAYS: Final[tuple[Texts, ...]] = (
    ("0",),
    ("0", "0", "1s"),
    ("1s",),
    (None, "0", "5s", "1s"),
    ("30s", "0", None),
)
_PRIORITIES: Final = ((None,), (None, 0, 1, 2), (*(None, 0, 1, -1, 3) * 3, 2**31 - 1, -(2**31)))
_CLASSES: Final = (
    ("high", None, "mid"),
    (None, None, "high", "mid", "calm", "low"),
    ("high", "mid"),
    ("high", None, "calm"),
    ("high", None, "calm", "system-node-critical", "system-cluster-critical"),
)


@attrs.frozen
class EvictionTheme:
    """What the choices about evictions are made of; the simplest comes first in each.

    Attributes:
        shapes: What asks want.
        capacities: What nodes have.
        required: One ask in so many requires a node.
        selects: One ask in so many selects a zone.
        enabled: Whether preemption is, of the configurations one after the other.
        counts: How many asks come at once.
        rising: Of two asks that preempt the later one mostly has the higher priority.
        topped: What the first asks leave of the nodes is filled, too.
        fillers: How many applications fill the nodes before all others come.
        filled: How many lists of asks of low priority come before all others.
        each: How many applications come to each of the first leaves.
        low: The priorities of those that fill the nodes.
    """

    shapes: tuple[Resources, ...]
    capacities: tuple[Resources, ...]
    required: int
    selects: int
    enabled: tuple[bool, ...]
    counts: tuple[int | None, ...]
    rising: bool
    topped: bool
    fillers: int
    filled: int
    each: int = 1
    low: tuple[int | None, ...] = (None, -1, None, 0)


def eviction_themed(choices: Choices) -> EvictionTheme:
    """Make a theme for evictions."""
    return EvictionTheme(
        shapes=choices.of((_SHAPES[:1], _SHAPES[:2], _SHAPES, _SHAPES[2:])),
        capacities=choices.of((_CAPACITIES[:2], _CAPACITIES[:4], _CAPACITIES[3:], _CAPACITIES)),
        required=choices.of((100, 8, 3)),
        selects=choices.of((100, 100, 6)),
        enabled=choices.of((*((True,),) * 9, (True, False), (False, True))),
        counts=choices.of(((None, 2, 1), (None, None, 2, 3), (2, 3, 5))),
        rising=choices.of((True, False)),
        topped=choices.of((True, True, True, False)),
        fillers=choices.of((1, 1, 2, 1, 3)),
        filled=choices.of((1, 2, 1)),
    )


def gangs_for_evictions(choices: Choices) -> GangTheme:
    """Make a theme for gangs that are small enough to be taken, and to take."""
    loose, strict = GangMode.NON_STRICT, GangMode.STRICT
    return GangTheme(
        names=GANGS[: choices.of((3, 4, 2, 4))],
        least=choices.of(((2,), (1, 2, 3), (2, 3), (1, 2))),
        modes=choices.of(((loose,), (None, strict), (None, loose))),
        lists=choices.of(((0,), (0, 0, 1), (0, 1, 1))),
        waits_us=choices.of(((None,), (None, 2 * SECOND_US, 5 * SECOND_US))),
        annotates=choices.of((64, 64, 4)),
        shapes=_SHAPES[:2],
        rising=False,
    )


def crowded(theme: Theme, choices: Choices) -> Theme:
    """Make a theme of plain scenarios one in which some have what others could claim."""
    kinds = choices.of((_PLAIN, _GANGS, _GANGS, _PLAIN + _UPHEAVALS, _GANGS + _UPHEAVALS))
    changes = ("configure",) * 2 if choices.one_in(4) else ()
    theme = attrs.evolve(
        theme,
        properties={**_properties(choices), **retrying(theme)},
        limits=choices.of((False, False, True)),
        guaranteed=not choices.one_in(8),
        max_applications=choices.of(((0,), (0,), (0,), (0, 0, 1, 2))),
        lists=False,
        templates=choices.one_in(6),
        hot=choices.of((3, 2, 4)),
        kinds=kinds + changes,
        priorities=choices.of(_PRIORITIES),
        classes=choices.of(_CLASSES),
        gaps_us=choices.of(_GAPS_US),
        run_for_us=choices.of(((None,), (None,), (*(None,) * 4, SECOND_US, 3 * SECOND_US))),
        types=choices.of((("vcore",), ("vcore",), ("vcore", "memory"))),
        widths=choices.of((_WIDE, _WIDE, WIDTHS)),
        guarantees=choices.of(((1, 2, None), (2, None, 3, 1, None, 4), (None, 1, 2, 0))),
    )
    return _reclaiming(theme) if choices.number(3) == 1 else theme


def _reclaiming(theme: Theme) -> Theme:
    """Without classes, nothing is taken but what others are guaranteed."""
    return attrs.evolve(
        theme, classes=(None,), guaranteed=True, guarantees=(2, 1, 3), priorities=(None, None, 1)
    )


def _properties(choices: Choices) -> dict[str, Texts]:
    policies: tuple[Texts, ...] = (_OFF, _OFF, _OFF, (None, "stateaware", "fair"))
    return {
        "application.sort.policy": choices.of(policies),
        "queue.create": choices.of((("enabled",), ("enabled",), ("enabled", None))),
        "application.sort.priority": choices.of((_OFF, _OFF, (None, "enabled", "disabled"))),
        "application.sort.blocking": choices.of((_OFF, _OFF, _OFF, (None, "enabled", "disabled"))),
        "priority.policy": choices.of((_OFF, _OFF, (None, None, "default", "fence"))),
        "priority.offset": choices.of((_OFF, _OFF, (None, None, "1", "-1", "5", "2147483647"))),
        "queue.priority": choices.of((_OFF, (None, "1", "2", "0"), (None, "1", "7"))),
        "queue.reclaimable": choices.of((_OFF, _OFF, (*(None,) * 4, "false", "true"))),
        "preemption.policy": choices.of(
            (
                _OFF,
                _OFF,
                _OFF,
                (*(None,) * 5, "fence"),
                (*(None,) * 7, "disabled", "fence", "default"),
            )
        ),
        "preemption.delay": choices.of(_DELAYS),
    }


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
        """Return what a move means."""
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
        """Return mostly another application than last time, so that queues compete."""
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
        """Return one of the first applications, which comes to a leaf."""
        groups = ("g1",) if number % 2 else ()
        return AddApp(f"p{number}", path, "u1", groups)

    @override
    def add_members(self, choices: Choices) -> What:
        """Return members of a gang that come, mostly as many as it needs."""
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
