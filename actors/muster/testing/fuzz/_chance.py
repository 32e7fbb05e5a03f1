"""Taking the choice of trio's scheduler away from chance.

trio shuffles the tasks that are ready by a generator of its own; pytest-trio and Hypothesis
seed it, and so does this module for programs that use neither. It speaks to a private part of
trio and says so if that is not there.
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
    """Has some tasks run last, always, among those that are ready.

    Shuffling alone hardly ever keeps one task behind all others for long, and that is what
    it takes to find some faults. Which tasks these are changes now and then.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._salt = seed

    @override
    def shuffle(self, x: Any) -> None:
        super().shuffle(x)
        if self.random() < 0.02:
            self._salt = self.randrange(2**32)
        # trio takes from the end: what stands in front comes last.
        x.sort(key=self._is_quick)

    def _is_quick(self, task: trio.lowlevel.Task) -> bool:
        return bool(zlib.crc32(task.name.encode(), self._salt) % 3)


@contextlib.contextmanager
def ordered(order: Order) -> Generator[None, None, None]:
    """Have trio run the tasks that are ready in the order of a program; for runs begun inside.

    Raises:
        UnknownTrioError: If this version of trio has no such thing.
    """
    scheduler = import_module(_SCHEDULER).__dict__
    if not isinstance(scheduler.get(_CHANCE), Random) or _SORTS not in scheduler:
        msg = f"trio {trio.__version__} does not let the order of its tasks be seeded"
        raise UnknownTrioError(msg)
    chance = _Unfair(order.chance) if order.unfair else Random(order.chance)
    pace = pace_module.__dict__
    before = scheduler[_CHANCE], scheduler[_SORTS], pace["SLICE_S"]
    # By the clock rounds would let others run at moments that no seed says.
    slice_s = -inf if order.pauses else inf
    scheduler[_CHANCE], scheduler[_SORTS], pace["SLICE_S"] = chance, True, slice_s
    try:
        yield
    finally:
        scheduler[_CHANCE], scheduler[_SORTS], pace["SLICE_S"] = before


def lift_shields() -> None:
    """Let every task be cancelled, also where it is shielded; for runs that cannot end otherwise."""
    root = trio.lowlevel.current_root_task()
    tasks = [] if root is None else [root]
    while tasks:
        task = tasks.pop()
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        status = getattr(task, "_cancel_status", None)
        while status is not None:
            status._scope.shield = False  # noqa: SLF001 - trio has no other way to it
            status = status.parent


@final
class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks, and cancels scopes at some of them.

    Attributes:
        count: How many steps there were.
        order: A number that stands for the order in which tasks took them.
        cancelled: How many scopes were cancelled.
    """

    def __init__(self) -> None:
        self.count = 0
        self.order = 0
        self.cancelled = 0
        self._cuts: dict[int, list[trio.CancelScope | trio.Event]] = {}
        self._numbers: dict[trio.lowlevel.Task, int] = {}

    def at(self, step: int, what: trio.CancelScope | trio.Event) -> None:
        """Have a scope cancelled, or an event set, before a step that is still to come."""
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
