"""Chains of fixed rules: those that can never match are refused."""

from __future__ import annotations

from typing import Any

import pytest

from muster_core.config import load_configuration
from muster_core.errors import ConfigError
from tests.core.building import from_python

QUEUES = [
    {"name": "Leaf"},
    {"name": "p", "queues": [{"name": "leaf"}, {"name": "q", "parent": True}]},
]


def rule(*values: str, create: bool = False, parents: bool = False) -> dict[str, Any]:
    """Return a rule from the outermost parent on: ``user`` or the value of a fixed rule."""
    found: dict[str, Any] | None = None
    for number, value in enumerate(values):
        is_outer = number == len(values) - 1
        made: dict[str, Any] = {"name": "fixed", "value": value}
        if value == "user":
            made = {"name": "user"}
        made["create"] = create if is_outer else parents
        found = made if found is None else {**made, "parent": found}
    assert found is not None
    return found


def refusals(written: dict[str, Any]) -> list[tuple[str, str]]:
    document = from_python({"partitions": [{"placementrules": [written], "queues": QUEUES}]})
    try:
        load_configuration(document)
    except ConfigError as error:
        head = "partitions[0].placementrules[0]"
        return [(found.path.removeprefix(head), found.message) for found in error.problems]
    return []


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    "values",
    [
        ("leaf",),
        ("ROOT.LEAF",),
        ("p.leaf",),
        ("p", "leaf"),
        ("root", "p", "Leaf"),
        ("p", "user"),
        ("p", "q", "user"),
        ("root", "user"),
        ("user",),
        ("user", "nowhere"),
        ("p", "user", "nowhere", "user"),
    ],
)
def test_what_exists_can_match(values: tuple[str, ...], create: bool) -> None:
    assert refusals(rule(*values, create=create)) == []


@pytest.mark.parametrize(
    "values", [("new",), ("p.new",), ("p", "new.x"), ("new", "x"), ("new", "user")]
)
@pytest.mark.parametrize("parents", [True, False])
def test_what_is_missing_needs_create_of_the_rule(values: tuple[str, ...], parents: bool) -> None:
    assert refusals(rule(*values, create=True, parents=parents)) == []
    ((_, message),) = refusals(rule(*values, create=False, parents=parents))
    assert "the rule can never match: there is no queue 'root." in message


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize(
    ("values", "place", "message"),
    [
        (("leaf.x",), ".value", "'root.leaf' is a leaf"),
        (("leaf", "x"), ".parent.value", "'root.leaf' is a leaf"),
        (("leaf", "user"), ".parent.value", "'root.leaf' is a leaf"),
        (("p", "leaf.x.y", "user"), ".parent.value", "'root.p.leaf' is a leaf"),
        (("p",), ".value", "'root.p' is a parent"),
        (("p", "q"), ".value", "'root.p.q' is a parent"),
        (("root",), ".value", "'root' is a parent"),
    ],
)
def test_leaves_and_parents_in_the_wrong_place(
    values: tuple[str, ...], place: str, message: str, create: bool
) -> None:
    ((path, said),) = refusals(rule(*values, create=create))

    assert path == place
    assert said.startswith(f"the rule can never match: {message}")
