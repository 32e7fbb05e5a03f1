"""Copies of a scheduler, and sums beyond 63 bits: on whichever core runs, compiled or not."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from typing import Final

import pytest

from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.decisions import Kind
from muster_core.events import AddApp, AddNode, Configure, Release
from muster_core.resources import Resources
from tests.core.building import configuration, queue, wish

MOST: Final = 2**63 - 1
"""The largest amount of a node or an ask."""


def pickled(scheduler: PlainScheduler) -> PlainScheduler:
    copy = pickle.loads(pickle.dumps(scheduler))
    assert isinstance(copy, PlainScheduler)
    return copy


COPIES: Final[dict[str, Callable[[PlainScheduler], PlainScheduler]]] = {
    "deepcopy": deepcopy,
    "pickle": pickled,
}


def full_scheduler() -> PlainScheduler:
    """Return a scheduler with a full node, and with an ask of two queues each that waits."""
    config = configuration(queue("a"), queue("b"))
    scheduler = PlainScheduler(config)
    scheduler.submit(Configure(config))
    scheduler.submit(AddNode("n", Resources({"vcore": MOST})))
    for leaf in ("a", "b"):
        scheduler.submit(AddApp(leaf, f"root.{leaf}"))
        scheduler.submit(wish(leaf, "x", vcore=MOST - 1))
    scheduler.settle()
    return scheduler


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_decides_the_same_and_changes_nothing_of_the_original(
    copied: Callable[[PlainScheduler], PlainScheduler],
) -> None:
    scheduler = full_scheduler()
    copy = copied(scheduler)
    before = list(scheduler.announced)
    for one in (copy, scheduler):
        one.submit(Release("a", "x"))
        one.submit(wish("a", "y", vcore=1))
        one.settle()
        if one is copy:
            assert scheduler.announced == before

    assert copy.announced == scheduler.announced != before
    copy.machine.check()


def test_sums_beyond_63_bits_are_exact() -> None:
    scheduler = full_scheduler()
    for name in ("m", "o"):
        scheduler.submit(AddNode(name, Resources({"vcore": MOST})))
    scheduler.submit(wish("a", "y", vcore=MOST))
    scheduler.settle()

    bound = [one.decision.ask for one in scheduler.announced if one.decision.kind is Kind.BOUND]
    assert bound == ["x", "x", "y"]
    scheduler.machine.check()
    assert scheduler.snapshot().queues["root"].allocated == {"vcore": 3 * MOST - 2}
