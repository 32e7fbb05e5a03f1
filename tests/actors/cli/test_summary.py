"""The summary of a replay on narrow terminals."""

from __future__ import annotations

import re

import pytest

from tests.actors.cli.helpers import run
from tests.actors.reserving import RESERVED

QUEUES = ("root.production.interactive", "root.research.batch", "root.x")
FEED = "- {op: add_node, node: n1, capacity: {vcore: 2, example.com/accelerator: 4}}\n" + "".join(
    f"- {{op: add_app, app: a{app}, queue: {QUEUES[app % 3]}}}\n"
    f"- {{op: add_ask, app: a{app}, ask: x, resources: {{vcore: 2}}, run_for: {1_234_567 + app}}}\n"
    for app in range(12)
)


def numbers(text: str) -> set[str]:
    """Give the numbers in the tables, without how fast it was."""
    return set(re.findall(r"\d[\d,.]*%?", text.partition("\n\n")[2]))


@pytest.mark.parametrize("columns", [80, 60, 45])
def test_a_narrow_page_cuts_no_number(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    wide = run("replay", "-", given=FEED).stdout
    monkeypatch.setenv("COLUMNS", str(columns))
    narrow = run("replay", "-", given=FEED).stdout

    assert {"13,580,292", "3,770", "12"} <= numbers(wide)
    assert numbers(narrow) == numbers(wide)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= columns
    for name in ("jobs", "bound", "median", "95 %", "longest", "used"):
        assert name in narrow


def test_what_does_not_fit_goes_on_below(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("replay", "-", given=FEED).stdout.splitlines()

    headers = [line.split() for line in lines if line.startswith(" queue")]
    assert len(headers) == 3
    assert headers[0][:2] == ["queue", "jobs"]
    assert headers[2][-1] == "longest"
    assert len([line for line in lines if line.startswith(" all ")]) == 3


def test_what_is_too_wide_runs_over_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")

    assert "13,580,292 s (3,770 h)" in run("replay", "-", given=FEED).stdout


# COMMAND-26
def test_what_became_of_reservations() -> None:
    lines = run("replay", "-", given=RESERVED).stdout.splitlines()
    figures = dict(line.rsplit("  ", 1) for line in lines[2:9])

    assert "reserv" not in run("replay", "-", given=FEED).stdout
    assert {name.strip(): int(figure) for name, figure in figures.items()} == {
        "asks bound": 6,
        "asks pending at the end": 0,
        "asks with a reservation": 3,
        "bound by their first known start": 3,
        "bound later": 0,
        "bound without a known start": 0,
        "events refused": 0,
    }


def test_reserved_asks_that_were_not_bound_are_counted() -> None:
    told = run("replay", "-", "--until", "20", given=RESERVED).stdout

    assert re.search(r"^not bound with a reservation +2$", told, re.MULTILINE), told
