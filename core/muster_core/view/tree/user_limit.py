"""What a user or a group has of a limit in one queue, as a round sees it (LIMIT-5 to LIMIT-13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar, final

import attrs

from muster_core.structures.totals import add_to, sum_of, take_from
from muster_core.values.snapshots import LimitSnapshot

if TYPE_CHECKING:
    from muster_core.owners.messages.asks import AppIdentity, Ask
    from muster_core.structures.shapes import ShapeTable
    from muster_core.values.configuration.user_limits import LimitEntry
    from muster_core.values.resources import Resources

_NOTHING: Final[Mapping[str, int]] = {}


@final
class LimitKey(NamedTuple):
    """Whose limit it is.

    Attributes:
        queue: The key of the queue that has the limit.
        of_group: Whether it is that of a group.
        name: The user or the group; None for the nameless user.
    """

    queue: int
    of_group: bool
    name: str | None


class Limited(Protocol):
    """What a limit needs of an application."""

    @property
    def identity(self) -> AppIdentity:
        """What never changes about it."""
        ...

    @property
    def allocated(self) -> dict[str, int]:
        """The resources of its bound and waiting asks."""
        ...

    @property
    def running(self) -> bool:
        """Whether it counts for ``maxapplications``."""
        ...

    @property
    def offered(self) -> int:
        """The shapes of its untried asks, allowed or not."""
        ...


A = TypeVar("A", bound=Limited)


@final
@attrs.define(eq=False)
class ViewLimit(Generic[A]):
    """A limit of one user, or of one group, in a queue and all below it.

    Attributes:
        key: Whose limit it is.
        path: The path of its queue.
        entry: What the configuration says.
        apps: The applications that count for it, by key.
        used: The resources of their bound and waiting asks.
        running: How many of them run.
        refuses: The shapes of single asks that do not fit in what is left, while ``stale`` is
            false. Members of gangs that are offered together are tried one by one.
        stale: Whether something has changed since ``refuses`` was computed.
    """

    key: LimitKey
    path: str
    entry: LimitEntry
    apps: dict[int, A] = attrs.field(factory=dict[int, A])
    used: dict[str, int] = attrs.field(factory=dict[str, int])
    running: int = 0
    refuses: int = 0
    stale: bool = True
    #: Whether applications that do not run had to wait when ``refuses`` was computed.
    _is_full: bool = attrs.field(default=False, init=False)
    #: What :meth:`lacking` has returned, until something changes.
    _lacking: int | None = attrs.field(default=None, init=False)

    def add(self, app: A) -> None:
        """Count an application."""
        self.apps[app.identity.key] = app
        add_to(self.used, app.allocated)
        self.running += app.running

    def remove(self, app: A) -> None:
        """Count an application no longer."""
        del self.apps[app.identity.key]
        take_from(self.used, app.allocated)
        self.running -= app.running

    # LIMIT-9
    def admits_more(self, ask: Ask) -> bool:
        """Return whether an ask fits in what is left of ``maxresources``."""
        return self.has_room_for(ask.resources)

    def has_room_for(self, resources: Resources, more: Mapping[str, int] = _NOTHING) -> bool:
        """Return whether resources fit in what is left of ``maxresources``.

        Args:
            resources: The resources.
            more: How much more would be used; less, if negative.
        """
        for name, most in self.entry.max.amounts:
            amount = resources[name]
            if amount and self.used.get(name, 0) + more.get(name, 0) + amount > most:
                return False
        return True

    # LIMIT-13
    @property
    def is_full(self) -> bool:
        """Whether as many applications run as may, so that the others wait."""
        most = self.entry.max_applications
        return 0 < most <= self.running

    def refresh(self, shapes: ShapeTable) -> bool:
        """Compute what is refused; return whether that has changed."""
        self.stale, self._lacking = False, None
        before, was_full = self.refuses, self._is_full
        self.refuses, self._is_full = self._refused(shapes), self.is_full
        return self.refuses != before or self._is_full is not was_full

    def _refused(self, shapes: ShapeTable) -> int:
        return shapes.singles & ~self._fitting(shapes)

    def _fitting(self, shapes: ShapeTable) -> int:
        used = self.used
        room = {name: most - used.get(name, 0) for name, most in self.entry.max.amounts}
        return shapes.fitting_headroom(room)

    def lacking(self, shapes: ShapeTable) -> int:
        """Return the shapes that do not fit in what is left, those of gangs too; perhaps fewer."""
        if self._lacking is None:
            self._lacking = (shapes.singles | shapes.gangs) & ~self._fitting(shapes)
        return self._lacking

    def snapshot(self) -> LimitSnapshot:
        """Return what the user or the group has of it."""
        of_group, name = self.key.of_group, self.key.name
        return LimitSnapshot(
            queue=self.path,
            user=None if of_group else name,
            group=name if of_group else None,
            max=dict(self.entry.max.amounts),
            max_applications=self.entry.max_applications,
            allocated=dict(self.used),
            running=self.running,
        )

    def check(self, shapes: ShapeTable) -> None:
        """Assert the invariants; for tests."""
        # It refuses what it should; shapes that came later are of no ask that counts for it.
        offered = 0
        for app in self.apps.values():
            offered |= app.offered
        assert not (self.refuses ^ self._refused(shapes)) & offered
        assert self._is_full is self.is_full
        # The cached sums equal newly computed ones.
        used = sum_of(app.allocated for app in self.apps.values())
        assert self.used == used
        assert self.running == sum(app.running for app in self.apps.values())
