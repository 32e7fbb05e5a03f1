"""The rules of the specification, and their citations.

A rule is a heading of level 3 in a page of ``docs/specification``, with its id as an anchor above
it. A feed cites rules in the comment lines at its head, ``# ORDER-4: what it shows``; a feed in an
encoding without comments, in the table of ``tests/feeds/README.md``. Tests and sources name ids in
comments and docstrings. This module does not know Sphinx: ``docs/spec_extension.py`` shows the
citations, and ``tests/test_specification.py`` checks them.
"""

from __future__ import annotations

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

_ID: Final = r"[A-Z]+-[1-9][0-9]*"
_HEADING: Final = re.compile(r"### (.*)")
_RULE: Final = re.compile(rf"({_ID}): (\S.*)")
_CITED: Final = re.compile(rf"# ({_ID}): (\S.*)")
_ROW: Final = re.compile(rf"\| `([^`]+)` \| ({_ID}) \| ([^|]+) \|")
_UNSHOWN_ROW: Final = re.compile(rf"\| \[?({_ID})[^|]* \| ([^|]+) \|([^|]*)\|")
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
class Unshown:
    """A rule that no feed shows.

    Attributes:
        id: Its id.
        why: Why no feed can show it.
        tests: The test modules that show it, from the main folder; perhaps none.
    """

    id: str
    why: str
    tests: tuple[str, ...]


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


def read_unshown(index: Path = INDEX) -> list[Unshown]:
    """Read the table of rules that no feed shows.

    Args:
        index: The page with the table.
    """
    section = index.read_text(encoding="utf-8").partition(f"\n## {UNSHOWN}\n")[2]
    rows = (_UNSHOWN_ROW.fullmatch(line) for line in section.partition("\n## ")[0].splitlines())
    return [Unshown(row[1], row[2].strip(), tuple(_PATH.findall(row[3]))) for row in rows if row]
