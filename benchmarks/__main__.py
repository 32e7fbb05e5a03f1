"""Runs the benchmarks, and prints one table.

    python -m benchmarks                    everything, in about a quarter of an hour
    python -m benchmarks --quick            everything, small and once: only to see that it runs
    python -m benchmarks W1 growth          only parts whose names begin with these words
    python -m benchmarks --list             the names

All parts are measured in turns, each time in a process of its own; the figures are medians. The
results of a run at full size are saved in ``benchmarks/results.json``. ``docs/performance.md``
shows them, and says how to read them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import page, results
from benchmarks.figures import cells
from benchmarks.results import Count, PartResult, Results
from benchmarks.runner import Outcome, measure
from benchmarks.suite import chosen, parts

QUICK: float = 0.01


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks; return the exit status, which is 1 if a part has failed."""
    options = _parser().parse_args(arguments)
    scale = QUICK if options.quick else options.scale
    available = parts(scale, options.trace)
    if options.list:
        for part in available:
            print(f"{part.name:28} {part.about}")
        return 0
    try:
        wanted = chosen(options.names, available, is_quick=options.quick)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    turns = 1 if options.quick else options.repeats
    start = time.perf_counter()
    errors = Console(stderr=True)
    with errors.status("") as status:
        outcomes = measure(wanted, turns, scale, status.update)
    show(outcomes, turns, time.perf_counter() - start)
    found = gather(outcomes, turns, scale)
    if options.json is not None:
        results.save(_with(Results(), found), options.json)
    if options.save or (scale == 1 and not options.no_save):
        results.save(_with(results.load(), found))
        page.update()
    return int(any(one.error is not None and one.part.missing is None for one in outcomes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks", description="Measure what Muster costs.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="what; all if none is named")
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--repeats", type=int, default=3, help="how often; default: %(default)s")
    parser.add_argument("--scale", type=float, default=1.0, help="the share of the full size")
    parser.add_argument("--quick", action="store_true", help="once and small, to see that it runs")
    parser.add_argument("--trace", type=Path, help="the table of all jobs of the Philly trace")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--save", action="store_true", help="keep them though not at full size")
    parser.add_argument("--no-save", action="store_true", help="do not keep them")
    return parser


def gather(outcomes: Sequence[Outcome], turns: int, scale: float) -> dict[str, PartResult]:
    """Convert the outcomes of parts to results that can be saved."""
    machine, date, commit = results.this_machine(), results.today(), results.commit()
    return {
        one.part.name: PartResult(
            one.part.about, machine, date, commit, min(turns, one.part.most), scale, one.figures
        )
        for one in outcomes
        if one.error is None
    }


def _with(kept: Results, found: dict[str, PartResult]) -> Results:
    together = kept.with_parts(found)
    counted = found.get("instructions")
    if counted is None:
        return together
    instructions = {
        one.what: round(one.value * 1e6) for one in counted.figures if one.what.startswith("W2")
    }
    python = results.this_machine().python
    return together.with_count(Count(counted.date, counted.commit, python, instructions))


def show(outcomes: Sequence[Outcome], turns: int, took_s: float) -> None:
    """Print the table."""
    table = Table("", "what", "figure", "as a ratio", "to reach", "")
    for outcome in outcomes:
        for figure in outcome.figures:
            table.add_row(*cells(figure), style="red" if figure.met is False else None)
        table.add_section()
    console = Console(width=max(120, Console().width))
    console.print(table)
    machine = results.this_machine()
    console.print(
        f"{machine.processor}, {machine.cores} cores, {machine.python}; "
        f"medians of {turns} turns; {took_s / 60:.1f} minutes"
    )
    for outcome in outcomes:
        if outcome.error is not None:
            reason = outcome.error.strip().rpartition("\n")[2]
            console.print(f"{outcome.part.name}: not measured: {reason}", markup=False)
            if outcome.part.missing is None:
                print(outcome.error, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
