"""What follows the promise of backfill sees when it is broken, and knows its exceptions."""

from __future__ import annotations

from collections import Counter

import attrs
import pytest

from muster_core.config.model import Configuration, QueueConfig
from muster_core.events import Configure
from tests.naive.backfill.promise import Promises
from tests.naive.backfill.stories import BACKFILL, lasting, scope
from tests.naive.harness import SETTLE, Batch, Drive, Step, What
from tests.naive.scheduler import NaiveScheduler
from tests.naive.story import APP, S, asks, gang, node
from tests.naive.test_evictions import apps

_ONE_SCOPE = Configure(
    Configuration(
        "default",
        QueueConfig("root", "root", is_parent=True, settings=attrs.evolve(BACKFILL, create=True)),
    )
)
"""All queues are one scope, and are made when an application names them."""


def followed(*steps: What | int) -> tuple[NaiveScheduler, Promises]:
    """Play steps on a model and follow what it promises; a number is the instant of those after."""
    model, promises = NaiveScheduler(), Promises()
    drive, now = Drive(model, promises.after), 0
    for index, what in enumerate((*steps, SETTLE)):
        if isinstance(what, int):
            drive.step(index, Step(now * S, SETTLE))
            now = what
        else:
            drive.step(index, Step(now * S, what))
    return model, promises


# BACKFILL-27
def test_a_party_that_is_bound_by_its_start_was_kept_its_promise() -> None:
    first = lasting("k", 10, run=10)
    _, promises = followed(scope(), node("n", 1), APP, first, asks("m"), 10)
    assert promises.counts == Counter({"kept": 1})


# BACKFILL-27
def test_a_scheduler_that_does_nothing_at_the_start_breaks_its_promise() -> None:
    first = lasting("k", 10, run=10)
    model, promises = followed(scope(), node("n", 1), APP, first, asks("m"))
    model.begin(10 * S)
    with pytest.raises(AssertionError, match=r"a/m was to be bound by 10000000 us"):
        promises.after(model, Batch(10 * S, (), ()))


# BACKFILL-27
def test_nothing_is_promised_once_an_estimate_was_too_short() -> None:
    first = lasting("k", 10, run=30)
    _, promises = followed(scope(), node("n", 1), APP, first, asks("m"), 11, asks("l"))
    assert promises.counts == Counter({"an estimate was too short": 1})


# BACKFILL-27
def test_nothing_is_promised_to_those_who_were_not_the_first_when_others_got_nodes() -> None:
    """Show that each round of a batch counts, not only the last.

    At 8 s the other leaf leads, where another member of the gang is the first, so that others
    make up its party and `k5` gets a node beside it. A later round seeks for the party that was
    promised, before anybody gets a node.
    """
    _, promises = followed(
        _ONE_SCOPE,
        *(node("n2", 4), node("n1", 4), gang("g2", 3)),
        *apps(p0="made", p1="too", p2="made", p3="too"),
        lasting("m1", 7, 4, run=7, app="p2", count=4),
        lasting("m2", 1, run=1, app="p3", count=6),
        lasting("m3", 2, run=2, app="p3", count=4),
        asks("m4", app="p3"),
        3,
        lasting("k3", 4, run=4, app="p1", count=3),
        asks("k1-4", app="p2", count=3),
        4,
        lasting("k5", 3, 2, run=3, app="p1"),
        asks("m5", cores=4, app="p1", priority=3, of="g2"),
        lasting("k6", 2, run=2, app="p3"),
        5,
        asks("m6-first", app="p2", of="g2"),
        7,
        asks("m11", cores=2, app="p0", priority=3, count=2, of="g2"),
        8,
    )
    assert promises.counts["one before it got a node"] > 0


# BACKFILL-27
def test_nothing_is_promised_while_one_of_a_strict_group_waits_that_was_to_end_in_time() -> None:
    """Show that an estimate counts from the bind, and a node may be held before it.

    `m` was to end at 9 s, before `large` begins. It waits for a gang without members instead.
    """
    _, promises = followed(
        *(scope(), node("n", 2), APP, gang("g", 1, "h"), gang("h", 1, "g")),
        lasting("k", 10, run=10),
        asks("large", cores=2),
        8,
        *apps(b="q"),
        lasting("m", 1, of="g", app="b"),
        10,
    )
    assert promises.counts == Counter({"one of a Strict group got a node and waits": 1})


# BACKFILL-27
def test_an_ask_that_runs_on_at_its_expected_end_had_too_short_an_estimate() -> None:
    _, promises = followed(scope(), node("n", 1), APP, lasting("k", 10), asks("m"), 10)
    assert promises.counts == Counter({"an estimate was too short": 1})
