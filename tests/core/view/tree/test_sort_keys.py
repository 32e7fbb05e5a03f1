"""By which keys queues, applications and asks are compared."""

from __future__ import annotations

import pytest

from muster_core.config.model import QueueConfig, Settings, SortPolicy
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.queue import (
    ASK_PARTS,
    KeyPart,
    KeyValue,
    app_key,
    app_parts,
    queue_key,
    queue_parts,
)
from tests.core.building import ask, identity


def named(parts: tuple[KeyPart, ...], key: tuple[KeyValue, ...]) -> dict[str, KeyValue]:
    """Give what stands in a key, by the names of its parts."""
    return {part.name: part.value(found) for part, found in zip(parts, key, strict=True)}


def test_the_parts_of_a_queue_s_key() -> None:
    parent, own = (
        Settings(),
        QueueConfig("a", "root.a", is_parent=False, settings=Settings(queue_priority=7)),
    )

    assert named(queue_parts(parent), queue_key(parent, own, 3, 0.25, 0.5)) == {
        "queue.priority": 7,
        "currentPriority": 3,
        "share": 0.25,
        "pending": 0.5,
        "path": "root.a",
    }


def test_the_parts_of_a_queue_s_key_without_priorities() -> None:
    parent, own = Settings(sort_by_priority=False), QueueConfig("a", "root.a", is_parent=False)

    assert named(queue_parts(parent), queue_key(parent, own, None, 0.25, 0.5)) == {
        "share": 0.25,
        "pending": 0.5,
        "path": "root.a",
    }


@pytest.mark.parametrize("by_priority", [False, True])
@pytest.mark.parametrize("policy", SortPolicy)
def test_the_parts_of_an_application_s_key(policy: SortPolicy, by_priority: bool) -> None:
    settings = Settings(sort_policy=policy, sort_by_priority=by_priority)
    leaf = QueueConfig("a", "root.a", is_parent=False, settings=settings)
    app = ViewApp(identity(4), allocated={"vcore": 2}, counted=-3)

    found = named(app_parts(settings), app_key(leaf, app, {"vcore": 8}))
    expected: dict[str, KeyValue] = {"priority": -3} if by_priority else {}
    if policy is SortPolicy.FAIR:
        expected["usage"] = (0.25,)
    assert found == {**expected, "creation": 4}
    assert list(found) == [*expected, "creation"]


def test_the_parts_of_an_ask_s_key() -> None:
    one = ask(priority=5)

    assert named(ASK_PARTS, one.order) == {
        "priority": 5,
        "creation": one.creation,
        "gang": one.group,
        "submission": one.seq,
        "number": one.number,
    }


def test_a_part_that_is_nothing_is_shown_without_a_sign() -> None:
    assert str(KeyPart("pending", highest_first=True).value(-0.0)) == "0.0"
    assert KeyPart("path").value("root.a") == "root.a"
