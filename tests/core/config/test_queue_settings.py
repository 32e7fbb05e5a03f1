"""Settings of queues: properties and what a queue inherits, quotas of several queues (CONFIG-28 to
CONFIG-32 taken literally), and queues that come as Volcano's objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given, strategies as st

from muster_core.admission.queue_tree import (
    QueueEntry,
    as_parent,
    check_object,
    with_inherited_settings,
    with_object,
)
from muster_core.config import load_configuration
from muster_core.config.model import (
    DeadlockPolicy,
    Limits,
    PreemptionPolicy,
    QueueConfig,
    SchedulingOrder,
    Settings,
    SortPolicy,
)
from muster_core.config.properties import PROPERTIES, resolve
from muster_core.errors import ConfigError, RefusedError
from muster_core.resources import Resources
from tests.core.admission.objects import volcano_queue
from tests.core.building import configuration, queue

ROOT = resolve({}, None)


def leaf(own: Mapping[str, str], *above: Mapping[str, str]) -> Settings:
    """Return the settings of a leaf below the root and some parents."""
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
    "gang.second.try": ("enabled", "second_try", True),
    "gang.retry.delay": ("90s", "gang_retry_us", 90_000_000),
    "gang.retry.limit": ("3", "gang_retry_limit", 3),
    "bind.retry.delay": ("90s", "bind_retry_us", 90_000_000),
    "scheduling.order": ("strict", "scheduling_order", SchedulingOrder.STRICT),
    "backfill.depth": ("7", "backfill_depth", 7),
    "estimate.default": ("90s", "estimate_us", 90_000_000),
    "run.limit": ("90s", "run_limit_us", 90_000_000),
    "quota.preemption.delay": ("90s", "quota_preemption_us", 90_000_000),
    "preemption.min.runtime": ("90s", "min_runtime_us", 90_000_000),
    "priority.aging": ("90s", "aging_us", 90_000_000),
    "priority.aging.limit": ("7", "aging_limit", 7),
    "share.policy": ("weight", "share_by_weight", True),
    "queue.weight": ("7", "weight", 7),
    "usage.half.life": ("90s", "half_life_us", 90_000_000),
    "usage.users": ("enabled", "usage_of_users", True),
}
ROOT_ONLY = {
    "gang.wait.time",
    "gang.deadlock.policy",
    "gang.retry.delay",
    "gang.retry.limit",
    "gang.second.try",
}
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
    "run.limit",
    "preemption.min.runtime",
    "priority.aging",
    "priority.aging.limit",
    "usage.half.life",
    "usage.users",
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


AMOUNTS = st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 4))
LEAVES = st.fixed_dictionaries(
    {"guaranteed": AMOUNTS, "max": AMOUNTS, "apps": st.integers(0, 3), "below": st.just([])}
)


def parents(below: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw a queue with other queues below it."""
    return st.fixed_dictionaries(
        {
            "guaranteed": AMOUNTS,
            "max": AMOUNTS,
            "apps": st.integers(0, 3),
            "below": st.lists(below, max_size=3),
        }
    )


TREES = st.recursive(LEAVES, parents, max_leaves=6)


def written(queue: dict[str, Any], name: str = "q") -> dict[str, Any]:
    """Write a drawn queue as a configuration has it."""
    return {
        "name": name,
        "resources": {"guaranteed": queue["guaranteed"], "max": queue["max"]},
        "maxapplications": queue["apps"],
        "queues": [written(child, f"q{index}") for index, child in enumerate(queue["below"])],
    }


def counts_with(queue: dict[str, Any], name: str) -> int:
    """Return the ``guaranteed`` with which a queue counts."""
    total: int = sum(counts_with(child, name) for child in queue["below"])
    return queue["guaranteed"].get(name, 0) or total


def is_fine(queue: dict[str, Any], above: dict[str, int], apps: int) -> bool:
    """Return whether nothing below contradicts anything: each sentence as it stands."""
    most = {**above, **queue["max"]}  # smaller where it is fine: checked next
    if any(amount > above.get(name, amount) for name, amount in queue["max"].items()):
        return False
    if apps and (queue["apps"] == 0 or queue["apps"] > apps):
        return False
    for name in ("a", "b"):
        own = queue["guaranteed"].get(name, 0)
        total = sum(counts_with(child, name) for child in queue["below"])
        if own and total > own:
            return False
        if name in most and (total > most[name] or counts_with(queue, name) > most[name]):
            return False
    return all(is_fine(child, most, queue["apps"]) for child in queue["below"])


@given(TREES)
def test_a_tree_is_refused_exactly_if_a_sentence_is_broken(queue: dict[str, Any]) -> None:
    document = {"partitions": [{"queues": [written(queue)]}]}
    try:
        load_configuration(document)
    except ConfigError:
        assert not is_fine(queue, {}, 0)
    else:
        assert is_fine(queue, {}, 0)


def test_sums_have_no_limit() -> None:
    most = 2**63 - 1
    queues = [{"name": name, "resources": {"guaranteed": {"pods": most}}} for name in "ab"]

    load_configuration({"partitions": [{"queues": queues}]})
    parent = {"name": "p", "queues": queues, "resources": {"max": {"pods": most}}}
    with pytest.raises(ConfigError, match="18446744073709551614 together, is over max"):
        load_configuration({"partitions": [{"queues": [parent]}]})


