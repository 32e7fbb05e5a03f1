"""What is counted of requests: which routes, which statuses, and how long answers take."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, final

from muster._runtime.meter import Timings

if TYPE_CHECKING:
    from starlette.types import Scope

ROUTE: Final = "muster.route"
"""Where the scope of a request has the template of its route."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@final
class Requests:
    """Counts requests.

    Attributes:
        counts: How many there were, by route, method and status.
        times: How long it took until the answer began, by route and method.
    """

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str, int]] = Counter()
        self.times: dict[tuple[str, str], Timings] = {}

    def note(self, scope: Scope, status: int, took_s: float) -> None:
        """Count a request whose answer begins.

        Args:
            scope: The scope of the request.
            status: The status of the answer.
            took_s: How long it took until now, in seconds.
        """
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = scope.get(ROUTE, "other")
        self.counts[route, method, status] += 1
        times = self.times.get((route, method))
        if times is None:
            times = self.times[route, method] = Timings()
        times.note(took_s)
