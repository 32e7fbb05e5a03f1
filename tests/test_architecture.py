"""The pictures of the architecture show what the code does."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import pytest
import trio

import muster
from docs import packages, walk
from docs.packages import PLANS, Plan

PLACES = {step.place for step in walk.WALK}


@contextmanager
def entered() -> Generator[list[str]]:
    """Note the functions of the walk that are entered, each at the first time."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            place = f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}"
            if place in PLACES and place not in found:
                found.append(place)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


async def test_an_ask_walks_through_the_packages_in_the_order_that_is_drawn() -> None:
    async with muster.open_scheduler() as scheduler:
        await scheduler.add_node("node-1", {"vcore": 1})
        await scheduler.add_app("report", "batch")
        with entered() as found, trio.fail_after(120):
            ask = await scheduler.add_ask("report", "part", {"vcore": 1})
            allocation = await ask.bound()

    assert allocation.node == "node-1"
    assert found == [step.place for step in walk.WALK]


def test_the_walk_shows_every_package_that_it_enters() -> None:
    assert {step.package for step in walk.WALK} == set(walk.LANES)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_no_package_imports_one_on_its_floor_or_above(plan: Plan) -> None:
    found = packages.imports(plan)
    floor = packages.floors(found)

    assert [
        f"{package} -> {other}"
        for package, below in found.items()
        for other in below
        if floor[other] >= floor[package]
    ] == []


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_every_package_says_what_it_is_for(plan: Plan) -> None:
    assert [
        package for package in packages.imports(plan) if not packages.purpose(plan, package)
    ] == []


@pytest.mark.parametrize("package", ["muster", "muster_core"])
def test_no_folder_has_more_modules_than_a_reader_takes_in(package: str) -> None:
    counted: dict[str, int] = {}
    for path in packages.modules(package).values():
        if path.name != "__init__.py":
            folder = path.parent.relative_to(packages.PROJECT).as_posix()
            counted[folder] = counted.get(folder, 0) + 1

    assert {folder: many for folder, many in counted.items() if many > 26} == {}


@pytest.mark.parametrize("package", ["muster", "muster_core"])
def test_no_module_has_more_than_700_lines(package: str) -> None:
    lines = {
        path.relative_to(packages.PROJECT).as_posix(): path.read_text().count("\n")
        for path in packages.modules(package).values()
    }

    assert {path: many for path, many in lines.items() if many > 700} == {}


def test_the_house_has_at_most_450_modules() -> None:
    assert len(packages.modules("muster")) + len(packages.modules("muster_core")) <= 450


def test_a_circle_is_not_drawn() -> None:
    with pytest.raises(ValueError, match="packages import one another: a -> b -> a"):
        packages.floors({"a": {"b"}, "b": {"a"}})


def test_arrows_that_a_longer_way_replaces_are_left_out() -> None:
    assert packages.needed({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {
        "a": {"b"},
        "b": {"c"},
        "c": set(),
    }