GIVEN = QueueConfig(
    name="a",
    path="root.a",
    is_parent=False,
    guaranteed=Resources({"vcore": 1}),
    max=Limits.of({"vcore": 5}),
    max_applications=3,
    settings=Settings(queue_priority=2, offset=4),
    own_properties=(("queue.priority", "2"), ("priority.offset", "4")),
)
ROOT_SETTINGS = Settings()
NOTHING = Resources()
NO_LIMITS = Limits()


def entry(config: QueueConfig, *dynamic: str) -> QueueEntry:
    children = {child.name: entry(child, *dynamic) for child in config.children}
    return QueueEntry(0, None, config, config.name in dynamic, children=children)


# What an object says


def test_an_object_that_says_nothing_changes_nothing() -> None:
    assert with_object(GIVEN, volcano_queue("a"), ROOT_SETTINGS) == GIVEN


def test_everything_that_is_said_is_set_and_the_rest_stays() -> None:
    manifest = volcano_queue(
        "a", priority=7, reclaimable=False, max={"vcore": 9}, guaranteed={"memory": 2}
    )
    config = with_object(GIVEN, manifest, ROOT_SETTINGS)

    assert (config.max, config.guaranteed) == (Limits.of({"vcore": 9}), Resources({"memory": 2}))
    assert config.settings == attrs.evolve(GIVEN.settings, queue_priority=7, reclaimable=False)
    assert config.max_applications == 3


def test_a_quota_of_nothing_is_shown_too() -> None:
    config = with_object(GIVEN, volcano_queue("a", max={}, guaranteed={}), ROOT_SETTINGS)

    assert (config.max, config.guaranteed) == (Limits(), Resources())


def test_what_was_set_is_inherited_and_what_a_queue_says_itself_is_not_replaced() -> None:
    above = with_object(
        attrs.evolve(GIVEN, is_parent=True), volcano_queue("a", reclaimable=False), ROOT_SETTINGS
    )
    child = attrs.evolve(GIVEN, name="b", path="root.a.b", own_properties=())
    own = with_object(child, volcano_queue("b", reclaimable=True), above.settings)

    assert not with_inherited_settings(child, above.settings).settings.reclaimable
    assert with_inherited_settings(own, above.settings).settings.reclaimable


def test_a_leaf_that_becomes_a_parent_keeps_what_it_says() -> None:
    config = as_parent(GIVEN)

    assert config.is_parent
    assert (config.max, config.guaranteed) == (GIVEN.max, GIVEN.guaranteed)
    assert config.settings.queue_priority == 2


# What cannot be


def check(config: QueueConfig, *dynamic: str, of: str = "root.a") -> None:
    """Check a tree as if the queue ``of`` had been set last."""
    found, stack = None, [config]
    while stack:
        one = stack.pop()
        stack.extend(one.children)
        found = one if one.path == of else found
    assert found is not None
    check_object(found, entry(config, *dynamic))


def tree_of(
    *children: QueueConfig,
    guaranteed: Resources = NOTHING,
    max: Limits = NO_LIMITS,  # noqa: A002
    max_applications: int = 0,
) -> QueueConfig:
    """Return a root with the queue ``a`` and these below it, whatever a file could not say."""
    root = configuration(queue("a", queue("x"), parent=True)).root
    parent = attrs.evolve(
        root.children[0],
        children=children,
        guaranteed=guaranteed,
        max=max,
        max_applications=max_applications,
    )
    return attrs.evolve(root, children=(parent,))


def child(name: str, *, most: int | None = None, sure: int = 0) -> QueueConfig:
    return QueueConfig(
        name=name,
        path=f"root.a.{name}",
        is_parent=False,
        guaranteed=Resources({"vcore": sure}),
        max=Limits() if most is None else Limits.of({"vcore": most}),
    )


def test_a_tree_in_which_everything_goes_together() -> None:
    check(tree_of(child("x", most=5, sure=2), child("y", sure=1), max=Limits.of({"vcore": 5})))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            tree_of(guaranteed=Resources({"vcore": 2}), max=Limits.of({"vcore": 1})),
            "guaranteed: 2m of vcore is over max 1m",
        ),
        (
            tree_of(child("x", most=6), max=Limits.of({"vcore": 5})),
            "max: max 6m of vcore is over the 5m of a queue above",
        ),
        (
            tree_of(child("x", sure=2), child("y", sure=2), guaranteed=Resources({"vcore": 3})),
            "guaranteed: the children's guaranteed vcore, 4m together, is over guaranteed 3m",
        ),
        (
            tree_of(child("x", sure=2), child("y", sure=2), max=Limits.of({"vcore": 3})),
            "max: the children's guaranteed vcore, 4m together, is over max 3m",
        ),
    ],
)
def test_what_a_configuration_could_not_say(config: QueueConfig, message: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        check(config)

    assert str(refusal.value) == message


def test_what_is_made_on_the_fly_is_not_checked_against_its_siblings() -> None:
    config = tree_of(child("x", sure=2), child("fly", sure=2), max=Limits.of({"vcore": 3}))

    check(config, "fly")


def test_applications_are_not_limited() -> None:
    check(tree_of(child("x"), max_applications=3))
