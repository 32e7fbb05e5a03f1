"""The configuration of Sphinx, for a build without network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from muster import __version__

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for docs.spec_extension

project: Final = "Muster"
author: Final = "the Muster developers"
copyright: Final = "the Muster developers; Apache-2.0"
version = release = __version__

extensions: Final = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinxcontrib_trio",
    "docs.spec_extension",
]
exclude_patterns: Final = ["_build", "_templates"]
source_suffix: Final = {".md": "markdown"}

html_theme: Final = "furo"
html_title: Final = f"Muster {__version__}"
html_static_path: Final = ["_static"]
templates_path: Final = ["_templates"]
_SIDEBAR: Final = ("brand", "search", "scroll-start", "navigation")
html_sidebars: Final = {
    "**": [*(f"sidebar/{one}.html" for one in _SIDEBAR), "versions.html", "sidebar/scroll-end.html"]
}

myst_enable_extensions: Final = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors: Final = 4

autodoc_member_order: Final = "bysource"
autodoc_typehints: Final = "signature"
maximum_signature_line_length: Final = 80
napoleon_google_docstring: Final = True
napoleon_numpy_docstring: Final = False
napoleon_use_ivar: Final = True  # attrs classes: one entry for an attribute, not two
highlight_language: Final = "none"
