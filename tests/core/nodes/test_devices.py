from __future__ import annotations

from hypothesis import given, strategies as st

from muster_core.nodes.node import DevicesAfter, NodeDevices, fits_on, fullest, least_lack
from muster_core.values.devices import DeviceNeed, DeviceNeeds, DeviceStock

FREE = st.lists(st.sampled_from([0, 1, 250, 400, 600, 999, 1000]), min_size=1, max_size=5)
NEEDS = st.one_of(
    st.integers(1, 999).map(lambda milli: DeviceNeed(milli=milli)),
    st.integers(1, 4).map(lambda count: DeviceNeed(count=count)),
)


def node(free: list[int], kind: str = "gpu") -> NodeDevices:
    made = NodeDevices({kind: DeviceStock(len(free))})
    made.free[kind][:] = free
    return made


# DEVICE-7
def test_whole_ones_are_the_lowest_that_are_wholly_free() -> None:
    there = node([1000, 999, 1000, 1000])
    needs: DeviceNeeds = (("gpu", DeviceNeed(count=2)),)
    assert there.pick(needs) == (("gpu", (0, 2)),)


# DEVICE-8
def test_a_share_fills_the_device_with_the_least_that_suffices() -> None:
    assert fullest(DeviceNeed(milli=300), [1000, 400, 299, 400]) == 1
    assert fullest(DeviceNeed(milli=401), [1000, 400, 299, 1000]) == 0


# DEVICE-6
def test_all_types_must_fit() -> None:
    there = NodeDevices({"gpu": DeviceStock(1), "nic": DeviceStock(2)})
    whole = DeviceNeed(count=2)
    assert there.has_room((("nic", whole),))
    assert not there.has_room((("gpu", whole), ("nic", whole)))
    assert not there.has_room((("fpga", whole),))
    assert there.how_many((("gpu", DeviceNeed(milli=300)), ("nic", DeviceNeed(count=1)))) == 2
    assert there.how_many(()) is None


# DEVICE-9
def test_what_is_taken_is_given_back() -> None:
    there = node([1000, 500])
    needs: DeviceNeeds = (("gpu", DeviceNeed(milli=500)),)
    use = (needs, there.pick(needs))
    there.take(use)
    assert there.free == {"gpu": [1000, 0]}
    there.give_back(use)
    assert there.free == {"gpu": [1000, 500]}


@given(FREE, NEEDS)
def test_as_many_fit_as_can_be_taken_one_after_another(free: list[int], need: DeviceNeed) -> None:
    there, count = node(free), 0
    needs = (("gpu", need),)
    expected = there.how_many(needs)
    while there.has_room(needs):
        there.take((needs, there.pick(needs)))
        count += 1
    assert count == expected


# DEVICE-10
@given(FREE, NEEDS, st.randoms(use_true_random=False))
def test_less_than_the_least_lack_is_never_enough(
    free: list[int], need: DeviceNeed, chance: st.DataObject
) -> None:
    """However so much is released, the need does not fit before that much is."""
    assert (least_lack(need, free) == 0) == (fits_on(need, free) or need.count > len(free))
    lack, released, now = least_lack(need, free), 0, list(free)
    order = list(range(len(free)))
    chance.shuffle(order)  # type: ignore[attr-defined] # a Random
    for number in order:
        assert released >= lack or not fits_on(need, now)
        released += 1000 - now[number]
        now[number] = 1000


# DEVICE-10
def test_what_would_be_free_after_victims() -> None:
    there = NodeDevices({"gpu": DeviceStock(2), "nic": DeviceStock(1)})
    share, both = (("gpu", DeviceNeed(milli=500)),), (("gpu", DeviceNeed(count=2)),)
    use = (share, there.pick(share))
    there.take(use)
    after = DevicesAfter((*both, ("nic", DeviceNeed(count=1))), there)
    assert after.lacking() == ["device/gpu"]
    after.change(use, -1)
    assert after.lacking() == []
    after.change(use, 1)
    assert after.lacking() == ["device/gpu"]
    assert there.free == {"gpu": [500, 1000], "nic": [1000]}
    assert DevicesAfter(both, None).lacking() == DevicesAfter((), there).lacking() == []
