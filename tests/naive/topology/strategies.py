"""Hypothesis strategies for scenarios in which gangs have topologies.

Small nodes stand in two or three domains or in none, with room for parts of gangs here and
there. Members come in gangs of all rules, and later ones; nodes move to other domains, are
lost and come back.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration
from muster_core.events import AddGang, AddNode, UpdateNode
from tests.naive.choices import Choices, drawn
from tests.naive.config_strategies import configurations
from tests.naive.devices.strategies import DeviceAssembly, ordered
from tests.naive.devices.theme import NO_DEVICES, DeviceTheme, device_themed
from tests.naive.eviction_strategies import enabled, played
from tests.naive.eviction_theme import EvictionTheme, crowded, eviction_themed
from tests.naive.gang_theme import GangTheme
from tests.naive.harness import Step, What
from tests.naive.theme import Theme, themed
from tests.naive.topology.theme import TopologyTheme, ganging, larger, roomy, topology_themed


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
        """Give what a move means."""
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
