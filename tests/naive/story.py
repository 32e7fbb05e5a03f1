"""Small stories for the naive model, written out by hand and told in short lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from muster_core.decisions import Decision, Kind
from muster_core.events import AddApp, AddAsk, AddGang, AddNode
from muster_core.gangs import GangFields, GangMode
from muster_core.resources import Resources
from tests.naive.harness import SETTLE, Drive, Step, What
from tests.naive.scheduler import NaiveScheduler

S: Final = 1_000_000
"""A second in microseconds."""

LOOSE: Final = GangMode.NON_STRICT
APP: Final = AddApp("a", "root.q")


def node(name: str, cores: int) -> AddNode:
    return AddNode(name, Resources({"vcore": cores}))


def gang(
    name: str,
    least: int,
    *groups: str,
    mode: GangMode | None = None,
    wait_us: int | None = None,
) -> AddGang:
    full = tuple(f"default/{other}" for other in groups)
    return AddGang(f"default/{name}", GangFields(least, None, mode, wait_us, full))


def asks(
    name: str,
    *,
    count: int | None = None,
    of: str | None = None,
    app: str = "a",
    cores: int = 1,
    priority: int | None = None,
    named: str | None = None,
    on: str | None = None,
    retries: int = 0,
) -> AddAsk:
    return AddAsk(
        app,
        name,
        Resources({"vcore": cores}),
        priority=priority,
        priority_class=named,
        count=count,
        node=on,
        gang=None if of is None else f"default/{of}",
        retries=retries,
    )


class Story:
    """Plays steps on a model; a number among them is the instant of those after it."""

    def __init__(self, *steps: What | int) -> None:
        self.model = NaiveScheduler()
        self.drive = Drive(self.model)
        self._steps = 0
        self._now_us = 0
        self._seen = 0
        if steps:
            self.play(*steps)

    def play(self, *steps: What | int) -> list[str]:
        """Work off steps and close the batch; give what was decided of gangs and members."""
        return list(brief(self.decide(*steps)))

    def decide(self, *steps: What | int) -> list[Decision]:
        """Work off steps and close the batch; give what was decided."""
        for what in (*steps, SETTLE):
            if isinstance(what, int):
                self._now_us = what
                continue
            self.drive.step(self._steps, Step(self._now_us, what))
            self._steps += 1
        batches = self.drive.batches[self._seen :]
        self._seen += len(batches)
        return [decision for batch in batches for decision in batch.decisions]

    def gang(self, name: str) -> tuple[int, int, int, int]:
        """Give how many members of a gang are waiting, bound, pending, parked."""
        found = self.model.gangs[f"default/{name}"]
        return (len(found.waiting), len(found.bound), len(found.pending), len(found.parked))


def brief(decisions: Iterable[Decision]) -> Iterable[str]:
    """Tell what was decided of gangs and asks, and what was refused or warned of."""
    told = {Kind.ASSIGNED, Kind.WAITING, Kind.BOUND, Kind.RELEASED, Kind.REJECTED, Kind.WARNING}
    for decision in decisions:
        if decision.kind in {Kind.GANG_SATISFIED, Kind.GANG_TIMED_OUT}:
            yield f"{decision.kind.value} {(decision.gang or '').removeprefix('default/')}"
        elif decision.kind in told:
            parts = (decision.kind.value, decision.ask, decision.reason)
            yield " ".join(str(part) for part in parts if part)


def kinds(decisions: list[str], *wanted: str) -> list[str]:
    """Give the lines that begin with one of some words."""
    return [one for one in decisions if one.split()[0] in wanted]
