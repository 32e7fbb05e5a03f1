"""Answering the calls that read the state and change nothing, between two batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, assert_never, final

from muster._runtime.clients.calls import (
    Inspect,
    ListAsks,
    LookInto,
    Survey,
    TakeFacts,
    TrackAsk,
    TrackGang,
    Why,
)
from muster_core.errors import MusterError, RefusedError

if TYPE_CHECKING:
    from muster._runtime.batches import Batches
    from muster._runtime.clients.tracking import Tracker
    from muster._runtime.pace import Pace

Looking: TypeAlias = (
    "TrackAsk | TrackGang | ListAsks | Survey | Why | LookInto | Inspect[Any] | TakeFacts"
)
"""The calls that only look at the state."""


@final
class Readings:
    """Answers calls from the state between two batches.

    Args:
        batches: Runs the batches, and has the machine.
        tracker: Tracks asks and gangs.
        pace: The pace of all tasks of the scheduler.
    """

    def __init__(self, batches: Batches, tracker: Tracker, pace: Pace) -> None:
        self._batches = batches
        self._tracker = tracker
        self._pace = pace

    async def answer(self, call: Looking) -> None:
        """Answer a call; everything that was decided is announced."""
        match call:
            case Survey():
                call.answer.give(await self._batches.snapshot())
            case Why():
                explained = await self._batches.explain(
                    call.app, call.ask, with_facts=call.with_facts
                )
                call.answer.give(explained)
            case LookInto():
                call.answer.give(await self._batches.examine(call.examiner))
            case TakeFacts():
                call.answer.give(await self._batches.facts())
            case Inspect():
                await self._inspect(call)
            case TrackAsk() | TrackGang() | ListAsks():
                await self._track(call)
            case _:
                assert_never(call)

    async def _inspect(self, call: Inspect[Any]) -> None:
        try:
            call.answer.give(await self._pace.take(call.look(self._batches.machine)))
        except MusterError as error:
            call.answer.fail(error)

    async def _track(self, call: TrackAsk | TrackGang | ListAsks) -> None:
        match call:
            case TrackAsk():
                try:
                    call.answer.give(self._tracker.track(call.app, call.ask))
                except RefusedError as error:
                    call.answer.fail(error)
            case TrackGang():
                call.answer.give(self._tracker.track_gang(call.gang))
            case ListAsks():
                asks = self._tracker.select(call.state, call.queue, call.app)
                call.answer.give(await self._pace.take(asks))
            case _:
                assert_never(call)
