"""The ledger: hears of every batch, and knows what the state itself does not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import msgpack

from muster.service.reading.roll import Roll
from muster_core.decisions import Announced
from muster_core.events import Event
from muster_core.structures.steps import Steps

_VERSION: Final = 1


@final
class Ledger:
    """Hears of every batch before callers do; see :class:`Companion` in the runtime.

    Attributes:
        batch: The number of the last batch that was announced.
        at_us: Its instant, in microseconds since the origin.
        seq: The number of the last decision that was announced.
        roll: All asks in the order in which they were added.
    """

    def __init__(self) -> None:
        self.batch = 0
        self.at_us = 0
        self.seq = 0
        self.roll = Roll()

    def hear(
        self,
        number: int,
        at_us: int,
        first: int,
        events: Sequence[Event],
        announced: Sequence[Announced],
        /,
    ) -> Steps[None]:
        """Hear of a batch, as :class:`Companion` says."""
        del first
        yield
        self.roll.hear(events)
        self.batch, self.at_us = number, at_us
        if announced:
            self.seq = announced[-1].seq

    def save(self) -> Steps[Sequence[bytes]]:
        """Return what is known, in parts."""
        yield
        packed: bytes = msgpack.packb([_VERSION, self.batch, self.at_us, self.seq])
        return (packed,)

    def load(self, parts: Sequence[bytes], /) -> Steps[None]:
        """Take up what was saved.

        Raises:
            ValueError: If another version wrote it.
        """
        yield
        if parts:
            version, self.batch, self.at_us, self.seq = msgpack.unpackb(b"".join(parts))
            if version != _VERSION:
                msg = f"they were written in version {version}, and this is version {_VERSION}"
                raise ValueError(msg)
