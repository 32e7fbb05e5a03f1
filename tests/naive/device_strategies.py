"""Hypothesis strategies for scenarios in which nodes have devices and domains, and gangs have
topologies.
"""

from __future__ import annotations

from typing import Final

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration, Limits, NodeSortPolicy, QueueConfig
from muster_core.events import AddAsk, AddGang, AddNode, UpdateNode
from muster_core.gangs import GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed, DeviceStock
from tests.naive.eviction_strategies import (
    EvictionAssembly,
    EvictionTheme,
    crowded,
    enabled,
    eviction_themed,
    played,
)
from tests.naive.gang_strategies import GangTheme
from tests.naive.harness import Step, What
from tests.naive.strategies import configurations
from tests.naive.theme import Choices, Theme, drawn, themed

Stocks = dict[str, DeviceStock]
Needs = dict[str, DeviceNeed]
Weights = dict[str, float]

_KINDS: Final = (
    *("add_ask",) * 9,
    *("settle",) * 3,
    *("release",) * 5,
    *("update_node",) * 2,
    *("bind_failed", "remove_ask", "fail_bind", "add_node"),
)
_GANGS: Final = (*("add_members",) * 7, "add_gang", "remove_gang")
_UPHEAVALS: Final = ("remove_node", "remove_node", "add_node", "update_node", "remove_app")

_STOCKS: Final[tuple[tuple[Stocks, ...], ...]] = (
    ({"gpu": DeviceStock(3)}, {"gpu": DeviceStock(2, "A")}, {"gpu": DeviceStock(1, "B")}),
    ({"gpu": DeviceStock(4, "B")}, {"gpu": DeviceStock(3, "A")}, {"gpu": DeviceStock(5)}),
    ({"gpu": DeviceStock(2, "A")}, {"gpu": DeviceStock(4)}, {}),
    (
        {"gpu": DeviceStock(2, "A")},
        {"gpu": DeviceStock(2, "B")},
        {"gpu": DeviceStock(1)},
        {"gpu": DeviceStock(3, "A")},
    ),
    (
        {"gpu": DeviceStock(2), "nic": DeviceStock(1)},
        {"gpu": DeviceStock(1, "A"), "nic": DeviceStock(3)},
        {"nic": DeviceStock(2, "X")},
        {},
    ),
)


def _share(milli: int, *models: str) -> DeviceNeed:
    return DeviceNeed(milli=milli, models=models or None)


def _whole(count: int, *models: str) -> DeviceNeed:
    return DeviceNeed(count=count, models=models or None)


