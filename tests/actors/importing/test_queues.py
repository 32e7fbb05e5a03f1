"""The mapping of jobs to queues."""

from __future__ import annotations

from pathlib import Path

import pytest

from muster.importing import default_queues, read_queues
from muster_core.errors import ConfigError

NAMES = ("account", "partition", "user")


def test_the_first_rule_that_matches_wins(tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("""\
queues:
  - account: physics
    partition: gpu
    queue: science.gpu
  - account: "phys*"
    queue: root.science.{account}
  - user: bob
    queue: root.{user}.{partition}
others: root.rest
""")
    queues = read_queues(str(file), NAMES)

    assert queues.of({"account": "physics", "partition": "gpu"}) == "root.science.gpu"
    assert queues.of({"account": "Physics", "partition": "gpu"}) == "root.rest"
    assert queues.of({"account": "physics.Two", "user": "bob"}) == "root.science.physics-two"
    assert queues.of({"user": "bob", "partition": "a b"}) == "root.bob.a-b"
    assert queues.of({"user": "bob"}) is None  # a name on the path would be empty
    assert queues.of({}) == "root.rest"


def test_without_a_file_the_first_path_with_all_its_values_counts() -> None:
    queues = default_queues(("root.{account}.{user}", "root.{account}"), NAMES)

    assert queues.of({"account": "a", "user": "u"}) == "root.a.u"
    assert queues.of({"account": "a"}) == "root.a"
    assert queues.of({"user": "u"}) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", "is not a map with `queues`"),
        ("queues: a\n", "1: queues: 'a' is not a list of rules"),
        ("queue: []\n", "1: queue: is unknown: `queues` and `others` can stand here"),
        ("queues:\n- user: a\n", "2: queues[0]: has no `queue`"),
        ("queues:\n- {acount: a, queue: b}\n", "queues[0].acount: is no field of these jobs"),
        ("queues:\n- {queue: 'root.{usr}'}\n", "{usr} is no field of these jobs"),
        ("queues:\n- {queue: 'a b'}\n", "'a b' is not a name of a queue"),
        ("others: [a]\n", "others: a list is not the path of a queue"),
        ("a: [\n", "not YAML"),
    ],
)
def test_a_mapping_file_that_is_wrong(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text(text)

    with pytest.raises(ConfigError) as caught:
        read_queues(str(file), NAMES)

    assert f"{file}:" in str(caught.value)
    assert problem in str(caught.value)


def test_a_mapping_file_that_is_missing() -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_queues("/nowhere/queues.yaml", NAMES)
