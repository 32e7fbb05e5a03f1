"""Buckets merge without losing a sum."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from muster.report._timeline import LevelRanges, Series, Span, Timeline, joined

#: Instants that go up, each with the value that holds from there.
STEPS = st.lists(
    st.tuples(st.integers(0, 5_000), st.integers(0, 100)), min_size=1, max_size=30
).map(sorted)


def fed(
    steps: list[tuple[int, int]], end: int, most: int, begin: int = 0
) -> tuple[Timeline, Series]:
    timeline = Timeline(most)
    series = Series(timeline)
    for at, value in steps:
        if at >= begin:
            timeline.begin(begin)
        timeline.reach(at)
        series.set(value, at)
    timeline.begin(begin)
    timeline.reach(end)
    series.close(end)
    return timeline, series


def value_at(steps: list[tuple[int, int]], at: int) -> int:
    return next((value for since, value in reversed(steps) if since <= at), 0)


@given(STEPS, st.integers(1, 40), st.integers(0, 3_000))
def test_every_bucket_holds_the_integral(
    steps: list[tuple[int, int]], most: int, more: int
) -> None:
    end = steps[-1][0] + more
    timeline, series = fed(steps, end, most)
    width = timeline.width_us
    naive = [value_at(steps, at) for at in range(end)]

    assert end <= width * most + width  # the end itself may stand on the last edge
    for number, area in enumerate(series.areas):
        assert area == sum(naive[number * width : (number + 1) * width])
        assert series.peaks[number] == max(naive[number * width : (number + 1) * width])
    assert sum(series.areas) == sum(naive)


@given(STEPS, st.integers(1, 40), st.integers(0, 4_000))
def test_what_was_before_the_begin_does_not_count(
    steps: list[tuple[int, int]], most: int, begin: int
) -> None:
    end = max(steps[-1][0], begin) + 10
    _, series = fed(steps, end, most, begin)

    assert sum(series.areas) == sum(value_at(steps, at) for at in range(begin, end))


@given(STEPS, STEPS)
def test_absorbing_adds(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    end = 6_000
    timeline = Timeline(16)
    timeline.begin(0)
    one, other = Series(timeline), Series(timeline)
    for at, which, value in sorted(
        [(at, 0, value) for at, value in first] + [(at, 1, value) for at, value in second]
    ):
        timeline.reach(at)
        (other if which else one).set(value, at)
    one.absorb(other, 5_000)
    timeline.reach(end)
    one.close(end)

    assert sum(one.areas) == sum(value_at(first, at) + value_at(second, at) for at in range(end))


def test_the_width_doubles_until_all_has_room() -> None:
    timeline, series = fed([(0, 1)], 1_000, most=10)

    assert timeline.width_us == 128
    assert series.areas == [128] * 7 + [104]


def test_a_range_is_kept_where_there_is_no_sum() -> None:
    timeline = Timeline(4)
    timeline.begin(0)
    levels = LevelRanges(timeline)
    for at, value in [(0, 5), (1, -7), (2, None), (6, 3), (7, 4), (9, 4)]:
        timeline.reach(at)
        levels.set(value, at)

    assert timeline.width_us == 4
    assert levels.spans == [Span(-7, 5, -7), Span(3, 4, 4), Span(4, 4, 4)]


def test_nothing_joined_with_something() -> None:
    spans = [None, Span(1, 2, 1), None]

    assert [joined(first, second) for first, second in pairwise(spans)] == [spans[1], spans[1]]
    assert joined(None, None) is None
