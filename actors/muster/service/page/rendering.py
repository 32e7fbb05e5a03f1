"""Templates and what they may call; the headers of every page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from muster._version import __version__
from muster.explain import not_then, what_is_reserved, whom_it_passed
from muster.figures.devices import held_words
from muster.figures.instants import dated, instant_of
from muster.figures.text import (
    SECOND,
    amount_text,
    counted,
    duration,
    number,
    part_text,
    percent,
    shortened,
)
from muster.figures.use import hours_text
from muster.figures.words import as_words
from muster.service.access.who import Role
from muster.service.page.assets import static
from muster.service.page.naming import ask_name, name_of
from muster.service.page.slider import slider_of
from muster.service.page.wording import facts_of
from muster.service.reading.looking import as_iso

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.page.viewed import Viewed
    from muster_core.reasons import Reserved

# PAGE-1
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""The headers of every page: it fetches nothing from elsewhere, and stands in no other page."""

SECTIONS: Final = (
    ("/", "Overview"),
    ("/queues", "Queues"),
    ("/asks", "Asks"),
    ("/gangs", "Gangs"),
    ("/nodes", "Nodes"),
    ("/users", "Users"),
    ("/config", "Configuration"),
    ("/time", "Time"),
)
"""The parts of the page, with their addresses."""

_FINE_TIME: Final = re.compile(r"(?<![\w.])(\d{1,12}\.\d{1,6}) s\b")
"""A time in seconds with parts of a second, as the scheduler writes it in a message."""


def amounts_text(amounts: Mapping[str, int]) -> str:
    """Return amounts of several types in the units that suit them: ``2 cores, 4 GiB memory``."""
    shown = ((kind, amount_text(kind, amount)) for kind, amount in sorted(amounts.items()))
    return ", ".join(text if kind == "vcore" else f"{text} {kind}" for kind, text in shown)


def together(text: str) -> str:
    """Return figures with their units in one line; there may be a new line behind each comma."""
    return text.replace(" ", "\u00a0").replace(",\u00a0", ", ")


def _amounts(amounts: Mapping[str, int]) -> str:
    return together(amounts_text(amounts))


def _hours(areas: Mapping[str, int]) -> str:
    """Return amounts times microseconds as hours; there may be a new line behind each type."""
    return together(hours_text(areas, SECOND))


def _held(devices: Mapping[str, Sequence[int]], resources: Mapping[str, int]) -> str:
    """Return which devices an ask holds; there may be a new line behind each number or type."""
    return together(held_words(devices, resources)).replace(";\u00a0", "; ")


def _duration(span_us: float) -> str:
    return together(duration(span_us))


def rounded(text: str) -> str:
    """Return a message with the times in it that have parts of a second as short as readers want."""
    return _FINE_TIME.sub(lambda found: duration(round(float(found[1]) * SECOND)), text)


def sentence(text: str) -> str:
    """Return a message of the scheduler as a sentence; a name that it begins with stays as it is."""
    text = rounded(text)
    first = text.partition(" ")[0]
    begin = text[:1].upper() if first.isalpha() and first != "root" else text[:1]
    return f"{begin}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}"


