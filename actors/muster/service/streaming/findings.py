"""Findings: the decisions in memory about one thing, found once and then followed."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import trio

from muster_core.decisions import Announced

if TYPE_CHECKING:
    from muster.service.streaming.tail import Tail

MOST: Final = 200
"""How many decisions about one thing are held; the oldest go first."""

_SUBJECTS: Final = 64
"""About how many things findings are held; those that nobody has asked about for longest go."""

Test = Callable[[Announced], bool]
"""Tells whether a decision is about the thing."""


@final
class _Finding:
    """What was found about one thing."""

    def __init__(self, position: int) -> None:
        self.first = position + 1
        self.position = position
        self.found: deque[Announced] = deque(maxlen=MOST)


# PAGE-44
@final
class Findings:
    """What was found in memory about the things that somebody looks at.

    An open page asks again and again: only what was announced since is looked through then.
    """

    def __init__(self) -> None:
        self._by_subject: OrderedDict[tuple[str, ...], _Finding] = OrderedDict()

    async def about(
        self, tail: Tail, subject: tuple[str, ...], is_meant: Test
    ) -> tuple[list[Announced], int]:
        """Return the latest decisions in memory about a thing, and where they begin.

        Args:
            tail: The latest decisions.
            subject: The thing; what it is comes first.
            is_meant: Tells whether a decision is about it.

        Returns:
            The decisions, oldest first, :data:`MOST` at most; and the number of the first decision
            since which all of them are there.
        """
        finding = self._by_subject.get(subject)
        if finding is None or finding.position + 1 < tail.first:
            finding = self._by_subject[subject] = _Finding(tail.first - 1)
            while len(self._by_subject) > _SUBJECTS:
                self._by_subject.popitem(last=False)
        self._by_subject.move_to_end(subject)
        while (block := tail.after(finding.position)) is not None:
            begin = finding.position + 1 - block.first
            finding.found.extend(filter(is_meant, block.announced[begin:]))
            finding.position = block.last
            await trio.lowlevel.checkpoint()
        found = list(finding.found)
        return found, found[0].seq if len(found) == MOST else finding.first
