"""The naive model's devices and topologies.

One small case for each sentence, and what is drawn reaches each rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies as st

from muster_core.config.model import Configuration, Limits, NodeSortPolicy, QueueConfig, Settings
from muster_core.decisions import Kind
from muster_core.events import (
    AddAsk,
    AddGang,
    AddNode,
    Configure,
    Release,
    RemoveAsk,
    RemoveNode,
    UpdateNode,
)
from muster_core.gangs import GangFields, GangMode, Topology, TopologyRule
from muster_core.resources import Resources
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed, DeviceStock
from tests.naive.device_strategies import devices, topologies
from tests.naive.harness import APP, LOOSE, Step, Story, asks, compare, node, run_plainly
from tests.naive.test_evictions import evicted
from tests.naive.test_reasons import HIGH, queue, tree

NOTHING: Final = Resources()
SHARE: Final = DeviceNeed(milli=500)


def gpu_node(name: str, gpus: int, cores: int = 9, model: str | None = None) -> AddNode:
    stock = {"gpu": DeviceStock(gpus, model)} if gpus else {}
    return AddNode(name, Resources({"vcore": cores}), devices=stock)


def ask(name: str, gpu: int | DeviceNeed, cores: int = 0, **fields: Any) -> AddAsk:  # noqa: ANN401 - names of fields
    need = gpu if isinstance(gpu, DeviceNeed) else DeviceNeed(count=gpu)
    resources = Resources({"vcore": cores})
    return AddAsk("a", name, resources, devices={"gpu": need}, **fields)


def plain(name: str, cores: int, **fields: Any) -> AddAsk:  # noqa: ANN401 - names of fields
    return AddAsk("a", name, Resources({"vcore": cores}), **fields)


def milli(amount: int, *models: str) -> DeviceNeed:
    return DeviceNeed(milli=amount, models=models or None)


def ordered(
    policy: NodeSortPolicy,
    weights: Mapping[str, float],
    *typical: TypicalAsk,
    **fields: Any,  # noqa: ANN401 - names of fields
) -> Configure:
    settings = Settings(preemption_delay_us=0, create=True)
    root = queue("root", queue("q", settings=settings, **fields), settings=settings)
    sorted_weights = tuple(sorted(weights.items()))
    return Configure(
        Configuration(
            "default", root, node_sort=policy, node_weights=sorted_weights, typical=typical
        )
    )


def held_devices(story: Story) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the node and the devices of each ask that holds some."""
    return {
        one.name: (one.node or "", one.devices["gpu"])
        for one in story.model.world.asks()
        if one.devices
    }


def test_whole_ones_take_the_lowest_numbers_that_are_wholly_free() -> None:
    story = Story(gpu_node("n", 4), APP, ask("k", 1), ask("s", SHARE), ask("w", 2))
    assert held_devices(story) == {"k": ("n", (0,)), "s": ("n", (1,)), "w": ("n", (2, 3))}
    story.play(Release("a", "k"), ask("v", 1))
    assert held_devices(story)["v"] == ("n", (0,))


def test_a_share_takes_the_device_with_the_least_free_that_suffices() -> None:
    shares = [ask(f"s{amount}", milli(amount)) for amount in (700, 400, 300, 500, 500)[:4]]
    story = Story(gpu_node("n", 3), APP, *shares)
    assert held_devices(story) == {
        "s700": ("n", (0,)),
        "s400": ("n", (1,)),
        "s300": ("n", (0,)),
        "s500": ("n", (1,)),
    }


def test_a_share_needs_one_device_with_enough_and_not_all_together() -> None:
    story = Story(gpu_node("n", 2), APP, ask("s", milli(600), count=3))
    assert set(held_devices(story)) == {"s-0", "s-1"}
    assert story.model.queue("root.q").allocated == {"device/gpu": 1200}


def test_assigned_says_which_and_only_of_asks_with_devices() -> None:
    story = Story()
    decisions = story.decide(gpu_node("n", 2), APP, ask("k", 2), plain("m", 1))
    devices = {one.ask: one.devices for one in decisions if one.kind is Kind.ASSIGNED}
    assert devices == {"k": {"gpu": (0, 1)}, "m": None}


def test_the_model_of_the_node_must_be_in_the_list() -> None:
    need = milli(100, "A100", "H100")
    story = Story(
        gpu_node("a", 1), gpu_node("b", 1, model="T4"), gpu_node("c", 1, model="H100"), APP
    )
    story.play(ask("s", need))
    assert held_devices(story) == {"s": ("c", (0,))}


