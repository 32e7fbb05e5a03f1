"""The naive model's forecasts: one small case for each sentence, by hand."""

from __future__ import annotations

import attrs

from tests.naive.backfill.forecast import fits_at, position, starts_at_us
from tests.naive.backfill.stories import BACKFILL, PLAIN, lasting, leaf, scope
from tests.naive.state import Ask
from tests.naive.story import APP, LOOSE, S, Story, asks, gang, node
from tests.naive.test_evictions import apps, queue, tree


def ask_of(story: Story, name: str, app: str = "a") -> Ask:
    return story.model.world.apps[app].asks[name]


def positions(story: Story) -> dict[str, int]:
    world = story.model.world
    return {ask.name: position(world, ask) for ask in world.pending()}


def fits(story: Story, name: str) -> int | str | None:
    found = fits_at(story.model.world, ask_of(story, name))
    if found is None:
        return None
    return "unknown" if found.start_us is None else found.start_us // S


def starts(story: Story, name: str, app: str = "a") -> int | None:
    found = starts_at_us(story.model, app, name)
    return None if found is None else found // S


def test_the_position_is_the_place_in_the_order_with_nothing_skipped() -> None:
    most = leaf("r", PLAIN, most=0)
    story = Story(scope(BACKFILL, most), node("n", 1), *apps(a="q", b="r"))
    story.play(asks("k"))
    story.play(asks("m", count=2), asks("over", app="b"), asks("high", priority=1))
    story.play(gang("g", 3), asks("l", of="g"))
    assert positions(story) == {"high": 1, "m-0": 2, "m-1": 3, "l": 4, "over": 5}


def test_fits_at_is_the_start_of_its_party_alone() -> None:
    story = Story(scope(), node("n", 3), APP, lasting("k", 10, cores=2), lasting("l", 20))
    story.play(asks("m", cores=3), asks("x", cores=2), asks("huge", cores=4))
    assert [fits(story, name) for name in ("m", "x", "huge")] == [20, 10, None]
    unknown = Story(node("n", 1), APP, asks("k"), asks("m"))
    assert fits(unknown, "m") == "unknown"


def test_fits_at_of_a_gang_is_that_of_all_that_it_lacks() -> None:
    story = Story(scope(), node("n", 3), APP, lasting("k", 10, cores=2), lasting("l", 20))
    story.play(gang("g", 3, mode=LOOSE), asks("m", of="g", count=3))
    assert [fits(story, f"m-{number}") for number in range(3)] == [20, 20, 20]
    story.play(gang("h", 2), asks("o", of="h"))
    assert fits(story, "o") is None


def test_it_starts_when_those_before_it_have_ended_as_expected() -> None:
    story = Story(scope(), node("n", 2), APP, lasting("k", 10, cores=2, run=7))
    story.play(lasting("m", 5, cores=2), lasting("l", 3, cores=2), asks("x", cores=2))
    story.play(asks("y"))
    assert [starts(story, name) for name in "mlxy"] == [10, 15, 18, None]
    assert story.model.world.now_us == 0


def test_it_never_starts_where_ends_are_unknown() -> None:
    story = Story(scope(), node("n", 1), APP, asks("k"), asks("m"))
    assert starts(story, "m") is None
    default = attrs.evolve(BACKFILL, estimate_us=4 * S)
    story.play(scope(default))
    assert starts(story, "m") == 4
    story.play(5 * S)
    assert starts(story, "m") == 8


def test_it_starts_though_it_is_evicted_in_the_same_batch() -> None:
    # OUTLOOK-3: at 10 m comes first. The queue of l is then below what it is guaranteed.
    story = Story(tree(queue("x", least=2), queue("y")), node("n", 2), *apps(a="x", b="y"))
    story.play(lasting("k", 10, cores=2))
    story.play(lasting("m", 20, cores=2, app="b", count=3), lasting("l", 5, cores=1))
    assert starts(story, "m-0", "b") == 10
