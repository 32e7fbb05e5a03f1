"""Queues that no file names."""

from __future__ import annotations

import pytest

from muster_core.config import default_configuration, dynamic_queue, load_configuration
from muster_core.config.model import (
    Configuration,
    Limits,
    QueueConfig,
    Settings,
    SortPolicy,
    Template,
)
from muster_core.resources import NOTHING, Resources
from tests.core.building import from_python

TEMPLATE = Template(
    guaranteed=Resources({"vcore": 1000}),
    max=Limits((("memory", 0), ("vcore", 2000))),
    max_applications=3,
    properties=(("application.sort.policy", "fair"), ("queue.create", "enabled"), ("x", "y")),
)


def parent(**properties: str) -> QueueConfig:
    queue = {"name": "P", "parent": True, "properties": dict(properties)}
    document = from_python({"partitions": [{"queues": [queue]}]})
    return load_configuration(document).root.children[0]


def test_before_the_first_configuration_there_is_only_root() -> None:
    configuration = default_configuration()

    assert configuration == Configuration(partition="default", root=configuration.root)
    assert configuration.root == QueueConfig(name="root", path="root", is_parent=True)
    assert configuration.root.settings == Settings()


def test_a_leaf_gets_the_whole_template() -> None:
    queue = dynamic_queue(parent(), TEMPLATE, "New", is_parent=False)

    assert (queue.name, queue.path, queue.is_parent) == ("new", "root.p.new", False)
    assert queue.guaranteed == TEMPLATE.guaranteed
    assert queue.max == TEMPLATE.max
    assert queue.max_applications == 3
    assert queue.own_properties == TEMPLATE.properties
    assert queue.settings.sort_policy is SortPolicy.FAIR


def test_a_queue_on_the_way_gets_nothing_of_it() -> None:
    queue = dynamic_queue(parent(), TEMPLATE, "new", is_parent=True)

    assert queue == QueueConfig(name="new", path="root.p.new", is_parent=True)


def test_a_leaf_without_a_template() -> None:
    queue = dynamic_queue(parent(), None, "new", is_parent=False)

    assert queue.guaranteed == NOTHING
    assert queue == QueueConfig(name="new", path="root.p.new", is_parent=False)


def test_it_inherits_as_any_other_queue() -> None:
    above = parent(**{"preemption.delay": "5s", "queue.create": "disabled"})

    assert dynamic_queue(above, None, "new", is_parent=True).settings == above.settings
    queue = dynamic_queue(above, TEMPLATE, "new", is_parent=False)
    assert queue.settings.preemption_delay_us == 5_000_000
    assert queue.settings.create


def test_its_name_must_be_legal() -> None:
    with pytest.raises(ValueError, match=r"'a\.b' is not a name of a queue"):
        dynamic_queue(parent(), None, "a.b", is_parent=False)
