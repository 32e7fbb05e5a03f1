"""The examples of programs that embed Muster are run for the pages that show what they print.

``docs/generate.py`` runs them, with warnings as errors, and ``tests/test_docs.py`` compares what
they print with the pages.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "examples"
EXAMPLES = [*sorted(FOLDER.glob("*.py")), *sorted((FOLDER / "embedding").glob("*.py"))]
PAGES = [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_example_is_run_for_a_page(path: Path) -> None:
    command = f"\n$ python {path.relative_to(PROJECT).as_posix()}\n"

    assert [page for page in PAGES if command in page.read_text(encoding="utf-8")]
