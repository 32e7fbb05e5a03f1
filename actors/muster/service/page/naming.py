"""Names of queues, nodes and the like on the page: they are broken where their parts end."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup

from muster.figures.text import shortened

_PARTS: Final = re.compile(r"[^./]*[./]|[^./]+")

_LONG: Final = 24
"""A part with more characters than this may be broken anywhere: it is wider than a narrow column."""


# PAGE-71
def name_of(text: str) -> Markup:
    """Return a name that is broken behind dots and slashes, and not at its hyphens.

    A name that is too long for a page is cut.
    """
    parts: list[str] = _PARTS.findall(shortened(text))
    return Markup("<wbr>").join(map(_whole, parts))


def _whole(part: str) -> Markup:
    """Return a part of a name, in one line unless it is long."""
    if "-" in part and len(part) <= _LONG:
        return Markup("<bdi>{}</bdi>").format(part)
    return Markup.escape(part)


def ask_name(app: str, ask: str) -> Markup:
    """Return the name of an ask with that of its application, likewise."""
    return Markup("{}/<wbr>{}").format(name_of(app), name_of(ask))
