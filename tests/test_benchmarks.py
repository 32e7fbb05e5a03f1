"""The benchmarks run, and their figures are shown unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import page, pages, results
from benchmarks.child import Measured
from benchmarks.figures import Better, Figure, cells, medians, with_unit
from benchmarks.growth import DIMENSIONS, figure, sizes
from benchmarks.results import Count, Machine, PartResult, Results
from benchmarks.runner import Outcome, measure
from benchmarks.serve import Numbers, measure_case
from benchmarks.suite import Contender, Part, chosen, parts
from benchmarks.workloads import WORKLOADS
from muster_core.events import AddApp, AddAsk, AddNode

PROJECT = Path(__file__).parent.parent
MACHINE = Machine("a processor", 2, "CPython 3.11.0", "Linux x86_64")
OTHER = Machine("another processor", 2, "CPython 3.11.0", "Linux x86_64")


def result(*figures: Figure, machine: Machine = MACHINE) -> PartResult:
    return PartResult("what it is", machine, "2026-01-31", "abcdef0", 3, 1.0, list(figures))


def test_benchmarks_run_and_write_what_they_find(tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    command = [sys.executable, "-m", "benchmarks", "W2", "--quick", "--json", str(file)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    found = results.load(file)
    figures = {figure.what: figure for figure in found.parts["W2"].figures}
    assert figures["with tasks"].value > figures["core without tasks"].value / 2 > 0
    assert figures["tasks over core"].aim == "≤ 1.50 × core"
    assert "with tasks" in done.stdout


def test_page_shows_the_figures_that_are_kept() -> None:
    assert page.is_up_to_date(), "run python -m benchmarks.page"


def test_names_choose_parts_by_their_beginnings() -> None:
    available = parts(1.0)

    assert [part.name for part in chosen(["W3"], available, is_quick=False)] == ["W3a", "W3b"]
    assert chosen([], available, is_quick=False) == available
    assert [part.name for part in chosen(["bridge"], available, is_quick=True)] == ["bridge"]
    assert "bridge" not in {part.name for part in chosen([], available, is_quick=True)}
    with pytest.raises(ValueError, match="'W9' is none of: W1, W2"):
        chosen(["W9"], available, is_quick=False)


@pytest.mark.parametrize(
    ("name", "apps", "asks", "nodes"),
    [
        ("W1", 2, 10_000, 1_000),
        pytest.param("W2", 10_000, 100_000, 1_000, marks=pytest.mark.takes_long),
        pytest.param("W3a", 10_000, 100_000, 1_000, marks=pytest.mark.takes_long),
        pytest.param("W4", 10_000, 100_000, 1_000, marks=pytest.mark.takes_long),
    ],
)
def test_workload_has_the_size_it_says(name: str, apps: int, asks: int, nodes: int) -> None:
    events = list(WORKLOADS[name].events(1.0))

    assert sum(isinstance(event, AddApp) for event in events) == apps
    assert sum(isinstance(event, AddNode) for event in events) == nodes
    assert sum(event.count or 1 for event in events if isinstance(event, AddAsk)) == asks


def test_figure_is_met_on_the_better_side_of_its_target() -> None:
    low = Figure("W1", "cost", 7.0, "× LB", target=7)
    high = Figure("ingest", "count", 90_000, "asks/s", target=100_000, better=Better.HIGHER)

    assert (low.met, high.met) == (True, False)
    assert cells(low)[2:] == ("7 × LB", "", "≤ 7 × LB", "met")
    assert cells(high)[2:] == ("90,000 asks/s", "", "≥ 100,000 asks/s", "missed")


def test_ratio_stands_beside_what_it_means_on_this_machine() -> None:
    figure = Figure("W1", "cost", 7.2, "× LB", raw="140,000 a second", note="as ever")

    assert cells(figure) == ("W1", "cost (as ever)", "140,000 a second", "7.20 × LB", "", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (3, "3 s"),
        (0.0629, "0.0629 s"),
        (0.25, "0.25 s"),
        (12.34, "12.3 s"),
        (1234.5, "1,234 s"),
    ],
)
def test_number_has_as_many_digits_as_it_needs(value: float, text: str) -> None:
    assert with_unit(value, "s") == text


def test_median_of_each_figure_by_itself() -> None:
    def turn(cost: float, memory: float) -> list[Figure]:
        return [
            Figure("W1", "cost", cost, "s", raw=f"{cost} of them"),
            Figure("W1", "memory", memory, "MiB"),
        ]

    cost, memory = medians([turn(3, 10), turn(1, 30), turn(2, 20)])

    assert (cost.value, cost.raw) == (2, "2 of them")
    assert memory.value == 20


def test_growth_is_the_worst_step_for_ten_times_as_many() -> None:
    nodes = DIMENSIONS["nodes"]
    costs = {100: (1e-6, 1.0), 1_000: (2e-6, 2.0), 10_000: (2e-6, 2.0), 50_000: (2e-6, 2.0)}

    found = figure(nodes, costs)

    assert (found.value, found.met) == (2, True)
    assert found.raw.startswith("100: 1 µs · 1,000: 2 µs")


def test_growth_of_what_cannot_be_ten_times_as_many_is_from_first_to_last() -> None:
    levels = DIMENSIONS["levels of queues"]

    found = figure(levels, {2: (1e-6, 1.0), 4: (9e-6, 9.0), 12: (6e-6, 6.0)})

    assert found.value == pytest.approx(10)


def test_small_scale_leaves_the_largest_sizes_out() -> None:
    nodes = DIMENSIONS["nodes"]

    assert sizes(nodes, 1.0) == [100, 1_000, 10_000, 50_000]
    assert sizes(nodes, 0.2) == [100, 1_000, 10_000]
    assert sizes(nodes, 0.0001) == [100, 1_000]
    assert sizes(DIMENSIONS["levels of queues"], 0.0001) == [2, 4, 8, 12]


@pytest.mark.takes_long
def test_service_is_measured_by_its_clients() -> None:
    figures = {figure.what: figure for figure in measure_case("lists", 0.001)}

    assert set(figures) > {"100 of 100,000 asks, the first", "100 of 100,000 asks, of a queue"}
    assert all(figure.value > 0 for figure in figures.values())


@pytest.mark.takes_long
def test_each_page_is_measured() -> None:
    figures = {figure.what: figure for figure in pages.measure(0.001)}

    assert set(figures) == {*pages.PAGES, *pages.AFTER_START}
    assert all(figure.value > 0 for figure in figures.values())


def test_stream_has_each_number_once_wherever_it_is_cut() -> None:
    def chunks_of(*numbers: int) -> bytes:
        return b"".join(
            b'26\r\nid: %d\nevent: decision\ndata: {"seq":%d}\n\n\r\n' % (at, at) for at in numbers
        )

    for cut in range(len(chunks_of(1, 2, 3))):
        numbers = Numbers()
        numbers.take(chunks_of(1, 2, 3)[:cut])
        numbers.take(chunks_of(1, 2, 3)[cut:])
        assert (numbers.last, numbers.wrong) == (3, 0)
    missed, twice = Numbers(), Numbers()
    missed.take(chunks_of(1, 3))
    twice.take(chunks_of(1, 1, 2))
    assert (missed.wrong, twice.wrong) == (1, 1)


def test_part_that_fails_does_not_keep_the_others() -> None:
    def figures(found: object) -> list[Figure]:
        return [Figure("clock", "yardstick", 1, "s")]

    broken = Part("broken", "", (Contender("it", "benchmarks.drive:nothing"),), figures)
    absent = Part("absent", "", (), figures, missing="not installed")
    fine = Part("fine", "", (Contender("it", "benchmarks.startup:measure"),), figures)

    outcomes = measure([broken, absent, fine], turns=1, scale=0.1, progress=lambda _: None)

    assert "AttributeError" in (outcomes[0].error or "")
    assert outcomes[1] == Outcome(absent, error="not installed")
    assert outcomes[2].figures == figures(None)


def test_results_survive_the_file(tmp_path: Path) -> None:
    kept = Results({"W1": result(Figure("W1", "cost", 7.2, "× LB", target=7))})
    kept = kept.with_count(Count("2026-01-31", "abcdef0", "CPython 3.11.0", {"plain": 1}))
    file = tmp_path / "results.json"

    results.save(kept, file)

    assert results.load(file) == kept


def test_part_replaces_itself_and_has_the_machine_that_measured_it() -> None:
    kept = Results({"W1": result(), "W2": result()})
    new = result(Figure("W1", "cost", 1, "s"), machine=OTHER)
    together = kept.with_parts({"W1": new})

    assert together.parts == {"W1": new, "W2": result()}
    shown = page.render("<!-- benchmarks: machine -->\n<!-- end -->\n", together)
    assert "| W1 | 2026-01-31 | abcdef0 | 3 | 1 | another processor, 2 cores," in shown
    assert "| W2 | 2026-01-31 | abcdef0 | 3 | 1 | a processor, 2 cores," in shown


def test_history_has_each_commit_once_for_each_python() -> None:
    kept = Results()
    for commit, python, number in (("a", "3.11", 1), ("b", "3.11", 2), ("b", "3.13", 3)):
        kept = kept.with_count(Count("2026-01-31", commit, python, {"plain": number}))

    again = kept.with_count(Count("2026-02-01", "b", "3.11", {"plain": 4}))

    assert [one.instructions["plain"] for one in again.history] == [1, 3, 4]


def test_page_is_filled_between_its_marks() -> None:
    kept = Results({"W1": result(Figure("W1", "cost", 7.2, "× LB", target=7))})
    text = "before\n<!-- benchmarks: workloads -->\nold\n<!-- end -->\nafter\n"

    shown = page.render(text, kept)

    assert "| W1 | cost | 7.20 × LB |  | ≤ 7 × LB | **missed** |" in shown
    assert "old" not in shown
    assert shown.startswith("before\n")
    assert shown.endswith("<!-- end -->\nafter\n")
    assert page.render(shown, kept) == shown


def test_measured_is_read_by_name() -> None:
    assert Measured({"binds": 2.0})["binds"] == 2
    assert json.loads(json.dumps({"better": Better.HIGHER})) == {"better": "higher"}
