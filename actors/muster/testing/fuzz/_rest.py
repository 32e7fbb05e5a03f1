"""Checks at rest, when every task is blocked: only calls that may wait do so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from muster.testing.fuzz._clients.clients import Hands, Waits
from muster.testing.fuzz._clients.watching import Seen, faults_of
from muster.testing.fuzz._clients.workers import MindedBinder
from muster.testing.fuzz._records.book import Call, CallLog
from muster.testing.fuzz._records.story import Story


def faults_at_rest(
    call_log: CallLog,
    story: Story,
    binder: MindedBinder | None,
    hands: Iterable[Hands],
    seen: Iterable[Seen],
) -> list[str]:
    """Return all faults while every task is blocked and the block has not ended."""
    faults = [fault for call in call_log.open.values() for fault in _of_call(call, story, binder)]
    for hand in hands:
        for kept in hand.left:
            ask = (kept.allocation.app, kept.allocation.ask)
            if kept.seq and _bound_by(story, ask) == kept.seq:
                faults.append(f"{ask} was released, and is bound by decision {kept.seq} still")
        hand.left.clear()
    if binder is not None:
        faults += _of_binder(binder, story)
    for number, one in enumerate(seen):
        faults += faults_of(number, one, story, at_rest=True)
    return faults


def _bound_by(story: Story, ask: tuple[str, str]) -> int:
    bound = story.bound.get(ask)
    return 0 if bound is None else bound.seq


def _of_call(call: Call, story: Story, binder: MindedBinder | None) -> Iterator[str]:
    if not call.waits:
        yield f"{call}, and nothing can go on"
        return
    match call.about:
        case Waits("bound", (_, _) as ask):
            seq = _bound_by(story, ask)
            active = None if binder is None else binder.active().get(ask)
            if seq and (binder is None or (active is not None and active.started)):
                yield f"{call}, though decision {seq} has bound it"
        case Waits("ended" | "running", (_, _) as ask, seq, kept=kept) if seq:
            is_cut_short = kept is None or not kept.is_released
            if is_cut_short and _bound_by(story, ask) != seq:
                yield f"{call}, though the allocation of decision {seq} is over"
        case Waits("satisfied", gang=str(gang)):
            if gang in story.satisfied:
                yield f"{call}, though the gang is satisfied"
        case _:
            pass


def _of_binder(binder: MindedBinder, story: Story) -> Iterator[str]:
    active, cleaning = binder.active(), binder.cleaning()
    for ask, run in active.items():
        seq = _bound_by(story, ask)
        if not seq or (run.seq and run.seq != seq):
            yield f"the binder goes on with {ask}, though its allocation is over"
    for ask, bound in story.bound.items():
        if ask not in active and ask not in cleaning:
            yield f"{ask} is bound by decision {bound.seq}, and the binder is not running for it"
    for ask, times in binder.times_run().items():
        if times > story.times_bound[ask]:
            yield f"the binder was run {times} times for {ask}, bound {story.times_bound[ask]} times"