_SHARES: Final[tuple[Needs, ...]] = tuple(
    {"gpu": _share(milli)} for milli in (500, 300, 700, 200, 450, 999, 1, 650)
)
_WHOLE: Final[tuple[Needs, ...]] = tuple({"gpu": _whole(count)} for count in (1, 2, 1, 3))
_OF_MODELS: Final[tuple[Needs, ...]] = (
    {"gpu": _share(500, "A")},
    {"gpu": _whole(1, "A", "B")},
    {"gpu": _whole(1, "B")},
    {"gpu": _share(300, "C")},
)
_OF_TWO: Final[tuple[Needs, ...]] = (
    {"gpu": _share(400), "nic": _share(300)},
    {"gpu": _whole(1), "nic": _share(500)},
    {"nic": _share(600)},
    {"gpu": _share(300), "nic": _whole(1)},
    {"nic": _whole(2)},
)
_NEEDS: Final[tuple[tuple[Needs, ...], ...]] = (
    (*_SHARES[:5], *_WHOLE[:1], *_OF_MODELS[:1]),
    _SHARES,
    (*_SHARES, *_WHOLE[:1]),
    (*_SHARES[:4], *_WHOLE[:2], *_OF_MODELS[:2]),
    _WHOLE,
    (*_SHARES[:3], *_WHOLE[:2], *_OF_MODELS),
    (*_OF_TWO, *_SHARES[:2], *_WHOLE[:1]),
    (*_SHARES, *_WHOLE, *_OF_MODELS, *_OF_TWO),
)
_CORES: Final = (
    (Resources(),),
    (Resources({"vcore": 1}), Resources()),
    (Resources({"vcore": 1}), Resources({"vcore": 2}), Resources({"memory": 1})),
)
_WEIGHTS: Final[tuple[Weights, ...]] = (
    {"vcore": 0.5, "device/gpu": 0.5},
    {"vcore": 1.0, "memory": 1.0},
    {"device/gpu": 1.0},
    {"vcore": 1.0, "device/gpu": 0.1, "device/nic": 3.0, "memory": 0.0},
    {"tape": 1.0},
)
_TYPICAL: Final[tuple[tuple[TypicalAsk, ...], ...]] = (
    (),
    (),
    (TypicalAsk((("gpu", _share(500)),)), TypicalAsk((("gpu", _whole(1)),), weight=2)),
    (
        TypicalAsk((("gpu", _share(300, "A")),), Resources({"vcore": 1}), 5),
        TypicalAsk((("gpu", _whole(2)),), Resources({"vcore": 2}), 1_000_000),
        TypicalAsk((("gpu", _share(700)),), weight=3),
    ),
    (
        TypicalAsk((("gpu", _share(400)), ("nic", _share(500))), weight=3),
        TypicalAsk((("nic", _whole(1)),), Resources({"vcore": 1}), 2),
    ),
)
_BESTFIT, _FGD = NodeSortPolicy.BESTFIT, NodeSortPolicy.FGD
_FAIR, _PACKED = NodeSortPolicy.FAIR, NodeSortPolicy.BINPACKING


@attrs.frozen
class DeviceTheme:
    """What the choices about devices are made of; the simplest comes first in each.

    Attributes:
        stocks: What nodes can have.
        needs: What asks can need.
        cores: The resources that these want besides.
        plain: One ask in so many needs no devices.
        limits: The quotas of leaves, of devices of the type ``gpu``, in milli.
        guarantees: The guarantees of leaves, of the same.
        policies: The orders of nodes, of the configurations one after the other.
        weights: The weights of types.
        typical: The typical asks that are named.
    """

    stocks: tuple[Stocks, ...]
    needs: tuple[Needs, ...]
    cores: tuple[Resources, ...]
    plain: int
    limits: tuple[int | None, ...]
    guarantees: tuple[int, ...]
    policies: tuple[NodeSortPolicy, ...]
    weights: Weights
    typical: tuple[TypicalAsk, ...]


NO_DEVICES: Final = DeviceTheme(
    stocks=({},),
    needs=({},),
    cores=(Resources(),),
    plain=1,
    limits=(None,),
    guarantees=(0,),
    policies=(_FAIR,),
    weights={},
    typical=(),
)
"""What scenarios are about in which nothing has devices or needs them."""


def device_themed(choices: Choices) -> DeviceTheme:
    """Make a theme for devices."""
    number = choices.number(len(_NEEDS))
    two = number >= len(_NEEDS) - 2
    return DeviceTheme(
        stocks=_STOCKS[-1] if two else choices.of(_STOCKS),
        needs=_NEEDS[number],
        cores=choices.of(_CORES),
        plain=choices.of((6, 100, 3)),
        limits=choices.of(((None,), (None,), (None, 2000, 1500), (2500, 1000, 0))),
        guarantees=choices.of(((0,), (1000, 0), (2000, 500, 0), (0, 1500))),
        policies=choices.of(
            ((_FGD,), (_FGD,), (_BESTFIT,), (_FAIR,), (_PACKED,), (_FGD, _BESTFIT), (_FAIR, _FGD))
        ),
        weights=choices.of(_WEIGHTS),
        typical=choices.of(_TYPICAL),
    )


