"""The renderer: templates, what they may call, and the headers of every page.

Names are broken where their parts end. Reasons have dates, and amounts in their units. The slider
over the kept history and static files belong to every page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

from muster._version import __version__
from muster.explain import not_then, what_is_reserved, whom_it_passed
from muster.figures.text import (
    INSTANTS,
    SECOND,
    amount_text,
    as_words,
    counted,
    dated,
    duration,
    held_words,
    instant_of,
    iso_date,
    number,
    part_text,
    percent,
    shortened,
)
from muster.figures.usage import hours_text
from muster.service.access import Role
from muster_core.reasons import Fact, Reserved
from muster_core.values.resources import MEMORY, has_parts

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.page.requests import Moment, PageRequest


TemplateData = dict[str, Any]
"""The data of a template, by the names that it uses."""

_MEDIA: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# PAGE-18
_FOLDERS: Final = (
    ("", "muster.service.page", "static"),
    ("vendor/", "muster.service.page", "static/vendor"),
    ("figures/", "muster.figures", ""),
)
"""How addresses of files begin, and in which package and folder the files are."""


@lru_cache(maxsize=1)
def assets() -> Mapping[str, tuple[bytes, str]]:
    """Return all files by name, with their media types."""
    return {
        f"{prefix}{one.name}": (one.read_bytes(), media)
        for prefix, package, folder in _FOLDERS
        for one in files(package).joinpath(*folder.split("/")).iterdir()
        for suffix, media in _MEDIA.items()
        if one.name.endswith(suffix)
    }


@lru_cache(maxsize=256)
def static(name: str) -> str:
    """Return the address of a file that never changes under this address."""
    return f"/static/{name}?v={sha256(assets()[name][0]).hexdigest()[:12]}"


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


def facts_of(facts: Mapping[str, Fact], date: Callable[[int], str]) -> list[tuple[str, str]]:
    """Return the facts of a reason in words, each with its name.

    Args:
        facts: The facts.
        date: Returns an instant in microseconds since the origin as a date.
    """
    return [_named_fact(name, fact, date) for name, fact in facts.items()]


def _named_fact(name: str, fact: Fact, date: Callable[[int], str]) -> tuple[str, str]:
    if isinstance(fact, int) and name == "left_us":
        return "left", duration(fact)
    if isinstance(fact, int) and name in INSTANTS:
        return INSTANTS[name], date(fact)
    return name.replace("_", " "), _fact(name, fact)


def _fact(name: str, fact: Fact) -> str:
    match fact:
        case None:
            return "none"
        case bool():
            return "yes" if fact else "no"
        case int() | float():
            return f"{fact:,}"
        case str():
            return fact
        case tuple():
            return ", ".join(fact) or "none"
        case _:
            return ", ".join(_amount(name, key, amount) for key, amount in fact.items()) or "none"


def _amount(name: str, key: str, amount: int) -> str:
    """Return an amount; its key ends with the type of the resource where it is one."""
    before, _, kind = key.rpartition(" ")
    if name == "lacking" or not (kind == MEMORY or has_parts(kind)):
        return f"{key} {amount:,}"
    text = amount_text(kind, amount)
    return f"{before} {text}".strip() + ("" if kind == "vcore" else f" {kind}")


_MOMENT = ("at",)
"""What names the moment in the address of a page."""


# PAGE-63
def slider_of(moment: Moment, request: Request) -> TemplateData | None:
    """Return the slider of a page; None if no history is kept.

    Args:
        moment: The moment that the page shows.
        request: The request for the page.
    """
    kept = moment.extent
    if kept is None:
        return None
    now_us = max(moment.service.now_us(), kept.last_us, kept.first_us + SECOND)
    # In the present it is at its end, also in the first second, in which the end is ahead of it.
    value_us = min(moment.now_us(), now_us) if moment.is_past else now_us
    return {
        "origin_ms": moment.service.origin_us // 1000,
        "first": kept.first_us / SECOND,
        "last": now_us / SECOND,
        "value": value_us / SECOND,
        "back": address_without(request, _MOMENT),
        "when": moment.iso(min(moment.now_us(), now_us))[:19],
        "bars": _bars(kept.per_bucket, (kept.last_us - kept.first_us) / (now_us - kept.first_us)),
    }


def _bars(counts: Sequence[int], share: float) -> str:
    """Return the bars as a path of SVG, 1,000 wide and 20 high.

    Args:
        counts: How many decisions each span has.
        share: How much of the width they have together.
    """
    most = max(counts, default=0)
    width = 1000 * share / len(counts)
    drawn: list[str] = []
    for index, count in enumerate(counts):
        if count:
            # The root shows few beside many.
            height = max(1.0, 20 * (count / most) ** 0.5)
            drawn.append(f"M{index * width:.1f} 20v-{height:.1f}h{width:.2f}v{height:.1f}z")
    return "".join(drawn)


def address_without(request: Request, names: Sequence[str]) -> str:
    """Return the address of a request within the service, without some parameters."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    query = urlencode([pair for pair in pairs if pair[0] not in names])
    path: str = request.url.path
    return f"{path}?{query}" if query else path


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
"""The headers of every page: it fetches nothing from elsewhere, and no other page embeds it."""

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
    """Return a date in UTC, as :func:`iso_date` writes it, for readers: to the second, or millisecond."""
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
    """Return in words how long ago something was, without parts of a second."""
    if ago_us <= -SECOND:
        return f"in {_whole_seconds(-ago_us)}"
    return "just now" if ago_us < SECOND else f"{_whole_seconds(ago_us)} ago"


