"""What gangs need and the nodes or the ``max`` of a queue do not allow, even if all were free."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.page.parts.asks.gangs import each_member
from muster.service.page.parts.asks.shortage import (
    MOST_MEMBERS,
    lack_of_gang,
    least_of,
    told_amounts,
)
from muster_core.gangs.states import GangState
from muster_core.structures.steps import in_pieces
from muster_core.structures.totals import add_to

if TYPE_CHECKING:
    from muster.service.reading.looking import Looking
    from muster_core.structures.steps import Steps
    from muster_core.view.gangs.gang import ViewGang
    from muster_core.view.tree.queue import ViewQueue

_SATISFIED: Final = GangState.SATISFIED


@final
@attrs.frozen
class Lack:
    """What keeps a gang from starting whatever else is free, in a sentence.

    Attributes:
        text: The sentence.
        queue: The path of the queue whose ``max`` it is; empty if it is about nodes.
    """

    text: str
    queue: str = ""


# PAGE-49
def lacks_of_gang(looking: Looking, gang: ViewGang) -> Steps[Sequence[Lack]]:
    """Say what nodes and queues have too little of for a gang, even if all were free.

    Args:
        looking: The state.
        gang: A gang.
    """
    nodes = yield from lack_of_gang(looking, gang)
    found = [Lack(nodes)] if nodes else []
    over = yield from _over_max(looking, gang)
    return found if over is None else [*found, over]


def _over_max(looking: Looking, gang: ViewGang) -> Steps[Lack | None]:
    """Return the first queue, from the leaves upward, that may never hold a gang or its group."""
    if gang.definition is None or gang.state is _SATISFIED:
        return None
    own = yield from _Need.of(looking, gang)
    found = own.over_max("The gang")
    others = [one for one in looking.view.group_of(gang.name) if one.state is not _SATISFIED]
    if found is not None or len(others) < 2:
        return found
    together = _Need()
    for other in others:
        together.add((yield from _Need.of(looking, other)))
    return together.over_max("The group of the gang")


@final
@attrs.define
class _Need:
    """What gangs need at least in each queue with a ``max``.

    Attributes:
        least: The least that they may need of each type, in base units, by queue.
        leaves: The keys of the leaves of their members.
        is_exact: Whether they need no more.
    """

    least: dict[ViewQueue, dict[str, int]] = attrs.field(
        factory=dict["ViewQueue", "dict[str, int]"]
    )
    leaves: set[int] = attrs.field(factory=set[int])
    is_exact: bool = True

    @classmethod
    def of(cls, looking: Looking, gang: ViewGang) -> Steps[_Need]:
        """Return what as many members need as must hold a node; the smallest, if members differ.

        Members in other queues may be enough, so that fewer are needed in each.
        """
        if gang.definition is None:
            return cls(is_exact=False)
        apps, queues = looking.view.apps, looking.view.queues
        parts: dict[ViewQueue, _Part] = {}
        leaves: set[int] = set()
        total = 0
        for piece in in_pieces(list(islice(each_member(gang), MOST_MEMBERS))):
            yield
            for key, name in piece:
                ask = apps[key].find(name)
                assert ask is not None, "a member that does not exist"
                total += 1
                leaf = queues[apps[key].identity.leaf]
                leaves.add(leaf.key)
                for queue in leaf.upward():
                    if queue.config.max.amounts:
                        parts.setdefault(queue, _Part()).add(ask.resources)
        needed = gang.definition.min_member
        least = {
            queue: part.least(min(needed, total) - (total - part.count))
            for queue, part in parts.items()
        }
        same = all(part.count == total and part.is_even() for part in parts.values())
        return cls(least, leaves, same and needed <= total)

    def add(self, other: _Need) -> None:
        """Add what another gang needs."""
        for queue, amounts in other.least.items():
            add_to(self.least.setdefault(queue, {}), amounts)
        self.leaves |= other.leaves
        self.is_exact = self.is_exact and other.is_exact

    def over_max(self, who: str) -> Lack | None:
        """Say which queue may have less than is needed; None if none does."""
        for queue, amounts in self.least.items():
            most = dict(queue.config.max.amounts)
            short = {kind: amounts[kind] for kind in most if amounts.get(kind, 0) > most[kind]}
            if not short:
                continue
            path = queue.config.path
            whose = "its queue" if self.leaves == {queue.key} else "the queue"
            needs = "needs" if self.is_exact else "needs at least"
            needed, had = told_amounts(short, most)
            return Lack(f"{who} {needs} {needed} in all; {whose} {path} may have {had}.", path)
        return None


@final
@attrs.define
class _Part:
    """The members of a gang in and below one queue: how many, and their amounts by type."""

    count: int = 0
    _amounts: dict[str, list[int]] = attrs.field(factory=dict[str, "list[int]"])

    def add(self, amounts: Mapping[str, int]) -> None:
        self.count += 1
        for kind, amount in amounts.items():
            self._amounts.setdefault(kind, []).append(amount)

    def least(self, wanted: int) -> dict[str, int]:
        """Return the least that as many members as wanted may need of each type."""
        return {kind: least_of(some, self.count, wanted) for kind, some in self._amounts.items()}

    def is_even(self) -> bool:
        """Return whether all members ask for the same."""
        return all(
            len(some) == self.count and min(some) == max(some) for some in self._amounts.values()
        )
