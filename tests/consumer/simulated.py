"""A program that tries something out in virtual time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import assert_type

import trio

import muster
from muster.config_files import parse_configuration
from muster.explain import Answer, Fate, Overview, Remedy, RemedyKind, explain, explain_all
from muster.feeds import FeedOrigin, date_text, parse_date, read_feed
from muster.replay import Check, Tally, replay
from muster.report import Board, Content, Ending, QueueNow, Recorder, as_words, page
from muster.testing import Recording, check
from muster_core.config.model import QueueConfig
from muster_core.events import AddApp, AddAsk, AddNode, RemoveNode
from muster_core.resources import Resources
from muster_core.snapshots import ReservationSnapshot


async def main() -> None:
    """Let events in, let time pass, and look."""
    log = Recording()
    configuration = parse_configuration("partitions: [{name: default, queues: [{name: root}]}]")
    opened = muster.open_simulation(configuration, journal=log)
    manager: AbstractAsyncContextManager[muster.Simulation] = opened
    async with manager as simulation:
        assert_type(simulation, muster.Simulation)
        await simulation.submit(AddNode("a", Resources({"vcore": 1000})))
        await simulation.submit(AddApp("app", "root.team"), at_us=5, index=1, line=3)
        ask = AddAsk(app="app", ask="one", resources=Resources({"vcore": 1}), run_for_us=10)
        assert_type(await simulation.request(ask), None)
        await simulation.refuse("cannot be read", at_us=6)
        await simulation.settle(7)
        assert_type(await simulation.why_pending("app", "one"), muster.Explanation | None)
        assert_type(await simulation.snapshot(), muster.Snapshot)
        assert_type(simulation.statistics(), muster.Statistics)
        assert_type(simulation.queues(), Mapping[str, QueueConfig])
        assert_type(simulation.reservations(), Mapping[str, ReservationSnapshot])
        assert_type(simulation.next_timer_us(), int | None)
        await simulation.finish(until_us=1_000_000)
        await check(simulation)
        await simulation.examine(lambda examined: None)
        with suppress(muster.RefusedError):
            await simulation.request(RemoveNode("b"))
    assert_type(log.decisions, list[muster.Announced])
    checked = Check()
    origin = FeedOrigin()
    await checked.run(read_feed("first.yaml", origin=origin))
    assert_type(origin.us, int | None)
    assert_type(date_text(parse_date("2026-01-31")), str)
    answer = explain(read_feed("first.yaml"), "report", "part-4", at_us=1_000_000)
    assert_type(answer, Answer)
    assert_type(answer.whereabouts.fate, Fate)
    assert_type(answer.ends_at_us, int | None)
    assert_type(answer.held_back_later, muster.PendingReason | None)
    assert_type(answer.remedies, tuple[Remedy, ...])
    nodes = [remedy for remedy in answer.remedies if remedy.kind is RemedyKind.NODE]
    assert_type([remedy.smallest for remedy in nodes], list[Mapping[str, int] | None])
    assert_type(answer.explanation, muster.Explanation | None)
    assert_type(explain_all(read_feed("first.yaml")), Overview)
    await report()


async def report() -> None:
    """Have a page written of a replay."""
    recorder, board, tally = Recorder(), Board(), Tally()
    await replay(read_feed("first.yaml"), watchers=[recorder, board], tally=tally)
    recorder.close(tally.at_us)
    content = Content(recorder, tally.summary(), "first.yaml", Ending.COMPLETE)
    assert_type(page(content), str)
    assert_type(board.queues(), list[tuple[str, QueueNow]])
    assert_type([as_words(announced.as_map()) for announced in board.recent], list[str])


if __name__ == "__main__":
    trio.run(main)
