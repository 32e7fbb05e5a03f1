"""How long an ask backs off after failed binds."""

from __future__ import annotations

import pytest

from muster_core.owners.asks import FailedBinds, one_more

S = 1_000_000


@pytest.mark.parametrize(
    ("times", "factor"),
    [(1, 1), (2, 2), (3, 4), (6, 32), (7, 64), (8, 64), (63, 64), (10**9, 64)],
)
def test_a_back_off_doubles_up_to_64_times_the_delay(times: int, factor: int) -> None:
    assert FailedBinds(times, 5).until_us(10 * S) == 5 + factor * 10 * S


def test_without_a_delay_it_is_over_at_once() -> None:
    assert FailedBinds(3, 5).until_us(0) == 5


def test_failures_are_counted_in_a_row() -> None:
    first = one_more(None, 7)

    assert first == FailedBinds(1, 7)
    assert one_more(first, 9) == FailedBinds(2, 9)
