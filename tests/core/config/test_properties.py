"""Properties: values, defaults, and what a queue inherits."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from muster_core.config.model import (
    DeadlockPolicy,
    PreemptionPolicy,
    SchedulingOrder,
    Settings,
    SortPolicy,
)
from muster_core.config.properties import PROPERTIES, resolve

ROOT = resolve({}, None)


def leaf(own: Mapping[str, str], *above: Mapping[str, str]) -> Settings:
    """Give the settings of a leaf below the root and some parents."""
    parent = ROOT
    for properties in above:
        parent = resolve(properties, parent)
    return resolve(own, parent)


def test_defaults() -> None:
    assert leaf({}) == ROOT == Settings()


EVERY_OTHER_VALUE = {
    "application.sort.policy": ("fair", "sort_policy", SortPolicy.FAIR),
    "application.sort.priority": ("disabled", "sort_by_priority", False),
    "application.sort.blocking": ("enabled", "blocking", True),
    "priority.policy": ("fence", "fence", True),
    "priority.offset": ("-7", "offset", -7),
    "priority.limit": ("-7", "priority_limit", -7),
    "queue.priority": ("7", "queue_priority", 7),
    "queue.reclaimable": ("false", "reclaimable", False),
    "queue.create": ("disabled", "create", False),
    "preemption.policy": ("disabled", "preemption_policy", PreemptionPolicy.DISABLED),
    "preemption.delay": ("90s", "preemption_delay_us", 90_000_000),
    "preemption.required.node": ("enabled", "required_node", True),
    "gang.wait.time": ("90s", "gang_wait_us", 90_000_000),
    "gang.deadlock.policy": ("report", "deadlock_policy", DeadlockPolicy.REPORT),
    "bind.retry.delay": ("90s", "bind_retry_us", 90_000_000),
    "scheduling.order": ("strict", "scheduling_order", SchedulingOrder.STRICT),
    "backfill.depth": ("7", "backfill_depth", 7),
    "estimate.default": ("90s", "estimate_us", 90_000_000),
}
ROOT_ONLY = {"gang.wait.time", "gang.deadlock.policy"}
INHERITED = {
    "application.sort.policy",
    "application.sort.priority",
    "application.sort.blocking",
    "queue.reclaimable",
    "queue.create",
    "preemption.policy",
    "preemption.delay",
    "preemption.required.node",
    "bind.retry.delay",
    "estimate.default",
    "priority.limit",
}


def test_the_table_is_complete() -> None:
    assert set(EVERY_OTHER_VALUE) == set(PROPERTIES)


@pytest.mark.parametrize("name", sorted(set(PROPERTIES) - ROOT_ONLY))
def test_a_queue_has_its_own_value(name: str) -> None:
    text, attribute, value = EVERY_OTHER_VALUE[name]

    assert getattr(leaf({name: text}), attribute) == value
    assert getattr(leaf({name: text.upper()}), attribute) == value


@pytest.mark.parametrize("name", sorted(PROPERTIES))
def test_what_is_written_is_read(name: str) -> None:
    text, attribute, value = EVERY_OTHER_VALUE[name]
    known = PROPERTIES[name]

    assert known.attribute == attribute
    assert known.parse(known.text(known.parse(text))) == value
    assert known.default is None or known.parse(known.text(known.default)) == known.default
    assert set(known.meanings) <= {part.strip("` ") for part in known.form.words.split(",")}


@pytest.mark.parametrize("name", sorted(set(PROPERTIES) - ROOT_ONLY))
def test_what_is_inherited(name: str) -> None:
    text, attribute, value = EVERY_OTHER_VALUE[name]
    inherited = leaf({}, {name: text}, {})

    assert (getattr(inherited, attribute) == value) is (name in INHERITED)
    assert (inherited == Settings()) is (name not in INHERITED)


@pytest.mark.parametrize(
    ("name", "other", "default"),
    [
        ("application.sort.policy", "fair", "fifo"),
        ("application.sort.priority", "disabled", "enabled"),
        ("application.sort.blocking", "enabled", "disabled"),
        ("queue.reclaimable", "false", "true"),
        ("preemption.policy", "disabled", "default"),
        ("preemption.delay", "1s", "30s"),
        ("preemption.required.node", "enabled", "disabled"),
    ],
)
def test_an_own_value_overrides_an_inherited_one(name: str, other: str, default: str) -> None:
    assert leaf({name: default}, {name: other}) == Settings()
    assert leaf({}, {name: other}, {name: default}) == Settings()
    assert leaf({name: other}, {name: default}) == leaf({name: other})


def test_who_may_create_queues_is_open_where_nobody_says() -> None:
    assert leaf({}, {}).create is None
    assert leaf({"queue.create": "enabled"}, {"queue.create": "disabled"}).create is True
    assert leaf({}, {"queue.create": "enabled"}, {"queue.create": "disabled"}).create is False


def test_a_fence_against_preemption_is_not_inherited() -> None:
    inherited = leaf({}, {"preemption.policy": "fence"})

    assert inherited.preemption_policy is PreemptionPolicy.DEFAULT


def test_what_only_the_root_has_counts_everywhere() -> None:
    properties = {"gang.wait.time": "5s", "gang.deadlock.policy": "Report"}
    root = resolve(properties, None)

    assert root.gang_wait_us == 5_000_000
    assert resolve({}, root).deadlock_policy is DeadlockPolicy.REPORT
    assert leaf(properties) == Settings()


def test_priority_of_the_root_does_nothing() -> None:
    properties = {"priority.policy": "fence", "priority.offset": "5"}

    assert resolve(properties, None) == Settings()


@pytest.mark.parametrize(
    ("text", "offset"),
    [("", 0), ("+5", 5), ("-2147483648", -(2**31)), ("2147483648", 0), ("x", 0), (" 5", 0)],
)
def test_an_offset_that_is_none_is_0(text: str, offset: int) -> None:
    assert leaf({"priority.offset": text}).offset == offset
