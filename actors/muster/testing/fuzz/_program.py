"""Programs: frozen plans of what clients, observers and a binder do with a scheduler.

A program determines everything that happens in a run, including the order in which trio runs
ready tasks, and the points of cancellation.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, final

import attrs
from typing_extensions import override

Key = tuple[str, ...]
"""The kind and subject of an event, such as ``("AddAsk", "a0", "k1")``; calls are matched to
recorded events by it."""

Config = Mapping[str, Any]
"""A configuration as a map in the form of a file."""


@final
@attrs.frozen
class Step:
    """One step of a client.

    Attributes:
        op: The name of a method, or of an action of several calls.
        args: Its arguments.
        keys: The events that it submits, if it returns.
        cancel_after: After how many task steps it is cancelled, or None.
        within_us: Its timeout in microseconds, or None.
        pause: How many checkpoints are made before it.
        aside: Whether it runs in a task of its own, while the client continues.
    """

    op: str
    args: Mapping[str, Any]
    keys: tuple[Key, ...] = ()
    cancel_after: int | None = None
    within_us: int | None = None
    pause: int = 0
    aside: bool = False

    @override
    def __str__(self) -> str:
        """Return the step as one line."""
        args = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        parts = [f"{self.op}({args})"]
        if self.cancel_after is not None:
            parts.append(f"cancelled {self.cancel_after} task steps later")
        if self.within_us is not None:
            parts.append(f"given up after {self.within_us} us")
        if self.pause:
            parts.append(f"after {self.pause} checkpoints")
        if self.aside:
            parts.append("aside")
        return ", ".join(parts)


@final
@attrs.frozen
class Client:
    """A task that uses the scheduler.

    Attributes:
        steps: Its steps, in order.
        outside: Whether it runs outside of the block, and so after the scheduler is closed.
        cancel_at: The number of the task step at which the whole client is cancelled, or None.
    """

    steps: tuple[Step, ...]
    outside: bool = False
    cancel_at: int | None = None


@final
@attrs.frozen
class Watcher:
    """A task that reads decisions.

    Attributes:
        wanted: The arguments of ``decisions``; ``where`` is the remainder of ``seq`` by 3.
        together: Whether each reading takes all decisions that are there, instead of one.
        pause: How many checkpoints are made after each reading.
        pause_us: How long it sleeps after each reading, in microseconds.
        leaves_after: After how many readings it closes, or None.
        outside: Whether it runs outside of the block.
    """

    wanted: Mapping[str, Any]
    together: bool = False
    pause: int = 0
    pause_us: int = 0
    leaves_after: int | None = None
    outside: bool = False


@final
class Fate(StrEnum):
    """How the work of a binder ends."""

    FINISHES = "finishes"
    GOES_ON = "goes on until it is cancelled"
    FAILS_BEFORE = "fails before it has started"
    FAILS_AFTER = "fails after it has started"
    REPORTS = "reports after it has started that it has failed"
    HANGS = "never starts"
    FORGETS = "returns without having started"


@final
@attrs.frozen
class Bind:
    """The plan of one run of the binder.

    Attributes:
        fate: How it ends, unless it is cancelled.
        start_us: How long it takes to start, in microseconds.
        work_us: How long it works after the start, in microseconds.
        cleanup_us: How long it cleans up when it is cancelled, in microseconds.
        pause: How many checkpoints are made first.
    """

    fate: Fate = Fate.FINISHES
    start_us: int = 0
    work_us: int = 0
    cleanup_us: int = 0
    pause: int = 0


@final
class LeaveMethod(StrEnum):
    """How the block ends."""

    DONE = "when everybody is done"
    EARLY = "in the middle, normally"
    ERROR = "in the middle, by an exception"
    CANCELLED = "in the middle, by cancellation"


@final
@attrs.frozen
class Leave:
    """How and when the block ends.

    Attributes:
        how: How it ends.
        at: The number of the task step at which it ends, if it ends in the middle.
    """

    how: LeaveMethod = LeaveMethod.DONE
    at: int = 0


@final
@attrs.frozen
class Order:
    """The order in which tasks run.

    Attributes:
        chance: The seed with which trio shuffles ready tasks.
        unfair: Whether some tasks always run after all other ready tasks.
        delays: The seed of the checkpoints before owners read their mailboxes; None for none.
        longest: The largest number of such checkpoints at one place.
        pauses: Whether rounds let other tasks run after each decision, instead of never.
    """

    chance: int = 0
    unfair: bool = False
    delays: int | None = None
    longest: int = 3
    pauses: bool = False


@final
@attrs.frozen
class Store:
    """How a program keeps its state.

    Attributes:
        checkpoint_every: After how many events a checkpoint is taken at the earliest.
        restarts: Whether the block is left after half of the steps, and entered again for the rest.
    """

    checkpoint_every: int = 50_000
    restarts: bool = False


@final
@attrs.frozen
class Program:
    """Everything that happens in one run.

    Attributes:
        config: The configuration with which the scheduler is opened, or None.
        configs: The configurations that may replace it.
        clock_us: The first time of the clock, in microseconds.
        prelude: The steps before clients begin.
        clients: The clients.
        watchers: The tasks that read decisions.
        binds: The plans for the runs of the binder, in turn; empty for no binder.
        bind_timeout_us: How long a binder may take to start, in microseconds.
        bind_attempts: How often in a row the work of an ask may fail, or None.
        leave: How and when the block ends.
        order: The order in which tasks run.
        store: How the state is kept, or None if it is not.
    """

    config: Config | None
    configs: tuple[Config, ...] = ()
    clock_us: int = 0
    prelude: tuple[Step, ...] = ()
    clients: tuple[Client, ...] = ()
    watchers: tuple[Watcher, ...] = ()
    binds: tuple[Bind, ...] = ()
    bind_timeout_us: int = 30_000_000
    bind_attempts: int | None = 3
    leave: Leave = Leave()
    order: Order = Order()
    store: Store | None = None

    @override
    def __str__(self) -> str:
        """Return the program as a text of several lines."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [f"configuration: {self.config}"]
        lines += [f"another one: {config}" for config in self.configs]
        lines += [f"{attrs.asdict(self.order)}", f"the clock starts at {self.clock_us} us"]
        lines += [f"binder: {bind}" for bind in self.binds]
        if self.binds:
            lines.append(f"bind_timeout: {self.bind_timeout_us} us, attempts: {self.bind_attempts}")
        if self.store is not None:
            lines.append(f"{self.store}")
        lines += [f"first: {step}" for step in self.prelude]
        for number, client in enumerate(self.clients):
            place = "outside" if client.outside else "inside"
            cut = "" if client.cancel_at is None else f", cancelled at step {client.cancel_at}"
            lines.append(f"client {number} ({place}{cut}):")
            lines += [f"    {step}" for step in client.steps]
        lines += [f"watcher {number}: {one}" for number, one in enumerate(self.watchers)]
        at = "" if self.leave.how is LeaveMethod.DONE else f" (step {self.leave.at})"
        lines.append(f"the block is left {self.leave.how.value}{at}")
        return lines
