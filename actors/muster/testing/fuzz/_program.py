"""Programs: what clients, observers and a binder do with a scheduler, as a frozen plan.

A program and nothing else says what happens in a run: also the order in which trio runs the
tasks that are ready, and where somebody is cancelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, final

import attrs
from typing_extensions import override

Key = tuple[str, ...]
"""What an event is about, such as ``("AddAsk", "a0", "k1")``: calls and entries are matched by it."""

Config = Mapping[str, Any]
"""A configuration as a map, in the form of a file."""


@final
@attrs.frozen
class Step:
    """One thing that a client does.

    Attributes:
        op: Which: the name of a method, or of something that is made of several.
        args: Its arguments.
        keys: The events that it lets in, if it returns.
        cancel_after: It is cancelled so many steps of all tasks after it began, or None.
        within_us: It is given up when so much time has passed, or None.
        pause: So many checkpoints are made before it.
        aside: It is done by a task of its own, and the client goes on.
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
        """Give the step in one line."""
        args = ", ".join(f"{name}={value!r}" for name, value in self.args.items())
        said = [f"{self.op}({args})"]
        if self.cancel_after is not None:
            said.append(f"cancelled {self.cancel_after} task steps later")
        if self.within_us is not None:
            said.append(f"given up after {self.within_us} us")
        if self.pause:
            said.append(f"after {self.pause} checkpoints")
        if self.aside:
            said.append("aside")
        return ", ".join(said)


@final
@attrs.frozen
class Client:
    """A task that uses the scheduler.

    Attributes:
        steps: What it does, in order.
        outside: It stands outside of the block, and sees the scheduler close.
        cancel_at: The whole client is cancelled at this step of all tasks, or None.
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
        together: It takes all that is there each time, instead of one.
        pause: So many checkpoints are made after each reading.
        pause_us: So much time passes after each reading.
        leaves_after: It closes after so many readings, or None.
        outside: It stands outside of the block.
    """

    wanted: Mapping[str, Any]
    together: bool = False
    pause: int = 0
    pause_us: int = 0
    leaves_after: int | None = None
    outside: bool = False


@final
class Fate(StrEnum):
    """What becomes of a binder's work."""

    FINISHES = "finishes"
    GOES_ON = "goes on until it is cancelled"
    FAILS_BEFORE = "fails before it has started"
    FAILS_AFTER = "fails after it has started"
    HANGS = "never starts"
    FORGETS = "returns without having started"


@final
@attrs.frozen
class Bind:
    """What one run of the binder does.

    Attributes:
        fate: How it ends, unless it is cancelled.
        start_us: So much time passes until it has started.
        work_us: So much time passes from then on.
        cleanup_us: So much time does it need to clean up when it is cancelled.
        pause: So many checkpoints are made first.
    """

    fate: Fate = Fate.FINISHES
    start_us: int = 0
    work_us: int = 0
    cleanup_us: int = 0
    pause: int = 0


@final
class How(StrEnum):
    """How the block is left."""

    DONE = "when everybody is done"
    EARLY = "in the middle, normally"
    ERROR = "in the middle, by an exception"
    CANCELLED = "in the middle, by cancellation"


@final
@attrs.frozen
class Leave:
    """How and when the block is left.

    Attributes:
        how: How.
        at: At which step of all tasks, if it is in the middle.
    """

    how: How = How.DONE
    at: int = 0


@final
@attrs.frozen
class Order:
    """In which order tasks run.

    Attributes:
        chance: What trio shuffles the tasks by that are ready.
        unfair: Some tasks always come last among those that are ready.
        delays: What injected checkpoints are drawn by, or None.
        longest: The largest number of checkpoints injected at one place.
        pauses: Rounds let others run after each decision, instead of never.
    """

    chance: int = 0
    unfair: bool = False
    delays: int | None = None
    longest: int = 3
    pauses: bool = False


@final
@attrs.frozen
class Program:
    """Everything that happens in one run.

    Attributes:
        config: The configuration that the scheduler is opened with, or None.
        configs: Those that it may be replaced by.
        clock_us: What the clock shows at first.
        prelude: What happens before clients begin.
        clients: The clients.
        watchers: Who reads decisions.
        binds: What the runs of the binder do, in turn; empty for no binder.
        bind_timeout_us: How long a binder has to start.
        bind_attempts: How many may fail in a row, or None.
        leave: How the block is left.
        order: In which order tasks run.
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

    @override
    def __str__(self) -> str:
        """Give the program in lines."""
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        lines = [f"configuration: {self.config}"]
        lines += [f"another one: {config}" for config in self.configs]
        lines += [f"{attrs.asdict(self.order)}", f"the clock starts at {self.clock_us} us"]
        lines += [f"binder: {bind}" for bind in self.binds]
        if self.binds:
            lines.append(f"bind_timeout: {self.bind_timeout_us} us, attempts: {self.bind_attempts}")
        lines += [f"first: {step}" for step in self.prelude]
        for number, client in enumerate(self.clients):
            place = "outside" if client.outside else "inside"
            cut = "" if client.cancel_at is None else f", cancelled at step {client.cancel_at}"
            lines.append(f"client {number} ({place}{cut}):")
            lines += [f"    {step}" for step in client.steps]
        lines += [f"watcher {number}: {one}" for number, one in enumerate(self.watchers)]
        at = "" if self.leave.how is How.DONE else f" (step {self.leave.at})"
        lines.append(f"the block is left {self.leave.how.value}{at}")
        return lines
