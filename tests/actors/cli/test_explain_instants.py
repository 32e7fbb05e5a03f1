"""``muster explain``: how an instant may be written, and how refusals are told."""

from __future__ import annotations

import pytest

from tests.actors.cli.helpers import run, run_json
from tests.actors.cli.test_explain import SEVERAL


@pytest.mark.parametrize(
    ("at", "us"),
    [
        ("00:04:30", 270_000_000),
        ("2d 01:30:00.5", 178_200_500_000),
        ("100d", 8_640_000_000_000),
        ("120:00:00", 432_000_000_000),
        ("4.5 s", 4_500_000),
        ("4.5s", 4_500_000),
        ("90", 90_000_000),
        ("1h30m", 5_400_000_000),
    ],
)
def test_an_instant_may_be_written_as_it_is_shown(at: str, us: int) -> None:
    status, answer = run_json("explain", "-", "--all", "--at", at, given="[]")

    assert (status, answer["at"]) == (0, us / 1_000_000)


@pytest.mark.parametrize("at", ["", "12:30", "01:60:00", "00:00:61", "1:2:3", "1.5d", "1d 12"])
def test_what_is_no_instant(at: str) -> None:
    result = run("explain", "-", "--all", "--at", at, given="")

    assert result.exit_code == 2
    said = f"{at!r} is not a duration: write seconds, a duration such as '1h30m', or '2d 01:30:00'"
    assert said in " ".join(result.stderr.split())


def test_the_first_ten_refusals_are_told() -> None:
    bad = "- {op: bogus}\n"
    result = run("explain", "-", "--all", "--at", "1", given=f"{bad * 12}{SEVERAL}{bad}")
    _, answer = run_json("explain", "-", "--all", "--at", "1", given=f"{bad * 12}{SEVERAL}")

    lines = result.stderr.splitlines()
    assert result.exit_code == 0
    assert len(lines) == 11
    assert lines[0].startswith("standard input:1: refused: op: ")
    assert lines[-1] == "standard input: refused: … 12 in all"
    assert answer["refused"] == 12
