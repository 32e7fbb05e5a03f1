from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.cli.helpers import run, run_json, written

CONFIGS = Path(__file__).parents[2] / "configs"

GOOD = """\
partitions:
  - name: default
    queues:
      - name: root
        queues: [{name: a}, {name: b, properties: {mine: yes}}]
"""
BAD = """\
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - name: a
            colour: red
          - name: a b
"""


def test_a_good_one(tmp_path: Path) -> None:
    config = written(tmp_path / "queues.yaml", GOOD)
    result = run("validate", config)

    assert (result.exit_code, result.stderr) == (0, "")
    warning, verdict = result.stdout.splitlines()
    assert warning == (
        f"{config}:5: warning: partitions[0].queues[0].queues[1].properties.mine: "
        "root.b: unknown property 'mine' is kept, without effect"
    )
    assert verdict == f"{config}: ok (partition default, 3 queues)"


def test_every_problem_has_its_line_and_path(tmp_path: Path) -> None:
    config = written(tmp_path / "queues.yaml", BAD)
    result = run("validate", config)

    assert result.exit_code == 1
    first, second, verdict = result.stdout.splitlines()
    assert first.startswith(f"{config}:7: partitions[0].queues[0].queues[0].colour: ")
    assert second.startswith(f"{config}:8: partitions[0].queues[0].queues[1].name: ")
    assert verdict == f"{config}: refused (2 problems)"


def test_standard_input() -> None:
    assert run("validate", "-", given=GOOD).exit_code == 0
    assert run("validate", "-", given=BAD).stdout.startswith("standard input:7: ")


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_one_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    result = run("validate", tmp_path / name)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(str(tmp_path))


def test_all_are_looked_at(tmp_path: Path) -> None:
    good, bad = written(tmp_path / "good.yaml", GOOD), written(tmp_path / "bad.yaml", BAD)

    assert run("validate", bad, good).exit_code == 1
    assert run("validate", tmp_path / "missing", bad, good).exit_code == 2
    assert (
        run("validate", bad, good)
        .stdout.splitlines()[-1]
        .endswith(": ok (partition default, 3 queues)")
    )


def test_the_partition_that_is_to_run() -> None:
    two = GOOD + GOOD.partition("\n")[2].replace("default", "gpu")

    assert "partition default" in run("validate", "-", given=two).stdout
    assert "partition gpu" in run("validate", "--partition", "gpu", "-", given=two).stdout
    refused = run("validate", "--partition", "tpu", "-", given=two)
    assert refused.exit_code == 1
    assert "tpu" in refused.stdout


def test_json(tmp_path: Path) -> None:
    good, bad = written(tmp_path / "good.yaml", GOOD), written(tmp_path / "bad.yaml", BAD)
    status, said = run_json("validate", good, bad, tmp_path / "missing")
    first, second, third = said["configs"]

    assert (status, said["ok"]) == (2, False)
    assert (first["config"], first["ok"], first["partition"]) == (str(good), True, "default")
    assert [(warning["line"], warning["path"]) for warning in first["warnings"]] == [
        (5, "partitions[0].queues[0].queues[1].properties.mine")
    ]
    assert (second["ok"], second["partition"], second["error"]) == (False, None, None)
    assert [problem["line"] for problem in second["problems"]] == [7, 8]
    assert second["problems"][0]["path"] == "partitions[0].queues[0].queues[0].colour"
    assert third["error"]["message"] == "No such file or directory"


def test_strict_fails_on_warnings(tmp_path: Path) -> None:
    warned = written(tmp_path / "queues.yaml", GOOD)
    clean = written(tmp_path / "clean.yaml", GOOD.replace(", properties: {mine: yes}", ""))

    result = run("validate", "--strict", warned)
    assert result.exit_code == 1
    assert (
        result.stdout.splitlines()[-1] == f"{warned}: valid, but not without warnings (1 warning)"
    )
    assert run_json("validate", "--strict", warned)[1]["configs"][0]["ok"] is False
    assert run("validate", "--strict", clean).exit_code == 0


def test_types_that_look_like_a_slip(tmp_path: Path) -> None:
    """CONFIG-83."""
    resources = "{guaranteed: {cpu: 1, gpu: 1}, max: {cpu: 2, gpus: 4}}"
    config = written(
        tmp_path / "queues.yaml", GOOD.replace("{name: a}", f"{{name: a, resources: {resources}}}")
    )
    *warnings, _ = run("validate", config).stdout.splitlines()

    path = f"{config}:5: warning: partitions[0].queues[0].queues[0].resources"
    assert warnings[0].startswith(f"{path}.guaranteed.cpu: the type 'cpu' is not vcore")
    assert warnings[1].startswith(f"{path}.max.gpus: the type 'gpus' differs little from 'gpu'")
    assert "mine" in warnings[2]
    assert len(warnings) == 3


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.yaml")), ids=lambda path: path.stem)
def test_configurations_of_the_suite(path: Path) -> None:
    result = run("validate", path)

    assert result.exit_code == (0 if path.parent.name == "good" else 1), result.output
