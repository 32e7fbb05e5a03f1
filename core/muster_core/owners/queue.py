"""The state machine of a queue, and its messages: settings, values of children, priority.

Leaves and parents are the same here: the children of a leaf are applications, those of a parent
are queues, and only their :class:`Values` count. The queue's ``currentPriority`` is cached; a
change below marks it as stale, and it is computed again when it is next needed. A queue reports
once in an epoch, after all expected children have reported, so that many changes below it cost
one computation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never, final

import attrs

from muster_core.owners.app_messages import NO_VALUES, AppReport, Values
from muster_core.structures.amounts import replace_in, sum_of
from muster_core.structures.ranking import PriorityTally
from muster_core.structures.steps import Steps, freed
from muster_core.values.configuration import QueueConfig
from muster_core.values.priority import current_priority, highest
from muster_core.values.records import LIST, MAP, record
from muster_core.values.snapshots import QueueSnapshot


@final
@record
class QueueSummary:
    """The state of a queue in a report."""

    key: int
    parent: int | None
    config: QueueConfig
    draining: bool
    values: Values
    priority: int | None
    gone: bool


@final
@record
class QueueReport:
    """All changes of a queue and everything below it in an epoch.

    Attributes:
        apps: The reports of its applications, in the order of arrival.
        below: The reports of its child queues, in the order of arrival.
    """

    epoch: int
    summary: QueueSummary
    apps: tuple[AppReport, ...]
    below: tuple[QueueReport, ...]

    @property
    def gone(self) -> bool:
        """Whether the reporting queue no longer exists."""
        return self.summary.gone


@final
@record
class SetQueue:
    """Replace the queue's settings."""

    config: QueueConfig
    draining: bool


@final
@record
class Retire:
    """Remove the queue, which is empty."""


@final
@record
class QueueFacts:
    """What a queue owns and cannot compute, between two batches.

    Attributes:
        recomputations: How often its ``currentPriority`` was computed so far.
        stale: Whether the next one who needs its ``currentPriority`` computes it again.
    """

    key: int
    parent: int | None
    config: QueueConfig
    draining: bool
    recomputations: int
    stale: bool


@final
@record
class LoadQueue:
    """Be as these facts say; the first message to a queue that is loaded."""

    facts: QueueFacts


@final
@record
class CommitQueue:
    """The new values of children of the queue, by their keys; None for those that are gone.

    Attributes:
        children: The values.
        anew: Whether its priority counts as never computed, as aging has ended below: it has
            got priorities that had grown, at instants that are forgotten.
    """

    children: Mapping[int, Values | None]
    anew: bool = False


@final
@record
class Expect:
    """Expect this many reports of children for an epoch, and then report."""

    epoch: int
    children: int


ToQueue = SetQueue | Retire | LoadQueue | CommitQueue | Expect | AppReport | QueueReport
"""All messages to a queue."""


