"""The topology of a gang: which domains its members may or should take.

TOPOLOGY-1, TOPOLOGY-2. The nodes with one value of a node attribute are a *domain*, such as a rack.
The rules are in :mod:`muster_core.view.topology`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import final

import attrs
from typing_extensions import override


@final
class TopologyRule(StrEnum):
    """How the members of a gang are placed in the domains of an attribute."""

    SAME = "same"
    PREFER = "prefer"
    SPREAD = "spread"


@final
@attrs.frozen
class Topology:
    """A rule on the domains in which the members of a gang hold nodes.

    Attributes:
        rule: ``same`` for one domain only, ``prefer`` for one domain if possible, ``spread`` for
            as many domains as possible.
        attribute: The node attribute whose values are the domains.
        max: How many members one domain may hold at most; only with ``spread``, and None for any
            number.
    """

    rule: TopologyRule
    attribute: str
    max: int | None = None

    def written(self) -> dict[str, str | int]:
        """Return it as a feed has it."""
        written: dict[str, str | int] = {self.rule.value: self.attribute}
        return written if self.max is None else written | {"max": self.max}

    @override
    def __str__(self) -> str:
        """Return it as messages show it, such as ``same: rack``."""
        return ", ".join(f"{name}: {value}" for name, value in self.written().items())
