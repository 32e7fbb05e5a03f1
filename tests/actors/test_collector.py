"""The garbage collector of a service: what is collected, and when."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import final

import pytest

from muster._collector import collect_new


@final
class Cycle:
    """An object that only the collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _by_hand() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_many_new_objects_are_collected() -> None:
    cycle = weakref.ref(Cycle())
    more = [[number] for number in range(20_000)]
    collect_new()
    assert cycle() is None
    assert len(more) == 20_000


def test_few_new_objects_are_left_to_the_next_time() -> None:
    cycle = weakref.ref(Cycle())
    more = [[number] for number in range(1_000)]
    collect_new()
    assert cycle() is not None
    assert len(more) == 1_000


def test_what_was_collected_in_vain_is_collected_again_now_and_then() -> None:
    one = Cycle()
    cycle, kept = weakref.ref(one), list[list[list[int]]]()
    kept.append([[number] for number in range(20_000)])
    collect_new()
    del one
    for _ in range(60):
        kept.append([[number] for number in range(11_000)])
        collect_new()
    assert cycle() is None
