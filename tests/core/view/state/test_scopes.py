"""Which queue makes the scope of a leaf."""

from __future__ import annotations

from muster_core.structures.amounts import Types
from muster_core.values.configuration import QueueConfig, SchedulingOrder, Settings
from muster_core.view.state.queue_settings import Scopes
from muster_core.view.tree.leaf import LeafView
from muster_core.view.tree.queue import ParentView

ORDERS = {"s": SchedulingOrder.STRICT, "b": SchedulingOrder.BACKFILL, "g": SchedulingOrder.GREEDY}


def line(orders: str) -> tuple[Scopes, list[ParentView | LeafView]]:
    """Give the scopes of one path, from the root down to a leaf, with these orders."""
    queues: list[ParentView | LeafView] = []
    scopes = Scopes({})
    for key, order in enumerate(orders):
        above = queues[-1] if queues else None
        assert above is None or isinstance(above, ParentView)
        settings = Settings(scheduling_order=ORDERS[order])
        is_parent = key < len(orders) - 1
        config = QueueConfig(f"q{key}", f"q{key}", is_parent=is_parent, settings=settings)
        made = ParentView if is_parent else LeafView
        queues.append(made(key, above, config, Types()))
        scopes.note_settings(queues[-1])
    return scopes, queues


def scope_of(orders: str) -> int | None:
    scopes, queues = line(orders)
    leaf = queues[-1]
    assert isinstance(leaf, LeafView)
    found = scopes.of(leaf)
    return None if found is None else found.key


def test_the_topmost_order_rules() -> None:
    # BACKFILL-2
    assert scope_of("ggg") is None
    assert scope_of("gsb") == 1
    assert scope_of("bss") == 0
    assert scope_of("ggs") == 2


def test_strict_and_backfill() -> None:
    # BACKFILL-4
    for orders, strict, backfill in (("gsb", 1, None), ("gbs", None, 1), ("ggg", None, None)):
        scopes, queues = line(orders)
        leaf = queues[-1]
        assert isinstance(leaf, LeafView)
        found = scopes.strict(leaf), scopes.backfill(leaf)
        assert [None if one is None else one.key for one in found] == [strict, backfill]
        assert [queue.key for queue in queues if scopes.is_strict(queue)] == (
            [] if strict is None else [strict]
        )


def test_a_queue_that_is_gone_makes_no_scope() -> None:
    scopes, queues = line("gsg")
    assert scopes
    scopes.forget(queues[1])

    assert not scopes
