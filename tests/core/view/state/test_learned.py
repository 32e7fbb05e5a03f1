from __future__ import annotations

from muster_core.resources import Resources
from muster_core.values.configuration import TypicalAsk
from muster_core.values.devices import DeviceNeed
from muster_core.view.state.history import DeviceDemand

ONE = (("gpu", DeviceNeed(count=1)),)
WANTED = Resources({"vcore": 1000, "memory": 5, "device/gpu": 1000})
WEIGHTS = (("vcore", 1.0), ("device/gpu", 0.0))


# DEVICE-18
def test_it_is_taken_when_there_is_some_and_when_it_is_twice_as_much() -> None:
    learned = DeviceDemand()
    taken = [learned.take(WEIGHTS)]
    for _ in range(9):
        learned.note([(ONE, WANTED, 1)])
        taken.append(learned.take(WEIGHTS))
    assert [at for at, was in enumerate(taken) if was] == [1, 2, 4, 8]
    assert learned.taken == (TypicalAsk(ONE, Resources({"vcore": 1000}), 8),)


def test_the_weights_count_that_are_in_force_when_it_is_taken() -> None:
    learned = DeviceDemand()
    learned.note([(ONE, WANTED, 3)])
    assert learned.take(())
    assert learned.taken == (TypicalAsk(ONE, Resources(), 3),)
    assert not learned.take(WEIGHTS)


# CHECKPOINT-4, CHECKPOINT-5
def test_it_is_saved_and_loaded() -> None:
    learned, again = DeviceDemand(), DeviceDemand()
    learned.note([(ONE, WANTED, 3), ((("nic", DeviceNeed(milli=5)),), WANTED, 1)])
    learned.take(WEIGHTS)
    learned.note([(ONE, WANTED, 3)])
    again.load(learned.facts())
    assert (again.facts(), again.taken) == (learned.facts(), learned.taken)
    for one in (learned, again):
        assert not one.take(WEIGHTS)
        one.note([(ONE, WANTED, 1)])
        assert one.take(WEIGHTS)
    assert again.taken == learned.taken