def stocked(theme: Theme, choices: Choices) -> Theme:
    """Make a theme for evictions one that is mostly about asks which come and go."""
    changes = ("configure",) * 2 if choices.one_in(3) else ()
    gangs = choices.of(((), _GANGS))
    return attrs.evolve(
        theme, kinds=_KINDS + choices.of(((), _UPHEAVALS)) + gangs + changes, limits=False
    )


def half_full(about: EvictionTheme, choices: Choices) -> EvictionTheme:
    """Leave room in the cluster, in some scenarios."""
    return attrs.evolve(
        about, filled=choices.of((0, 1, 2)), topped=False, required=choices.of((100, 100, 8))
    )


_GPU = "device/gpu"


class DeviceAssembly(EvictionAssembly):
    """Makes moves into steps, and gives nodes and asks devices."""

    def __init__(
        self,
        theme: Theme,
        gangs: GangTheme,
        evictions: EvictionTheme,
        configs: list[Configuration],
        devices: DeviceTheme,
    ) -> None:
        super().__init__(theme, gangs, evictions, configs)
        self._devices = devices

    @override
    def fill(self, choices: Choices) -> None:
        """Let asks come that others may take devices from."""
        kind = "add_members" if "add_members" in self.theme.kinds else "add_ask"
        what = self.what(choices.of(("add_ask", kind)), choices)
        if isinstance(what, AddAsk):
            low, count = choices.of((None, -1, 0)), choices.of((3, 2, 5))
            self.put(0, attrs.evolve(what, priority=low, priority_class=None, count=count))

    @override
    def what(self, kind: str, choices: Choices) -> What:
        """Return what a move means."""
        about = self._devices
        # A move has not so many choices that some are left when all others are made.
        stock, replaced = choices.of(about.stocks), choices.one_in(2)
        needs, cores, plain = self._needs(choices)
        what = super().what(kind, choices)
        if isinstance(what, AddNode):
            return attrs.evolve(what, devices=stock)
        if isinstance(what, UpdateNode):
            return attrs.evolve(what, devices=stock if replaced else None)
        if isinstance(what, AddAsk) and not plain:
            return attrs.evolve(what, devices=needs, resources=cores)
        return what

    def _needs(self, choices: Choices) -> tuple[Needs, Resources, bool]:
        """Return what an ask could need, and whether it needs no devices."""
        about = self._devices
        return choices.of(about.needs), choices.of(about.cores), choices.one_in(about.plain)


def ordered(
    configs: list[Configuration], about: DeviceTheme, choices: Choices
) -> list[Configuration]:
    """Give configurations the order of nodes, and leaves the quotas, that a theme has.

    Args:
        configs: The configurations.
        about: The theme.
        choices: Which quotas leaves have.
    """
    configs = configs if len(configs) > 1 or len(about.policies) == 1 else configs * 2
    return [
        attrs.evolve(
            config,
            root=_with_quotas(config.root, about, choices),
            node_sort=about.policies[place % len(about.policies)],
            node_weights=tuple(sorted(about.weights.items())),
            typical=about.typical,
        )
        for place, config in enumerate(configs)
    ]


def _with_quotas(queue: QueueConfig, about: DeviceTheme, choices: Choices) -> QueueConfig:
    """Give leaves quotas and guarantees of devices; those above have none, so that all go."""
    if queue.is_parent:
        children = tuple(_with_quotas(child, about, choices) for child in queue.children)
        return attrs.evolve(queue, children=children)
    most, least = choices.of(about.limits), choices.of(about.guarantees)
    limits = dict(queue.max.amounts) | ({} if most is None else {_GPU: most})
    least = least if most is None else min(least, most)
    return attrs.evolve(
        queue,
        max=Limits(tuple(sorted(limits.items()))),
        guaranteed=Resources({**queue.guaranteed, _GPU: least}),
    )