def test_devices_are_not_replaced_while_one_is_held() -> None:
    story = Story(gpu_node("n", 1), APP, ask("k", 1))
    update = UpdateNode("n", devices={"gpu": DeviceStock(2)})
    assert story.play(update) == ["rejected"]
    story.play(Release("a", "k"))
    assert not story.play(update)
    story.play(ask("m", 2))
    assert held_devices(story) == {"m": ("n", (0, 1))}


def test_they_count_against_quotas_in_thousandths() -> None:
    limited = ordered(NodeSortPolicy.FAIR, {"vcore": 1.0})
    (leaf,) = limited.config.root.children
    leaf = attrs.evolve(leaf, max=Limits.of({"device/gpu": 1500}))
    root = attrs.evolve(limited.config.root, children=(leaf,))
    story = Story(Configure(attrs.evolve(limited.config, root=root)), gpu_node("n", 4), APP)
    story.play(ask("k", 2), ask("m", 1), ask("s", milli(501)), ask("t", milli(500)))
    assert set(held_devices(story)) == {"m", "t"}


def test_a_type_whose_devices_do_not_fit_is_one_that_the_node_lacks() -> None:
    """There are 1000 milli free, but on no device."""
    story = Story(ordered(NodeSortPolicy.FAIR, {"vcore": 1.0}), HIGH, gpu_node("n", 2), APP)
    story.play(plain("p", 1), ask("s", SHARE, priority=-1), ask("t", milli(600), priority=-1))
    decisions = story.decide(ask("k", 1, priority_class="high"))
    assert evicted(decisions) == ["released t preempted"], "the newest that is useful"
    assert held_devices(story)["k"] == ("n", (1,))


def test_best_fit_leaves_least() -> None:
    """Free beside the ask, as shares of the largest: 1/8 + 2/4 of a, 2/8 + 1/4 of b."""
    weights = {"vcore": 1.0, "device/gpu": 1.0}
    story = Story(ordered(NodeSortPolicy.BESTFIT, weights), APP)
    story.play(gpu_node("c", 4, 8), gpu_node("a", 3, 2), gpu_node("b", 2, 3), ask("k", 1, cores=1))
    assert held_devices(story)["k"][0] == "b"
    story.play(ask("m", 1, cores=1))
    assert held_devices(story)["m"][0] == "b", "the fuller it is, the sooner"


def test_types_that_no_node_has_are_left_out() -> None:
    story = Story(ordered(NodeSortPolicy.BESTFIT, {"vcore": 1.0, "tape": 5.0}), APP)
    story.play(gpu_node("a", 0, 3), gpu_node("b", 0, 2), plain("k", 1))
    assert story.model.bound == [("a/k", "b")]


def test_fgd_adds_least_to_what_typical_asks_cannot_use() -> None:
    """Half a device is of use to nobody but the ask itself, where one of 600 is typical."""
    typical = TypicalAsk((("gpu", milli(600)),), NOTHING, 1)
    config = ordered(NodeSortPolicy.FGD, {"vcore": 1.0}, typical)
    story = Story(config, gpu_node("n", 3), APP, ask("s", milli(450)), ask("t", milli(400)))
    assert held_devices(story) == {"s": ("n", (0,)), "t": ("n", (0,))}
    story.play(ask("u", milli(300)))
    assert held_devices(story)["u"] == ("n", (1,)), "150 of 0 would do, 300 do not fit there"


def test_fgd_prefers_a_device_that_is_useless_already() -> None:
    typical = TypicalAsk((("gpu", milli(800)),), NOTHING, 1)
    config = ordered(NodeSortPolicy.FGD, {"vcore": 1.0}, typical)
    story = Story(config, gpu_node("n", 2), APP, ask("s", milli(300)), ask("t", milli(100)))
    assert held_devices(story) == {"s": ("n", (0,)), "t": ("n", (0,))}
    story.play(ask("u", milli(200)))
    assert held_devices(story)["u"] == ("n", (0,))


def test_steps_are_coarse_and_leftover_decides_among_equal_ones() -> None:
    """Placing 10 on a new device adds nothing, 10 on a used one neither: the fuller node wins."""
    typical = TypicalAsk((("gpu", milli(100)),), NOTHING, 1)
    config = ordered(NodeSortPolicy.FGD, {"vcore": 1.0}, typical)
    story = Story(
        config, gpu_node("a", 1, 9), gpu_node("b", 1, 5), APP, ask("s", milli(10), cores=1)
    )
    assert held_devices(story)["s"][0] == "b"


