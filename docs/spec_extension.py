"""A Sphinx extension: lists below each rule the feeds and tests that show it, and what decides it.

Sphinx passes the text of a page to the extension before parsing it; the extension adds the lists. It
copies the feeds to the output as text, so that a reader can open them. It does not import Sphinx:
protocols describe the parts of Sphinx that it uses.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Final, Protocol

from docs.rules import (
    PAGES,
    PROJECT,
    SOURCES,
    WITH_COMMENTS,
    Citation,
    Place,
    feed_citations,
    places,
    read_rules,
    read_unshown,
    test_citations,
)

COPIES: Final = "_shown"
"""The folder of the copies of feeds, in the output."""

OPEN: Final = 3
"""Up to this many feeds and tests are in one line below a rule; more are in a folded list."""

_ANCHOR: Final = re.compile(r"^\(([a-z]+-[0-9]+)\)=$", re.MULTILINE)
_END: Final = re.compile(r"^(?:\([a-z]+-[0-9]+\)=|## .*)$", re.MULTILINE)

Shown = Mapping[str, Sequence[Citation]]
"""The citations that show each rule, by its id."""

Decided = Mapping[str, Sequence[Place]]
"""What decides each rule, by its id."""


class Environment(Protocol):
    """The part of Sphinx's environment that is used here."""

    @property
    def all_docs(self) -> Mapping[str, object]:
        """All pages by name."""
        ...


class Application(Protocol):
    """The part of Sphinx's application that is used here."""

    @property
    def outdir(self) -> str | Path:
        """The folder of the output."""
        ...

    def connect(self, event: str, callback: Callable[..., object], /) -> int:
        """Register a function for an event."""
        ...


def setup(app: Application) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("env-get-outdated", _outdated)
    app.connect("source-read", _add)
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def citations_by_rule() -> Shown:
    """Return the feeds and the tests that show each rule, by its id."""
    prefixes = {rule.id.partition("-")[0] for rule in read_rules()}
    listed = [Citation(row.id, PROJECT / path) for row in read_unshown() for path in row.tests]
    shown: dict[str, dict[Path, Citation]] = {}
    for cited in [*feed_citations(), *test_citations(prefixes), *listed]:
        shown.setdefault(cited.id, {})[cited.path] = cited
    return {name: list(found.values()) for name, found in shown.items()}


def with_citations(text: str, shown: Shown, decided: Decided) -> str:
    """Return the text of a page with the citations of each of its rules, and the places that decide it.

    Args:
        text: The page.
        shown: The citations that show each rule.
        decided: The places that decide each rule.
    """
    parts = [text[: first.start()] if (first := _ANCHOR.search(text)) else text]
    for anchor in _ANCHOR.finditer(text):
        end = _END.search(text, anchor.end())
        rule = text[anchor.start() : end.start() if end else len(text)]
        name = anchor[1].upper()
        below = f"{_below(shown.get(name, ()))}{_decided(decided.get(name, ()))}"
        parts.append(f"{rule.rstrip()}\n\n{below}")
        if end and end[0].startswith("## "):
            following = _ANCHOR.search(text, end.end())
            parts.append(text[end.start() : following.start() if following else len(text)])
    return "".join(parts)


def _below(cited: Sequence[Citation]) -> str:
    """Return the citations below a rule as HTML: one line, or a folded list."""
    if not cited:
        return ""
    if len(cited) <= OPEN:
        return f"<p>Shown by {', '.join(_link(one) for one in cited)}</p>\n\n"
    items = "".join(f"<li>{_link(one)}{_citation_text(one)}</li>" for one in cited)
    summary = f"<summary>Shown by {len(cited)} feeds and tests</summary>"
    return f"<details>{summary}<ul>{items}</ul></details>\n\n"


def _decided(found: Sequence[Place]) -> str:
    """Return the line with the places that decide a rule."""
    names: dict[str, dict[str, None]] = {}
    for one in found:
        names.setdefault(short(one.path), {})[one.name] = None
    decided = (f"<code>{path}: {', '.join(some)}</code>" for path, some in names.items())
    return f"<p>Decided in {'; '.join(decided)}</p>\n\n" if names else ""


def short(path: Path) -> str:
    """Return the path of a module from its package on.

    Args:
        path: The module.
    """
    folder = next(folder for folder in SOURCES if path.is_relative_to(folder))
    return path.relative_to(folder).as_posix()


def _citation_text(cited: Citation) -> str:
    """Return the text of a citation as HTML, with words between backticks as code."""
    text = re.sub("`([^`]*)`", r"<code>\1</code>", escape(cited.text.rstrip("."), quote=False))
    return f": {text}" if text else ""


def _link(cited: Citation) -> str:
    """Return the path of a file as HTML; for a feed, with a link to its copy."""
    name = cited.path.relative_to(PROJECT).as_posix()
    if not cited.text:
        return f"<code>{name}</code>"
    title = escape(cited.text)
    return f'<a href="../{copied(cited.path).as_posix()}" title="{title}"><code>{name}</code></a>'


def copied(path: Path) -> Path:
    """Return the path of the copy of a feed in the output, with a suffix that browsers show.

    Args:
        path: The feed.
    """
    place = Path(COPIES) / path.relative_to(PROJECT)
    is_text = path.suffix in {*WITH_COMMENTS, ".jsonl"}
    return place.with_name(f"{place.name}.txt") if is_text else place


def _outdated(_app: Application, env: Environment, *_changes: object) -> list[str]:
    """Return all pages of the specification, to read them again: a feed or code may have changed."""
    return sorted(name for name in env.all_docs if name.startswith(f"{PAGES.name}/"))


def _add(_app: Application, page: str, source: list[str]) -> None:
    """Add to a page of the specification the citations of its rules, and the places that decide them."""
    if page.startswith(f"{PAGES.name}/"):
        source[0] = with_citations(source[0], citations_by_rule(), places())


def _copy(app: Application, problem: Exception | None) -> None:
    """Copy the cited feeds to the output."""
    if problem is not None:
        return
    for path in {cited.path for cited in feed_citations()}:
        to = Path(app.outdir) / copied(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
