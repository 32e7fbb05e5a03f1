"""Aging: the order of a leaf in which pending asks gain priority with time (AGING-1 to AGING-8).

Time advances in *ticks* of the leaf's ``priority.aging``. In each tick an ask gains one, until it
reaches its *ceiling*. Asks below their ceilings age in step, and those at their ceilings stay: so
the order of two asks changes only where one that ages comes up to the ceiling of others, or passes
it. Therefore a pending ask has a *level* in place of its priority, which stays the same meanwhile.
In a tick only the asks have to be sorted again that come up to a ceiling, or have just passed it,
and these are known beforehand.

A level is the highest ceiling that an ask has come up to, and behind it the value that the ask would
have had at tick 0. An ask that is exactly at a ceiling has nothing behind it. At a given tick levels
have the order of the present priorities, and equal ones where these are equal.

Asks of one priority that came in the same tick form a *cohort*, and those of one priority that are
at their ceiling form one too. All of a cohort have the same level.

Not every ask needs one. A plain ask that came before another one of its application, and has no lower
priority, is never behind it, however long they wait. So asks of one shape form *lines*, and only the
first of each that a round may try has a cohort. The others have a rank behind all levels, and come
up one by one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterator, Set
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final, final

import attrs

from muster_core.nodes.node import Holder
from muster_core.owners.asks import Ask
from muster_core.structures.shapes import Shape
from muster_core.values.configuration import Settings
from muster_core.values.priority import MIN_PRIORITY, most_growth
from muster_core.values.records import MAP
from muster_core.view.tree.application import ViewApp

_SHIFT: Final = 72
"""How many bits a level has behind its ceiling: more than an instant in microseconds."""

_ZERO: Final = 1 << (_SHIFT - 1)
_BEHIND: Final = (1 << _SHIFT) - 1

_LOWEST: Final = MIN_PRIORITY - 1
"""A ceiling below all priorities."""

_IN_LINE: Final = 1 << (2 * _SHIFT)
"""The rank of an ask that has not come up in its line: behind all levels."""

_STALE: Final = 64
"""How many more entries than twice the cohorts a list may have."""

_CohortKey = tuple[int, int | None]
"""The priority of the asks of a cohort, and the tick in which they came; None at the ceiling."""


@final
@attrs.define(eq=False)
class _Cohort:
    """Pending asks of one priority that have the same age.

    Attributes:
        priority: Their own priority.
        began: The tick from which they age; None if they are at their ceiling.
        floor: The highest known ceiling that they have come up to.
        due: The next tick in which their level changes, as far as known.
        members: Their applications, by the keys of these and the names of the asks.
    """

    priority: int
    began: int | None
    ceiling: int
    floor: int = _LOWEST
    level: int = 0
    due: int | None = None
    members: dict[Holder, ViewApp] = attrs.field(factory=MAP)

    @property
    def key(self) -> _CohortKey:
        """Its key."""
        return self.priority, self.began

    def value(self, tick: int) -> int:
        """Return the priority of its asks at a tick."""
        return self.ceiling if self.began is None else self.priority + tick - self.began


_LineKey = tuple[int, Shape, bool]
"""The application of the asks in a line, their shape, and whether they were bound."""


@final
@attrs.define(eq=False)
class _Line:
    """Plain pending asks of one application in an order that does not change with time.

    Attributes:
        priority: The priority of the last one that has joined.
        began: The tick from which that one ages.
        place: The place of that one, without its rank.
        behind: The names of those that have not come up, in order. The one before them has.
    """

    key: _LineKey
    priority: int
    began: int
    place: tuple[int, str, int, int]
    behind: OrderedDict[str, None] = attrs.field(factory=OrderedDict[str, None])


_LAST_PRIORITY: Final = attrgetter("priority")


def as_it_came(ask: Ask) -> Ask:
    """Return an ask with its own priority as its rank, as its owner has it."""
    return ask._replace(rank=-ask.priority)


@final
class AgingOrder:
    """The levels of the pending asks of a leaf.

    Args:
        settings: Those of the leaf.
        now_us: The present instant, in microseconds.
    """

    def __init__(self, settings: Settings, now_us: int) -> None:
        self._period_us, self._limit = settings.aging_us, settings.aging_limit
        self._tick = now_us // self._period_us
        #: All known ceilings, in order; no other level changes as an ask passes.
        self._ceilings = [_LOWEST]
        #: The ceilings that will be known from the next tick on.
        self._new: set[int] = set()
        #: All cohorts with asks; and by the highest ceiling that they have come up to.
        self._cohorts: dict[_CohortKey, _Cohort] = {}
        self._from: dict[int, dict[_CohortKey, _Cohort]] = {_LOWEST: {}}
        #: The cohort of each pending ask that has one.
        self._of: dict[Holder, _Cohort] = {}
        #: All lines, those of one key by the priority of the last ask, which differ; and those of
        #: the asks that have not come up, and of the one before them.
        self._lines: dict[_LineKey, list[_Line]] = {}
        self._line_of: dict[Holder, _Line] = {}
        #: The ticks in which levels change, each with a cohort, and perhaps others.
        self._due: list[tuple[int, _CohortKey]] = []

    # AGING-2
    def priority(self, app: ViewApp, ask: Ask) -> int:
        """Return the present priority of an ask that is not bound."""
        grown = self._tick - app.pending_since_us(ask) // self._period_us
        return ask.priority + min(most_growth(self._limit, ask.priority), grown)

    def priority_at(self, level: int) -> int:
        """Return the present priority of the asks that have a level."""
        behind = level & _BEHIND
        return level >> _SHIFT if not behind else behind - _ZERO + self._tick

    def rank(self, app: ViewApp, ask: Ask) -> int:
        """Return the present rank of an ask that is not bound among those of the leaf."""
        cohort = self._of.get((app.identity.key, ask.name))
        if cohort is not None:
            return -cohort.level
        _, level = self._place_of(self.priority(app, ask))
        return -level

    def ranked(self, app: ViewApp, ask: Ask) -> Ask:
        """Return an ask that is not bound with its present rank."""
        return ask._replace(rank=self.rank(app, ask))

    def end_us(self, app: ViewApp, ask: Ask, priority: int) -> int | None:
        """Return when an ask that is not bound has a priority, in microseconds; None if never."""
        if priority > ask.priority + most_growth(self._limit, ask.priority):
            return None
        began = app.pending_since_us(ask) // self._period_us
        return max(self._tick, began + priority - ask.priority) * self._period_us

    def _place_of(self, value: int) -> tuple[int, int]:
        """Return the highest ceiling that a present priority is up to, and its level."""
        floor = self._ceilings[bisect_right(self._ceilings, value) - 1]
        behind = 0 if floor == value else _ZERO + value - self._tick
        return floor, (floor << _SHIFT) + behind

    def enter(self, app: ViewApp, ask: Ask) -> Ask:
        """Add an ask that becomes pending; return it with its rank."""
        name = ask.name
        if ask.gang is None and name not in app.backing_off:
            owner, priority = app.identity.key, ask.priority
            key = owner, ask.shape, name in app.since_us
            began, place = app.pending_since_us(ask) // self._period_us, ask.order[1:]
            lines = self._lines.setdefault(key, [])
            at = bisect_left(lines, priority, key=_LAST_PRIORITY)
            if at == len(lines):
                lines.append(_Line(key, priority, began, place))
                self._line_of[owner, name] = lines[at]
            elif began >= lines[at].began and place > lines[at].place:
                line = self._line_of[owner, name] = lines[at]
                line.priority, line.began, line.place = priority, began, place
                line.behind[name] = None
                return ask._replace(rank=_IN_LINE)
        return self._come_up(app, ask)

    def _come_up(self, app: ViewApp, ask: Ask) -> Ask:
        growth = most_growth(self._limit, ask.priority)
        began: int | None = app.pending_since_us(ask) // self._period_us
        assert began is not None, "an ask has no instant"
        if self._tick - began >= growth:
            began = None
        key = app.identity.key, ask.name
        cohort = self._of[key] = self._cohort(ask.priority, began, ask.priority + growth)
        cohort.members[key] = app
        return ask._replace(rank=-cohort.level)

    def leave(self, app: ViewApp, name: str) -> None:
        """Remove an ask that is no longer pending."""
        key = app.identity.key, name
        cohort = self._of.pop(key, None)
        if cohort is None:
            del self._line_of.pop(key).behind[name]
            return
        del cohort.members[key]
        if not cohort.members:
            self._drop(cohort)

    def next_up(self, app: ViewApp, name: str) -> Iterator[Ask]:
        """Let asks of a line come up as one is not offered any longer.

        Returns:
            These asks with their ranks, to be taken over one by one. None comes up if another one
            in the line is still offered.
        """
        key = app.identity.key, name
        line = self._line_of.get(key)
        if line is None or name in line.behind:
            return
        del self._line_of[key]
        while line.behind:
            name, _ = line.behind.popitem(last=False)
            yield self._come_up(app, app.pending[name])
            if app.has_untried(app.pending[name]):
                return
            del self._line_of[app.identity.key, name]
        self._lines[line.key].remove(line)
        if not self._lines[line.key]:
            del self._lines[line.key]

    def next_without(self, app: ViewApp, names: Set[str]) -> Iterator[Ask]:
        """Yield the asks that would come up without some of their application, with their ranks."""
        found = (self._line_of.get((app.identity.key, name)) for name in names)
        for line in {id(line): line for line in found if line is not None}.values():
            name = next((name for name in line.behind if name not in names), None)
            if name is not None:
                yield self.ranked(app, app.pending[name])

    def _cohort(self, priority: int, began: int | None, ceiling: int) -> _Cohort:
        cohort = self._cohorts.get((priority, began))
        if cohort is None:
            cohort = self._cohorts[priority, began] = _Cohort(priority, began, ceiling)
            self._place(cohort)
            if ceiling not in self._from:
                self._new.add(ceiling)
        return cohort

    def _drop(self, cohort: _Cohort) -> None:
        del self._cohorts[cohort.key], self._from[cohort.floor][cohort.key]

    def _place(self, cohort: _Cohort) -> None:
        """Find the level of a cohort, and when it changes."""
        value = cohort.value(self._tick)
        cohort.floor, cohort.level = self._place_of(value)
        self._from[cohort.floor][cohort.key] = cohort
        if cohort.began is None:
            return
        above = bisect_right(self._ceilings, value)
        if cohort.floor == value:
            due = self._tick + 1
        elif above < len(self._ceilings):
            due = self._tick + self._ceilings[above] - value
        else:  # Its own ceiling will be known at the next tick.
            return
        if due != cohort.due:
            cohort.due = due
            heappush(self._due, (due, cohort.key))

    # AGING-5
    def advance(self, now_us: int) -> Iterator[tuple[ViewApp, Ask]] | None:
        """Advance to an instant, in microseconds.

        Returns:
            The asks whose ranks have changed, as they are now, to be taken over one by one; None
            if no tick has passed.
        """
        tick = now_us // self._period_us
        if tick == self._tick:
            return None
        self._tick = tick
        return self._changed()

    def _changed(self) -> Iterator[tuple[ViewApp, Ask]]:
        touched = self._touched()
        for cohort in touched.values():
            before, now = cohort.level, cohort
            del self._from[cohort.floor][cohort.key]
            if cohort.began is not None and cohort.value(self._tick) >= cohort.ceiling:
                now = self._settle(cohort)
            else:
                self._place(cohort)
            if now.level != before:
                for key, app in cohort.members.items():
                    ask = app.pending_ask(key[1])
                    assert ask is not None, "an ask ages that is not pending"
                    yield app, ask._replace(rank=-now.level)

    def _touched(self) -> dict[_CohortKey, _Cohort]:
        """Make new ceilings known; return the cohorts whose levels may have changed."""
        touched: dict[_CohortKey, _Cohort] = {}
        for ceiling in self._new:
            below = self._ceilings[bisect_right(self._ceilings, ceiling) - 1]
            touched.update(self._from[below])
            if below != ceiling:
                insort(self._ceilings, ceiling)
                self._from[ceiling] = {}
        self._new.clear()
        if len(self._ceilings) > 2 * len(self._cohorts) + _STALE:
            self._forget_ceilings()
            touched = dict(self._cohorts)
        while self._due and self._due[0][0] <= self._tick:
            due, key = heappop(self._due)
            cohort = self._cohorts.get(key)
            if cohort is not None and cohort.due == due:
                touched[key] = cohort
        if len(self._due) > 2 * len(self._cohorts) + _STALE:
            self._due = [(one.due, key) for key, one in self._cohorts.items() if one.due]
            heapify(self._due)
        return touched

    def _forget_ceilings(self) -> None:
        """Know only the ceilings of present asks."""
        self._ceilings = [_LOWEST, *sorted({one.ceiling for one in self._cohorts.values()})]
        self._from = {ceiling: {} for ceiling in self._ceilings}
        for key, cohort in self._cohorts.items():
            cohort.floor = _LOWEST
            self._from[_LOWEST][key] = cohort

    def _settle(self, cohort: _Cohort) -> _Cohort:
        """Let the asks of a cohort stay at their ceiling; return the cohort that has them then."""
        del self._cohorts[cohort.key]
        settled = self._cohort(cohort.priority, None, cohort.ceiling)
        settled.members.update(cohort.members)
        self._of.update(dict.fromkeys(cohort.members, settled))
        return settled

    def check(self, pending: dict[Holder, tuple[ViewApp, Ask]]) -> None:
        """Assert the invariants, given the pending asks of the leaf; for tests."""
        # Each pending ask has a cohort, with others of its priority and age, or has not come up.
        in_line = {key for key, line in self._line_of.items() if key[1] in line.behind}
        assert pending.keys() == self._of.keys() ^ in_line
        members = [key for cohort in self._cohorts.values() for key in cohort.members]
        assert sorted(members) == sorted(self._of)
        self._check_lines(pending)
        assert self._ceilings == sorted(self._from)
        known = [one for cohorts in self._from.values() for one in cohorts.values()]
        assert {id(one) for one in known} == {id(one) for one in self._cohorts.values()}
        assert len(known) == len(self._cohorts)
        for key, cohort in self._of.items():
            app, ask = pending[key]
            assert cohort.members[key] is app
            assert self._cohorts[cohort.key] is cohort
            assert self._from[cohort.floor][cohort.key] is cohort
            # The level is the one of the present priority.
            value = self.priority(app, ask)
            assert cohort.value(self._tick) == value
            assert -ask.rank == cohort.level
            assert self.priority_at(cohort.level) == value
            assert (cohort.floor, cohort.level) == self._place_of(value)

    def _check_lines(self, pending: dict[Holder, tuple[ViewApp, Ask]]) -> None:
        # One ask before each line has come up, and none of the line is before it.
        up = {id(line): key for key, line in self._line_of.items() if key[1] not in line.behind}
        known = [line for lines in self._lines.values() for line in lines]
        assert sorted(up) == sorted(map(id, known))
        assert len(self._line_of) == sum(1 + len(line.behind) for line in known)
        for lines in self._lines.values():
            last = [line.priority for line in lines]
            assert last == sorted(set(last)) != []
        for line in known:
            assert any(one is line for one in self._lines[line.key])
            assert up[id(line)] in self._of
            names = [up[id(line)][1], *line.behind]
            (app, _), *_ = asks = [pending[line.key[0], name] for name in names]
            assert all(ask.rank == _IN_LINE for _, ask in asks[1:])
            assert all(name in app.pending for name in names)
            assert all(ask.shape == line.key[1] for _, ask in asks)
            places = [(-self.priority(app, ask), *ask.order[1:]) for _, ask in asks]
            assert places == sorted(places)
