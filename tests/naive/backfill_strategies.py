"""Hypothesis strategies for scenarios in which asks keep their order, and small ones go between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration, NodeSortPolicy, QueueConfig, Settings
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Configure, UpdateNode
from muster_core.gangs import GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.values.devices import DeviceNeed, DeviceStock
from tests.naive.eviction_strategies import CLASSES, EvictionAssembly, EvictionTheme, crowded
from tests.naive.gang_strategies import GANGS, GangTheme, moves
from tests.naive.harness import SETTLE, Step, What
from tests.naive.operator_strategies import ENTRY_BYTES, LimitTheme, limited
from tests.naive.strategies import configurations, settings_of
from tests.naive.theme import SECOND_US, Choices, Texts, Theme, drawn, themed

ORDER: Final = "scheduling.order"
DEPTH: Final = "backfill.depth"
ESTIMATE: Final = "estimate.default"

SERVED: Final = "preemption.required.node"

NAMES: Final = frozenset({ORDER, DEPTH, ESTIMATE})
"""The properties without which every queue is greedy."""

_OFF: Final[Texts] = (None,)
_ORDERS: Final[tuple[Texts, ...]] = (
    ("backfill",),
    ("backfill", None),
    (None, "backfill", None, "greedy"),
    ("backfill", "strict", None),
    (None, "strict"),
)
_DEPTHS: Final[tuple[Texts, ...]] = (_OFF, ("2",), (None, "2", "3", "1"), ("3", "100"))
_DEFAULTS: Final[tuple[Texts, ...]] = (_OFF, ("4s",), (None, "3s", "8s"), ("1s", None))
_SHAPES: Final = tuple(
    Resources(shape)
    for shape in (
        {"vcore": 1},
        {"vcore": 3},
        {"vcore": 2},
        {"vcore": 1, "memory": 2},
        {"vcore": 4, "memory": 1},
        {"memory": 2},
    )
)
_CAPACITIES: Final = tuple(
    Resources(capacity)
    for capacity in (
        {"vcore": 4, "memory": 4},
        {"vcore": 3, "memory": 3},
        {"vcore": 2, "memory": 3},
        {"vcore": 6, "memory": 4},
    )
)
_TIGHT: Final = tuple(Resources({"vcore": cores}) for cores in (4, 1, 2))
"""With these, whether all members of a gang find nodes hangs on who goes where."""

_WIDE: Final = ((2, 1, 3, 2), (0, 2, 0, 2, 3), (0, 2, 0), (0,), (0,))
_NARROW: Final = ((1, 2), (0, 0, 2), (0,), (0,), (0,))
_PLAIN: Final = (
    *("add_ask",) * 10,
    *("settle",) * 3,
    *("release",) * 2,
    *("add_app", "remove_ask", "bind_failed", "fail_bind"),
)
_GANGS: Final = (
    *("add_members",) * 6,
    *("add_ask",) * 5,
    *("settle",) * 3,
    *("release", "add_app", "add_gang", "remove_ask", "bind_failed", "fail_bind"),
)
_PARTIES: Final = (
    *("add_members",) * 8,
    *("add_ask",) * 3,
    *("settle",) * 4,
    *("release", "add_app", "fail_bind"),
)
_UPHEAVALS: Final = (
    *("remove_node", "update_node", "update_node", "add_node", "remove_app"),
    *("remove_gang", "apply_gang", "apply_pod", "fail_gang", "refused"),
)
_CHANGES: Final = ("configure",) * 2
_GAPS_US: Final = (
    (0, 0, SECOND_US),
    (*(0,) * 2, SECOND_US, SECOND_US, 2 * SECOND_US, 5 * SECOND_US),
    (*(0,) * 3, SECOND_US, SECOND_US - 1, 3 * SECOND_US, 8 * SECOND_US, 1),
)
_RUN_FOR_US: Final[tuple[tuple[int | None, ...], ...]] = (
    (4 * SECOND_US, 2 * SECOND_US, 7 * SECOND_US, SECOND_US),
    (3 * SECOND_US, None, 6 * SECOND_US, None, 10 * SECOND_US),
    (None, None, None, 5 * SECOND_US),
)
_FACTORS: Final = (
    (0.0,),
    (1.0,),
    (0.0, 1.0, 2.0, 0.5, 0.25),
    (0.5, 0.25, 1.0),
    (2.0, 0.0, 3.0),
)


@attrs.frozen
class Plans:
    """What of a scenario only backfill asks for; the simplest comes first in each.

    Attributes:
        factors: How long asks say that they run, in terms of how long they do; 0 is unsaid.
        honest: Nobody runs for longer than is expected.
        limits: What the limits of users and groups are made of, None without any.
        switches: Configurations follow that change the orders of queues alone.
        enabled: Preemption is.
        services: Asks that require a node are node services in some queues, and are more.
    """

    factors: tuple[float, ...]
    honest: bool
    limits: LimitTheme | None
    switches: bool
    enabled: bool
    services: bool


def planned(choices: Choices, *, honest: bool = False) -> Plans:
    """Make what only backfill asks for."""
    limits = LimitTheme(
        users=choices.of((True, True, False)),
        groups=choices.of((False, True, True)),
        entries=choices.of(((1, 0, 2), (0, 1))),
        amounts=choices.of(((3, 2, 4, None), (4, 6, 5))),
        apps=choices.of(((0,), (0, 0, 2, 1))),
    )
    return Plans(
        factors=choices.of(((1.0,), (0.0,), (1.0, 2.0, 3.0)) if honest else _FACTORS),
        honest=honest,
        limits=limits if choices.one_in(4) else None,
        switches=choices.one_in(4) and not honest,
        enabled=choices.one_in(3) and not honest,
        services=choices.one_in(5) and not honest,
    )


def ordered(theme: Theme, choices: Choices, *, honest: bool = False) -> Theme:
    """Make a theme for evictions one in which queues keep the order of their asks."""
    kinds = choices.of((_GANGS, _PLAIN, _PARTIES, _PLAIN + _UPHEAVALS, _GANGS + _UPHEAVALS))
    changes = _CHANGES if choices.one_in(3) else ()
    properties: dict[str, Texts] = {
        **theme.properties,
        ORDER: choices.of(_ORDERS),
        DEPTH: choices.of(_DEPTHS),
        ESTIMATE: choices.of((_OFF,) if honest else _DEFAULTS),
    }
    return attrs.evolve(
        theme,
        properties=properties,
        limits=choices.of((False, False, True)),
        guaranteed=choices.of((False, True, False)),
        max_applications=choices.of(((0,), (0,), (0,), (0, 0, 1, 2))),
        hot=choices.of((2, 1, 3)),
        kinds=(_GANGS if choices.one_in(2) else _PLAIN) if honest else kinds + changes,
        priorities=choices.of(((None,), (None, 0, 1, 2), (None, None, None, 3, -1))),
        classes=choices.of(((None,), (None,), (None, None, "high", "mid", "low"))),
        gaps_us=choices.of(_GAPS_US),
        run_for_us=choices.of(_RUN_FOR_US),
        selectors=({},),
        widths=choices.of((_NARROW, _WIDE, _WIDE)),
    )


def served(theme: Theme, about: EvictionTheme, choices: Choices) -> tuple[Theme, EvictionTheme]:
    """Make themes in which asks that require a node are often node services."""
    properties = {**theme.properties, SERVED: choices.of((("enabled",), (None, "enabled")))}
    return attrs.evolve(theme, properties=properties), attrs.evolve(about, required=3)


def mixed(choices: Choices) -> EvictionTheme:
    """Make a theme for small clusters that are full of asks that end."""
    packed = choices.one_in(3)
    theme = EvictionTheme(
        shapes=choices.of((_SHAPES[:2], _SHAPES[:3], _SHAPES)),
        capacities=choices.of((_CAPACITIES[:1], _CAPACITIES[:2], _CAPACITIES)),
        required=choices.of((100, 8, 100, 4)),
        selects=choices.of((100, 100, 6)),
        enabled=(True,),
        counts=choices.of(((None, 2), (None, None, 2, 3), (2, 3))),
        rising=False,
        topped=choices.of((True, False)),
        fillers=choices.of((1, 2, 3)),
        filled=choices.of((1, 1, 2)),
        each=choices.of((1, 2, 1)),
        low=(None, None, 0),
    )
    return attrs.evolve(theme, shapes=_TIGHT, capacities=_CAPACITIES[:1]) if packed else theme


def parties(choices: Choices) -> GangTheme:
    """Make a theme for gangs that wait for others to end."""
    loose, strict = GangMode.NON_STRICT, GangMode.STRICT
    return GangTheme(
        names=GANGS[: choices.of((3, 2, 4))],
        least=choices.of(((2,), (2, 3), (1, 2, 3))),
        modes=choices.of(((None,), (loose,), (strict, loose))),
        lists=choices.of(((0,), (0, 0, 1), (0, 1, 1))),
        waits_us=choices.of(((None,), (None, 3 * SECOND_US, 9 * SECOND_US))),
        annotates=64,
        shapes=_SHAPES[: choices.of((2, 3))],
        rising=choices.one_in(4),
    )


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
        """Return members of a gang that come, often after a small one that takes its pick first."""
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
        """Return one of the first applications, of one of some users."""
        user = _USERS[number % len(_USERS)] if self._plans.limits else "u1"
        return attrs.evolve(super().comer(number, path), user=user)


Properties = tuple[tuple[str, str], ...]
"""Properties as written."""


def reordered(config: Configuration, theme: Theme, choices: Choices) -> Configuration:
    """Return a configuration that differs from another one in what backfill asks for alone."""
    return _with_own(config, lambda _: _drawn_properties(theme, choices))


def greedy(config: Configuration, order: str | None) -> Configuration:
    """Return a configuration in which every queue is greedy: it says so, or nothing at all."""

    def own(properties: Properties) -> Mapping[str, str]:
        backfill = {name: text for name, text in properties if name in NAMES}
        return {} if order is None else {**backfill, ORDER: order}

    def below(queue: QueueConfig) -> QueueConfig:
        """Return a queue whose template, and those below it, say the same."""
        template = queue.template
        if template is not None:
            kept = {name: text for name, text in template.properties if name not in NAMES}
            made = tuple(sorted({**kept, **own(template.properties)}.items()))
            template = attrs.evolve(template, properties=made)
        return attrs.evolve(queue, template=template, children=tuple(map(below, queue.children)))

    made = _with_own(config, lambda queue: own(queue.own_properties))
    return attrs.evolve(made, root=below(made.root))


def unordered(scenario: Sequence[Step], order: str | None) -> list[Step]:
    """Return a scenario in which every queue is greedy: it says so, or no name of this is used."""

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
    config: Configuration, properties_of: Callable[[QueueConfig], Mapping[str, str]]
) -> Configuration:
    """Return a configuration whose queues say something else of what backfill asks for."""

    def again(queue: QueueConfig, above: Settings | None) -> QueueConfig:
        own = {name: text for name, text in queue.own_properties if name not in NAMES}
        own |= properties_of(queue)
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


_RACKS: Final = ("r1", "r2", None)
_TOPOLOGIES: Final = (
    None,
    Topology(TopologyRule.SAME, "rack"),
    Topology(TopologyRule.PREFER, "rack"),
    Topology(TopologyRule.SPREAD, "rack", max=2),
)
_NEEDS: Final = (None, None, DeviceNeed(milli=500), DeviceNeed(milli=300), DeviceNeed(count=1))
_NODE_ORDERS: Final = (None, NodeSortPolicy.BESTFIT, NodeSortPolicy.FGD)


@st.composite
def joined(draw: st.DrawFn, lists: int = 3) -> list[Step]:
    """Draw a scenario of reservations, and give its nodes, asks and gangs more to look at.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    steps = draw(backfills(lists=lists))
    random = Random(draw(st.integers(0, 2**32)))
    order, has_devices = random.choice(_NODE_ORDERS), random.random() < 0.7
    return [
        attrs.evolve(step, what=_more(step.what, random, order, has_devices=has_devices))
        for step in steps
    ]


def _more(what: What, random: Random, order: NodeSortPolicy | None, *, has_devices: bool) -> What:
    rack, count = random.choice(_RACKS), random.randint(1, 3)
    need, topology = random.choice(_NEEDS), random.choice(_TOPOLOGIES)
    attributes = {} if rack is None else {"rack": rack}
    match what:
        case Configure(config):
            return attrs.evolve(what, config=_ordered(config, order))
        case AddNode():
            stock = {"gpu": DeviceStock(count=count, model=None)} if has_devices else {}
            return attrs.evolve(what, attributes={**what.attributes, **attributes}, devices=stock)
        case UpdateNode() if what.attributes is not None:
            return attrs.evolve(what, attributes={**what.attributes, **attributes})
        case AddAsk() if need is not None and has_devices:
            return attrs.evolve(what, devices={"gpu": need})
        case AddGang():
            return attrs.evolve(what, says=attrs.evolve(what.says, topology=topology))
        case _:
            return what


def _ordered(config: Configuration, order: NodeSortPolicy | None) -> Configuration:
    if order is None:
        return config
    weights = (("device/gpu", 1.0), *(one for one in config.node_weights if one[0] == "vcore"))
    return attrs.evolve(config, node_sort=order, node_weights=weights)
