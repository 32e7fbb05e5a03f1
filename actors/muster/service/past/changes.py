"""The configurations that came into force in a span, each with how it differs from the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import attrs

from muster.service.input.differing import difference_of
from muster.store._codec import tag_of
from muster_core.decisions import Kind
from muster_core.events import Configure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from muster.service.past.let_in import LetIn
    from muster.store import KeptBatch, StateReader
    from muster_core.config.model import Configuration

CONFIGURES: Final = tag_of(Configure).encode()
"""What is written in the batches that have an event with a configuration."""

_WINDOW: Final = 2_000
"""How many batches are read at once on the way back to the configuration before the first one."""

_FAR: Final = 50_000
"""How many batches are read at most on this way."""

_CONFIG: Final = Kind.CONFIG


@final
@attrs.frozen
class Change:
    """A configuration that came into force.

    Attributes:
        at_us: When, in microseconds since the origin.
        difference: How it differs from the one before, as :func:`difference_of` has it; None if
            that one is not known.
        is_first: Whether there was none before.
    """

    at_us: int
    difference: Mapping[str, object] | None
    is_first: bool


# PAGE-65
@final
class Changes:
    """Collects the configurations of a span.

    Args:
        reader: The state directory.
        let_in: Knows the index of each event.
        most: Of how many it is said how they differ, the first ones.
    """

    def __init__(self, reader: StateReader, let_in: LetIn, most: int) -> None:
        self._reader = reader
        self._let_in = let_in
        self._most = most
        self._found: list[tuple[int, int, Configuration]] = []

    def take(self, batch: KeptBatch) -> None:
        """Note the configurations of a batch that came into force."""
        for configuration in self._in_force(batch):
            if len(self._found) < self._most:
                self._found.append((batch.number, batch.at_us, configuration))

    def _in_force(self, batch: KeptBatch) -> Iterator[Configuration]:
        """Yield the configurations that came into force in a batch."""
        if CONFIGURES not in batch.packed_events:
            return
        first = self._let_in.index_of(batch)
        for one in batch.decisions:
            if one.decision.kind is _CONFIG and one.decision.index is not None:
                event = batch.events[one.decision.index - first]
                assert isinstance(event, Configure), "another event has configured"
                yield event.config

    def end(self) -> Sequence[Change]:
        """Return the changes, the first one first."""
        if not self._found:
            return ()
        before, is_first = self._before(self._found[0][0])
        changes: list[Change] = []
        for _, at_us, after in self._found:
            difference = None if before is None else difference_of(before, after)
            changes.append(Change(at_us, difference, is_first))
            before, is_first = after, False
        return changes

    def _before(self, number: int) -> tuple[Configuration | None, bool]:
        """Return the configuration before that of a batch, and whether there was none."""
        reader = self._reader
        anchor, end = reader.meta.anchor.batch, number - 1
        while end > anchor and number - end <= _FAR:
            begin = max(end - _WINDOW, anchor)
            batches = reader.batches(after=begin, until=end, verify=False)
            found = [one for batch in batches for one in self._in_force(batch)]
            if found:
                return found[-1], False
            end = begin
        return None, end <= anchor == 0
