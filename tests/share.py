"""Fewer examples, where each is a whole history and others are like it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings


def share(part: float) -> settings:
    """Let Hypothesis try a part of the examples that it would try otherwise.

    Args:
        part: How much of them, more than 0 and not more than 1.
    """
    return settings(max_examples=max(1, round(settings().max_examples * part)))


def every(number: int, values: Sequence[Any]) -> list[Any]:
    """Leave all but every n-th value of a parameter to ``make test-long``.

    Args:
        number: Which are kept: the first of so many each time.
        values: All values.
    """
    return [
        pytest.param(value, marks=pytest.mark.takes_long) if place % number else value
        for place, value in enumerate(values)
    ]