@st.composite
def device_configurations(draw: st.DrawFn) -> list[Configuration]:
    """Draw configurations that order nodes by what asks leave there, some with typical asks."""
    theme = stocked(crowded(themed(draw(drawn(24))), draw(drawn(26))), draw(drawn(3)))
    configs = draw(configurations(theme))
    return ordered(configs, device_themed(draw(drawn(9))), draw(drawn(40)))


@st.composite
def devices(draw: st.DrawFn, lists: int = 4) -> list[Step]:
    """Draw a whole scenario: nodes with devices first, then those who want them.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    theme = stocked(crowded(themed(draw(drawn(24))), draw(drawn(26))), draw(drawn(3)))
    about = half_full(eviction_themed(draw(drawn(12))), draw(drawn(2)))
    which = device_themed(draw(drawn(9)))
    configs = enabled(draw(configurations(theme)), about)
    configs = ordered(configs, which, draw(drawn(40)))

    def make(
        theme: Theme, gangs: GangTheme, about: EvictionTheme, configs: list[Configuration]
    ) -> DeviceAssembly:
        return DeviceAssembly(theme, gangs, about, configs, which)

    return draw(played(theme, about, configs, lists, make, nodes=(1, 4)))


Attributes = dict[str, str]

_X, _Y, _Z = ({"rack": value} for value in "xyz")
_NONE: Final[Attributes] = {}
_SAME: Final = Topology(TopologyRule.SAME, "rack")
_PREFER: Final = Topology(TopologyRule.PREFER, "rack")
_SPREAD: Final = Topology(TopologyRule.SPREAD, "rack")
_ONE: Final = attrs.evolve(_SPREAD, max=1)
_TWO: Final = attrs.evolve(_SPREAD, max=2)
_BY_ZONE: Final = Topology(TopologyRule.SAME, "zone")

_TOPOLOGY_KINDS: Final = (
    *("add_members",) * 8,
    *("add_ask",) * 2,
    *("settle",) * 4,
    *("release",) * 7,
    *("bind_failed",) * 2,
    *("move_node",) * 4,
    "update_node",
    *("add_gang", "remove_ask", "fail_bind", "add_node"),
)
_TOPOLOGY_UPHEAVALS: Final = (
    *("update_node",) * 3,
    *("remove_node", "remove_node", "add_node", "remove_gang", "apply_gang", "remove_app"),
)
_CAPACITIES: Final = tuple(
    Resources(capacity)
    for capacity in (
        {"vcore": 3, "memory": 3},
        {"vcore": 2, "memory": 2},
        {"vcore": 5, "memory": 5},
        {"vcore": 4, "memory": 2},
    )
)


@attrs.frozen
class TopologyTheme:
    """What the choices about topologies are made of; the simplest comes first in each.

    Attributes:
        attributes: What nodes can have.
        topologies: What gangs can say; None is without a topology.
    """

    attributes: tuple[Attributes, ...]
    topologies: tuple[Topology | None, ...]


def topology_themed(choices: Choices) -> TopologyTheme:
    """Make a theme for topologies."""
    return TopologyTheme(
        attributes=choices.of(
            (
                (_X, _Y),
                (_X, _Y, _NONE),
                (_X, _Y, _Z, _NONE),
                (_X, _X, _Y, {"rack": "y", "zone": "x"}),
                ({"rack": "x", "zone": "x"}, {"rack": "y", "zone": "x"}, {"zone": "y"}, _NONE),
            )
        ),
        topologies=choices.of(
            (
                (_SAME,),
                (_SAME, _PREFER),
                (_SAME, _SPREAD, _ONE, _TWO),
                (_SAME, _PREFER, _SPREAD, _ONE, _TWO, _BY_ZONE, None),
                (_SAME, _PREFER, None),
                (_ONE, _TWO, _ONE, _SAME),
            )
        ),
    )


def ganging(theme: Theme, choices: Choices) -> Theme:
    """Make a theme for evictions one that is mostly about gangs, and nodes that change."""
    changes = ("configure",) if choices.one_in(4) else ()
    kinds = choices.of(
        (_TOPOLOGY_KINDS, _TOPOLOGY_KINDS + _TOPOLOGY_UPHEAVALS, theme.kinds + _TOPOLOGY_UPHEAVALS)
    )
    return attrs.evolve(theme, kinds=kinds + changes)


def roomy(about: EvictionTheme, choices: Choices) -> EvictionTheme:
    """Leave room in the cluster, in most scenarios, so that gangs can choose."""
    full = choices.of((False, False, True))
    return attrs.evolve(
        about,
        capacities=_CAPACITIES[: choices.of((1, 2, 3, 4))],
        filled=choices.of((1, 2)) if full else 0,
        topped=full and choices.one_in(2),
        required=choices.of((100, 100, 12)),
    )


def larger(gangs: GangTheme, choices: Choices) -> GangTheme:
    """Let gangs be larger than any node, and more often alone than those of evictions."""
    loose, strict = GangMode.NON_STRICT, GangMode.STRICT
    return attrs.evolve(
        gangs,
        least=choices.of(((2, 3), (3, 4), (2,), (1, 2, 3, 4))),
        modes=choices.of(((strict,), (loose,), (None, loose))),
        lists=choices.of(((0,), (0,), (0, 1), (0, 0, 1, 2))),
    )


class TopologyAssembly(DeviceAssembly):
    """Makes moves into steps, and gives nodes attributes and gangs topologies."""

    def __init__(
        self,
        theme: Theme,
        gangs: GangTheme,
        evictions: EvictionTheme,
        configs: list[Configuration],
        abouts: tuple[TopologyTheme, DeviceTheme],
    ) -> None:
        topologies, devices = abouts
        super().__init__(theme, gangs, evictions, configs, devices)
        self._topologies = topologies

    @override
    def what(self, kind: str, choices: Choices) -> What:
        """Return what a move means."""
        attributes = choices.of(self._topologies.attributes)
        topology, moves = choices.of(self._topologies.topologies), not choices.one_in(3)
        held = [ask for ask in self.drive.model.world.asks() if ask.held and ask.gang]
        if kind == "move_node" and held:
            return UpdateNode(choices.of(held).node or "", attributes=attributes)
        kind = "update_node" if kind == "move_node" else kind
        what = super().what(kind, choices)
        if isinstance(what, AddNode):
            return attrs.evolve(what, attributes=attributes)
        if isinstance(what, UpdateNode):
            return attrs.evolve(what, attributes=attributes if moves else None)
        if isinstance(what, AddGang):
            return attrs.evolve(what, says=attrs.evolve(what.says, topology=topology))
        return what


@st.composite
def topologies(draw: st.DrawFn, lists: int = 4) -> list[Step]:
    """Draw a whole scenario: nodes in domains first, then gangs that have topologies.

    Args:
        draw: Given by Hypothesis.
        lists: How many lists of up to ten moves follow the beginning.
    """
    theme = ganging(crowded(themed(draw(drawn(24))), draw(drawn(26))), draw(drawn(2)))
    choices = draw(drawn(14))
    about = roomy(eviction_themed(choices), draw(drawn(5)))
    where, size, more = topology_themed(draw(drawn(2))), draw(drawn(3)), draw(drawn(50))
    configs, which = enabled(draw(configurations(theme)), about), NO_DEVICES
    if more.one_in(3):
        which = device_themed(more)
        configs = ordered(configs, which, more)

    def make(
        theme: Theme, gangs: GangTheme, about: EvictionTheme, configs: list[Configuration]
    ) -> TopologyAssembly:
        return TopologyAssembly(theme, larger(gangs, size), about, configs, (where, which))

    return draw(played(theme, about, configs, lists, make, nodes=(2, 6)))
