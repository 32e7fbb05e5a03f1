"""What is checked for form but not obeyed."""

from __future__ import annotations

from typing import Any

import pytest

from muster_core.config import load_configuration
from muster_core.errors import ConfigError
from tests.core.building import from_python


def load(top: dict[str, Any] | None = None, **partition: Any) -> tuple[str, ...]:  # noqa: ANN401
    document = from_python({"partitions": [partition], **(top or {})})
    return load_configuration(document).warnings


@pytest.mark.parametrize(
    ("partition", "name"),
    [
        ({"usergroupresolver": "os"}, "usergroupresolver"),
        ({"usergroupresolver": {"type": "os"}}, "usergroupresolver"),
        ({"usergroupresolver": {}}, "usergroupresolver"),
        ({"preemption": {"quotapreemptionenabled": False}}, "preemption.quotapreemptionenabled"),
    ],
)
def test_one_warning_each(partition: dict[str, Any], name: str) -> None:
    assert load(**partition) == (f"{name}: checked for form, but not obeyed",)


@pytest.mark.parametrize("checksum", ["ABC", 0])
def test_a_checksum(checksum: object) -> None:
    assert load({"checksum": checksum}) == ("checksum: checked for form, but not obeyed",)


@pytest.mark.parametrize(
    "partition",
    [
        {"usergroupresolver": None},
        {"preemption": {"quotapreemptionenabled": None}},
    ],
)
def test_nothing_is_said_of_nothing(partition: dict[str, Any]) -> None:
    assert load({"checksum": ""}, **partition) == ()


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"usergroupresolver": ["os"]}, "usergroupresolver"),
    ({"usergroupresolver": {"type": {}}}, "usergroupresolver.type"),
]


@pytest.mark.parametrize(("partition", "path"), WRONG)
def test_a_wrong_form_is_refused(partition: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**partition)

    assert [problem.path for problem in caught.value.problems] == [f"partitions[0].{path}"]