def test_a_typical_ask_that_fits_no_longer_makes_all_that_is_free_useless() -> None:
    """The last core of a would leave no use for its device; b has cores enough."""
    typical = TypicalAsk((("gpu", milli(100)),), Resources({"vcore": 1}), 1)
    config = ordered(NodeSortPolicy.FGD, {"vcore": 1.0}, typical)
    story = Story(config, gpu_node("a", 1, 1), gpu_node("b", 1, 5), APP, plain("k", 1))
    assert story.model.bound == [("a/k", "b")]


def test_what_came_is_learned_and_taken_at_twice_as_many() -> None:
    story = Story(ordered(NodeSortPolicy.FGD, {"vcore": 1.0}), APP)
    learned: list[int] = []
    for number in range(5):
        story.play(ask(f"k{number}", SHARE, cores=1))
        learned.append(len(story.model.world.learned))
    assert learned == [1, 2, 2, 4, 4]
    story.play(RemoveAsk("a", "k0"), ask("m", 1, count=3))
    assert len(story.model.world.learned) == 8


SAME = Topology(TopologyRule.SAME, "rack")
PREFER = Topology(TopologyRule.PREFER, "rack")
SPREAD = Topology(TopologyRule.SPREAD, "rack")
AT_MOST_ONE = attrs.evolve(SPREAD, max=1)


def racked(name: str, cores: int, rack: str | None = None) -> AddNode:
    return attrs.evolve(node(name, cores), attributes={} if rack is None else {"rack": rack})


def gang(topology: Topology, least: int, mode: GangMode | None = None) -> AddGang:
    return AddGang("default/g", GangFields(least, None, mode, topology=topology))


def packed(policy: NodeSortPolicy) -> Configure:
    root = QueueConfig(name="root", path="root", is_parent=True)
    return Configure(Configuration(partition="default", root=root, node_sort=policy))


def nodes_of(story: Story) -> dict[str, str]:
    """Return the node of each ask that has one, without the name of the application."""
    held = story.model.bound + story.model.waiting
    return {name.removeprefix("a/"): place for name, place in held}


TWO_RACKS = (racked("a", 1, "x"), racked("b", 2, "y"), racked("c", 1, "y"), racked("d", 9))


def test_same_takes_the_first_domain_in_which_all_that_is_lacking_fits() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 3), asks("m", of="g", count=3))
    assert nodes_of(story) == {"m-0": "b", "m-1": "c", "m-2": "b"}


def test_with_no_domain_same_fails_like_an_ask_that_fits_no_node() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 4), asks("m", of="g", count=4))
    assert nodes_of(story) == {}
    loose = Story(*TWO_RACKS, APP, gang(SAME, 4, LOOSE), asks("m", of="g", count=4))
    assert nodes_of(loose) == {}


def test_the_headroom_counts_too() -> None:
    story = Story(
        tree(queue("q", most=2)), *TWO_RACKS, APP, gang(SAME, 3), asks("m", of="g", count=3)
    )
    assert nodes_of(story) == {}


def test_later_members_stay_in_the_domain_satisfied_or_not() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 2), asks("m", of="g", count=5))
    assert len(nodes_of(story)) == 3
    story.play(RemoveNode("b"))
    assert set(nodes_of(story).values()) == {"c"}


def test_when_no_member_is_left_a_satisfied_gang_chooses_anew_for_one() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 2), asks("m", of="g", count=3))
    story.play(asks("n", of="g"))
    assert "n" not in nodes_of(story)
    story.play(*(Release("a", f"m-{number}") for number in range(3)))
    assert nodes_of(story) == {"n": "a"}, "which has no room for two"


def test_of_members_in_two_domains_the_earliest_assigned_counts() -> None:
    story = Story(*TWO_RACKS, APP, gang(SAME, 2), asks("m", of="g", count=2))
    assert nodes_of(story) == {"m-0": "b", "m-1": "c"}
    story.play(UpdateNode("b", attributes={"rack": "x"}), asks("n", of="g"))
    assert nodes_of(story)["n"] == "a"
    story.play(UpdateNode("b", attributes={}), asks("k", of="g"))
    assert "k" not in nodes_of(story), "c alone counts, and is full"


def test_prefer_fills_the_chosen_domain_first_and_then_any() -> None:
    story = Story(*TWO_RACKS, APP, gang(PREFER, 3), asks("m", of="g", count=5))
    assert nodes_of(story) == {"m-0": "b", "m-1": "c", "m-2": "b", "m-3": "a", "m-4": "d"}


def test_with_no_domain_prefer_prefers_nothing() -> None:
    story = Story(*TWO_RACKS, APP, gang(PREFER, 4), asks("m", of="g", count=4))
    assert nodes_of(story)["m-0"] == "a"
    assert nodes_of(story)["m-1"] == "b", "and then none but the one before"


