"""Snapshots: frozen, and compared by what they show."""

from __future__ import annotations

import attrs
import pytest

from muster_core.resources import Resources
from muster_core.snapshots import (
    AppSnapshot,
    AskPlace,
    AskSnapshot,
    GangSnapshot,
    NodeSnapshot,
    QueueSnapshot,
    Snapshot,
    Statistics,
)
from muster_core.values.application_states import AppState

KINDS = (AskSnapshot, AppSnapshot, QueueSnapshot, GangSnapshot, NodeSnapshot, Snapshot, Statistics)


def ask_snapshot() -> AskSnapshot:
    return AskSnapshot("x", AskPlace.PENDING, 1, Resources({"vcore": 1}))


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_cannot_be_altered(kind: type[attrs.AttrsInstance]) -> None:
    shown = kind(**{field.name: None for field in attrs.fields(kind)})
    name = attrs.fields(kind)[0].name

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(shown, name, 1)


def test_an_ask_that_is_pending_holds_no_node() -> None:
    assert ask_snapshot().node is None


def test_snapshots_of_the_same_are_equal() -> None:
    one, two = (AppSnapshot("p", "root.a", AppState.NEW, None, (ask_snapshot(),)) for _ in "ab")

    assert one == two
    assert one != attrs.evolve(two, priority=0)


def test_places_have_the_names_that_feeds_use() -> None:
    assert [place.value for place in AskPlace] == ["pending", "parked", "waiting", "bound"]
