"""Settings of queues that come as objects."""

from __future__ import annotations

import attrs
import pytest

from muster_core.admission.queue_tree import (
    QueueEntry,
    as_parent,
    check_object,
    with_inherited_settings,
    with_object,
)
from muster_core.config.model import Limits, QueueConfig, Settings
from muster_core.errors import RefusedError
from muster_core.resources import Resources
from tests.core.admission.objects import volcano_queue
from tests.core.building import configuration, queue

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
ROOT = Settings()
NOTHING = Resources()
NO_LIMITS = Limits()


def entry(config: QueueConfig, *dynamic: str) -> QueueEntry:
    children = {child.name: entry(child, *dynamic) for child in config.children}
    return QueueEntry(0, None, config, config.name in dynamic, children=children)


# What an object says


def test_an_object_that_says_nothing_changes_nothing() -> None:
    assert with_object(GIVEN, volcano_queue("a"), ROOT) == GIVEN


def test_everything_that_is_said_is_set_and_the_rest_stays() -> None:
    said = volcano_queue(
        "a", priority=7, reclaimable=False, max={"vcore": 9}, guaranteed={"memory": 2}
    )
    config = with_object(GIVEN, said, ROOT)

    assert (config.max, config.guaranteed) == (Limits.of({"vcore": 9}), Resources({"memory": 2}))
    assert config.settings == attrs.evolve(GIVEN.settings, queue_priority=7, reclaimable=False)
    assert config.max_applications == 3


def test_a_quota_of_nothing_is_said_too() -> None:
    config = with_object(GIVEN, volcano_queue("a", max={}, guaranteed={}), ROOT)

    assert (config.max, config.guaranteed) == (Limits(), Resources())


def test_what_was_set_is_inherited_and_what_a_queue_says_itself_is_not_replaced() -> None:
    above = with_object(
        attrs.evolve(GIVEN, is_parent=True), volcano_queue("a", reclaimable=False), ROOT
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
    """Give a root with the queue ``a`` and these below it, whatever a file could not say."""
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
