"""A scheduler that is saved and loaded again after every batch, beside one that never is."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import final

import attrs

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Announced
from muster_core.facts import Facts
from muster_core.reasons import Explanation
from muster_core.snapshots import Statistics
from tests.naive.harness import Marker, Step
from tests.naive.plain import run_plainly

Save = Callable[[Facts], Facts]


def as_it_is(facts: Facts) -> Facts:
    """Take facts through nothing."""
    return facts


def through_bytes(facts: Facts) -> Facts:
    """Give equal facts of which no object is one of these."""
    copied = pickle.loads(pickle.dumps(facts))
    assert isinstance(copied, Facts)
    return copied


@final
class Relay:
    """Takes steps with a scheduler that another one, loaded from facts, replaces after each batch.

    Args:
        save: What facts are taken through, like an encoding and back.
        looks: Whether snapshots and reasons are compared, too; they settle cycles.
    """

    def __init__(self, save: Save = as_it_is, *, looks: bool) -> None:
        self._save = save
        self._looks = looks
        #: Which is saved after each batch, and which never is.
        self.loaded, self.kept = PlainScheduler(), PlainScheduler()
        #: How many batches there were.
        self.batches = 0
        self._open = False
        self._log: list[Announced] = []

    def take(self, steps: Sequence[Step]) -> None:
        """Take steps, and let all timers after them go off."""
        for index, step in enumerate(steps):
            self._pass_until(step.at_us)
            if isinstance(step.what, Marker):
                self._settle(step.at_us)
            else:
                for one in self._both():
                    one.submit(step.what, step.at_us, index)
                self._open = True
        self._pass_until(None)
        assert self._log == run_plainly(steps)

    def _both(self) -> Iterator[PlainScheduler]:
        yield from (self.loaded, self.kept)

    def _pass_until(self, at_us: int | None) -> None:
        """End the open batch if time passes, and have a batch for each timer before an instant."""
        now_us = self.kept.machine.now_us
        if at_us == now_us:
            return
        if self._open:
            self._settle(now_us)
        while (due_us := self.kept.machine.next_deadline_us()) is not None:
            assert self.loaded.machine.next_deadline_us() == due_us
            if at_us is not None and due_us >= at_us:
                return
            self._settle(due_us)

    def _settle(self, at_us: int) -> None:
        for one in self._both():
            one.settle(at_us)
        self._open = False
        self.batches += 1
        self._log += self.loaded.announced
        assert self._log == self.kept.announced
        facts = self.loaded.facts()
        self.loaded = PlainScheduler(facts=self._save(facts))
        assert self.loaded.facts() == facts
        self.loaded.machine.check()
        self._compare(self.loaded.machine.statistics(), self.kept.machine.statistics())
        assert self.loaded.machine.next_deadline_us() == self.kept.machine.next_deadline_us()
        if self._looks:
            assert reasons(self.loaded) == reasons(self.kept)
            own, other = self.loaded.snapshot(), self.kept.snapshot()
            assert own == other
            assert list(own.nodes) == list(other.nodes)

    @staticmethod
    def _compare(own: Statistics, other: Statistics) -> None:
        # How many steps rounds take depends on what they found out before.
        assert attrs.evolve(own, steps=other.steps) == other


def reasons(scheduler: PlainScheduler) -> list[Explanation | None]:
    """Explain everything that is not bound."""
    return [scheduler.explain(app, ask) for app, ask in scheduler.pending()]
