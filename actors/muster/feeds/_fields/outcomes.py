"""Kinds of the fields that say how the work of an ask has ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from muster.feeds._fields.kinds import Kind
from muster.feeds._fields.numbers import TALLY, integer
from muster.feeds._fields.texts import one_of
from muster_core.events import Exit, Outcome
from muster_core.values.work.exit import MOST_SIGNAL, MOST_STATUS

EXIT_FIELDS: Final = {
    "exit_status": "status",
    "signal": "signal",
    "cpu_time": "cpu_us",
    "max_memory": "memory",
}
"""The fields of ``release`` that become its :class:`Exit`, and what they are there."""

EXIT_STATUS: Final = integer(0, MOST_STATUS, f"0 … {MOST_STATUS}")
SIGNAL: Final = integer(1, MOST_SIGNAL, f"1 … {MOST_SIGNAL}")
BYTES: Final = Kind("bytes", TALLY.parse, TALLY.normal)

_OUTCOME: Final = one_of(*(outcome.value for outcome in Outcome))
# BACKOFF-11
OUTCOME: Final = Kind(_OUTCOME.name, lambda value: Outcome(_OUTCOME.parse(value)), _OUTCOME.normal)


def exit_of(values: Mapping[str, object]) -> Exit | None:
    """Return how the fields of an event say that a process has ended; None if they do not."""
    told = {own: cast("int | None", values.get(name)) for name, own in EXIT_FIELDS.items()}
    return None if all(value is None for value in told.values()) else Exit(**told)
