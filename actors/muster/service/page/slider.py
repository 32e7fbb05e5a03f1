"""The slider over the kept history, which stands in the frame of every page."""

from __future__ import annotations

from typing import TYPE_CHECKING, final
from urllib.parse import parse_qsl, urlencode

import attrs

from muster.figures.text import SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from muster.service.page.moment import Moment

_MOMENT = ("at",)
"""What names the moment in the address of a page."""


@final
@attrs.frozen
class Slider:
    """The slider.

    Attributes:
        origin_ms: The origin of time, in milliseconds since 1970 in UTC.
        first: The left end, in seconds since the origin.
        last: The right end: now, likewise.
        value: Where it stands.
        back: The address of this page without its moment.
        when: The moment as a form has it, to the second.
        bars: How many decisions there were when, as a path of SVG.
    """

    origin_ms: int
    first: float
    last: float
    value: float
    back: str
    when: str
    bars: str


# PAGE-63
def slider_of(moment: Moment, request: Request) -> Slider | None:
    """Return the slider of a page; None if no history is kept.

    Args:
        moment: The moment that the page shows.
        request: The request for the page.
    """
    kept = moment.kept
    if kept is None:
        return None
    now_us = max(moment.service.now_us(), kept.last_us, kept.first_us + SECOND)
    return Slider(
        origin_ms=moment.service.origin_us // 1000,
        first=kept.first_us / SECOND,
        last=now_us / SECOND,
        value=min(moment.now_us(), now_us) / SECOND,
        back=address_without(request, _MOMENT),
        when=moment.iso(min(moment.now_us(), now_us))[:19],
        bars=_bars(kept.per_bucket, (kept.last_us - kept.first_us) / (now_us - kept.first_us)),
    )


def _bars(counts: Sequence[int], share: float) -> str:
    """Return the bars as a path of SVG, 1,000 wide and 20 high.

    Args:
        counts: How many decisions each span has.
        share: How much of the width they have together.
    """
    most = max(counts, default=0)
    width = 1000 * share / len(counts)
    drawn: list[str] = []
    for number, count in enumerate(counts):
        if count:
            # The root shows few beside many.
            height = max(1.0, 20 * (count / most) ** 0.5)
            drawn.append(f"M{number * width:.1f} 20v-{height:.1f}h{width:.2f}v{height:.1f}z")
    return "".join(drawn)


def address_without(request: Request, names: Sequence[str]) -> str:
    """Return the address of a request within the service, without some parameters."""
    pairs = parse_qsl(request.url.query, keep_blank_values=True)
    query = urlencode([pair for pair in pairs if pair[0] not in names])
    path: str = request.url.path
    return f"{path}?{query}" if query else path
