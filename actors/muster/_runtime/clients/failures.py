"""What an error of a binder means: that work has failed, or why it could not be started."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, cast

from muster._errors import NotStartedError, WorkFailedError
from muster_core.errors import MusterError

MOST: Final = 300
"""How long what a decision says of an error may be, in characters."""


def failure_in(error: Exception) -> WorkFailedError | None:
    """Return the first error in a group that says that the work has failed, or None."""
    if isinstance(error, WorkFailedError):
        return error
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return next((found for one in group.exceptions if (found := failure_in(one))), None)
    return None


def counts(error: Exception) -> bool:
    """Return whether an error counts as a failed attempt to start the work of an ask."""
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        return any(counts(one) for one in group.exceptions)
    return not isinstance(error, NotStartedError)


# FEED-36
def in_words(error: Exception) -> str:
    """Return in one line why work could not be started; never a whole traceback.

    Of a group it is the first error that counts, or the first one of all.
    """
    while isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        error = next((one for one in group.exceptions if counts(one)), group.exceptions[0])
    name = type(error).__name__
    line = ""
    with suppress(Exception):  # the error may be of the program, and its text may fail
        line = _first_line(str(error))
    is_enough = line and isinstance(error, MusterError | OSError)
    text = line if is_enough else f"{name}: {line}" if line else name
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"


def _first_line(text: str) -> str:
    """Return the first line that is not empty, of what can be printed and written as UTF-8."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line.strip())
