"""Shows the last figures in the documentation.

``python -m benchmarks.page`` updates the tables in ``docs/performance.md``; with ``--check`` it only
checks them, with exit status 1 if they are out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from benchmarks import results
from benchmarks.figures import Figure, cells
from benchmarks.processes import PROJECT
from benchmarks.results import PartResult, Results

PAGE: Final = PROJECT / "docs" / "performance.md"
BLOCK: Final = re.compile(r"(<!-- benchmarks: (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)

OF: Final = {"workloads": "W", "growth": "growth ", "instructions": "instructions"}
"""The tables, with the prefix of the names of their parts; other parts are in `others`."""


def render(text: str, kept: Results) -> str:
    """Insert the tables of figures at the marks in a page."""

    def block(match: re.Match[str]) -> str:
        return match[1] + "\n".join(["", *_block(match[2], kept), "", ""])

    return BLOCK.sub(block, text)


def update() -> None:
    """Rewrite the page."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(render(text, results.load()), encoding="utf-8")


def is_up_to_date() -> bool:
    """Return whether the page shows the saved figures."""
    text = PAGE.read_text(encoding="utf-8")
    return render(text, results.load()) == text


def _block(name: str, kept: Results) -> Iterator[str]:
    match name:
        case "machine":
            yield from _machine(kept)
        case "costs":
            yield from _costs(kept)
        case "history":
            yield from _history(kept)
        case _:
            found = [part for at, part in kept.parts.items() if _table_of(at) == name]
            yield from _table(figure for part in found for figure in part.figures)


def _table_of(part: str) -> str:
    return next((name for name, start in OF.items() if part.startswith(start)), "others")


def _machine(kept: Results) -> Iterator[str]:
    titles = ("measured", "on", "of commit", "turns", "share of the full size", "computer")
    yield from _rows(titles)
    runs: dict[tuple[str, ...], list[str]] = {}
    for name, part in kept.parts.items():
        runs.setdefault(_run(part), []).append(name)
    for run, names in runs.items():
        is_all = len(names) == len(kept.parts)
        yield _row(("everything" if is_all else ", ".join(names), *run))


def _run(part: PartResult) -> tuple[str, ...]:
    one = part.machine
    computer = f"{one.processor}, {one.cores} cores, {one.system}, {one.python}"
    return part.date, part.commit, str(part.turns), f"{part.scale:g}", computer


def _costs(kept: Results) -> Iterator[str]:
    """Yield what an allocation costs, for readers who do not work on Muster."""
    yield from _rows(("workload", "", "an allocation", "a simple algorithm takes", "memory"))
    for name, part in kept.parts.items():
        figures = {figure.what.partition(",")[0]: figure for figure in part.figures}
        if name.startswith("W") and "naive algorithm" in figures:
            naive = f"{figures['naive algorithm'].value:.0f} times as long"
            memory = figures["peak memory with tasks"].shown
            yield _row((name, part.about, figures["with tasks"].raw, naive, memory))


def _table(figures: Iterable[Figure]) -> Iterator[str]:
    yield from _rows(("", "what", "figure", "as a ratio", "to reach", ""))
    for figure in figures:
        shown = cells(figure)
        yield _row((*shown[:-1], f"**{shown[-1]}**" if figure.met is False else shown[-1]))


def _history(kept: Results) -> Iterator[str]:
    names = list(dict.fromkeys(name for one in kept.history for name in one.instructions))
    yield from _rows(("date", "commit", "Python", *names))
    for one in kept.history:
        counts = (one.instructions.get(name) for name in names)
        shown = ("" if count is None else f"{count / 1e6:,.1f} million" for count in counts)
        yield _row((one.date, one.commit, one.python, *shown))


def _rows(titles: Sequence[str]) -> Iterator[str]:
    yield _row(titles)
    yield "|" + " --- |" * len(titles)


def _row(texts: Iterable[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def main(arguments: Sequence[str]) -> int:
    """Update or check the page; return the exit status."""
    if "--check" not in arguments:
        update()
        return 0
    if is_up_to_date():
        return 0
    print("docs/performance.md is out of date: python -m benchmarks.page")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