def _as_json(value: object) -> str:
    """Return a value as JSON for readers."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _value(value: object) -> str:
    """Return a value of a configuration for readers; nothing for one that is not there."""
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def segment(text: str) -> str:
    """Return a name as a part of the path of an address."""
    return quote(text, safe="")


def ask_path(app: str, ask: str) -> str:
    """Return the path of the page of an ask."""
    return f"/asks/{segment(app)}/{segment(ask)}"


def moment_words(iso: str) -> str:
    """Return a date in UTC, as :func:`as_iso` writes it, for readers: to the second, or millisecond."""
    date, _, rest = iso.removesuffix("Z").partition("T")
    seconds, _, fraction = rest.partition(".")
    fraction = fraction[:3].ljust(3, "0") if fraction[:3].strip("0") else ""
    return f"{date} {seconds}{'.' if fraction else ''}{fraction} UTC"


def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("muster.service.page", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Any] = {
        "part": part_text,
        "amounts": _amounts,
        "counted": counted,
        "decided": as_words,
        "duration": _duration,
        "held": _held,
        "hours": _hours,
        "json": _as_json,
        "moment": moment_words,
        "name": name_of,
        "number": number,
        "percent": percent,
        "rounded": rounded,
        "segment": segment,
        "sentence": sentence,
        "shortened": shortened,
        "value": _value,
    }
    known: dict[str, Any] = {
        "Role": Role,
        "ask_name": ask_name,
        "ask_path": ask_path,
        "sections": SECTIONS,
        "static": static,
        "version": __version__,
    }
    found.filters.update(filters)
    found.globals.update(known)
    return found


_TEMPLATES: Final = _environment()


def _ago(ago_us: int) -> str:
    """Return in words how long ago something was; parts of a second tell nobody anything."""
    if ago_us <= -SECOND:
        return f"in {_whole(-ago_us)}"
    return "just now" if ago_us < SECOND else f"{_whole(ago_us)} ago"


def _lasting(span_us: int) -> str:
    """Return in words how long something has lasted, or will last."""
    return "less than 1 s" if span_us < SECOND else _whole(span_us)


def _whole(span_us: int) -> str:
    return duration(span_us // SECOND * SECOND)


_AGES: Final[Mapping[str, Callable[[int], str]]] = {
    "ago": _ago,
    "for": _lasting,
    "left": lambda span_us: _lasting(-span_us),
}
"""How the time since an instant is told; ages.js does the same."""


def shown(
    viewed: Viewed,
    template: str,
    /,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: object,
) -> Response:
    """Return a page.

    Args:
        viewed: The request.
        template: The file of its template.
        status: The status of the response.
        headers: Further headers.
        **context: What the template knows besides what all know.
    """
    service = viewed.service

    def url(path: str, /, **query: object) -> str:
        """Return the address of a page, at the same moment."""
        wanted = {**viewed.moment.query(), **query}
        written = urlencode(
            {name: value for name, value in wanted.items() if value not in ("", None)}
        )
        return f"{path}?{written}" if written else path

    def moment_text(at_us: int) -> str:
        """Return an instant of the scheduler as a date."""
        return as_iso(service.unix_us(at_us))

    def url_at(path: str, at_us: int | None, /) -> str:
        """Return the address of a page at another moment; None for the present."""
        return path if at_us is None else f"{path}?{urlencode({'at': moment_text(at_us)})}"

    def date_words(at_us: int) -> str:
        """Return an instant of the scheduler as a date for readers, to the second."""
        return moment_words(moment_text(at_us)[:19])

    def said(message: str, at_us: object = None) -> str:
        """Return the message of a reason with its times as readers want them.

        Args:
            message: The message.
            at_us: The instant that it names, in microseconds since the origin; or None.
        """
        return rounded(dated(message, at_us, date_words))

    # PAGE-81
    def reserved_said(reserved: Reserved, ask: str | None = None) -> str:
        """Say what is reserved for an ask, as ``app/ask``, or for a whole gang."""
        return what_is_reserved(ask, reserved, date_words)

    # PAGE-4
    def age(at_us: int, form: str = "ago") -> Markup:
        """Return how long ago an instant was; the page counts on by itself.

        Args:
            at_us: The instant, in microseconds since the origin.
            form: ``ago`` for how long ago it was, ``for`` for how long something has lasted since
                then, ``left`` for how long it lasts until then.
        """
        told = _AGES[form](viewed.moment.now_us() - at_us)
        unix_ms = service.unix_us(at_us) // 1000
        text = '<span class="{}" data-at="{}" data-form="{}">{}</span>'
        return Markup(text).format("ago" if form == "ago" else "age", unix_ms, form, told)

    def when(at_us: int | None) -> Markup:
        """Return an instant of the scheduler with how long ago it was."""
        if at_us is None:
            return Markup("")
        iso = as_iso(service.unix_us(at_us))
        short = iso[:19].replace("T", " ")
        return Markup('<time datetime="{}">{}</time> {}').format(iso, short, age(at_us))

    text = _TEMPLATES.get_template(template).render(
        viewed=viewed,
        who=viewed.who,
        proof=viewed.session.proof,
        moment=viewed.moment,
        path=viewed.request.scope["path"],
        base="part.html" if viewed.is_part else "base.html",
        url=url,
        url_at=url_at,
        slider=slider_of(viewed.moment, viewed.request),
        date=moment_text,
        now_ms=service.unix_us(viewed.moment.now_us()) // 1000,
        said=said,
        reserved_said=reserved_said,
        not_then=partial(not_then, written=date_words),
        whom_it_passed=partial(whom_it_passed, written=date_words),
        instant_of=instant_of,
        facts_of=partial(facts_of, date=date_words),
        age=age,
        when=when,
        **context,
    )
    return HTMLResponse(text, status, {**HEADERS, **(headers or {}), "Vary": "HX-Request"})


def plain_page(
    template: str, status: int, headers: Mapping[str, str], **context: object
) -> Response:
    """Return a page for somebody who has not logged in."""
    text = _TEMPLATES.get_template(template).render(**context)
    return HTMLResponse(text, status, {**HEADERS, **headers})
