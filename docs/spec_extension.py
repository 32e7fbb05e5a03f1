"""Shows below each rule of the specification which feeds and tests show it.

The feeds are copied into what is built, as text, so that a reader can open them.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.osutil import relative_uri

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
"""The folder of copies of feeds, in what is built."""

FOLDED: Final = 4
"""So many feeds stand open below a rule; more are folded."""

Shown = dict[str, list[Citation]]
"""Who shows each rule, by its id."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("env-get-outdated", _pages)
    app.connect("doctree-resolved", _show)
    app.connect("build-finished", _copy)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _pages(
    _app: Sphinx,
    env: BuildEnvironment,
    _added: set[str],
    _changed: set[str],
    _removed: set[str],
) -> Sequence[str]:
    """Let every page be made anew: a feed may have changed that it does not name."""
    return sorted(name for name in env.all_docs if name.startswith(f"{PAGES.name}/"))


def _shown() -> Shown:
    prefixes = {rule.id.partition("-")[0] for rule in read_rules()}
    listed = [Citation(rule.id, PROJECT / path) for rule in read_unshown() for path in rule.tests]
    shown: Shown = {}
    for cited in [*feed_citations(), *test_citations(prefixes), *listed]:
        shown.setdefault(cited.id, []).append(cited)
    return shown


def _show(app: Sphinx, tree: nodes.document, page: str) -> None:
    """Put below each rule of a page who shows it."""
    if not page.startswith(f"{PAGES.name}/"):
        return
    shown = _shown()
    base = app.builder.get_target_uri(page)
    for section in list(tree.findall(nodes.section)):
        for name in section["ids"]:
            section.extend(_below(shown.get(str(name).upper(), []), base))


def _below(cited: list[Citation], base: str) -> Iterable[nodes.Node]:
    """Give what stands below a rule: one line, or a list that is folded."""
    if not cited:
        return []
    paths = {one.path: one for one in cited}
    links = [_link(one, base) for one in paths.values()]
    if len(links) <= FOLDED:
        line = nodes.paragraph("", "Shown by ")
        for number, link in enumerate(links):
            line += [nodes.Text(", "), *link] if number else link
        return [line]
    items = [nodes.list_item("", nodes.paragraph("", "", *link)) for link in links]
    summary = f"<details><summary>Shown by {len(links)} feeds and tests</summary>"
    return [
        nodes.raw("", summary, format="html"),
        nodes.bullet_list("", *items),
        nodes.raw("", "</details>", format="html"),
    ]


def _link(cited: Citation, base: str) -> list[nodes.Node]:
    """Give the path of a file; of a feed with a link to its copy."""
    name = cited.path.relative_to(PROJECT).as_posix()
    written = nodes.literal("", name)
    if not cited.text:
        return [written]
    uri = relative_uri(base, _copied(cited.path).as_posix())
    link = nodes.reference("", "", written, refuri=uri, reftitle=cited.text)
    return [link]


def _copied(path: Path) -> Path:
    """Give where the copy of a feed is, in what is built: as a text that a browser shows."""
    place = Path(COPIES) / path.relative_to(PROJECT)
    is_text = path.suffix in {*WITH_COMMENTS, ".jsonl"}
    return place.with_name(f"{place.name}.txt") if is_text else place


def _copy(app: Sphinx, problem: Exception | None) -> None:
    """Copy the feeds that are shown."""
    if problem is not None:
        return
    for path in {cited.path for cited in feed_citations()}:
        to = Path(app.outdir) / _copied(path)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
