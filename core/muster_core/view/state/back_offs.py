"""The ends of back-offs: when asks whose binds have failed are tried again.

BACKOFF-3, BACKOFF-6, BACKOFF-10. While an ask backs off, its application has it aside: it counts as
pending, but nothing that picks asks sees it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.view.state.deadlines import Deadlines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from muster_core.owners.messages.asks import Ask
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp
    from muster_core.view.tree.queue import ViewQueue

Entry = tuple[int, int, str]
"""The end of a back-off in microseconds, the key of the application, and the name of the ask."""


@final
class BackOffs:
    """The ends of all back-offs.

    Args:
        apps: The applications of the view, by key.
        queues: The queues of the view, by key.
    """

    def __init__(self, apps: Mapping[int, ViewApp], queues: Mapping[int, ViewQueue]) -> None:
        self._apps = apps
        self._queues = queues
        #: Whether settings have changed, so that other asks may back off now.
        self.stale = False
        self._ends = Deadlines[Entry](self._stands)

    def until_us(self, app: ViewApp, ask: str) -> int:
        """Return the instant before which an ask is not tried, in microseconds; 0 is any time."""
        failed = app.in_a_row.get(ask)
        delay_us = self._queues[app.identity.leaf].config.settings.bind_retry_us
        return 0 if failed is None or not delay_us else failed.until_us(delay_us)

    def add(self, app: ViewApp, ask: Ask) -> None:
        """Add the end of the back-off of an ask, which begins to back off."""
        self._ends.add((self.until_us(app, ask.name), app.identity.key, ask.name))

    def next_us(self) -> int | None:
        """Return the instant at which the next one ends, in microseconds, or None."""
        first = self._ends.first()
        return None if first is None else first[0]

    def over(self, now_us: int) -> Iterator[tuple[ViewApp, Ask]]:
        """Iterate over the asks whose back-off is over; each must have ended when the next comes.

        Args:
            now_us: The present instant, in microseconds.
        """
        while (end := self._ends.first()) is not None and end[0] <= now_us:
            _, key, name = end
            self._ends.pop()
            app = self._apps[key]
            yield app, app.backing_off[name]

    def tidy(self) -> Steps[None]:
        """Remove ends that no longer apply, if there are many; call it after a batch."""
        return self._ends.tidy()

    # BACKOFF-3, BACKOFF-16
    def _stands(self, entry: Entry) -> bool:
        until_us, key, name = entry
        app = self._apps.get(key)
        return app is not None and name in app.backing_off and self.until_us(app, name) == until_us