def _lasting(span_us: int) -> str:
    """Return in words how long something has lasted, or will last."""
    return "less than 1 s" if span_us < SECOND else _whole_seconds(span_us)


def _whole_seconds(span_us: int) -> str:
    return duration(span_us // SECOND * SECOND)


_AGES: Final[Mapping[str, Callable[[int], str]]] = {
    "ago": _ago,
    "for": _lasting,
    "left": lambda span_us: _lasting(-span_us),
}
"""How the time since an instant is written; ages.js does the same."""


def render_page(
    page: PageRequest,
    template: str,
    /,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: object,
) -> Response:
    """Return a page.

    Args:
        page: The request.
        template: The file of its template.
        status: The status of the response.
        headers: Further headers.
        **context: The data of the template, besides what all templates have.
    """
    service = page.service

    def url(path: str, /, **query: object) -> str:
        """Return the address of a page, at the same moment."""
        wanted = {**page.moment.query(), **query}
        written = urlencode(
            {name: value for name, value in wanted.items() if value not in ("", None)}
        )
        return f"{path}?{written}" if written else path

    def moment_text(at_us: int) -> str:
        """Return an instant of the scheduler as a date."""
        return iso_date(service.unix_us(at_us))

    def url_at(path: str, at_us: int | None, /) -> str:
        """Return the address of a page at another moment; None for the present."""
        return path if at_us is None else f"{path}?{urlencode({'at': moment_text(at_us)})}"

    def date_words(at_us: int) -> str:
        """Return an instant of the scheduler as a date for readers, to the second."""
        return moment_words(moment_text(at_us)[:19])

    def readable(message: str, at_us: object = None) -> str:
        """Return the message of a reason with its times as readers want them.

        Args:
            message: The message.
            at_us: The instant that it names, in microseconds since the origin; or None.
        """
        return rounded(dated(message, at_us, date_words))

    # PAGE-81
    def reservation_text(reserved: Reserved, ask: str | None = None) -> str:
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
        words = _AGES[form](page.moment.now_us() - at_us)
        unix_ms = service.unix_us(at_us) // 1000
        text = '<span class="{}" data-at="{}" data-form="{}">{}</span>'
        return Markup(text).format("ago" if form == "ago" else "age", unix_ms, form, words)

    def when(at_us: int | None) -> Markup:
        """Return an instant of the scheduler with how long ago it was."""
        if at_us is None:
            return Markup("")
        iso = iso_date(service.unix_us(at_us))
        short = iso[:19].replace("T", " ")
        return Markup('<time datetime="{}">{}</time> {}').format(iso, short, age(at_us))

    text = _TEMPLATES.get_template(template).render(
        page=page,
        who=page.who,
        proof=page.session.proof,
        moment=page.moment,
        path=page.request.scope["path"],
        base="part.html" if page.is_part else "base.html",
        url=url,
        url_at=url_at,
        slider=slider_of(page.moment, page.request),
        date=moment_text,
        now_ms=service.unix_us(page.moment.now_us()) // 1000,
        readable=readable,
        reservation_text=reservation_text,
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
    """Return a page for a browser that has not logged in."""
    text = _TEMPLATES.get_template(template).render(**context)
    return HTMLResponse(text, status, {**HEADERS, **headers})
