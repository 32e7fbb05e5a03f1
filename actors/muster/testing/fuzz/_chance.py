"""A seeded order of tasks in trio, and cancellation at chosen steps.

trio shuffles ready tasks with a random generator of its own. This module replaces it, as
pytest-trio and Hypothesis do. The generator is a private part of trio; if a version of trio does
not have it, this raises :class:`UnknownTrioError`.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Generator
from importlib import import_module
from math import inf
from random import Random
from typing import Any, Final, final

import trio
from typing_extensions import override

from muster._runtime import pace as pace_module
from muster.testing.fuzz._program import Order

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
