"""What a scenario with topologies is about: which domains there are, and which rules gangs have."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.gangs import GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from tests.naive.choices import Choices
from tests.naive.eviction_theme import EvictionTheme
from tests.naive.gang_theme import GangTheme
from tests.naive.theme import Theme

Attributes = dict[str, str]

_X, _Y, _Z = ({"rack": value} for value in "xyz")
_NONE: Final[Attributes] = {}
_SAME: Final = Topology(TopologyRule.SAME, "rack")
_PREFER: Final = Topology(TopologyRule.PREFER, "rack")
_SPREAD: Final = Topology(TopologyRule.SPREAD, "rack")
_ONE: Final = attrs.evolve(_SPREAD, max=1)
_TWO: Final = attrs.evolve(_SPREAD, max=2)
_BY_ZONE: Final = Topology(TopologyRule.SAME, "zone")

_KINDS: Final = (
    *("add_members",) * 8,
    *("add_ask",) * 2,
    *("settle",) * 4,
    *("release",) * 7,
    *("bind_failed",) * 2,
    *("move_node",) * 4,
    "update_node",
    *("add_gang", "remove_ask", "fail_bind", "add_node"),
)
_UPHEAVALS: Final = (
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
    kinds = choices.of((_KINDS, _KINDS + _UPHEAVALS, theme.kinds + _UPHEAVALS))
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
