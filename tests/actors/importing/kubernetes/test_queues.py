"""Queues of Volcano and ElasticQuotas of Koordinator."""

from __future__ import annotations

from muster.config_files import parse_configuration
from muster.importing.workload import configuration_of
from tests.actors.importing.kubernetes.feeds import Fed, fed
from tests.actors.importing.kubernetes.samples import Object, node, other, pod


def queue_fed(*objects: Object, queue: str = "q") -> Fed:
    return fed(pod(labels={"volcano.sh/queue-name": queue}), node(), *objects)


# KUBERNETES-17: Queues
def test_a_queue_of_volcano_is_a_queue_of_the_made_configuration() -> None:
    spec = {
        "parent": "p",
        "capability": {"cpu": "4", "memory": "8Gi"},
        "deserved": {"cpu": "2"},
        "reclaimable": False,
        "priority": 7,
        "weight": 1,
    }
    feed = queue_fed(other("Queue", "q", spec), other("Queue", "p"))

    assert feed.settings == {
        "root.p": {},
        "root.p.q": {
            "resources": {"guaranteed": {"vcore": 2}, "max": {"vcore": 4, "memory": "8Gi"}},
            "properties": {"queue.priority": "7", "queue.reclaimable": "false"},
        },
    }
    assert not feed.notes


def test_a_quota_of_koordinator_is_one_too() -> None:
    key = "quota.scheduling.koordinator.sh"
    child = other("ElasticQuota", "b", {"min": {"cpu": "1"}, "max": {"cpu": "3"}})
    child["metadata"]["labels"] = {f"{key}/parent": "a"}
    parent = other("ElasticQuota", "a", {"max": {"cpu": "5"}})
    feed = fed(pod(labels={f"{key}/name": "b"}), node(), child, parent)

    assert feed.queues == ["root.a.b"]
    assert feed.settings == {
        "root.a": {"resources": {"max": {"vcore": 5}}},
        "root.a.b": {"resources": {"guaranteed": {"vcore": 1}, "max": {"vcore": 3}}},
    }


def test_weights_are_noted() -> None:
    assert queue_fed(other("Queue", "q", {"weight": 4})).notes == [
        "1 queue: weights are not modelled"
    ]


def test_settings_that_a_configuration_cannot_have_are_noted_and_left_out() -> None:
    feed = queue_fed(
        other("Queue", "q", {"parent": "p", "deserved": {"cpu": "9"}}),
        other("Queue", "p", {"capability": {"cpu": "4"}}),
    )
    assert feed.notes == [
        "1 queue: a configuration that says the same would be refused: it has no limits"
    ]
    assert feed.settings["root.p"] == {"resources": {"max": {"vcore": 4}}}
    made = configuration_of(["root.p.q"], feed.settings)
    assert parse_configuration(str(made)).root.name == "root"


def test_a_queue_below_one_with_pods_is_left_out() -> None:
    feed = queue_fed(other("Queue", "below", {"parent": "q"}), other("Queue", "q"))

    assert feed.left_out == ["1 queue: a queue above it has pods of its own"]


def test_parents_in_a_circle_end() -> None:
    feed = queue_fed(other("Queue", "q", {"parent": "p"}), other("Queue", "p", {"parent": "q"}))

    assert feed.queues == ["root.p.q"]


def test_the_last_record_of_a_queue_counts() -> None:
    feed = queue_fed(other("Queue", "q", {"parent": "p"}), other("Queue", "q", {"parent": "o"}))

    assert feed.queues == ["root.o.q"]
    assert feed.left_out == ["1 queue: a later record of the same one is taken"]
