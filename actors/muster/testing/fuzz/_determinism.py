"""Determinism: a seed sets the order of tasks, the points of cancellation and the progress of a store.

trio shuffles ready tasks with a random generator of its own. This module replaces it, as
pytest-trio and Hypothesis do. The generator is a private part of trio; if a version of trio does
not have it, this raises :class:`UnknownTrioError`.

No seed determines when a thread is done. So the store's calls run in its task here, with a seeded
number of checkpoints before and after each, in which others run as they do beside a thread. An alarm
ends runs that never block.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import shutil
import signal
import sys
import tempfile
import threading
import zlib
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from math import inf
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple, final

import trio
from typing_extensions import override

from muster._runtime import clock as pace_module
from muster.testing.fuzz._program import Order

if TYPE_CHECKING:
    from muster._runtime.storage import RunInThread
    from muster.store import StateReader


_SCHEDULER: Final = "trio._core._run"
_CHANCE: Final = "_r"
_SORTS: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"


class UnknownTrioError(RuntimeError):
    """This version of trio does not let its scheduler be seeded."""


@final
class _Unfair(Random):
    """Always runs some of the ready tasks after all others.

    Some faults appear only if a task is behind all others for long, and shuffling alone hardly
    ever does this. The choice of these tasks changes now and then.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._salt = seed

    @override
    def shuffle(self, x: Any) -> None:
        super().shuffle(x)
        if self.random() < 0.02:
            self._salt = self.randrange(2**32)
        # trio takes tasks from the end, so the first task runs last.
        x.sort(key=self._is_quick)

    def _is_quick(self, task: trio.lowlevel.Task) -> bool:
        return bool(zlib.crc32(task.name.encode(), self._salt) % 3)


@contextlib.contextmanager
def ordered(order: Order) -> Generator[None, None, None]:
    """Make trio run ready tasks in the order of a program, in runs that begin inside the block.

    Raises:
        UnknownTrioError: If this version of trio does not let its scheduler be seeded.
    """
    scheduler = import_module(_SCHEDULER).__dict__
    if not isinstance(scheduler.get(_CHANCE), Random) or _SORTS not in scheduler:
        msg = f"trio {trio.__version__} does not let the order of its tasks be seeded"
        raise UnknownTrioError(msg)
    chance = _Unfair(order.chance) if order.unfair else Random(order.chance)
    pace = pace_module.__dict__
    before = scheduler[_CHANCE], scheduler[_SORTS], pace["SLICE_S"]
    # With the real clock, rounds would let other tasks run at times that no seed determines.
    slice_s = -inf if order.pauses else inf
    scheduler[_CHANCE], scheduler[_SORTS], pace["SLICE_S"] = chance, True, slice_s
    try:
        yield
    finally:
        scheduler[_CHANCE], scheduler[_SORTS], pace["SLICE_S"] = before


def lift_shields() -> None:
    """Remove the shields of all tasks, for runs that cannot end otherwise."""
    root = trio.lowlevel.current_root_task()
    tasks = [] if root is None else [root]
    while tasks:
        task = tasks.pop()
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        status = getattr(task, "_cancel_status", None)
        while status is not None:
            status._scope.shield = False  # noqa: SLF001 - trio has no public way to the scope
            status = status.parent


