"""How asks come to be, and in which order they are."""

from __future__ import annotations

from itertools import product

from muster_core.owners.app_messages import AddAsks
from muster_core.owners.ask_moves import asks_of
from muster_core.owners.asks import Ask, Origin
from tests.core.admission.objects import members
from tests.core.building import wish


def of(
    seq: int, priority: int = 0, *, event: int | None = None, gang: str | None = None
) -> list[Ask]:
    """Give two asks that come in one event."""
    name = f"x{seq}"
    says = wish(name=name, count=2) if gang is None else members(gang, name, 2)
    return list(asks_of(AddAsks(Origin(seq, event=event), says, priority)).values())


def test_an_ask_says_by_name_what_its_place_is_made_of() -> None:
    first, second = of(7, 3, event=5, gang="g")

    assert (second.rank, second.creation, second.group) == (-3, 5, second.gang)
    assert (first.seq, second.seq) == (7, 7)
    assert (first.number, second.number) == (0, 1)
    assert second.order == (-3, 5, second.gang, 7, 1)


def test_the_place_of_a_member_has_the_creation_of_its_gang() -> None:
    ask, _ = of(7, 3, gang="g")

    assert ask.order_in(2) == (-3, 2, ask.group, 7, 0)
    assert ask.order_in(0) == (-3, 0, ask.group, 7, 0)
    assert ask.order_in(None) == ask.order


def test_asks_compare_as_their_places_do() -> None:
    # Each has another name than its place would give it.
    asks = [*of(9, 1), *of(8, 2), *of(7, 1), *of(6, 1, event=2), *of(5), *of(4, 1, gang="g")]

    for one, other in product(asks, asks):
        assert (one < other) is (one.order < other.order)
    assert [ask.seq for ask in sorted(asks)][::2] == [8, 6, 4, 7, 9, 5]