def test_spread_takes_the_domain_with_fewest_members() -> None:
    three = (racked("a", 9, "x"), racked("b", 3, "x"), racked("c", 3, "y"), racked("d", 9))
    story = Story(*three, APP, gang(SPREAD, 2), asks("m", of="g", count=5))
    assert nodes_of(story) == {"m-0": "a", "m-1": "c", "m-2": "b", "m-3": "c", "m-4": "a"}


def test_max_is_kept_by_all_members() -> None:
    story = Story(*TWO_RACKS, APP, gang(AT_MOST_ONE, 2), asks("m", of="g", count=4))
    assert nodes_of(story) == {"m-0": "a", "m-1": "b"}


def test_domains_are_ordered_like_nodes_with_their_sums() -> None:
    racks = (racked("a", 4, "x"), racked("b", 4, "y"), racked("c", 4, "y"))
    for policy, first in ((NodeSortPolicy.FAIR, "a"), (NodeSortPolicy.BINPACKING, "c")):
        story = Story(packed(policy), *racks, APP, asks("k", on="b", cores=4))
        story.play(asks("j", on="a"))
        story.play(gang(SAME, 2), asks("m", of="g", count=2))
        assert nodes_of(story)["m-0"] == first, policy


def test_a_victim_is_taken_only_where_a_member_may_be() -> None:
    """The members are in the rack y, so that nothing is taken in the rack x."""
    settings = Settings(preemption_delay_us=0)
    story = Story(
        tree(queue("q", settings=settings)),
        *(APP, HIGH, racked("a", 1, "x"), racked("b", 2, "y"), gang(SAME, 1)),
        *(asks("m", of="g", on="b"), asks("k", count=2, priority=-1)),
    )
    assert nodes_of(story) == {"m": "b", "k-0": "a", "k-1": "b"}
    decisions = story.decide(asks("n", of="g", named="high"), asks("j", of="g", named="high"))
    assert evicted(decisions) == ["released k-1 preempted"]
    assert "j" not in nodes_of(story)


def test_in_section_7_the_first_member_needs_any_domain() -> None:
    settings = Settings(preemption_delay_us=0)
    story = Story(
        tree(queue("q", settings=settings)),
        *(APP, HIGH, racked("a", 1), racked("b", 1, "y"), racked("c", 1, "x")),
        *(asks("k", count=3, priority=-1), gang(SAME, 1)),
    )
    decisions = story.decide(asks("n", of="g", named="high"))
    assert evicted(decisions) == ["released k-1 preempted"], "not on a, which is in no rack"


_SCENARIOS: Final = 20

_DRAWS: Final = 18
"""How often so many scenarios are drawn at most."""

_TOPOLOGY: Final = (
    *("same chosen", "same none", "same stays", "same keeps off", "same differs"),
    *("prefer chosen", "prefer none", "prefer stays"),
    *("spread stays", "spread differs", "spread keeps off"),
    *("same tries asks of several leaves", "same keeps off in a plan"),
    *("same stays, satisfied", "same keeps off, satisfied", "prefer stays, satisfied"),
)
_DEVICES: Final = (
    *("whole ones", "a share, of several devices", "a share, by least fragmentation"),
    *("enough in all, not on one", "another model", "victims by devices"),
    *("devices held", "devices replaced", "learned", "learned again"),
    *("by leftover", "step before leftover", "leftover among equal steps"),
    *("name among equal steps", "less fragmentation than before"),
)
"""The beginnings of what is counted; what is counted of members of satisfied gangs ends so."""


@pytest.mark.parametrize(
    ("drawn", "rules"), [(topologies, _TOPOLOGY), (devices, _DEVICES)], ids=["topology", "devices"]
)
def test_each_rule_is_reached_and_decides_the_same(
    drawn: Callable[[], st.SearchStrategy[list[Step]]], rules: tuple[str, ...]
) -> None:
    reached: Counter[str] = Counter()

    def missing() -> list[str]:
        return [rule for rule in rules if not any(one.startswith(rule) for one in +reached)]

    # Which scenarios are drawn depends on what else has run, so that a rare rule may be missing.
    for number in range(_DRAWS):
        _play(drawn(), number, reached)
        if not missing():
            break
    assert missing() == []


def _play(drawn: st.SearchStrategy[list[Step]], number: int, reached: Counter[str]) -> None:
    @seed(number)
    @settings(
        max_examples=_SCENARIOS,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    @given(drawn)
    def play(scenario: list[Step]) -> None:
        reached.update(compare(scenario, run_plainly).world.reached)

    play()
