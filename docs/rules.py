"""The rules of the specification, and their citations.

A rule is a heading of level 3 in a page of ``docs/specification``, with its id as an anchor above
it. A feed cites rules in the comment lines at its head, ``# ORDER-4: what it shows``; a feed in an
encoding without comments, in the table of ``tests/feeds/README.md``. Tests and sources name ids in
comments and docstrings; a comment line with nothing but ids, ``# ORDER-4, ORDER-5``, is above the code
that decides these rules. This module does not know Sphinx: ``docs/spec_extension.py`` shows the
citations, and ``tests/test_specification.py`` checks them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

PROJECT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = PROJECT / "docs" / "specification"
INDEX: Final = PAGES / "index.md"
FEEDS: Final = PROJECT / "tests" / "feeds"
FEEDS_README: Final = FEEDS / "README.md"

WITH_COMMENTS: Final = frozenset({".yaml", ".yml"})
"""The suffixes of feeds and configurations that cite rules at their heads."""

UNSHOWN: Final = "Rules that no feed shows"
"""The heading of the table of rules that neither a feed nor a comment in a test cites."""

UNDECIDED: Final = "Rules that no single place decides"
"""The heading of the table of rules that stand above no code."""

SOURCES: Final = (PROJECT / "core", PROJECT / "actors")
"""The folders of the packages."""

EXPLAINING: Final = (
    PROJECT / "core" / "muster_core" / "view" / "reasons",
    PROJECT / "core" / "muster_core" / "values" / "reasons.py",
)
"""What explains to people what other rules have decided, and decides only rules of reasons."""

REASONS: Final = "REASON-"
"""How the ids of rules of reasons begin."""

_ID: Final = r"[A-Z]+-[1-9][0-9]*"
_HEADING: Final = re.compile(r"### (.*)")
_RULE: Final = re.compile(rf"({_ID}): (\S.*)")
_CITED: Final = re.compile(rf"# ({_ID}): (\S.*)")
_ROW: Final = re.compile(rf"\| `([^`]+)` \| ({_ID}) \| ([^|]+) \|")
_UNSHOWN_ROW: Final = re.compile(rf"\| \[?({_ID})[^|]* \| ([^|]+) \|([^|]*)\|")
_UNDECIDED_ROW: Final = re.compile(rf"\| \[?({_ID})[^|]* \| ([^|]+) \|")
_EXACT: Final = re.compile(rf"\s*# ({_ID}(?:, {_ID})*)")
_PATH: Final = re.compile(r"`([^`]+)`")


@final
@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: Its id, such as ``ORDER-4``.
        title: The heading after the id.
        text: The text below the heading.
        anchor: The line above the heading.
        page: Its page.
    """

    id: str
    title: str
    text: str
    anchor: str
    page: Path


@final
@dataclass(frozen=True)
class Citation:
    """One place that cites a rule.

    Attributes:
        id: The id of the rule.
        path: The file.
        text: What the file shows of the rule; empty if it has only the id.
    """

    id: str
    path: Path
    text: str = ""


@final
@dataclass(frozen=True)
class UnshownRule:
    """A rule that no feed shows.

    Attributes:
        id: Its id.
        why: Why no feed can show it.
        tests: The test modules that show it, from the main folder; perhaps none.
    """

    id: str
    why: str
    tests: tuple[str, ...]


@final
@dataclass(frozen=True)
class UndecidedRule:
    """A rule that no single place decides.

    Attributes:
        id: Its id.
        why: Why there is no such place.
    """

    id: str
    why: str


@final
@dataclass(frozen=True)
class Place:
    """A place in the code that decides a rule.

    Attributes:
        id: The id of the rule.
        path: The file.
        name: The function, class or constant below the comment or, if that is above a part of
            one, around it; with the classes and functions around that. Empty if there is none.
    """

    id: str
    path: Path
    name: str


@final
@dataclass(frozen=True)
class _Named:
    """Lines that have a name: those of a function, with its decorators, a class or a constant."""

    name: str
    first: int
    last: int


def read_page(page: Path) -> Iterator[Rule]:
    """Read the rules of a page, in their order.

    Args:
        page: The page.

    Raises:
        ValueError: If a heading of level 3 is not a rule; the message shows it.
    """
    lines = page.read_text(encoding="utf-8").splitlines()
    starts = [number for number, line in enumerate(lines) if _HEADING.fullmatch(line)]
    for start in starts:
        rule = _RULE.fullmatch(lines[start].removeprefix("### "))
        if rule is None:
            msg = f"{page.name}: {lines[start]!r} is no rule: write '### ID-1: title'"
            raise ValueError(msg)
        text = "\n".join(_until_next(lines[start + 1 :])).strip()
        yield Rule(rule[1], rule[2], text, lines[start - 1] if start else "", page)


def read_rules() -> list[Rule]:
    """Read the rules of all pages.

    Raises:
        ValueError: If a heading of level 3 is not a rule.
    """
    return [rule for page in sorted(PAGES.glob("*.md")) for rule in read_page(page)]


def _until_next(lines: list[str]) -> Iterator[str]:
    """Yield lines up to the next heading or its anchor."""
    for line in lines:
        if re.match(r"#{1,3} |\(.+\)=$", line):
            return
        yield line


def cited_at_head(path: Path) -> Iterator[Citation]:
    """Return the citations in the comment lines at the head of a feed or a configuration.

    Args:
        path: A file in an encoding that has comments.
    """
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            return
        cited = _CITED.fullmatch(line)
        if cited is not None:
            yield Citation(cited[1], path, cited[2])


