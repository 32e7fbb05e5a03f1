"""The naive model's devices: one small case for each sentence, written out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from muster_core.config.model import Configuration, Limits, NodeSortPolicy, Settings
from muster_core.decisions import Kind
from muster_core.events import AddAsk, AddNode, Configure, Release, RemoveAsk, UpdateNode
from muster_core.resources import Resources
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed, DeviceStock
from tests.naive.story import APP, Story
from tests.naive.test_evictions import evicted
from tests.naive.test_reasons import HIGH, queue

NOTHING: Final = Resources()
SHARE: Final = DeviceNeed(milli=500)


def node(name: str, gpus: int, cores: int = 9, model: str | None = None) -> AddNode:
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


def devices(story: Story) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Give the node and the devices of each ask that holds some."""
    return {
        one.name: (one.node or "", one.devices["gpu"])
        for one in story.model.world.asks()
        if one.devices
    }


def test_whole_ones_take_the_lowest_numbers_that_are_wholly_free() -> None:
    story = Story(node("n", 4), APP, ask("k", 1), ask("s", SHARE), ask("w", 2))
    assert devices(story) == {"k": ("n", (0,)), "s": ("n", (1,)), "w": ("n", (2, 3))}
    story.play(Release("a", "k"), ask("v", 1))
    assert devices(story)["v"] == ("n", (0,))


def test_a_share_takes_the_device_with_the_least_free_that_suffices() -> None:
    shares = [ask(f"s{amount}", milli(amount)) for amount in (700, 400, 300, 500, 500)[:4]]
    story = Story(node("n", 3), APP, *shares)
    assert devices(story) == {
        "s700": ("n", (0,)),
        "s400": ("n", (1,)),
        "s300": ("n", (0,)),
        "s500": ("n", (1,)),
    }


def test_a_share_needs_one_device_with_enough_and_not_all_together() -> None:
    story = Story(node("n", 2), APP, ask("s", milli(600), count=3))
    assert set(devices(story)) == {"s-0", "s-1"}
    assert story.model.queue("root.q").allocated == {"device/gpu": 1200}


def test_assigned_says_which_and_only_of_asks_with_devices() -> None:
    story = Story()
    decisions = story.decide(node("n", 2), APP, ask("k", 2), plain("m", 1))
    said = {one.ask: one.devices for one in decisions if one.kind is Kind.ASSIGNED}
    assert said == {"k": {"gpu": (0, 1)}, "m": None}


def test_the_model_of_the_node_must_be_in_the_list() -> None:
    need = milli(100, "A100", "H100")
    story = Story(node("a", 1), node("b", 1, model="T4"), node("c", 1, model="H100"), APP)
    story.play(ask("s", need))
    assert devices(story) == {"s": ("c", (0,))}


def test_devices_are_not_replaced_while_one_is_held() -> None:
    story = Story(node("n", 1), APP, ask("k", 1))
    update = UpdateNode("n", devices={"gpu": DeviceStock(2)})
    assert story.play(update) == ["rejected"]
    story.play(Release("a", "k"))
    assert not story.play(update)
    story.play(ask("m", 2))
    assert devices(story) == {"m": ("n", (0, 1))}


def test_they_count_against_quotas_in_thousandths() -> None:
    limited = ordered(NodeSortPolicy.FAIR, {"vcore": 1.0})
    (leaf,) = limited.config.root.children
    leaf = attrs.evolve(leaf, max=Limits.of({"device/gpu": 1500}))
    root = attrs.evolve(limited.config.root, children=(leaf,))
    story = Story(Configure(attrs.evolve(limited.config, root=root)), node("n", 4), APP)
    story.play(ask("k", 2), ask("m", 1), ask("s", milli(501)), ask("t", milli(500)))
    assert set(devices(story)) == {"m", "t"}


def test_a_type_whose_devices_do_not_fit_is_one_that_the_node_lacks() -> None:
    """There are 1000 milli free, but on no device."""
    story = Story(ordered(NodeSortPolicy.FAIR, {"vcore": 1.0}), HIGH, node("n", 2), APP)
    story.play(plain("p", 1), ask("s", SHARE, priority=-1), ask("t", milli(600), priority=-1))
    decisions = story.decide(ask("k", 1, priority_class="high"))
    assert evicted(decisions) == ["released t preempted"], "the newest that is useful"
    assert devices(story)["k"] == ("n", (1,))


def test_best_fit_leaves_least() -> None:
    """Free beside the ask, as shares of the largest: 1/8 + 2/4 of a, 2/8 + 1/4 of b."""
    weights = {"vcore": 1.0, "device/gpu": 1.0}
    story = Story(ordered(NodeSortPolicy.BESTFIT, weights), APP)
    story.play(node("c", 4, 8), node("a", 3, 2), node("b", 2, 3), ask("k", 1, cores=1))
    assert devices(story)["k"][0] == "b"
    story.play(ask("m", 1, cores=1))
    assert devices(story)["m"][0] == "b", "the fuller it is, the sooner"


def test_types_that_no_node_has_are_left_out() -> None:
    story = Story(ordered(NodeSortPolicy.BESTFIT, {"vcore": 1.0, "tape": 5.0}), APP)
    story.play(node("a", 0, 3), node("b", 0, 2), plain("k", 1))
    assert story.model.bound == [("a/k", "b")]


def test_fgd_adds_least_to_what_typical_asks_cannot_use() -> None:
    """Half a device is of use to nobody but the ask itself, where one of 600 is typical."""
    typical = TypicalAsk((("gpu", milli(600)),), NOTHING, 1)
    config = ordered(NodeSortPolicy.FGD, {"vcore": 1.0}, typical)
    story = Story(config, node("n", 3), APP, ask("s", milli(450)), ask("t", milli(400)))
    assert devices(story) == {"s": ("n", (0,)), "t": ("n", (0,))}
    story.play(ask("u", milli(300)))
    assert devices(story)["u"] == ("n", (1,)), "150 of 0 would do, 300 do not fit there"


def test_fgd_prefers_a_device_that_is_useless_already() -> None:
    typical = TypicalAsk((("gpu", milli(800)),), NOTHING, 1)
    config = ordered(NodeSortPolicy.FGD, {"vcore": 1.0}, typical)
    story = Story(config, node("n", 2), APP, ask("s", milli(300)), ask("t", milli(100)))
    assert devices(story) == {"s": ("n", (0,)), "t": ("n", (0,))}
    story.play(ask("u", milli(200)))
    assert devices(story)["u"] == ("n", (0,))


def test_steps_are_coarse_and_leftover_decides_among_equal_ones() -> None:
    """Placing 10 on a new device adds nothing, 10 on a used one neither: the fuller node wins."""
    typical = TypicalAsk((("gpu", milli(100)),), NOTHING, 1)
    config = ordered(NodeSortPolicy.FGD, {"vcore": 1.0}, typical)
    story = Story(config, node("a", 1, 9), node("b", 1, 5), APP, ask("s", milli(10), cores=1))
    assert devices(story)["s"][0] == "b"


def test_a_typical_ask_that_fits_no_longer_makes_all_that_is_free_useless() -> None:
    """The last core of a would leave no use for its device; b has cores enough."""
    typical = TypicalAsk((("gpu", milli(100)),), Resources({"vcore": 1}), 1)
    config = ordered(NodeSortPolicy.FGD, {"vcore": 1.0}, typical)
    story = Story(config, node("a", 1, 1), node("b", 1, 5), APP, plain("k", 1))
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