@final
class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks, and cancels scopes at some of them.

    Attributes:
        count: How many steps there were.
        order: A hash of the order in which tasks made steps.
        cancelled: How many scopes were cancelled.
    """

    def __init__(self) -> None:
        self.count = 0
        self.order = 0
        self.cancelled = 0
        self._cuts: dict[int, list[trio.CancelScope | trio.Event]] = {}
        self._numbers: dict[trio.lowlevel.Task, int] = {}

    def at(self, step: int, what: trio.CancelScope | trio.Event) -> None:
        """Cancel a scope or set an event before the given step, or the next if it is over."""
        self._cuts.setdefault(max(step, self.count + 1), []).append(what)

    @override
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += 1
        number = self._numbers.setdefault(task, len(self._numbers))
        self.order = hash((self.order, number))
        for what in self._cuts.pop(self.count, ()):
            if isinstance(what, trio.Event):
                what.set()
            else:
                self.cancelled += not what.cancel_called
                what.cancel()


LONGEST_S: Final = 10.0
"""How long a run may take, in seconds of real time."""

AGAIN_S: Final = 5.0
"""How long to wait before the next, harder attempt to end a run, in seconds."""

MOST_RINGS: Final = 25
"""How many attempts there are before the process exits. Each raises an exception in at most one
task, and a program may have a dozen tasks that shield themselves from cancellation."""

UNSTOPPABLE: Final = 70
"""The exit status of a process that could not end a run (EX_SOFTWARE in sysexits.h)."""


class EndlessError(BaseException):
    """A run did not end in time. A BaseException, so that no binder catches it by mistake."""


@contextlib.contextmanager
def alarm(cancel: Callable[[], None], about: Callable[[], str]) -> Generator[None, None, None]:
    """End a run that takes too long, on systems with signals.

    The first attempt cancels the run. The next ones raise an exception in the code that is
    running. If it catches this several times, the process exits.

    Args:
        cancel: Cancels the run; called from a signal handler.
        about: Returns a description of the run.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return
    rings = 0

    def ring(*_: object) -> None:
        nonlocal rings
        rings += 1
        if rings == 1:
            cancel()
        elif rings < MOST_RINGS:
            raise EndlessError(too_long())
        else:
            sys.stderr.write(f"{too_long()}, and cannot be ended:\n{about()}\n")
            faulthandler.dump_traceback()
            os._exit(UNSTOPPABLE)

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def too_long() -> str:
    """Return the message for a run that takes too long."""
    return f"not over after {LONGEST_S:g} s of real time"


R = TypeVar("R")
A = TypeVarTuple("A")

_STORAGE: Final = "muster._runtime.storage"
_THREAD: Final = "_thread"
_MEMORY: Final = Path("/dev/shm")
_LONGEST: Final = 6
"""The largest number of checkpoints before a call of the store, and after it."""


@final
class ProgramStore:
    """The store of one program. Use it as a context manager: it is removed afterwards.

    Args:
        chance: The seed for how long its calls take.
    """

    def __init__(self, chance: int) -> None:
        self._random = Random(chance)
        self._reader: StateReader | None = None
        self.directory = Path()

    @contextmanager
    def there(self) -> Generator[None]:
        """Make the folder of the store, and run its calls in tasks."""
        storage = import_module(_STORAGE).__dict__
        folder = tempfile.mkdtemp(prefix="muster-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)
        self.directory = Path(folder) / "state"
        before = storage[_THREAD]
        storage[_THREAD] = self._thread
        try:
            yield
        finally:
            storage[_THREAD] = before
            if self._reader is not None:
                self._reader.close()
            shutil.rmtree(folder)

    @asynccontextmanager
    async def _thread(self) -> AsyncGenerator[RunInThread]:
        """Offer what runs calls one by one, as the thread of a store does."""
        one_by_one = trio.Lock()

        async def run(call: Callable[[*A], R], /, *args: *A) -> R:
            # As in a thread, it is cancelled before it begins, or not at all.
            await trio.lowlevel.checkpoint_if_cancelled()
            async with one_by_one:
                await self._let_others_run()
                try:
                    return call(*args)
                finally:
                    await self._let_others_run()

        yield run

    async def _let_others_run(self) -> None:
        for _ in range(self._random.randint(0, _LONGEST)):
            await trio.lowlevel.cancel_shielded_checkpoint()

    def kept(self) -> int:
        """Return how many batches are on disk."""
        if self._reader is None:
            from muster.store import StateReader  # noqa: PLC0415 - few programs have a store

            self._reader = StateReader(self.directory)
        return self._reader.last().batch
