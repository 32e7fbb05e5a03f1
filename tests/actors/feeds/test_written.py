"""What is written in the form of a feed means what it did."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings

from muster.config_files import read_configuration
from muster.feeds import RawEvent, parse, write_event
from muster_core.config.model import Configuration
from muster_core.events import (
    AddApp,
    AddAsk,
    AddGang,
    AddNode,
    AddPriorityClass,
    Apply,
    BindFailed,
    Configure,
    Delete,
    Event,
    Exit,
    FailBind,
    Manifest,
    NodeObject,
    ObjectKind,
    ObjectName,
    Outcome,
    PodObject,
    QueueObject,
    Release,
    RemoveGang,
    UpdateNode,
    Work,
)
from muster_core.gangs import GangFields, GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.values.configuration import Limits
from tests.actors.store.test_codec import FEEDS, SUFFIXES, events_in, events_of
from tests.naive.devices.strategies import device_configurations, devices
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import Step
from tests.naive.operator_strategies import operations, operator_configurations
from tests.naive.strategies import scenarios
from tests.naive.test_configurations import some_configurations
from tests.naive.topology.strategies import topologies
from tests.share import every, share

# COMMAND-13

ONE = Resources({"vcore": 1000})
CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "good").rglob("*.yaml"))


def again(event: Event) -> object:
    """Write an event, and give what is read."""
    (item,) = parse([RawEvent(0, None, write_event(event))])
    return item.content


@settings(share(0.3))
@given(
    scenarios()
    | scenarios(lists=3)
    | gang_scenarios()
    | operations()
    | evictions()
    | topologies()
    | devices()
)
def test_random_events(steps: list[Step]) -> None:
    for event in events_of(steps):
        if can_be_read(event):
            assert_same(event)


def can_be_read(event: Event) -> bool:
    """Tell whether an event of a scenario can come from a feed.

    Some of their configurations are made by hand, and no text has such settings. A PodGroup waits
    for whole seconds.
    """
    match event:
        case Configure():
            return False
        case Apply(objects):
            gangs = (one.content for one in objects if isinstance(one.content, AddGang))
            return all((gang.says.wait_us or 0) % 1_000_000 == 0 for gang in gangs)
        case _:
            return True


def assert_same(event: Event) -> None:
    found = again(event)
    if isinstance(event, Configure):
        # Warnings about fields that are not obeyed are gone with the fields.
        assert isinstance(found, Configure)
        assert attrs.evolve(found.config, warnings=()) == attrs.evolve(event.config, warnings=())
    else:
        assert found == event


@pytest.mark.parametrize(
    "folder", every(3, sorted(one.name for one in FEEDS.iterdir() if one.is_dir()))
)
def test_the_events_of_all_feeds(folder: str) -> None:
    feeds = [path for path in (FEEDS / folder).rglob("*") if path.suffix in SUFFIXES]
    found = [event for path in feeds if path.parent.name != "files" for event in events_in(path)]
    assert found

    for event in found:
        assert_same(event)


@pytest.mark.parametrize("path", CONFIGS, ids=[path.name for path in CONFIGS])
def test_all_good_configurations(path: Path) -> None:
    assert_same(Configure(read_configuration(path)))


@settings(share(0.3))
@given(some_configurations() | operator_configurations() | device_configurations())
def test_random_configurations(configs: list[Configuration]) -> None:
    for config in configs:
        assert_same(Configure(config))


MANY = GangFields(3, 5, GangMode.NON_STRICT, 1_500_000, ("default/a", "x/b"))


@pytest.mark.parametrize(
    "event",
    [
        AddAsk("a", "k", ONE, gang="x/g", says=MANY, timed_out=True, selector={"zone": "null"}),
        AddAsk("a", "k", Resources({"vcore": 1, "memory": 3 * 2**30}), run_for_us=1, retries=2),
        AddAsk("a", "k", Resources({"gpu": 2**63 - 1}), priority=-5, count=3, node="n"),
        AddApp("12:30", "root.off", "sue", ("devs", "ops"), {"application.tag": "true"}),
        AddGang("x/g", MANY),
        AddGang("x/g", attrs.evolve(MANY, topology=Topology(TopologyRule.PREFER, "rack"))),
        AddGang("x/g", attrs.evolve(MANY, topology=Topology(TopologyRule.SPREAD, "null", 3))),
        AddNode("n", Resources({}), {"a": ""}, schedulable=False),
        AddNode("n", ONE, lease_us=1_500_000),
        AddAsk("a", "k", ONE, work=Work(("a b", "", "null", "1"), env={"A": "yes"}, workdir="x")),
        AddAsk("a", "k", ONE, work=Work(shell="if true; then date; fi", env={"A": ""})),
        AddAsk("a", "k", ONE, work=Work(workdir="~")),
        UpdateNode("n", attributes={}),
        UpdateNode("n", Resources({}), schedulable=True),
        Release("a", "k", Outcome.FAILED, ""),
        Release("a", "k", Outcome.CANCELLED, "by sue", Exit(signal=15)),
        Release("a", "k", exited=Exit(0, cpu_us=1_500_000, memory=2**31)),
        BindFailed("a", "k"),
        BindFailed("a", "k", "no such program"),
        FailBind("a", "k", 3),
        RemoveGang("x/g"),
        AddPriorityClass("high", 7, preempts=True),
        Apply(()),
        Apply((Manifest(NodeObject("n", Resources({}), schedulable=False)),)),
        Apply((Manifest(NodeObject("n"), "manifest.items[0]"),)),
        Apply((Manifest(AddGang("x/g", attrs.evolve(MANY, wait_us=2_000_000))),)),
        Apply((Manifest(QueueObject("q", "root.p", 0, False, Limits(), Resources({}))),)),
        Apply(
            (
                Manifest(PodObject("a", "p", user="sue", groups=("devs",)), "manifest.items[0]"),
                Manifest(
                    PodObject(
                        "a",
                        "q",
                        "root.b",
                        AddAsk("a", "q", ONE, priority_class="high", gang="x/g", says=MANY),
                        "n",
                        namespace="x",
                        groups=("ops",),
                    ),
                    "manifest.items[1]",
                ),
                Manifest(PodObject("a", "r", finished=True), "manifest.items[2]"),
            )
        ),
        Delete((Manifest(ObjectName(ObjectKind.POD, "p", "a")),)),
        Delete((Manifest(ObjectName(ObjectKind.POD_GROUP, "x/g"), "manifest.items[0]"),)),
    ],
)
def test_an_event(event: Event) -> None:
    assert again(event) == event


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (Release("a", "k", message="file \udc80"), "is not Unicode text"),
        (AddAsk("a", "k", ONE, run_for_us=2**70), "run_for: "),
        (
            Apply((Manifest(AddGang("x/g", GangFields(1, wait_us=1_500_000))),)),
            "scheduleTimeoutSeconds",
        ),
        (AddApp("a", "q", ""), "user: "),
        (Apply((Manifest(PodObject("a", "p", ask=AddAsk("a", "p", ONE, retries=2))),)), "would"),
    ],
)
def test_what_no_feed_can_say(event: Event, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        write_event(event)
