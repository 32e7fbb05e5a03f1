"""The rules of the specification, and who cites them.

A rule is a heading of level 3 in a page of ``docs/specification``, with its id as an anchor
above it. A feed cites rules in the comment lines at its head, ``# ORDER-4: what it shows``; one
whose encoding has no comments, in the table of ``tests/feeds/README.md``. Tests and sources name
ids in comments and docstrings. Nothing here knows Sphinx: ``docs/spec_extension.py`` shows what
is found, and ``tests/test_specification.py`` checks it.
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
"""The suffixes of feeds and configurations that cite at their heads."""

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
        title: What its heading says behind the id.
        text: What stands below the heading.
        anchor: What stands in the line above the heading.
        page: The page that it stands in.
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
        id: The id that it names.
        path: The file.
        text: What the file shows of the rule; empty where only the id stands.
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
        ValueError: If a heading of level 3 is no rule; the message shows it.
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
        ValueError: If a heading of level 3 is no rule.
    """
    return [rule for page in sorted(PAGES.glob("*.md")) for rule in read_page(page)]


def _until_next(lines: list[str]) -> Iterator[str]:
    """Give lines up to the next heading, or the anchor above it."""
    for line in lines:
        if re.match(r"#{1,3} |\(.+\)=$", line):
            return
        yield line


def cited_at_head(path: Path) -> Iterator[Citation]:
    """Give what a feed or a configuration cites in the comment lines at its head.

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
    """Give what feeds without comments cite, each with a row in the table of a page.

    Args:
        readme: The page; the names of feeds in it are relative to its folder.
    """
    for line in readme.read_text(encoding="utf-8").splitlines():
        row = _ROW.fullmatch(line)
        if row is not None:
            yield Citation(row[2], readme.parent / row[1], row[3])


def feeds_with_comments() -> list[Path]:
    """Give every feed and configuration of the tests that cites at its head."""
    found = [*FEEDS.rglob("*"), *(PROJECT / "tests" / "configs").rglob("*")]
    return sorted(path for path in found if path.suffix in WITH_COMMENTS and not _is_part(path))


def feeds_without_comments() -> list[Path]:
    """Give every feed of the tests whose encoding has no comments, or is compressed."""
    others = {*WITH_COMMENTS, ".md"}
    return sorted(path for path in FEEDS.rglob("*") if path.is_file() and path.suffix not in others)


def _is_part(path: Path) -> bool:
    """Say whether a file is a configuration that feeds load."""
    return path.parent.name == "files"


def feed_citations() -> list[Citation]:
    """Give what feeds and configurations of the tests cite."""
    found = [cited for path in feeds_with_comments() for cited in cited_at_head(path)]
    return [*found, *cited_in_table(FEEDS_README)]


def test_citations(prefixes: set[str]) -> list[Citation]:
    """Give the ids that test modules name in docstrings and comments.

    Args:
        prefixes: The words that ids begin with.
    """
    return [
        cited
        for path in sorted((PROJECT / "tests").rglob("test_*.py"))
        for cited in ids_in(path, prefixes)
    ]


def ids_in(path: Path, prefixes: set[str]) -> Iterator[Citation]:
    """Give the ids that a text names, once each.

    Args:
        path: The file.
        prefixes: The words that ids begin with.
    """
    words = "|".join(sorted(prefixes))
    found = re.findall(rf"(?<![\w-])(?:{words})-[0-9]+(?![\w-])", path.read_text(encoding="utf-8"))
    yield from (Citation(name, path) for name in dict.fromkeys(found))


def read_unshown(index: Path = INDEX) -> list[Unshown]:
    """Read the table of rules that no feed shows.

    Args:
        index: The page that it stands in.
    """
    section = index.read_text(encoding="utf-8").partition(f"\n## {UNSHOWN}\n")[2]
    rows = (_UNSHOWN_ROW.fullmatch(line) for line in section.partition("\n## ")[0].splitlines())
    return [Unshown(row[1], row[2].strip(), tuple(_PATH.findall(row[3]))) for row in rows if row]
