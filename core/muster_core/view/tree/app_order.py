"""The order of a leaf's applications that are in one state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

import attrs

from muster_core.structures.ranking import Ranked, Ranking
from muster_core.structures.shapes import MaskCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.structures.ranking import Rank


@attrs.define(eq=False)
class Listed(Ranked):
    """What an order needs of an application.

    Its rank has the shapes of the pending asks that were not tried in this round.

    Attributes:
        order: The order that lists it, or None.
        listed: The mask with which that order counts it.
    """

    order: AppOrder[Any] | None = attrs.field(default=None, init=False, repr=False)
    listed: int = attrs.field(default=0, init=False)


A = TypeVar("A", bound=Listed)


@final
class AppOrder(Generic[A]):
    """All and only the applications of a leaf, or of one state in it, that have pending asks."""

    __slots__ = ("counts", "ranking")

    def __init__(self) -> None:
        #: How many applications offer each shape.
        self.counts = MaskCounts()
        #: The applications, with the shapes that they offer.
        self.ranking: Ranking[A] = Ranking()

    @property
    def mask(self) -> int:
        """The shapes that some application of the order offers."""
        return self.counts.mask

    def add(self, app: A, rank: Rank) -> None:
        """List an application that no order lists."""
        app.order, app.listed = self, 0
        self.ranking.add(app, rank)
        self.update(app)

    def remove(self, app: A) -> None:
        """Remove an application from this order."""
        self.ranking.remove(app)
        self.counts.replace(app.listed, 0)
        app.order, app.listed = None, 0

    def move(self, app: A, rank: Rank) -> None:
        """Change the position of an application in this order."""
        self.ranking.move(app, rank)
        if app.mask != app.listed:
            self.counts.replace(app.listed, app.mask)
            app.listed = app.mask

    def update(self, app: A) -> None:
        """Update the shapes with which an application is listed."""
        if app.mask != app.listed:
            self.counts.replace(app.listed, app.mask)
            app.listed = app.mask
            self.ranking.widen(app)

    def best(self, mask: int) -> A | None:
        """Return the first application that offers a shape in ``mask``."""
        return self.ranking.first(mask) if mask & self.mask else None

    def __iter__(self) -> Iterator[A]:
        """Iterate over the applications, best first."""
        return iter(self.ranking)

    def check(self, apps: list[A]) -> None:
        """Assert the invariants, given the applications that should be listed; for tests."""
        assert all(app.order is self and app.listed == app.mask for app in apps)
        self.counts.check(app.mask for app in apps)
        # All are ranked, in order.
        self.ranking.check()
        assert {id(app) for app in self} == {id(app) for app in apps}
