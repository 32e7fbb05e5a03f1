"""The surface is the one of trio: the same names, parameters, and words."""

from __future__ import annotations

import inspect

import pytest

import muster
import muster.asyncio

CLASSES = ["TrioAllocation", "Application", "Ask", "Decisions", "Gang", "Scheduler"]
SAME = ["Allocation", "Binder", "ResumingBinder"]
OTHERWISE = {"TrioAllocation": "AsyncioAllocation"}
"""What has a name of its own in asyncio, so that messages tell the two apart."""

NOT_FOR_PROGRAMS = {"Decisions": {"offer", "end", "is_over", "take_now"}}
"""What only the coordinator calls."""


def in_asyncio(name: str) -> type:
    """Return what a class of trio is in asyncio."""
    found: type = getattr(muster.asyncio, OTHERWISE.get(name, name))
    return found


def public(name: str, owner: type) -> set[str]:
    names = {one for one in dir(owner) if not one.startswith("_")}
    return names - NOT_FOR_PROGRAMS.get(name, set())


def methods(name: str) -> list[str]:
    owner: type = getattr(muster, name)
    return sorted(one for one in public(name, owner) if callable(getattr(owner, one)))


def summary(what: object) -> str:
    """Return the first words of a docstring, up to what the two need not have in common."""
    text = (inspect.getdoc(what) or "").split("\n")[0]
    return text.split("; see")[0].rstrip(".")


@pytest.mark.parametrize("name", CLASSES)
def test_the_names_are_the_same(name: str) -> None:
    here, there = in_asyncio(name), getattr(muster, name)

    # `missed` is an attribute of the one and a property of the other.
    assert public(name, here) - {"missed"} == public(name, there)


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name in CLASSES for method in methods(name)]
)
def test_methods_are_the_same(name: str, method: str) -> None:
    here = getattr(in_asyncio(name), method)
    there = getattr(getattr(muster, name), method)

    ours, theirs = inspect.signature(here), inspect.signature(there)
    assert list(ours.parameters.values()) == list(theirs.parameters.values())
    if method != "running":  # which has a scope to give in trio, and none in asyncio
        assert ours.return_annotation == theirs.return_annotation
    assert inspect.iscoroutinefunction(here) == inspect.iscoroutinefunction(there)
    assert summary(here) == summary(there)


@pytest.mark.parametrize("name", SAME)
def test_what_a_binder_is_written_with_is_the_same(name: str) -> None:
    assert getattr(muster.asyncio, name) is getattr(muster, name)


def test_both_allocations_are_allocations() -> None:
    assert issubclass(muster.TrioAllocation, muster.Allocation)
    assert issubclass(muster.asyncio.AsyncioAllocation, muster.Allocation)


def test_opening_differs_by_the_mode_alone() -> None:
    ours = dict(inspect.signature(muster.asyncio.open_scheduler).parameters)
    theirs = inspect.signature(muster.open_scheduler).parameters

    mode = ours.pop("mode")
    assert mode.kind is inspect.Parameter.KEYWORD_ONLY
    assert mode.default is muster.asyncio.Mode.THREAD
    assert ours == dict(theirs)
