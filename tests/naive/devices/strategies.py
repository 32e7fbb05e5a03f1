"""Hypothesis strategies for scenarios in which nodes have devices and asks need them.

Nodes have a few devices of one or two types, and asks of low priority hold some of them. Then
come shares and whole ones of all sizes, with quotas and guarantees of devices, under all
orders of nodes.
"""

from __future__ import annotations

import attrs
from hypothesis import strategies as st
from typing_extensions import override

from muster_core.config.model import Configuration, Limits, QueueConfig
from muster_core.events import AddAsk, AddNode, UpdateNode
from muster_core.resources import Resources
from tests.naive.choices import Choices, drawn
from tests.naive.config_strategies import configurations
from tests.naive.devices.theme import DeviceTheme, Needs, device_themed, half_full, stocked
from tests.naive.eviction_strategies import EvictionAssembly, enabled, played
from tests.naive.eviction_theme import EvictionTheme, crowded, eviction_themed
from tests.naive.gang_theme import GangTheme
from tests.naive.harness import Step, What
from tests.naive.theme import Theme, themed

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
        """Give what a move means."""
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
        """Give what an ask could need, and whether it needs no devices."""
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
