"""``muster config`` against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.actors.cli.helpers import run
from tests.actors.serving.served import CONFIG, Served

WIDER = CONFIG.replace("max: {vcore: 8}", "max: {vcore: 12}")


@pytest.fixture
def in_force(served: Served, tmp_path: Path) -> None:
    """Begin with the configuration that the server was started with."""
    path = tmp_path / "first.yaml"
    path.write_text(CONFIG)
    assert run("config", "apply", path).exit_code == 0


@pytest.mark.usefixtures("in_force")
def test_what_is_printed_can_be_applied_again(tmp_path: Path) -> None:
    # CLIENT-9
    path = tmp_path / "found.yaml"
    path.write_text(run("config", "get").stdout)

    result = run("config", "diff", path)

    assert (result.exit_code, result.stdout) == (
        0,
        "nothing differs from the configuration in force\n1 decision would follow at once\n",
    )
    whole = json.loads(run("config", "get", "-o", "json").stdout)
    assert whole["partitions"][0]["name"] == "default"


@pytest.mark.usefixtures("in_force")
def test_a_file_is_compared_and_applied(tmp_path: Path) -> None:
    # CLIENT-9
    path = tmp_path / "wider.yaml"
    path.write_text(WIDER)
    difference = "root.prod: changed\n  resources.max.vcore: 8 → 12\n"

    compared = run("config", "diff", path, "--since", "1d")

    assert compared.exit_code == 0, compared.output
    assert compared.stdout.startswith(f"{difference}1 decision would follow at once\n\nWith what")
    assert "All decisions would have been the same." in compared.stdout
    applied = run("config", "apply", path)
    assert applied.exit_code == 0
    assert applied.stdout.startswith(f"{difference}applied, as batch ")
    assert "vcore: 12" in run("config", "get").stdout


@pytest.mark.usefixtures("in_force")
def test_a_file_is_refused_with_its_problems(tmp_path: Path) -> None:
    # CLIENT-2, CLIENT-9
    path = tmp_path / "wrong.yaml"
    path.write_text(CONFIG.replace("name: dev", "nme: dev"))

    result = run("config", "apply", path)

    assert result.exit_code == 1
    assert "line 9: partitions[0].queues[0].queues[1].nme: unknown field 'nme'" in result.stderr
    assert "root.dev" in run("get", "queues").stdout


def test_a_file_that_cannot_be_read() -> None:
    result = run("config", "diff", "missing.yaml")

    assert (result.exit_code, result.stderr) == (2, "missing.yaml: No such file or directory\n")
