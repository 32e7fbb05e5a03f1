"""What a state directory holds from before the checkpoint from which a replay goes on.

The decisions are kept, so nothing of that is decided again, and batches that do not name what is
asked for are not even decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from muster.explain._history import History
from muster.feeds import FeedItem, KeptFeed
from muster.replay import Remark
from muster_core.decisions import Kind

if TYPE_CHECKING:
    from muster.store import KeptBatch

_REJECTED: Final = Kind.REJECTED
_WORD: Final = b"rejected"


def learn(kept: KeptFeed, history: History) -> None:
    """Let a history learn what happened to its ask before the replay.

    Raises:
        FeedError: If the directory cannot be read.
    """
    if kept.facts is None:
        return
    name = history.app.encode("utf-8", "surrogatepass")
    found: list[tuple[int, KeptBatch]] = []
    events = 0
    for batch in kept.earlier():
        if name in batch.packed_events or name in batch.packed_decisions:
            found.append((events, batch))
        events += batch.event_count
    # How many events came before those that are kept is known only now.
    first = kept.facts.coordinator.requests - events
    history.begin(complete=first == 0)
    for position, batch in found:
        for index, event in enumerate(batch.events, first + position):
            history.saw(FeedItem(index, None, batch.at_us, event))
        history.heard(batch.decisions)


def first_refusals(kept: KeptFeed, most: int) -> tuple[Remark, ...]:
    """Return the first events that were refused before the replay, as far as they are kept.

    Args:
        kept: The state directory.
        most: How many are returned at most.

    Raises:
        FeedError: If the directory cannot be read.
    """
    if kept.facts is None or not kept.facts.coordinator.refused:
        return ()
    found: list[Remark] = []
    for remark in _refusals(kept):
        found.append(remark)
        if len(found) == most:
            break
    return tuple(found)


def _refusals(kept: KeptFeed) -> Iterator[Remark]:
    for batch in kept.earlier():
        if _WORD in batch.packed_decisions:
            for announced in batch.decisions:
                if announced.decision.kind is _REJECTED:
                    yield Remark.of(announced.decision)
