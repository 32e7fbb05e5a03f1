"""Time that passes: from one instant at which timers are due to the next."""

from __future__ import annotations

from collections.abc import Iterator

from muster_core.coordinator.coordinator import CoordinatorMachine


def pass_time(machine: CoordinatorMachine, until_us: int | None) -> Iterator[int]:
    """Let time pass while no batch is open.

    Args:
        machine: Whose time it is.
        until_us: Up to when, in microseconds, the timers of that instant included; None: until
            no timer is left.

    Yields:
        Each instant at which a timer is due. It is the present one then, and whoever drives the
        coordinator begins a batch there and ends it before going on.
    """
    while (due_us := machine.next_deadline_us()) is not None:
        if until_us is not None and due_us > until_us:
            break
        machine.now_us = due_us
        yield due_us
    if until_us is not None and until_us > machine.now_us:
        machine.now_us = until_us
