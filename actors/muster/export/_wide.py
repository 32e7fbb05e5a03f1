"""A configuration in which everything that a state has is possible: its queues, without limits."""

from __future__ import annotations

from muster.feeds import Raw
from muster.feeds._written.amounts import Written, words
from muster_core.config.model import QueueConfig
from muster_core.config.properties import QUEUE_CREATE
from muster_core.facts import Facts, QueueFacts

_ENABLED = "enabled"


def wide_configuration(facts: Facts) -> Written:
    """Return a configuration with all queues of a state that no application makes.

    Queues that drain are in it, and drain when the configuration in force follows.

    Args:
        facts: The state.
    """
    made = {*facts.coordinator.admission.dynamic}
    below: dict[int | None, list[QueueFacts]] = {}
    for queue in facts.queues:
        if queue.key not in made:
            below.setdefault(queue.parent, []).append(queue)
    (root,) = below[None]
    partition: Written = {
        "name": facts.configuration.partition,
        "preemption": {"enabled": False},
        "queues": [_queue(root, below)],
    }
    return {"partitions": [partition]}


def _queue(queue: QueueFacts, below: dict[int | None, list[QueueFacts]]) -> Written:
    config = queue.config
    written: Written = {"name": config.name}
    children: list[Raw] = [_queue(child, below) for child in below.get(queue.key, ())]
    if children:
        written["queues"] = children
    elif config.is_parent and queue.parent is not None:
        written["parent"] = True
    written["properties"] = _properties(config, is_root=queue.parent is None)
    return written


def _properties(config: QueueConfig, *, is_root: bool) -> Written:
    own = {name: text for name, text in config.own_properties if name != QUEUE_CREATE.name}
    return words(own | ({QUEUE_CREATE.name: _ENABLED} if is_root else {}))
