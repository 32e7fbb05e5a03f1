"""The page: one self-contained HTML file."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Final

import attrs

from muster._version import __version__
from muster.figures.charts import Data
from muster.figures.text import safe
from muster.report._page.content import Content
from muster.report._page.delays import distributions, longest
from muster.report._page.gantt import gantt
from muster.report._page.losses import losses
from muster.report._page.overview import cluster, head, tiles
from muster.report._page.remarks import remarks
from muster.report._page.tree import tree
from muster.report._page.users import users

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""The content security policy: the page loads nothing from elsewhere."""

MOST_BYTES: Final = 5_000_000
"""The size of a page, in bytes, above which details are left out."""

_SECTIONS: Final = (
    ("time", "Over time"),
    ("nodes", "Nodes"),
    ("queues", "Queues"),
    ("waits", "Waits"),
    ("longest", "Longest waits"),
    ("users", "Users"),
    ("losses", "Lost runs"),
    ("remarks", "Refusals and warnings"),
)


def page(content: Content) -> str:
    """Return the page as HTML; the same content gives the same text.

    If the page is too large, the recorder drops details and keeps less.
    """
    text = _written(content)
    while len(text.encode()) > MOST_BYTES and content.recorder.shrink():
        content = attrs.evolve(content)
        text = _written(content)
    return text


def _written(content: Content) -> str:
    data = Data()
    nodes, bars = gantt(content)
    sections = "".join(
        [
            cluster(content, data),
            nodes,
            tree(content, data),
            distributions(content),
            longest(content),
            users(content),
            losses(content),
            remarks(content),
        ]
    )
    links = "".join(
        f'<a href="#{name}">{title}</a>' for name, title in _SECTIONS if f'id="{name}"' in sections
    )
    frame = content.frame
    known = {
        "begin": frame.begin_us,
        "end": frame.begin_us + frame.span_us,
        "width": frame.width_us,
        "origin": content.origin_us,
        "charts": data.charts,
        "bars": bars,
    }
    times = "Times are counted from the start of the feed."
    if content.origin_us is not None:
        times = "Times are in UTC."
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta name="generator" content="muster {__version__}">\n'
        f"<title>{safe(content.feed)} · Muster</title>\n<style>\n{_styles()}</style>\n"
        f"</head>\n<body>{head(content)}\n<nav>{links}"
        '<span class="tools" hidden><input type="search" id="filter" placeholder="Filter by name" '
        'aria-label="Filter by name"><button type="button" id="reset" hidden>Whole time</button>'
        f"</span></nav>\n<main>{tiles(content)}\n{sections}</main>\n"
        f"<footer>Muster {__version__}. {times}</footer>\n"
        f'<script type="application/json" id="data">{_as_json(known)}</script>\n'
        f"<script>\n{_resource('page.js')}</script>\n</body></html>\n"
    )


def _styles() -> str:
    shared = [
        files("muster.figures").joinpath(name).read_text(encoding="utf-8")
        for name in ("colours.css", "charts.css")
    ]
    return "\n".join([*shared, _resource("page.css")])


def _resource(name: str) -> str:
    return files("muster.report._page").joinpath(name).read_text(encoding="utf-8")


def _as_json(value: object) -> str:
    """Return JSON that is safe inside a script element, whatever names it contains."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
