"""Reading placement rules: what the core gets; what is refused stands in ``tests/configs``."""

from __future__ import annotations

from typing import Any

import pytest

from muster_core.config import load_configuration
from muster_core.config.model import Configuration, PlacementFilter, PlacementRule, RuleName
from muster_core.errors import ConfigError
from tests.core.building import from_python


def load(rules: object, **partition: Any) -> Configuration:  # noqa: ANN401 - a JSON value
    document = from_python({"partitions": [{"placementrules": rules, **partition}]})
    return load_configuration(document, file="q.yaml")


def test_everything_said_of_a_rule() -> None:
    rules = [
        {
            "name": "TAG",
            "value": "Namespace",
            "create": True,
            "filter": {"type": "Deny", "users": ["sue", "7"], "groups": ["d.*"]},
            "parent": {
                "name": "user",
                "parent": {"name": "Fixed", "value": "Root.A", "create": "on"},
            },
        },
        {"name": "provided", "value": "x", "create": None, "filter": None, "parent": None},
    ]

    fixed = PlacementRule(RuleName.FIXED, "Root.A", create=True)
    deny = PlacementFilter(deny=True, users=("sue", "7"), groups=("d.*",))
    assert load(rules, queues=[{"name": "a", "parent": True}]).placement_rules == (
        PlacementRule(
            RuleName.TAG,
            "Namespace",
            create=True,
            filter=deny,
            parent=PlacementRule(RuleName.USER, parent=fixed),
        ),
        PlacementRule(RuleName.PROVIDED, "x"),
    )


@pytest.mark.parametrize("rules", [[], None])
def test_no_rules(rules: object) -> None:
    assert load(rules).placement_rules == ()


def test_obeyed_rules_bring_no_warning() -> None:
    assert load([{"name": "user"}]).warnings == ()


def test_the_rules_of_the_partition_that_runs() -> None:
    document = from_python(
        {
            "partitions": [
                {"name": "other", "placementrules": [{"name": "user"}]},
                {"name": "default", "placementrules": [{"name": "provided"}]},
            ]
        }
    )

    assert load_configuration(document).placement_rules == (PlacementRule(RuleName.PROVIDED),)


WRONG: list[tuple[list[object], list[str]]] = [
    (
        [{"parent": {"parent": {"x": 1}}}],
        ["[0]", "[0].parent", "[0].parent.parent", "[0].parent.parent.x"],
    ),
    (
        [{"name": "user", "filter": {"groups": {}, "type": []}}],
        ["[0].filter.groups", "[0].filter.type"],
    ),
    (["user"], ["[0]"]),
    ([[]], ["[0]"]),
    ([{"name": {}}], ["[0].name"]),
    ([{"name": "fixed", "value": []}], ["[0].value"]),
    ([{"name": "tag", "value": None}, {"name": "x"}], ["[0].value", "[1].name"]),
]


@pytest.mark.parametrize(("rules", "paths"), WRONG)
def test_every_problem_is_said(rules: list[object], paths: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load(rules)

    found = {
        problem.path.removeprefix("partitions[0].placementrules")
        for problem in caught.value.problems
    }
    assert found == set(paths)
