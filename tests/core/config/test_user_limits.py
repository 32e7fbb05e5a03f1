"""The limits of users and groups in a configuration; tests/configs has the rules about form."""

from __future__ import annotations

from typing import Any

import pytest

from muster_core.config.model import LimitEntry, Limits
from muster_core.errors import ConfigError
from tests.core.building import configuration, queue

Entry = dict[str, Any]


def paths(*queues: Any, **partition: Any) -> list[str]:  # noqa: ANN401
    """Give the paths of what is refused, from the partition on."""
    with pytest.raises(ConfigError) as caught:
        configuration(*queues, **partition)
    return [problem.path.split(".", 1)[1] for problem in caught.value.problems]


def test_entries_are_read_as_they_stand() -> None:
    entries = [
        {"limit": "a remark", "users": ["sue", "bob"], "maxresources": {"vcore": 2, "gpu": 0}},
        {"users": ["*"], "groups": ["dev"], "maxapplications": 3},
    ]
    config = configuration(queue("a", limits=entries))

    assert config.root.children[0].limits == (
        LimitEntry(users=("sue", "bob"), max=Limits.of({"vcore": 2000, "gpu": 0})),
        LimitEntry(users=("*",), groups=("dev",), max_applications=3),
    )
    assert config.warnings == ()


def test_limits_of_the_partition_are_those_of_root() -> None:
    config = configuration(queue("a"), limits=[{"users": ["*"], "maxapplications": 3}])

    assert config.root.limits == (LimitEntry(users=("*",), max_applications=3),)
    assert config.root.children[0].limits == ()


def test_the_limits_of_the_partition_are_checked_against_those_below() -> None:
    below = queue("a", limits=[{"users": ["sue"], "maxapplications": 4}])

    found = paths(below, limits=[{"users": ["*"], "maxapplications": 3}])

    assert found == ["queues[0].queues[0].limits[0].maxapplications"]


@pytest.mark.parametrize("entry", [{}, None])
def test_an_entry_that_says_nothing_is_refused(entry: Entry | None) -> None:
    assert paths(queue("a", limits=[entry])) == ["queues[0].queues[0].limits[0]"]


def nested(*levels: Entry) -> Any:  # noqa: ANN401
    """Give queues inside one another, each with one entry."""
    *above, last = levels
    made = queue("q", limits=[last])
    for level in reversed(above):
        made = queue("q", made, limits=[level])
    return made


@pytest.mark.parametrize(
    "levels",
    [
        # A queue between that says nothing of the name changes nothing.
        [
            {"users": ["sue"], "maxresources": {"vcore": 1}},
            {"users": ["bob"], "maxresources": {"vcore": 9}},
            {"users": ["sue"], "maxresources": {"vcore": 2}},
        ],
        # The least counts, wherever it stands.
        [
            {"users": ["sue"], "maxresources": {"vcore": 3, "memory": 1}},
            {"users": ["sue"], "maxresources": {"vcore": 1}},
            {"users": ["sue"], "maxresources": {"memory": 2}},
        ],
        # * counts where nobody names it.
        [
            {"users": ["*"], "maxresources": {"vcore": 1}},
            {"users": ["sue"], "maxresources": {"vcore": 2}},
        ],
        # A limit of 0 applications is none.
        [
            {"groups": ["dev"], "maxapplications": 1},
            {"groups": ["dev"], "maxresources": {"vcore": 1}},
        ],
    ],
)
def test_more_than_the_least_above_is_refused(levels: list[Entry]) -> None:
    assert len(paths(nested(*levels))) == 1


@pytest.mark.parametrize(
    "levels",
    [
        # Who is named above is not limited by what * gets there.
        [
            {"users": ["sue"], "maxresources": {"vcore": 9}},
            {"users": ["*"], "maxresources": {"vcore": 1}},
            {"users": ["sue"], "maxresources": {"vcore": 9}},
        ],
        # Users and groups are apart.
        [
            {"users": ["dev"], "maxapplications": 1},
            {"groups": ["dev"], "maxapplications": 9},
        ],
        # Another type is not limited above.
        [
            {"users": ["sue"], "maxresources": {"vcore": 1}},
            {"users": ["sue"], "maxresources": {"memory": 9}},
        ],
    ],
)
def test_as_much_as_above_is_fine(levels: list[Entry]) -> None:
    assert configuration(nested(*levels)).root.children[0].limits
