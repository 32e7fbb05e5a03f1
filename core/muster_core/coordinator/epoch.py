"""The epoch: the owners that got messages in a batch, and therefore have to report.

Every request to an application carries a credit. When the reports have returned as many credits as
were sent, no request is without an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, final

import attrs

from muster_core.admission.routes import (
    StartApp,
    StartGang,
    StartQueue,
    TellApp,
    TellGang,
    TellQueue,
)
from muster_core.owners.messages.queues import Expect
from muster_core.owners.messages.to_applications import Close
from muster_core.structures.steps import in_pieces

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from muster_core.admission.routes import AnyRoute
    from muster_core.owners.messages.queues import QueueReport
    from muster_core.structures.steps import Steps
    from muster_core.view import DecisionView


@final
@attrs.frozen
class Closing:
    """The owners that have to report for an epoch.

    Attributes:
        epoch: The epoch.
        apps: The applications that got requests.
        queues: The queues above them, the queues that got messages, and the queues above those;
            each with the number of its children that report.
        credits: How many requests to applications the reports have to answer.
    """

    epoch: int
    apps: Mapping[int, Close]
    queues: Mapping[int, Expect]
    credits: int


@final
class Epoch:
    """Tracks the owners that have to report at the end of the present batch."""

    def __init__(self) -> None:
        #: The number of the last closed epoch.
        self.number = 0
        #: The owners that got messages in this epoch; applications with their queues.
        self._told_apps: dict[int, int] = {}
        self._told_queues: set[int] = set()
        self._told_gangs: set[int] = set()
        self._credits = 0
        #: The parent of each queue, and the queue of each application, by key.
        self._parents: dict[int, int | None] = {}
        self._leaves: dict[int, int] = {}

    def note(self, routes: Iterable[AnyRoute]) -> None:
        """Record which owners get messages."""
        for route in routes:
            match route:
                case TellApp():
                    self._told_apps[route.key] = self._leaves[route.key]
                    self._credits += 1
                case StartQueue():
                    self._parents[route.key] = route.parent
                    self._told_queues.add(route.key)
                case TellQueue():
                    self._told_queues.add(route.key)
                case StartApp(identity):
                    self._leaves[identity.key] = identity.leaf
                case StartGang() | TellGang():
                    self._told_gangs.add(route.key)
                case _:
                    assert_never(route)

    def close(self) -> Steps[Closing | None]:
        """Close the epoch.

        Returns:
            The owners that have to report, or None if none of them got a message.
        """
        self.number += 1
        if not self._told_apps and not self._told_queues:
            return None
        children: dict[int, set[tuple[str, int]]] = {key: set() for key in self._told_queues}
        for piece in in_pieces(self._told_apps.items()):
            yield
            for app, leaf in piece:
                children.setdefault(leaf, set()).add(("app", app))
        for key in list(children):
            yield
            below, above = key, self._parents[key]
            while above is not None:
                siblings = children.setdefault(above, set())
                if ("queue", below) in siblings:
                    break
                siblings.add(("queue", below))
                below, above = above, self._parents[above]
        closing = Closing(
            epoch=self.number,
            apps=dict.fromkeys(self._told_apps, Close(self.number)),
            queues={key: Expect(self.number, len(below)) for key, below in children.items()},
            credits=self._credits,
        )
        self._told_apps.clear()
        self._told_queues.clear()
        self._credits = 0
        return closing

    def close_gangs(self) -> Mapping[int, Close]:
        """Return the messages to the gangs that have to report, after the applications have."""
        closes = dict.fromkeys(sorted(self._told_gangs), Close(self.number))
        self._told_gangs.clear()
        return closes

    def forget(self, report: QueueReport) -> None:
        """Remove the applications and queues that are gone, according to a report of the root."""
        for app in report.apps:
            if app.gone:
                del self._leaves[app.identity.key]
        for queue in report.queues:
            if queue.gone:
                del self._parents[queue.key]

    def check(self, view: DecisionView) -> None:
        """Assert the invariants between two batches; for tests."""
        # It knows the parent of every owner.
        assert self._leaves == {key: app.identity.leaf for key, app in view.apps.items()}
        assert self._parents == {
            key: None if queue.parent is None else queue.parent.key
            for key, queue in view.queues.items()
        }
        # Nothing is left over from the last batch.
        assert not self._told_apps
        assert not self._told_queues
        assert not self._told_gangs
        assert not self._credits
