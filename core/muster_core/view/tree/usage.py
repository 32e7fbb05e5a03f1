"""Usage: what a queue or a user of a leaf has had, of which half is forgotten in a half-life.

A tick is the 256th part of a half-life. At the end of each tick a part of the usage is forgotten, and
what was allocated during the tick is added (USAGE-3). Between two batches nothing is allocated or
freed, so that many ticks can end at once, when the next batch begins. What is allocated is looked at
when a batch begins, too, and only of what has changed in the batch before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

from muster_core.structures.amounts import Numbered, Row, Types, add_to, add_to_row, past_share_of
from muster_core.view.facts import UsageFacts
from muster_core.view.tree.application import ViewApp

_TICKS: Final = 256
"""How many ticks a half-life has."""

_KEPT: Final = 4_283_353_945
"""The part of a usage that is left at the end of a tick, of 2 ** 32: half after 256 ticks."""

_NOTHING: Final[Mapping[str, int]] = {}


# USAGE-2
def tick_us(half_life_us: int) -> int:
    """Return the length of a tick, in microseconds."""
    return half_life_us // _TICKS


def ticks_ended(length_us: int, after_us: int, by_us: int) -> int:
    """Return how many ticks ended after one instant, up to another one, in microseconds."""
    return by_us // length_us - after_us // length_us


@final
class Usage:
    """The usage of a queue or a user.

    Attributes:
        used: The usage at the last end of a tick, in base units times microseconds.
        recent: The allocations since then, up to ``since_us``, likewise.
        held: The amounts that are allocated from ``since_us`` on.
        wholes: What the usage of a queue is divided by for its past share; None if not computed yet.
    """

    __slots__ = ("_types", "held", "recent", "since_us", "used", "wholes")

    def __init__(self, types: Types, now_us: int) -> None:
        self._types = types
        self.since_us = now_us
        self.used: Row = []
        self.recent: Row = []
        self.held: Row = []
        self.wholes: Numbered | None = None
        self.lengthen()

    def lengthen(self) -> None:
        """Make the rows as long as there are types now."""
        for row in (self.used, self.recent, self.held):
            self._types.lengthen(row)

    # USAGE-4
    def hold(self, allocated: Row, since_us: int) -> None:
        """Record the allocated amounts from an instant on."""
        self._pass_to(since_us)
        self.held = allocated.copy()

    def _pass_to(self, now_us: int) -> None:
        lasted_us = now_us - self.since_us
        if lasted_us:
            self.lengthen()
            recent = self.recent
            for number, amount in enumerate(self.held):
                recent[number] += amount * lasted_us
            self.since_us = now_us

    # USAGE-3
    def end_ticks(self, length_us: int, after_us: int, by_us: int) -> None:
        """End the ticks that end after one instant, up to another one, in microseconds."""
        more = ticks_ended(length_us, after_us, by_us) - 1
        self._pass_to((after_us // length_us + 1) * length_us)
        self.lengthen()
        used, recent, held = self.used, self.recent, self.held
        for number, before in enumerate(used):
            if before or recent[number] or held[number]:
                left = (before * _KEPT >> 32) + recent[number]
                used[number] = _after(left, held[number] * length_us, more)
                recent[number] = 0
        self.since_us += more * length_us

    def set(self, amounts: Mapping[str, int]) -> None:
        """Replace the usage of some types, in base units times microseconds."""
        numbered = self._types.numbered(amounts)
        self.lengthen()
        for number, amount in numbered:
            self.used[number] = amount

    @property
    def is_nothing(self) -> bool:
        """Whether nothing was allocated that counts still."""
        return not (any(self.used) or any(self.recent))

    def amounts(self) -> dict[str, int]:
        """Return the usage at the last end of a tick by type, without zeros."""
        return self._types.amounts(self.used)

    # CHECKPOINT-4
    def facts(self, queue: int, user: str | None = None) -> UsageFacts:
        """Return it as facts."""
        used, recent = self.amounts(), self._types.amounts(self.recent)
        return UsageFacts(queue, user, tuple(sorted(used.items())), tuple(sorted(recent.items())))

    # CHECKPOINT-5
    def load(self, facts: UsageFacts) -> None:
        """Load it from facts."""
        self.used = self._types.row(dict(facts.used))
        self.recent = self._types.row(dict(facts.recent))


def _after(used: int, held: int, ticks: int) -> int:
    """Return the usage after some ticks in which the same was allocated."""
    for _ in range(ticks):
        before, used = used, (used * _KEPT >> 32) + held
        if used == before:  # So it stays.
            break
    return used


@final
class Clock:
    """The instant of the present or the last batch, in microseconds."""

    __slots__ = ("now_us",)

    def __init__(self) -> None:
        self.now_us = 0


@final
class User:
    """A user of a leaf that counts the usage of its users.

    Attributes:
        allocated: What the applications of the user have allocated in the leaf.
        share: The past share by which these applications are listed.
        apps: The applications of the user in the leaf, by key, each with what it had allocated when
            it was counted.
        listed: Those that have a position in the leaf.
    """

    __slots__ = ("allocated", "apps", "listed", "share", "usage")

    def __init__(self, types: Types, now_us: int) -> None:
        self.usage = Usage(types, now_us)
        self.allocated: Row = []
        types.lengthen(self.allocated)
        self.share = 0.0
        self.apps: dict[int, Mapping[str, int]] = {}
        self.listed: dict[int, ViewApp] = {}


@final
class Users:
    """The users of a leaf, by name; the nameless one has the name ``""``."""

    def __init__(self, types: Types, length_us: int, clock: Clock) -> None:
        self._types = types
        self._clock = clock
        #: The length of a tick, in microseconds.
        self.tick_us = length_us
        self.by_name: dict[str, User] = {}
        #: The users that have other amounts allocated than when the last batch began.
        self.changed: dict[str, User] = {}
        #: What usage is divided by, and of which total and how many types.
        self._wholes: Numbered = ()
        self._total: Mapping[str, int] = _NOTHING
        self._known = 0

    def of(self, name: str) -> User:
        """Return a user, a new one if there is none of this name."""
        user = self.by_name.get(name)
        if user is None:
            user = self.by_name[name] = User(self._types, self._clock.now_us)
            self.changed[name] = user
        return user

    # USAGE-5
    def count(self, app: ViewApp, *, gone: bool = False) -> User:
        """Count what an application has allocated now; return its user."""
        key, name, now = app.identity.key, app.identity.user[0] or "", app.allocated
        user = self.of(name)
        before = user.apps.get(key)
        if before is None:
            before = user.apps[key] = {}
        if gone:
            now = {}
            del user.apps[key]
            user.listed.pop(key, None)
        if before != now or gone:
            more = self._types.change(before, now)
            self._types.lengthen(user.allocated)
            add_to_row(user.allocated, more)
            self.changed[name] = user
            if not gone:
                user.apps[key] = dict(now)
        return user

    # USAGE-7
    def share_of(
        self, user: User, total: Mapping[str, int], more: Mapping[str, int] = _NOTHING
    ) -> float:
        """Return the past share of a user with more allocated amounts (less, if negative)."""
        allocated = user.allocated
        if more:
            numbered = self._types.numbered(more)
            allocated = allocated.copy()
            self._types.lengthen(allocated)
            add_to_row(allocated, numbered)
        if self._total is not total or self._known != len(self._types.names):
            self._total, self._known = total, len(self._types.names)
            self._wholes = wholes_of(total, self._types, self.tick_us)
        self._types.lengthen(user.allocated)
        user.usage.lengthen()
        return past_share_of(user.usage.used, allocated, self.tick_us, self._wholes)

    def renew(self, user: User, total: Mapping[str, int]) -> bool:
        """Compute again the past share of a user; return whether it has changed."""
        before, user.share = user.share, self.share_of(user, total)
        return user.share != before

    def unlist(self, total: Mapping[str, int]) -> None:
        """Forget the positions of applications; compute all past shares again."""
        for user in self.by_name.values():
            user.listed.clear()
            self.renew(user, total)

    def share_for(
        self,
        app: ViewApp,
        total: Mapping[str, int],
        more: Mapping[int, Mapping[str, int]] | None = None,
    ) -> float:
        """Return the past share of the user of an application.

        Args:
            app: The application.
            total: The capacity of all nodes.
            more: How much more applications would have allocated (less, if negative), by key.
        """
        user = self.by_name[app.identity.user[0] or ""]
        own: dict[str, int] = {}
        for key, amounts in (more or {}).items():
            if key in user.apps:
                add_to(own, amounts)
        return self.share_of(user, total, own) if own else user.share

    # USAGE-4
    def hold(self, since_us: int) -> None:
        """Take the allocated amounts from an instant on; forget users without usage."""
        for name, user in self.changed.items():
            user.usage.hold(user.allocated, since_us)
            self._forget_if_idle(name, user)
        self.changed.clear()

    def end_ticks(self, after_us: int, by_us: int) -> None:
        """End ticks; forget users of whom nothing is left."""
        for name, user in list(self.by_name.items()):
            user.usage.end_ticks(self.tick_us, after_us, by_us)
            self._forget_if_idle(name, user)

    def begin(self) -> None:
        """Count the allocated amounts from now on."""
        for user in self.by_name.values():
            user.usage.since_us = self._clock.now_us
        self.changed = dict(self.by_name)

    # USAGE-12
    def _forget_if_idle(self, name: str, user: User) -> None:
        if not user.apps and user.usage.is_nothing:
            self.by_name.pop(name, None)

    def facts(self, queue: int, now_us: int) -> Iterator[UsageFacts]:
        """Iterate over what must be kept of users of whom there is any usage, up to an instant."""
        for name, user in sorted(self.by_name.items()):
            user.usage.hold(user.allocated, now_us)
            if not user.usage.is_nothing:
                yield user.usage.facts(queue, name)


# USAGE-7
def wholes_of(total: Mapping[str, int], types: Types, length_us: int, weight: int = 1) -> Numbered:
    """Return the divisors of usage, for each known type of which the partition has some."""
    there = ((number, total.get(name, 0)) for number, name in enumerate(types.names))
    return tuple((number, amount * length_us * weight) for number, amount in there if amount > 0)
