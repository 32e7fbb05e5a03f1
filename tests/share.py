"""Fewer examples than the profile has, where each is a whole history and others are like it."""

from __future__ import annotations

from hypothesis import settings


def share(part: float) -> settings:
    """Let Hypothesis try a part of the examples that it would try otherwise.

    Args:
        part: How much of them, more than 0 and not more than 1.
    """
    return settings(max_examples=max(1, round(settings().max_examples * part)))
