"""The naive model's limits of time: one small case for each sentence, by hand."""

from __future__ import annotations

from typing import Final

import attrs

from muster_core.config.model import Settings
from muster_core.decisions import Kind
from muster_core.events import AddAsk, BindFailed, Configure, RemoveGang, RemoveNode
from tests.naive.harness import APP, LOOSE, S, Story, What, asks, gang, node
from tests.naive.test_reasons import queue, tree

LIMITED: Final = Settings(preemption_delay_us=1000 * S, run_limit_us=5 * S)


def leaf(settings: Settings) -> Configure:
    return tree(queue("q", settings=settings))


def timed(
    name: str,
    gang: str | None = None,
    *,
    cores: int = 1,
    run: int | None = None,
    limit: int | None = None,
    by: int | None = None,
) -> AddAsk:
    """Return an ask whose times are in seconds."""
    return attrs.evolve(
        asks(name, of=gang, cores=cores),
        run_for_us=None if run is None else run * S,
        run_limit_us=None if limit is None else limit * S,
        start_by_us=None if by is None else by * S,
    )


def releases(story: Story, *steps: What | int) -> list[tuple[int, str, str, str | None]]:
    """Play steps to the end, and return the releases: when, why, and from which node."""
    story.play(*steps)
    return [
        (batch.at_us // S, one.ask or "", str(one.reason), one.node)
        for batch in story.drive.finish()
        for one in batch.decisions
        if one.kind is Kind.RELEASED
    ]


# Run limits


def test_the_smaller_limit_counts() -> None:
    story = Story(leaf(LIMITED), node("n", 3), APP)
    found = releases(story, timed("long", limit=9), timed("short", limit=2), timed("none"))
    assert found == [
        (2, "short", "run_limit", "n"),
        (5, "long", "run_limit", "n"),
        (5, "none", "run_limit", "n"),
    ]


def test_it_is_the_limit_of_the_bind() -> None:
    story = Story(leaf(LIMITED), node("n", 2), APP, timed("before"))
    wider = attrs.evolve(LIMITED, run_limit_us=8 * S)
    found = releases(story, S, leaf(wider), timed("after"))
    assert found == [(5, "before", "run_limit", "n"), (9, "after", "run_limit", "n")]


def test_what_completes_at_that_instant_has_completed() -> None:
    story = Story(node("n", 2), APP)
    found = releases(story, timed("a", run=3, limit=3), timed("b", run=4, limit=3))
    assert found == [(3, "a", "completed", "n"), (3, "b", "run_limit", "n")]


def test_each_bind_begins_anew() -> None:
    story = Story(node("n", 1), APP, timed("k", limit=4))
    found = releases(story, 3 * S, BindFailed("a", "k"))
    assert found == [(3, "k", "bind_failed", "n"), (7, "k", "run_limit", "n")]


def test_the_gang_stays() -> None:
    story = Story(node("n", 2), APP, gang("g", 2), timed("x", "g", limit=2), timed("y", "g"))
    story.play(3 * S)
    assert story.gang("g") == (0, 1, 0, 0)
    assert story.model.gangs["default/g"].satisfied


# Starts


def test_what_is_not_bound_by_then_is_gone() -> None:
    story = Story(node("n", 1), APP, timed("first", by=2), timed("second", by=2))
    assert releases(story) == [(2, "second", "expired", None)]
    assert Story(APP).play(3 * S, timed("late", by=2)) == ["rejected"]


def test_an_ask_that_comes_at_that_instant_is_tried_once() -> None:
    story = Story(APP, node("n", 1), timed("first", by=0), timed("second", by=0))
    assert releases(story) == [(0, "second", "expired", None)]


def test_who_loses_its_node_before_has_until_then_and_later_for_ever() -> None:
    story = Story(node("n", 1), APP, timed("k", by=4))
    assert releases(story, S, RemoveNode("n"))[1:] == [(4, "k", "expired", None)]
    story = Story(node("n", 1), APP, timed("k", by=4))
    assert len(releases(story, 5 * S, RemoveNode("n"))) == 1
    assert story.model.pending == {"a/k"}


def test_an_unsatisfied_gang_goes_as_a_whole() -> None:
    two = gang("g", 3, mode=LOOSE)
    story = Story(node("n", 1), APP, two, timed("w", "g"), timed("x", "g", by=2), timed("y", "g"))
    found = releases(story, timed("z", cores=9))
    assert found == [
        (2, "w", "expired", "n"),
        (2, "x", "expired", None),
        (2, "y", "expired", None),
    ]


def test_of_a_satisfied_gang_only_the_member_goes() -> None:
    story = Story(node("n", 1), APP, gang("g", 1), timed("w", "g"))
    found = releases(story, timed("x", "g", by=2), timed("y", "g"))
    assert found == [(2, "x", "expired", None)]
    assert story.gang("g") == (0, 1, 1, 0)


def test_a_gang_without_definition_is_not_satisfied() -> None:
    story = Story(node("n", 1), APP, gang("g", 1), timed("w", "g"))
    story.play(timed("x", "g", by=2), timed("y", "g"), RemoveGang("default/g"))
    assert releases(story) == [(2, "x", "expired", None), (2, "y", "expired", None)]


def test_at_one_instant_the_oldest_goes_first_whatever_its_priority() -> None:
    story = Story(APP, timed("low", by=3), attrs.evolve(timed("high", by=3), priority=9))
    assert [name for _, name, _, _ in releases(story)] == ["low", "high"]


def test_run_limits_come_before_starts() -> None:
    story = Story(node("n", 1), APP, timed("waits", cores=2, by=3), timed("runs", limit=3))
    assert [name for _, name, _, _ in releases(story)] == ["runs", "waits"]
