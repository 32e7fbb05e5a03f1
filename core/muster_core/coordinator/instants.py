"""Virtual time: going from one instant with due timers to the next one."""

from __future__ import annotations

from collections.abc import Iterator

from muster_core.coordinator.coordinator import CoordinatorMachine


# ROUND-4
def pass_time(machine: CoordinatorMachine, until_us: int | None) -> Iterator[int]:
    """Let virtual time pass while no batch is open.

    Args:
        machine: The coordinator's state machine.
        until_us: The last instant, in microseconds, including its timers; None: until no timer
            is left.

    Yields:
        Each instant with due timers, in microseconds, which is then the present one. The caller
        begins and ends a batch before it continues.
    """
    while (due_us := machine.next_deadline_us()) is not None:
        if until_us is not None and due_us > until_us:
            break
        machine.now_us = due_us
        yield due_us
    if until_us is not None and until_us > machine.now_us:
        machine.now_us = until_us
