"""The names in a feed, to find what was meant by one that is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, final

from muster.feeds import FeedItem
from muster_core.events import AddApp, AddAsk, Apply, PodObject
from muster_core.values.nearest import did_you_mean

_MOST: Final = 1_000
"""How many names of applications, and how many of asks, are kept."""

_ENDS: Final = 5
"""How many of the first and of the last names of an `add_ask` with a `count` are kept."""


@final
class Names:
    """Remembers the applications of a feed, and the asks of one application.

    Args:
        app: The application.
    """

    def __init__(self, app: str) -> None:
        self._app = app
        self._apps: dict[str, None] = {}
        self._asks: dict[str, None] = {}

    def saw(self, item: FeedItem) -> None:
        """Remember the names in an event."""
        match item.content:
            case AddApp(app=app):
                self._add(self._apps, app)
            case AddAsk() as event if event.app == self._app:
                for name in _some_names(event):
                    self._add(self._asks, name)
            case Apply(objects):
                for one in objects:
                    if isinstance(one.content, PodObject):
                        self._add(self._apps, one.content.app)
                        if one.content.app == self._app:
                            self._add(self._asks, one.content.name)
            case _:
                pass

    def guess(self, ask: str) -> str:
        """Return which application, or which of its asks, may have been meant."""
        if self._app not in self._apps:
            return did_you_mean(self._app, self._apps)
        return did_you_mean(ask, self._asks)

    @staticmethod
    def _add(names: dict[str, None], name: str) -> None:
        if len(names) < _MOST:
            names[name] = None


def _some_names(event: AddAsk) -> Iterator[str]:
    """Yield names of the asks that an event adds: all, or the first and the last ones."""
    if event.count is None:
        yield event.ask
        return
    first = range(min(_ENDS, event.count))
    last = range(max(len(first), event.count - _ENDS), event.count)
    for number in chain(first, last):
        yield f"{event.ask}-{number}"
