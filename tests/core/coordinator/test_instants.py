"""Time passes from timer to timer."""

from __future__ import annotations

import pytest

from muster_core.coordinator.plain_scheduler import PlainScheduler, pass_time
from muster_core.events import AddApp, AddNode
from muster_core.resources import Resources
from tests.core.building import wish

ENDS = {"x": 2, "y": 5, "z": 5}


def running() -> PlainScheduler:
    """Give a scheduler of which three asks run, until they end."""
    scheduler = PlainScheduler()
    scheduler.submit(AddNode("n", Resources({"vcore": 1_000})))
    scheduler.submit(AddApp("p", "root.q"))
    for name, end_us in ENDS.items():
        scheduler.submit(wish("p", name, 1, run_for_us=end_us))
    scheduler.settle()
    return scheduler


@pytest.mark.parametrize(
    ("until_us", "instants", "then_us"),
    [(1, [], 1), (2, [2], 2), (4, [2], 4), (5, [2, 5], 5), (9, [2, 5], 9), (0, [], 0)],
)
def test_it_stops_at_each_timer_up_to_an_instant(
    until_us: int, instants: list[int], then_us: int
) -> None:
    scheduler = running()
    stops: list[int] = []
    for at_us in pass_time(scheduler.machine, until_us):
        assert scheduler.machine.now_us == at_us
        stops.append(at_us)
        scheduler.settle()

    assert stops == instants
    assert scheduler.machine.now_us == then_us


def test_without_an_end_it_goes_on_as_long_as_a_timer_is_left() -> None:
    scheduler = running()
    stops: list[int] = []
    for at_us in pass_time(scheduler.machine, None):
        stops.append(at_us)
        scheduler.settle()

    assert stops[:2] == [2, 5]
    assert scheduler.machine.next_deadline_us() is None
    assert scheduler.machine.now_us == stops[-1]


def test_time_does_not_go_back() -> None:
    scheduler = running()
    scheduler.pass_until(9)

    assert list(pass_time(scheduler.machine, 3)) == []
    assert scheduler.machine.now_us == 9
