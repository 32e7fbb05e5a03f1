"""What decisions change in the ledger: nodes are taken and given back, states follow each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from muster.service.ledger.entries import StartFailure
from muster.service.ledger.ring import What
from muster_core.decisions import Kind, Reason

if TYPE_CHECKING:
    from muster._runtime.passing import PassedByAsk
    from muster.service.ledger.book import Book
    from muster.service.ledger.entries import AppEntry, AskEntry
    from muster_core.decisions import Announced, Decision

# Looking up a member of an enum takes ten times as long.
_BOUND: Final = Kind.BOUND
_WAITING: Final = Kind.WAITING
_RELEASED: Final = Kind.RELEASED
_APP_STATE: Final = Kind.APP_STATE
_ALLOCATED: Final = int(What.ALLOCATED)
_NODE_TAKEN: Final = int(What.NODE_TAKEN)
_NODE_FREED: Final = int(What.NODE_FREED)
_TOLD: Final = int(What.TOLD)
_ASK_REMOVED: Final = int(What.ASK_REMOVED)
_CANCELLED: Final = int(What.CANCELLED)
_COMPLETED: Final = Reason.COMPLETED
_WAS_CANCELLED: Final = Reason.CANCELLED
_REMOVED: Final = Reason.REMOVED
_FAILED: Final = Reason.FAILED
_BIND_FAILED: Final = Reason.BIND_FAILED

_STATES: Final = {
    "Accepted": int(What.APP_ACCEPTED),
    "Running": int(What.APP_RUNNING),
    "Completing": int(What.APP_COMPLETING),
    "Completed": int(What.APP_COMPLETED),
}

_FREED: Final = {
    Reason.PREEMPTED: int(What.PREEMPTED),
    Reason.RECLAIMED: int(What.PREEMPTED),
    Reason.GANG_ROLLBACK: int(What.TIMED_OUT),
    Reason.GANG_TIMEOUT: int(What.TIMED_OUT),
    Reason.DEADLOCK: int(What.TIMED_OUT),
    Reason.NODE_LOST: int(What.NODE_LOST),
}
"""What a release from a node is, by its reason; any other is cancelled."""

_VICTIMS: Final = {
    Reason.PREEMPTED: "preempted on {node}: an ask of a class that preempts took its place",
    Reason.RECLAIMED: "reclaimed on {node}: a queue below its guaranteed resources took its place",
}
"""What is told of a victim, by the reason."""


def _is_over(reason: Reason | None) -> bool:
    """Return whether an ask that was released for a reason is gone, if its work has not failed."""
    return reason is _COMPLETED or reason is _REMOVED or reason is _WAS_CANCELLED


@final
class Outcomes:
    """Takes up the decisions of a batch, in order, after its events.

    Args:
        book: What is known.
        passed: Which reservations asks did not delay when they got a node in the batch.
    """

    def __init__(self, book: Book, passed: PassedByAsk) -> None:
        self._book = book
        self._passed = passed

    def take(self, announced: Announced) -> None:
        """Take up a decision."""
        decision, at_us = announced.decision, announced.at_us
        kind = decision.kind
        if kind is _BOUND or kind is _WAITING:
            self._placed(decision, at_us, is_bound=kind is _BOUND)
        elif kind is _RELEASED:
            self._released(decision, announced.seq, at_us)
        elif kind is _APP_STATE:
            self._entered(decision, at_us)

    def end(self, at_us: int) -> None:
        """End a batch: everything was said about the asks and applications that have ended."""
        book = self._book
        for name in list(book.leaving):
            while name in book.leaving:
                book.let_go(name, at_us)
        if book.ended:  # Nothing was said about them, which is not to be expected.
            for others in book.ended.values():
                for app, entry, _ in others:
                    if entry.node is not None:
                        book.give_back(app, entry, at_us)
            book.ended.clear()
            book.is_stale = True

    def _find(self, decision: Decision) -> tuple[AppEntry, AskEntry] | None:
        """Return the ask that a decision is about, with its application."""
        book = self._book
        name, ask = decision.app or "", decision.ask or ""
        if book.ended:
            ended = book.ended.get((name, ask))
            if ended is not None:
                return ended[0][:2]
        app = book.apps.get(name)
        entry = None if app is None else app.asks.get(ask)
        if app is None or entry is None:
            book.is_stale = True
            return None
        return app, entry

    def _placed(self, decision: Decision, at_us: int, *, is_bound: bool) -> None:
        found = self._find(decision)
        if found is None:
            return
        app, entry = found
        node = decision.node or ""
        if entry.node is None:
            book = self._book
            book.take(app, entry, node, at_us)
            counts = book.counts
            counts.allocated += 1
            counts.of(app.queue).allocated += 1
            if book.ring.is_open:
                name, ask = entry.event.app, decision.ask or ""
                amounts = entry.event.wanted.amounts
                book.ring.add_two(
                    (_ALLOCATED, at_us, name, ask, amounts, ""),
                    (_NODE_TAKEN, at_us, node, ask, amounts, ""),
                )
        if self._passed:
            # OUTLOOK-8: Who waited for its gang has passed them before it was bound.
            passed = self._passed.get((decision.app or "", decision.ask or ""))
            entry.passed = passed or entry.passed
        if is_bound:
            self._book.bind(entry, at_us)
            if entry.since_us is not None:
                self._book.history.series.note_wait(at_us - entry.since_us)
            if app.ran_us is None:
                app.ran_us = at_us

    def _released(self, decision: Decision, seq: int, at_us: int) -> None:
        found = self._find(decision)
        if found is None:
            return
        app, entry = found
        book = self._book
        if decision.node is None:
            self._say(_ASK_REMOVED, decision, entry, at_us)
        else:
            self._freed(decision, app, entry, at_us)
        if self._end(decision, app):
            book.lives.end(seq, at_us, decision, app, entry)
            if entry.node is not None:
                book.give_back(app, entry, at_us)
        elif decision.node is not None:
            if entry.node is not None:
                book.lose(app, entry, at_us)
            entry.since_us = at_us

    def _end(self, decision: Decision, app: AppEntry) -> bool:
        """Forget an ask, if it is gone; return whether it is."""
        book, reason = self._book, decision.reason
        if not _is_over(reason) and reason is not _FAILED:
            return False  # It wants a node again.
        name, ask = decision.app or "", decision.ask or ""
        ended = book.ended.get((name, ask)) if book.ended else None
        if ended is not None:
            if ended[0][2] is not reason:
                return False
            ended.pop(0)
            if not ended:
                del book.ended[name, ask]
            return True
        if reason is _FAILED:  # Without a retry left, the event has ended it.
            return False
        del app.asks[ask]
        book.history.series.asks -= 1
        return True

    def _freed(self, decision: Decision, app: AppEntry, entry: AskEntry, at_us: int) -> None:
        """Count and tell that an ask has left its node."""
        book, reason, node = self._book, decision.reason, decision.node or ""
        counts = book.counts
        if reason is _BIND_FAILED:
            counts.failed_binds += 1
            if decision.message is not None:
                failure = StartFailure(node, decision.message)
                book.note_failure(decision.app or "", decision.ask or "", failure)
        elif book.failures and reason is not _REMOVED:
            book.failures.pop((decision.app or "", decision.ask or ""), None)
        if entry.node is not None:
            counts.released += 1
            counts.of(app.queue).released += 1
        if not book.ring.is_open:
            return
        is_over = _is_over(reason)
        what = _CANCELLED if is_over or reason is None else _FREED.get(reason, _CANCELLED)
        self._say(what, decision, entry, at_us)
        name, ask, amounts = decision.app or "", decision.ask or "", entry.event.wanted.amounts
        book.ring.add(_NODE_FREED, at_us, node, ask, amounts)
        victim = None if is_over or reason is None else _VICTIMS.get(reason)
        if victim is not None:
            book.ring.add(_TOLD, at_us, ask, name, amounts, victim.format(node=node))

    def _say(self, what: int, decision: Decision, entry: AskEntry, at_us: int) -> None:
        if self._book.ring.is_open:
            app, ask, amounts = decision.app or "", decision.ask or "", entry.event.wanted
            # The reason is a text; to make it a plain one would take as long as all the rest.
            self._book.ring.add(what, at_us, app, ask, amounts.amounts, decision.reason or "")

    def _entered(self, decision: Decision, at_us: int) -> None:
        """Take up the new state of an application."""
        book = self._book
        name, state = decision.app or "", decision.state or ""
        if state == "New":
            self._came(name, decision.queue or "", at_us)
            return
        app = book.app_of(name)
        if app is None:
            book.is_stale = True
            return
        app.queue = decision.queue or app.queue
        book.enter(app, state, at_us)
        if state in _STATES:
            book.ring.add(_STATES[state], at_us, name)
        if state == "Accepted":
            book.counts.accepted_apps += 1
        elif state == "Completed":
            book.counts.completed_apps += 1
            book.counts.of(app.queue).completed += 1
            if book.apps.get(name) is app:
                del book.apps[name]
                app.account.apps -= 1
                book.complete(app)
                book.say_gone(app, at_us)

    def _came(self, name: str, queue: str, at_us: int) -> None:
        """Take up that an application is new."""
        book = self._book
        while name in book.leaving:
            first = book.leaving[name][0]
            if first.came_us == at_us and not first.states:
                break  # It has come and gone in this batch.
            book.let_go(name, at_us)
        app = book.app_of(name)
        if app is None:
            book.is_stale = True
            return
        app.queue = queue
        app.states.append((at_us, "New"))
        book.counts.new_apps += 1
        book.ring.add(What.QUEUE_APP_CAME, at_us, queue, name)
