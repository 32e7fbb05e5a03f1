"""What is said of an error of a binder, in one line."""

from __future__ import annotations

import pytest
from typing_extensions import override

import muster
from muster._runtime.calls import MOST, in_words


class _UnspeakableError(Exception):
    @override
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            muster.NotStartedError("another member has not started"),
            "another member has not started",
        ),
        (FileNotFoundError(2, "No such file", "x"), "[Errno 2] No such file: 'x'"),
        (TimeoutError("not after 30 s"), "not after 30 s"),
        (ValueError("seven"), "ValueError: seven"),
        (ValueError(), "ValueError"),
        (OSError(), "OSError"),
        (KeyError("x"), "KeyError: 'x'"),
        (muster.MusterError("\n  boom\nTraceback:\n  File x"), "boom"),
        (ValueError("boom\nTraceback"), "ValueError: boom"),
        (muster.MusterError("a\tb \x1b[2J \udc80 é"), r"a\tb \x1b[2J \udc80 é"),
        (_UnspeakableError(), "_UnspeakableError"),
    ],
)
def test_one_line(error: Exception, words: str) -> None:
    # FEED-36
    assert in_words(error) == words


def test_what_counts_comes_first() -> None:
    away = muster.NotStartedError("the engine is away")
    inner = ExceptionGroup("inside", [away, ValueError("seven")])

    assert in_words(ExceptionGroup("of a nursery", [away, inner])) == "ValueError: seven"
    assert in_words(ExceptionGroup("of a nursery", [away])) == "the engine is away"


def test_it_is_cut_short() -> None:
    words = in_words(muster.MusterError("x" * 1000))

    assert (len(words), words[-2:]) == (MOST, "x…")
