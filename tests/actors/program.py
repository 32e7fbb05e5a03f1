"""Small programs for the tests of the scheduler."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from math import inf
from random import Random
from typing import Any, Final

import pytest
import trio
from typing_extensions import override

from muster._runtime import clock as pace_module
from muster_core.decisions import Announced, Kind, Reason
from muster_core.events import AddApp, AddAsk, AddNode
from muster_core.resources import Resources

ONE = Resources({"vcore": 1})
NODE = AddNode("n", Resources({"vcore": 4}))
APP = AddApp("a", "root.q")
S = 1_000_000
"""A second in microseconds."""

_TRIO_RUN: Final = import_module("trio._core._run")


def ask(name: str = "k", *, app: str = "a", count: int | None = None) -> AddAsk:
    return AddAsk(app, name, ONE, count=count)


def bound(log: Sequence[Announced]) -> list[str]:
    """Give the asks that were bound, in order."""
    decisions = [announced.decision for announced in log]
    return [f"{one.app}/{one.ask}" for one in decisions if one.kind is Kind.BOUND]


def refusals(log: Sequence[Announced]) -> list[str]:
    """Give the messages of what was refused, in order."""
    return [one.decision.message or "" for one in log if one.decision.kind is Kind.REJECTED]


def releases(log: Sequence[Announced]) -> list[tuple[str | None, Reason | None]]:
    """Give the asks that were released, in order, and why."""
    decisions = [announced.decision for announced in log]
    return [(one.ask, one.reason) for one in decisions if one.kind is Kind.RELEASED]


class FailingJournal:
    """A journal that fails with the batch of a number, from 1."""

    def __init__(self, error: BaseException, batch: int = 1) -> None:
        self._error = error
        self._batches = batch

    def write(self, batch: Sequence[Announced]) -> None:
        assert batch
        self._batches -= 1
        if not self._batches:
            raise self._error


def tasks() -> int:
    """Give how many tasks there are."""
    return trio.lowlevel.current_statistics().tasks_living


@contextmanager
def watchdog(seconds: float = 120) -> Generator[None]:
    """Fail, by the real clock, what hangs; tests of liveness stand inside of it."""
    with trio.fail_after(seconds):
        yield


@contextmanager
def shuffled(seed: int) -> Generator[None]:
    """Have trio shuffle the tasks that are ready as the seed says; for runs begun inside.

    Rounds do not pause by the clock meanwhile, so that two runs have the same steps.
    """
    chance: Random = vars(_TRIO_RUN)["_r"]
    before = chance.getstate()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_TRIO_RUN, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
        patch.setattr(pace_module, "SLICE_S", inf)
        chance.seed(seed)
        try:
            yield
        finally:
            chance.setstate(before)


def inside(owner: object, name: str) -> Any:  # noqa: ANN401 - only tests look inside, to spoil it
    """Give a private attribute."""
    return getattr(owner, name)


async def settled(times: int = 20) -> None:
    """Let all tasks run until they wait; deterministic, and without a clock."""
    for _ in range(times):
        await trio.lowlevel.checkpoint()


class Steps(trio.abc.Instrument):
    """Counts the steps of all tasks, and cancels a scope at one of them.

    Args:
        scope: What is cancelled.
        at: Before which step, from 1; 0 for never.
    """

    def __init__(self, scope: trio.CancelScope, at: int = 0) -> None:
        self._scope = scope
        self._at = at
        self.count = 0

    @override
    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        del task
        self.count += 1
        if self.count == self._at:
            self._scope.cancel()
