"""The history of one ask, from the events and decisions up to an instant.

The names in the feed show the likely meaning of an unknown name; the event that ended the ask is
described as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Final, final

import attrs

from muster.feeds import FeedItem, Refused
from muster_core.decisions import Announced, Decision, Kind, Reason
from muster_core.events import (
    AddApp,
    AddAsk,
    Apply,
    BindFailed,
    Delete,
    Outcome,
    PodObject,
    Release,
    RemoveApp,
    RemoveAsk,
)
from muster_core.reasons import Code, Passed
from muster_core.snapshots import AskPlace, AskSnapshot
from muster_core.values.names import did_you_mean

_MOST: Final = 1_000
"""How many names of applications, and how many of asks, are kept."""

_ENDS: Final = 5
"""How many of the first and of the last names of an `add_ask` with a `count` are kept."""


@final
class FeedNames:
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
        """Return the application, or its ask, that may have been meant."""
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


_REASONS: Final = {outcome: Reason(outcome.value) for outcome in Outcome}


def may_end(item: FeedItem, app: str, ask: str) -> bool:
    """Return whether an event ends an ask, if the ask exists and the event is not refused."""
    match item.content:
        case RemoveApp():
            return item.content.app == app
        case Release() | RemoveAsk():
            return (item.content.app, item.content.ask) == (app, ask)
        case Delete(objects):
            return any((one.content.app, one.content.name) == (app, ask) for one in objects)
        case Apply(objects):
            pods = (one.content for one in objects if isinstance(one.content, PodObject))
            return any(pod.finished and (pod.app, pod.name) == (app, ask) for pod in pods)
        case _:
            return False


def may_end_for(item: FeedItem, reason: Reason | None) -> bool:
    """Return whether an event that may end an ask ends it for this reason."""
    match item.content:
        case Release():
            return reason is _REASONS[item.content.outcome]
        case Apply():
            return reason is Reason.COMPLETED
        case _:
            return reason is Reason.REMOVED


def gives_up(item: FeedItem | None, failed: FeedItem | None) -> BindFailed | None:
    """Return the failure for which an event that ends an ask gives it up, if it does.

    Args:
        item: The event, or None.
        failed: The last `bind_failed` of the ask, or None.
    """
    # A scheduler with `bind_attempts` lets the two in one behind the other.
    if (
        item is not None
        and failed is not None
        and isinstance(item.content, RemoveAsk)
        and (item.index, item.at_us) == (failed.index + 1, failed.at_us)
        and isinstance(failed.content, BindFailed)
    ):
        return failed.content
    return None


_TIMES: Final[Mapping[Reason | None, str]] = {
    Reason.COMPLETED: "when its `run_for` was over",
    Reason.RUN_LIMIT: "when it had run for as long as it may",
    Reason.EXPIRED: "as it was not bound by its `start_by`",
    # ONCE-2
    Reason.PREEMPTED: "as it was preempted and does not come back",
    Reason.RECLAIMED: "as it was reclaimed and does not come back",
    Reason.NODE_LOST: "with its node, and does not come back",
}
"""The ends of asks without an event, as text."""


def how_it_ended(
    item: FeedItem | None, reason: Reason | None, given_up: BindFailed | None = None
) -> str:
    """Return the cause of the end of an ask, as text.

    Args:
        item: The event that ended it, or None if no event did.
        reason: The reason for which it was released.
        given_up: The failure for which it was given up, as its work could not be started; None if
            it was not.
    """
    match None if item is None else item.content:
        case Release(message=str(message)):
            return f"by `release`: {message}"
        case Release():
            return "by `release`"
        case RemoveAsk() if given_up is not None:
            why = "" if given_up.message is None else f": {given_up.message}"
            return f"by `remove_ask`, given up as its work could not be started{why}"
        case RemoveAsk():
            return "by `remove_ask`"
        case RemoveApp():
            return "with its application, by `remove_app`"
        case Delete():
            return "by `delete`"
        case Apply():
            return "by `apply` of its Pod, which has finished"
        case _:
            return _TIMES.get(reason, "")


_HOLDING: Final = frozenset({AskPlace.BOUND, AskPlace.WAITING})


@final
class Fate(StrEnum):
    """The state of an ask at an instant, or how it ended."""

    PENDING = "pending"
    PARKED = "parked"
    WAITING = "waiting"
    BOUND = "bound"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REMOVED = "removed"
    RUN_LIMIT = "run_limit"
    EXPIRED = "expired"
    LOST = "lost"
    REFUSED = "refused"
    LATER = "later"
    UNKNOWN = "unknown"


@final
@attrs.frozen
class Hold:
    """A node that an ask held before, and why it lost it.

    Attributes:
        node: The node.
        from_us: When the ask got it, in microseconds.
        until_us: When the ask lost it, in microseconds.
        waiting: Whether the ask only waited there for its gang.
        reason: Why the ask lost it.
        message: The message of the release, such as the ask it was evicted for, or None.
    """

    node: str
    from_us: int
    until_us: int
    waiting: bool
    reason: Reason
    message: str | None = None


@final
@attrs.frozen
class Whereabouts:
    """The state of an ask at an instant, and since when.

    Attributes:
        fate: Its state, or how it ended.
        since_us: When that began, in microseconds; for ``LATER``, when the ask is added. None
            if it is unknown.
        node: The node that it holds, or held when it ended.
        queue: The path of its queue.
        message: Why it, or its application, was refused, or what ended it.
        code: The code of that reason, if there is one.
        ended_by: The event that ended it, or None if its time was over.
        index: The index of the event that added it, or was refused, from 0.
        line: The line of that event, from 1, or None if the encoding has no lines.
        before: The node that it lost last, if it has none now.
        passed: The reservations that it did not delay when it got the node that it holds.
    """

    fate: Fate
    since_us: int | None = None
    node: str | None = None
    queue: str | None = None
    message: str | None = None
    code: Code | None = None
    index: int | None = None
    line: int | None = None
    ended_by: FeedItem | None = None
    before: Hold | None = None
    passed: tuple[Passed, ...] = ()


@final
@attrs.frozen
class _Arrival:
    """An event that adds the ask, or its application if ``ask`` is None."""

    item: FeedItem
    ask: AddAsk | None
    is_pod: bool = False


@final
@attrs.frozen
class _Refusal:
    item: FeedItem
    message: str
    of_app: bool


_UNREAD: Final = 3
"""How many invalid events are kept."""

_OVER: Final = {
    Reason.COMPLETED: Fate.COMPLETED,
    Reason.FAILED: Fate.FAILED,
    Reason.CANCELLED: Fate.CANCELLED,
    Reason.REMOVED: Fate.REMOVED,
    Reason.RUN_LIMIT: Fate.RUN_LIMIT,
    Reason.EXPIRED: Fate.EXPIRED,
    **dict.fromkeys((Reason.PREEMPTED, Reason.RECLAIMED, Reason.NODE_LOST), Fate.LOST),
}

_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
"""A name in a message, which may be like any text."""

# Parts of the messages with which the directory refuses an application.
_CAUSES: Final = (
    (" does not admit ", Code.USER_NOT_ALLOWED),
    (" is draining and takes no new application", Code.DRAINING),
)


@final
class AskHistory:
    """Follows one ask through a feed.

    Args:
        app: Its application.
        ask: Its name.

    Attributes:
        app: Its application.
        ask: Its name.
        event: The event that added it, reduced to this one ask under its own name.
        unread: The first invalid events: any of them may have been meant to add the ask.
        names: The names in the feed so far, to find what was meant by one that is unknown.
    """

    def __init__(self, app: str, ask: str) -> None:
        self.app, self.ask = app, ask
        self.event: AddAsk | None = None
        self.unread: list[FeedItem] = []
        self._open: list[_Arrival] = []
        self._arrival_item: FeedItem | None = None
        self._refusals: list[_Refusal] = []
        #: Whether its application was ever let in.
        self._has_app = False
        self._end: Announced | None = None
        self._end_item: FeedItem | None = None
        #: The last event that says that its work could not be started.
        self._failed: FeedItem | None = None
        #: The events of the batch that may end the ask.
        self._enders: list[FeedItem] = []
        self.names = FeedNames(app)
        #: When the ask got the node that it holds, or lost its last one; None if it is not known.
        self._moved_us: int | None = 0
        self._waited = False
        self._before: Hold | None = None

    def begin(self, *, complete: bool) -> None:
        """Begin with the kept records from before a checkpoint.

        Args:
            complete: Whether everything is kept.
        """
        if not complete:
            self._moved_us = None

    def saw(self, item: FeedItem) -> None:
        """Record an event that was submitted."""
        self.names.saw(item)
        if may_end(item, self.app, self.ask):
            self._enders.append(item)
        match item.content:
            case BindFailed(app=self.app, ask=self.ask):
                self._failed = item
            case AddApp(app=self.app):
                self._open.append(_Arrival(item, None))
            case Refused():
                if len(self.unread) < _UNREAD:
                    self.unread.append(item)
            case _:
                ask = self.brought(item)
                if ask is not None:
                    self._open.append(_Arrival(item, ask, isinstance(item.content, Apply)))

    def brought(self, item: FeedItem) -> AddAsk | None:
        """Return the event that adds only the ask, if an item adds it; otherwise None."""
        match item.content:
            case AddAsk() as event:
                asks: Iterable[AddAsk | None] = (event,)
            case Apply(objects):
                pods = (one.content for one in objects)
                asks = [pod.ask for pod in pods if isinstance(pod, PodObject)]
            case _:
                return None
        for ask in asks:
            if ask is not None and ask.app == self.app and _names(ask, self.ask):
                return attrs.evolve(ask, ask=self.ask, count=None)
        return None

    def apply_decisions(self, batch: Sequence[Announced]) -> None:
        """Apply the decisions about the events recorded so far."""
        refused = {
            announced.decision.index: announced.decision
            for announced in batch
            if announced.decision.kind is Kind.REJECTED
        }
        for arrival in self._open:
            decision = refused.get(arrival.item.index)
            if decision is not None:
                message = decision.message or ""
                self._refusals.append(_Refusal(arrival.item, message, arrival.ask is None))
            elif arrival.ask is None:
                self._has_app = True
            elif not (arrival.is_pod and self._is_there):
                self.event, self._arrival_item, self._end = arrival.ask, arrival.item, None
                self._moved_us, self._before = arrival.item.at_us, None
        self._open.clear()
        self._enders = [item for item in self._enders if item.index not in refused]
        for announced in batch:
            decision = announced.decision
            if decision.ask == self.ask and decision.app == self.app:
                self._moves(announced, decision)
        if batch:
            # A later batch of the same instant may still end the ask.
            self._enders = [item for item in self._enders if item.at_us >= batch[-1].at_us]

    @property
    def _is_there(self) -> bool:
        return self.event is not None and self._end is None

    def _moves(self, announced: Announced, decision: Decision) -> None:
        kind = decision.kind
        if kind is Kind.BOUND or kind is Kind.WAITING:
            self._moved_us, self._waited = announced.at_us, kind is Kind.WAITING
        elif kind is Kind.RELEASED:
            self._lost(announced, decision)
            self._moved_us = announced.at_us
            # ONCE-2, ONCE-8
            goes = self.event is not None and self.event.once and not self._waited
            fate = None if decision.reason is None else _OVER.get(decision.reason)
            is_over = goes if fate is Fate.LOST else fate is not None
            self._end = announced if is_over else None
            self._end_item = self._ender(announced)

    def _ender(self, announced: Announced) -> FeedItem | None:
        """Return the event that ended the ask; None if its time was over."""
        reason = announced.decision.reason
        return next(
            (
                item
                for item in self._enders
                if item.at_us == announced.at_us and may_end_for(item, reason)
            ),
            None,
        )

    def _lost(self, announced: Announced, decision: Decision) -> None:
        """Record the node that the ask lost, unless it got and lost it at the same instant."""
        if decision.node is None or decision.reason is None or announced.at_us == self._moved_us:
            return
        if self._moved_us is None:  # since before what is kept
            return
        self._before = Hold(
            decision.node,
            self._moved_us,
            announced.at_us,
            self._waited,
            decision.reason,
            decision.message,
        )

    def whereabouts(
        self,
        seen: AskSnapshot | None,
        queue: str | None,
        since_us: int | None,
        passed: tuple[Passed, ...] = (),
    ) -> Whereabouts:
        """Return the state of the ask.

        Args:
            seen: The ask in the snapshot of its application, or None.
            queue: The path of the queue of its application, or None if there is none.
            since_us: When the ask became pending, in microseconds, or None if it is not.
            passed: The reservations that it did not delay when it got the node that it holds.
        """
        arrival = self._arrival_item
        index, line = (None, None) if arrival is None else (arrival.index, arrival.line)
        if seen is not None:
            held = seen.place in _HOLDING or since_us is None
            since_us = self._moved_us if held else since_us
            fate = Fate(str(seen.place))
            before = None if seen.node is not None else self._before
            return Whereabouts(
                fate,
                since_us,
                seen.node,
                queue,
                index=index,
                line=line,
                before=before,
                passed=passed,
            )
        if self._end is not None and self._end.decision.reason is not None:
            decision = self._end.decision
            fate = _OVER[self._end.decision.reason]
            at_us = self._end.at_us
            return Whereabouts(
                fate,
                at_us,
                decision.node,
                decision.queue,
                message=how_it_ended(
                    self._end_item,
                    self._end.decision.reason,
                    given_up=gives_up(self._end_item, self._failed),
                ),
                index=index,
                line=line,
                ended_by=self._end_item,
            )
        return self._refused() or Whereabouts(Fate.UNKNOWN)

    def _refused(self) -> Whereabouts | None:
        """Return the refusal of the ask, with that of its application if this is the cause."""
        own = next((one for one in reversed(self._refusals) if not one.of_app), None)
        if own is None:
            return None
        code, message = None, own.message
        above = next((one for one in reversed(self._refusals) if one.of_app), None)
        if above is not None and not self._has_app and message.startswith("app: "):
            message = f"{message}, since it was refused: {above.message}"
            unquoted = _QUOTED.sub("", above.message)
            code = next((code for part, code in _CAUSES if part in unquoted), None)
        item = own.item
        return Whereabouts(
            Fate.REFUSED,
            item.at_us,
            message=message,
            code=code,
            index=item.index,
            line=item.line,
        )


def _names(event: AddAsk, name: str) -> bool:
    """Return whether an event adds an ask of this name, without listing all its names."""
    if event.count is None:
        return event.ask == name
    stem, _, number = name.rpartition("-")
    return (
        stem == event.ask
        and number.isascii()
        and number.isdigit()
        and str(int(number)) == number
        and int(number) < event.count
    )
