"""A configuration that is written says what is in force, and nothing else but the change."""

from __future__ import annotations

import attrs
from hypothesis import given, strategies as st

from muster.explain._remedies.trials import QueueChange, configure
from muster.feeds import Raw, RawEvent, parse
from muster.feeds._kinds import EventFields
from muster_core.config.model import Configuration, QueueConfig
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddApp, Configure
from tests.naive.choices import drawn
from tests.naive.config_strategies import configurations
from tests.naive.theme import themed


@st.composite
def _configuration(draw: st.DrawFn) -> Configuration:
    return draw(configurations(themed(draw(drawn(24)))))[0]


def _loaded(written: EventFields) -> Configuration:
    (item,) = parse([RawEvent(0, None, written)])
    assert isinstance(item.content, Configure), item.content
    return attrs.evolve(item.content.config, warnings=())


def _scheduler(configuration: Configuration, *queues: str) -> PlainScheduler:
    scheduler = PlainScheduler(configuration)
    for queue in queues:
        scheduler.submit(AddApp(queue, queue))
    scheduler.settle()
    return scheduler


@given(_configuration())
def test_without_a_change_it_is_the_one_in_force(configuration: Configuration) -> None:
    written = configure(_scheduler(configuration).machine, {})

    assert _loaded(written) == attrs.evolve(configuration, warnings=())


@given(_configuration(), st.booleans())
def test_preemption_of_the_partition(configuration: Configuration, enabled: bool) -> None:
    written = configure(_scheduler(configuration).machine, {}, preemption=enabled)

    expected = attrs.evolve(configuration, preemption_enabled=enabled, warnings=())
    assert _loaded(written) == expected


BASE: EventFields = {
    "op": "configure",
    "config": {
        "partitions": [
            {
                "name": "default",
                "queues": [
                    {
                        "name": "root",
                        "properties": {"queue.create": "enabled"},
                        "queues": [
                            {"name": "a", "resources": {"max": {"vcore": 2, "gpu": 1}}},
                            {"name": "gone"},
                        ],
                    }
                ],
            }
        ]
    },
}


def test_placement_rules_stay() -> None:
    rules: list[Raw] = [
        {
            "name": "tag",
            "value": "namespace",
            "create": True,
            "filter": {"type": "deny", "users": ["sue", "bob"], "groups": ["^d+"]},
            "parent": {"name": "fixed", "value": "root"},
        },
        {"name": "user", "filter": {"type": "allow"}},
        {"name": "provided"},
    ]
    partition: EventFields = {"placementrules": rules, "queues": [{"name": "default"}]}
    configuration = _loaded({"op": "configure", "config": {"partitions": [partition]}})

    assert len(configuration.placement_rules) == 3
    assert _loaded(configure(_scheduler(configuration).machine, {})) == configuration


def _named(configuration: Configuration) -> list[str]:
    def below(queue: QueueConfig) -> list[str]:
        return [queue.path, *(path for child in queue.children for path in below(child))]

    return below(configuration.root)


def test_a_queue_that_is_changed() -> None:
    scheduler = _scheduler(_loaded(BASE))
    change = QueueChange(
        guaranteed={"vcore": 1000},
        max={"vcore": 3000},
        max_applications=4,
        properties={"application.sort.policy": "fair"},
    )
    root = _loaded(configure(scheduler.machine, {"root.a": change})).root
    queue = root.children[0]

    assert queue.max.amounts == (("gpu", 1), ("vcore", 3000))
    assert dict(queue.guaranteed) == {"vcore": 1000}
    assert queue.max_applications == 4
    assert queue.settings.sort_policy.value == "fair"
    assert [child.name for child in root.children] == ["a", "gone"]


def test_queues_made_on_the_fly_and_those_that_drain_are_left_alone() -> None:
    scheduler = _scheduler(_loaded(BASE), "gone", "made.x")
    kept = attrs.evolve(_loaded(BASE).root, children=_loaded(BASE).root.children[:1])
    scheduler.submit(Configure(attrs.evolve(_loaded(BASE), root=kept)))
    scheduler.settle()
    change = {"root.made.x": QueueChange(max_applications=2)}

    assert _named(_loaded(configure(scheduler.machine, {}))) == ["root", "root.a"]
    assert _named(_loaded(configure(scheduler.machine, change))) == [
        "root",
        "root.a",
        "root.made",
        "root.made.x",
    ]
