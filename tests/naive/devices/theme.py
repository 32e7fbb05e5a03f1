"""What a scenario with devices is about: which nodes have them, who needs them, in which order."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.config.model import NodeSortPolicy
from muster_core.resources import Resources
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed, DeviceStock
from tests.naive.choices import Choices
from tests.naive.eviction_theme import EvictionTheme
from tests.naive.theme import Theme

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