@final
@attrs.define(eq=False)
class QueueMachine:
    """One queue."""

    key: int
    parent: int | None
    _config: QueueConfig
    _draining: bool = attrs.field(default=False, init=False)
    _gone: bool = attrs.field(default=False, init=False)
    #: The values of all and only the children, by key.
    _children: dict[int, Values] = attrs.field(factory=MAP, init=False)
    #: The priorities of the children with pending asks.
    _tally: PriorityTally = attrs.field(factory=PriorityTally, init=False)
    #: The sum of the pending resources of the children; no zeros.
    _pending: dict[str, int] = attrs.field(factory=MAP, init=False)
    #: The sum of the allocated resources of the children; no zeros.
    _allocated: dict[str, int] = attrs.field(factory=MAP, init=False)
    #: The cached ``currentPriority``; valid unless ``_stale`` is set.
    _priority: int | None = attrs.field(default=None, init=False)
    _stale: bool = attrs.field(default=True, init=False)
    _recomputations: int = attrs.field(default=0, init=False)
    #: The reports of children in the present epoch so far.
    _app_reports: list[AppReport] = attrs.field(factory=LIST, init=False)
    _queue_reports: list[QueueReport] = attrs.field(factory=LIST, init=False)
    #: What the queue was loaded from, until it has reported for the first time.
    _loaded: QueueFacts | None = attrs.field(default=None, init=False)
    #: The epoch to report, once its :class:`Expect` has arrived.
    _expected: Expect | None = attrs.field(default=None, init=False)

    @property
    def path(self) -> str:
        """Its full path."""
        return self._config.path

    def handle(self, message: ToQueue) -> QueueReport | None:
        """Handle a message.

        Args:
            message: The next message; messages of one sender arrive in the order of sending.

        Returns:
            The report of the epoch if this message completes it, otherwise None.
        """
        match message:
            case CommitQueue():
                for key, values in message.children.items():
                    self._set_child_values(key, values or NO_VALUES, gone=values is None)
                # AGING-7
                if message.anew:
                    self._recomputations, self._stale = 0, True
            case AppReport():
                self._app_reports.append(message)
                self._set_child_values(message.identity.key, message.values, gone=message.gone)
                return self._report_if_complete()
            case Expect():
                self._expected = message
                return self._report_if_complete()
            case QueueReport():
                self._queue_reports.append(message)
                summary = message.summary
                self._set_child_values(summary.key, summary.values, gone=summary.gone)
                return self._report_if_complete()
            case SetQueue():
                self._config, self._draining = message.config, message.draining
                self._stale = True
            case Retire():
                self._gone = True
            case LoadQueue(facts):
                self._draining, self._loaded = facts.draining, facts
            case _:
                assert_never(message)
        return None

    def _set_child_values(self, key: int, values: Values, *, gone: bool) -> None:
        if gone:
            before, values = self._children.pop(key, NO_VALUES), NO_VALUES
        else:
            before = self._children.get(key, NO_VALUES)
            self._children[key] = values
        if before.pending != values.pending:
            replace_in(self._pending, before.pending, values.pending)
        if before.allocated != values.allocated:
            replace_in(self._allocated, before.allocated, values.allocated)
        if before.priority != values.priority:
            self._tally.replace(before.priority, values.priority)
            self._stale = True

    def _report_if_complete(self) -> QueueReport | None:
        expected = self._expected
        if expected is None:
            return None
        if len(self._app_reports) + len(self._queue_reports) < expected.children:
            return None
        apps, below = tuple(self._app_reports), tuple(self._queue_reports)
        report = QueueReport(expected.epoch, self.summary(), apps, below)
        self._app_reports.clear()
        self._queue_reports.clear()
        self._expected = None
        # CHECKPOINT-5
        if self._loaded is not None:
            # It has computed its priority only to report the loaded state: this does not count.
            self._recomputations, self._stale = self._loaded.recomputations, self._loaded.stale
            self._loaded = None
        return report

    # CHECKPOINT-2
    def facts(self) -> QueueFacts:
        """Return the facts that the queue owns. Between two batches."""
        return QueueFacts(
            key=self.key,
            parent=self.parent,
            config=self._config,
            draining=self._draining,
            recomputations=self._recomputations,
            stale=self._stale,
        )

    # PRIORITY-19
    def current_priority(self) -> int | None:
        """Return the ``currentPriority``; it is computed again only if it is stale."""
        if self._stale:
            self._recomputations += 1
            self._priority = current_priority(
                self._config.settings, self._tally.top(), is_root=self.parent is None
            )
            self._stale = False
        return self._priority

    def values(self) -> Values:
        """Return the values that the queue adds to its parent."""
        # PRIORITY-14
        counted = self.current_priority() if self._pending else None
        return Values(counted, dict(self._pending), dict(self._allocated))

    def summary(self) -> QueueSummary:
        """Return the state of the queue for a report."""
        return QueueSummary(
            key=self.key,
            parent=self.parent,
            config=self._config,
            draining=self._draining,
            values=self.values(),
            priority=self.current_priority(),
            gone=self._gone,
        )

    def snapshot(self) -> QueueSnapshot:
        """Return a snapshot of the queue."""
        return QueueSnapshot(
            key=self.key,
            path=self._config.path,
            draining=self._draining,
            priority=self.current_priority(),
            allocated=dict(self._allocated),
            pending=dict(self._pending),
            recomputations=self._recomputations,
            children=len(self._children),
        )

    def free(self) -> Steps[None]:
        """Free the memory in steps, when the scheduler ends; nothing may follow."""
        return freed(self._children)

    def check(self) -> None:
        """Assert the invariants; for tests."""
        children = self._children.values()
        # A child has a priority if and only if anything is pending in it.
        assert all((child.priority is None) == (not child.pending) for child in children)
        # The sums and the maximum are the recomputed ones.
        assert self._pending == sum_of(child.pending for child in children)
        assert self._allocated == sum_of(child.allocated for child in children)
        self._tally.check()
        top = highest(child.priority for child in children)
        assert self._tally.top() == top
        # The cached priority is the recomputed one, unless it is stale.
        fresh = current_priority(self._config.settings, top, is_root=self.parent is None)
        assert self._stale or self._priority == fresh
