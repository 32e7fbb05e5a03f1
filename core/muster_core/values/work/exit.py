"""How the process of an ask has ended, and what it has used: kept beside what decisions depend on."""

from __future__ import annotations

from typing import Final, final

import attrs

from muster_core.values.errors import EventError

MOST_STATUS: Final = 255
MOST_SIGNAL: Final = 64
MOST_USED: Final = 2**63 - 1


# LISTS-17
@final
@attrs.frozen
class Exit:
    """How the process of an ask has ended, and what it has used; no decision depends on it.

    Attributes:
        status: Its exit status, or None if a signal ended it, or nobody knows.
        signal: The number of the signal that ended it, or None.
        cpu_us: The time that it and its children ran on CPUs, in microseconds, or None.
        memory: The most memory that one of them had at a time, in bytes, or None.

    Raises:
        EventError: If a value is out of range, or there is none.
    """

    status: int | None = None
    signal: int | None = None
    cpu_us: int | None = None
    memory: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the fields."""
        for name, value, least, most in (
            ("exit_status", self.status, 0, MOST_STATUS),
            ("signal", self.signal, 1, MOST_SIGNAL),
            ("cpu_time", self.cpu_us, 0, MOST_USED),
            ("max_memory", self.memory, 0, MOST_USED),
        ):
            if value is not None and not (type(value) is int and least <= value <= most):
                msg = f"{name}: {value!r} is not a whole number between {least} and {most}"
                raise EventError(msg)
        if attrs.astuple(self) == (None,) * 4:
            msg = "exited: nothing is said of how the process has ended"
            raise EventError(msg)
        if self.status is not None and self.signal is not None:
            msg = f"signal: {self.signal}: a process that has an exit status was not ended by one"
            raise EventError(msg)

    @classmethod
    def of(cls, status: int) -> Exit:
        """Return the end of a process, from its exit status, or minus the number of a signal."""
        return cls(status) if status >= 0 else cls(signal=-status)