def cited_in_table(readme: Path) -> Iterator[Citation]:
    """Return the citations of feeds without comments from the table of a page.

    Args:
        readme: The page; the names of feeds in it are relative to its folder.
    """
    for line in readme.read_text(encoding="utf-8").splitlines():
        row = _ROW.fullmatch(line)
        if row is not None:
            yield Citation(row[2], readme.parent / row[1], row[3])


def feeds_with_comments() -> list[Path]:
    """Return all feeds and configurations of the tests that can cite rules at their heads."""
    found = [*FEEDS.rglob("*"), *(PROJECT / "tests" / "configs").rglob("*")]
    return sorted(path for path in found if path.suffix in WITH_COMMENTS and not _is_part(path))


def feeds_without_comments() -> list[Path]:
    """Return all feeds of the tests that are compressed or in an encoding without comments."""
    others = {*WITH_COMMENTS, ".md"}
    return sorted(path for path in FEEDS.rglob("*") if path.is_file() and path.suffix not in others)


def _is_part(path: Path) -> bool:
    """Return whether a file is a configuration that feeds load."""
    return path.parent.name == "files"


def feed_citations() -> list[Citation]:
    """Return the citations of feeds and configurations of the tests."""
    found = [cited for path in feeds_with_comments() for cited in cited_at_head(path)]
    return [*found, *cited_in_table(FEEDS_README)]


def test_citations(prefixes: set[str]) -> list[Citation]:
    """Return the ids that test modules name in docstrings and comments.

    Args:
        prefixes: The words at the start of ids.
    """
    return [
        cited
        for path in sorted((PROJECT / "tests").rglob("test_*.py"))
        for cited in ids_in(path, prefixes)
    ]


def ids_in(path: Path, prefixes: set[str]) -> Iterator[Citation]:
    """Return the ids in the text of a file, without duplicates.

    Args:
        path: The file.
        prefixes: The words at the start of ids.
    """
    words = "|".join(sorted(prefixes))
    found = re.findall(rf"(?<![\w-])(?:{words})-[0-9]+(?![\w-])", path.read_text(encoding="utf-8"))
    yield from (Citation(name, path) for name in dict.fromkeys(found))


def read_unshown(index: Path = INDEX) -> list[UnshownRule]:
    """Read the table of rules that no feed shows.

    Args:
        index: The page with the table.
    """
    rows = (_UNSHOWN_ROW.fullmatch(line) for line in section_of(index, UNSHOWN))
    return [
        UnshownRule(row[1], row[2].strip(), tuple(_PATH.findall(row[3]))) for row in rows if row
    ]


def read_undecided(index: Path = INDEX) -> list[UndecidedRule]:
    """Read the table of rules that no single place decides.

    Args:
        index: The page with the table.
    """
    rows = (_UNDECIDED_ROW.fullmatch(line) for line in section_of(index, UNDECIDED))
    return [UndecidedRule(row[1], row[2].strip()) for row in rows if row]


def section_of(page: Path, heading: str) -> list[str]:
    """Return the lines below a heading of level 2, up to the next one.

    Args:
        page: The page.
        heading: The heading.
    """
    section = page.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    return section.partition("\n## ")[0].splitlines()


def places() -> dict[str, list[Place]]:
    """Return for each rule the places in the code that decide it, in the order of the paths."""
    found: dict[str, list[Place]] = {}
    for folder in SOURCES:
        for path in sorted(folder.rglob("*.py")):
            explains = any(path.is_relative_to(place) for place in EXPLAINING)
            for place in places_in(path):
                if place.id.startswith(REASONS) or not explains:
                    found.setdefault(place.id, []).append(place)
    return found


def places_in(path: Path) -> Iterator[Place]:
    """Yield the places in a module that comment lines with nothing but ids name.

    Args:
        path: The module.
    """
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    exact = ((number, _EXACT.fullmatch(line)) for number, line in enumerate(lines))
    cited = [(number, found[1]) for number, found in exact if found is not None]
    named = list(_named_in(ast.parse(text), "")) if cited else []
    for number, ids in cited:
        below = number
        while below < len(lines) and lines[below].lstrip().startswith("#"):
            below += 1
        blank = below == len(lines) or not lines[below].strip()
        # They contain one another, so the last to begin is the innermost.
        around = [one for one in named if one.first <= below + 1 <= one.last and not blank]
        name = max(around, key=lambda one: one.first).name if around else ""
        yield from (Place(one, path, name) for one in ids.split(", "))


def _named_in(node: ast.AST, prefix: str, *, local: bool = False) -> Iterator[_Named]:
    """Yield the names that are defined below a node, except variables of functions."""
    for part in ast.iter_child_nodes(node):
        match part:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                name, last = f"{prefix}{part.name}", part.end_lineno or part.lineno
                first = min([part.lineno, *(one.lineno for one in part.decorator_list)])
                yield _Named(name, first, last)
                is_local = not isinstance(part, ast.ClassDef)
                yield from _named_in(part, f"{name}.", local=is_local)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not local:
                    yield _Named(f"{prefix}{name}", part.lineno, part.end_lineno or part.lineno)
            case ast.stmt() | ast.excepthandler() | ast.match_case():
                yield from _named_in(part, prefix, local=local)
            case _:
                pass  # an expression has no statements below it
