"""What the beginning of an exported feed says of devices."""

from __future__ import annotations

from muster.export._preamble import preamble_of
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddApp, AddAsk, AddGang, AddNode
from muster_core.gangs import GangFields
from muster_core.resources import Resources
from muster_core.values.devices import DeviceNeed, DeviceStock

CORE = Resources({"vcore": 1000})
SHARE = {"gpu": DeviceNeed(milli=400, models=("T4",))}


def test_nodes_and_asks_have_their_devices_again() -> None:
    scheduler = PlainScheduler()
    for event in (
        AddNode("n", CORE, devices={"gpu": DeviceStock(2, "T4")}),
        AddApp("a", "root.q"),
        AddAsk("a", "share", Resources(), devices=SHARE, count=2),
        AddAsk("a", "whole", CORE, devices={"gpu": DeviceNeed(count=1)}),
        AddAsk("a", "large", Resources(), devices={"gpu": DeviceNeed(count=2)}),
    ):
        scheduler.submit(event)
    scheduler.settle()

    made = preamble_of(scheduler.facts())

    before, after = scheduler.snapshot(), made.scheduler.snapshot()
    assert [*before.nodes.values()] == [*after.nodes.values()]
    assert before.apps["a"].asks == after.apps["a"].asks
    assert not [note for note in made.notes if "refused" in note or "devices" in note]


def test_a_gang_of_which_few_are_left_is_none() -> None:
    scheduler = PlainScheduler()
    for event in (
        AddNode("n", CORE, devices={"gpu": DeviceStock(1, "T4")}),
        AddApp("a", "root.q"),
        AddGang("default/g", GangFields(min_member=1)),
        AddAsk("a", "x", Resources(), devices=SHARE, gang="default/g"),
    ):
        scheduler.submit(event)
    scheduler.settle()
    facts = scheduler.facts()
    assert preamble_of(facts).scheduler.snapshot().apps["a"].asks[0].node == "n"
