"""Shows below each rule of the specification which feeds and tests show it.

Sphinx hands over the text of a page before it reads it; what stands below a rule is added there.
The feeds are copied into what is built, as text, so that a reader can open them. Nothing is
imported of Sphinx: what is used of it is written down as protocols.
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
    WITH_COMMENTS,
    Citation,
    feed_citations,
    read_rules,
    read_unshown,
    test_citations,
)

COPIES: Final = "_shown"
"""The folder of the copies of feeds, in what is built."""

OPEN: Final = 3
"""So many feeds stand below a rule in one line; more are folded."""

_ANCHOR: Final = re.compile(r"^\(([a-z]+-[0-9]+)\)=$", re.MULTILINE)
_END: Final = re.compile(r"^(?:\([a-z]+-[0-9]+\)=|## .*)$", re.MULTILINE)

Shown = Mapping[str, Sequence[Citation]]
"""Who shows each rule, by its id."""


class Environment(Protocol):
    """What Sphinx knows of all pages."""

    @property
    def all_docs(self) -> Mapping[str, object]:
        """Every page by its name."""
        ...


class Application(Protocol):
    """Sphinx."""

    @property
    def outdir(self) -> str | Path:
        """The folder of what is built."""
        ...

    def connect(self, event: str, callback: Callable[..., object], /) -> int:
        """Have a function called at an event."""
        ...


def setup(app: Application) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("env-get-outdated", _outdated)
    app.connect("source-read", _add)
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def who_shows() -> Shown:
    """Give the feeds and the tests that show each rule, by its id."""
    prefixes = {rule.id.partition("-")[0] for rule in read_rules()}
    listed = [Citation(row.id, PROJECT / path) for row in read_unshown() for path in row.tests]
    shown: dict[str, dict[Path, Citation]] = {}
    for cited in [*feed_citations(), *test_citations(prefixes), *listed]:
        shown.setdefault(cited.id, {})[cited.path] = cited
    return {name: list(found.values()) for name, found in shown.items()}


def with_shown(text: str, shown: Shown) -> str:
    """Give the text of a page with what shows each of its rules.

    Args:
        text: The page.
        shown: Who shows each rule.
    """
    parts = [text[: first.start()] if (first := _ANCHOR.search(text)) else text]
    for anchor in _ANCHOR.finditer(text):
        end = _END.search(text, anchor.end())
        rule = text[anchor.start() : end.start() if end else len(text)]
        parts.append(f"{rule.rstrip()}\n\n{_below(shown.get(anchor[1].upper(), ()))}")
        if end and end[0].startswith("## "):
            following = _ANCHOR.search(text, end.end())
            parts.append(text[end.start() : following.start() if following else len(text)])
    return "".join(parts)


def _below(cited: Sequence[Citation]) -> str:
    """Give what stands below a rule: one line, or a list that is folded."""
    if not cited:
        return ""
    if len(cited) <= OPEN:
        return f"<p>Shown by {', '.join(_link(one) for one in cited)}</p>\n\n"
    items = "".join(f"<li>{_link(one)}{_said(one)}</li>" for one in cited)
    summary = f"<summary>Shown by {len(cited)} feeds and tests</summary>"
    return f"<details>{summary}<ul>{items}</ul></details>\n\n"


def _said(cited: Citation) -> str:
    """Give what a feed shows, with its own words between backticks as code."""
    said = re.sub("`([^`]*)`", r"<code>\1</code>", escape(cited.text.rstrip("."), quote=False))
    return f": {said}" if said else ""


def _link(cited: Citation) -> str:
    """Give the path of a file; of a feed with a link to its copy."""
    name = cited.path.relative_to(PROJECT).as_posix()
    if not cited.text:
        return f"<code>{name}</code>"
    title = escape(cited.text)
    return f'<a href="../{copied(cited.path).as_posix()}" title="{title}"><code>{name}</code></a>'


def copied(path: Path) -> Path:
    """Give where the copy of a feed is, in what is built: as a text that a browser shows.

    Args:
        path: The feed.
    """
    place = Path(COPIES) / path.relative_to(PROJECT)
    is_text = path.suffix in {*WITH_COMMENTS, ".jsonl"}
    return place.with_name(f"{place.name}.txt") if is_text else place


def _outdated(_app: Application, env: Environment, *_changes: object) -> list[str]:
    """Have every page read again: a feed may have changed that it does not name."""
    return sorted(name for name in env.all_docs if name.startswith(f"{PAGES.name}/"))


def _add(_app: Application, page: str, source: list[str]) -> None:
    """Add to a page of the specification what shows its rules."""
    if page.startswith(f"{PAGES.name}/"):
        source[0] = with_shown(source[0], who_shows())


def _copy(app: Application, problem: Exception | None) -> None:
    """Copy the feeds that are shown."""
    if problem is not None:
        return
    for path in {cited.path for cited in feed_citations()}:
        to = Path(app.outdir) / copied(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
