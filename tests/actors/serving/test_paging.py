"""Pages while things come and go: nothing that stays is left out or given twice.

LISTS-2.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from tests.actors.serving.here import Here

ONE = {"vcore": 1}


@attrs.define
class World:
    """Adds and removes things at random, and knows which of them were there all the time."""

    here: Here
    chance: Random
    made: int = 0
    there: dict[str, list[str]] = attrs.field(factory=lambda: {name: [] for name in NAMES})
    gone: set[str] = attrs.field(factory=set[str])

    def name(self) -> str:
        self.made += 1
        # Names that come before and behind those that are there.
        return f"{self.chance.choice('abcxyz')}{self.made}"

    def add(self) -> None:
        app, name = self.name(), self.name()
        self.here.post(
            {"op": "add_node", "node": name, "capacity": ONE},
            {"op": "add_app", "app": app, "queue": f"root.{name}"},
            {"op": "add_ask", "app": app, "ask": name, "resources": ONE, "count": 2},
            {"op": "add_gang", "gang": name, "min_member": 1},
        )
        self.there["nodes"].append(name)
        self.there["apps"].append(app)
        self.there["asks"] += [f"{app}/{name}-0", f"{app}/{name}-1"]
        self.there["gangs"].append(f"default/{name}")
        self.there["queues"].append(f"root.{name}")

    def add_asks(self) -> None:
        app, name = self.chance.choice(self.there["apps"]), self.name()
        self.here.post({"op": "add_ask", "app": app, "ask": name, "resources": ONE})
        self.there["asks"].append(f"{app}/{name}")

    def remove(self) -> None:
        place = self.chance.randrange(len(self.there["apps"]))
        app, queue = self.there["apps"].pop(place), self.there["queues"].pop(place)
        node, gang = self.there["nodes"].pop(place), self.there["gangs"].pop(place)
        self.here.post(
            {"op": "remove_app", "app": app},
            {"op": "remove_node", "node": node},
            {"op": "remove_gang", "gang": gang.partition("/")[2]},
        )
        asks = [one for one in self.there["asks"] if one.startswith(f"{app}/")]
        self.there["asks"] = [one for one in self.there["asks"] if one not in asks]
        self.gone |= {app, node, gang, queue, *asks}

    def change(self) -> None:
        for _ in range(self.chance.randrange(1, 4)):
            self.chance.choice([self.add, self.add_asks])()
        self.remove()


NAMES: dict[str, Callable[[dict[str, Any]], str]] = {
    "queues": lambda item: item["queue"],
    "apps": lambda item: item["app"],
    "asks": lambda item: f"{item['app']}/{item['ask']}",
    "gangs": lambda item: item["gang"],
    "nodes": lambda item: item["node"],
}


@pytest.mark.parametrize("listed", NAMES)
def test_what_stays_comes_once(listed: str, tmp_path: Path) -> None:
    with Here() as here:
        world = World(here, Random(listed))
        for _ in range(24):
            world.add()
        before, after, found = set(world.there[listed]), None, list[str]()
        while True:
            page = here.get(f"/api/v1/{listed}", limit=3, after=after)
            found += map(NAMES[listed], page["items"])
            after = page["next"]
            if after is None:
                break
            world.change()
        stayed = before - world.gone

        assert len(found) == len(set(found))
        assert stayed <= set(found)
        assert stayed
        assert world.gone & before


def test_a_cursor_outlives_its_item_and_the_service(tmp_path: Path) -> None:
    with Here(tmp_path / "state") as here:
        here.post(
            {"op": "add_app", "app": "a", "queue": "root.q"},
            {"op": "add_ask", "app": "a", "ask": "x", "resources": ONE, "count": 5},
        )
        after = here.get("/api/v1/asks", limit=2)["next"]
        here.post(
            {"op": "remove_ask", "app": "a", "ask": "x-1"},
            {"op": "remove_ask", "app": "a", "ask": "x-2"},
        )
    with Here(tmp_path / "state") as here:
        here.post({"op": "add_ask", "app": "a", "ask": "x-1", "resources": ONE})
        items = here.get("/api/v1/asks", after=after)["items"]

        assert [item["ask"] for item in items] == ["x-3", "x-4", "x-1"]


# LISTS-2


def test_many_asks_come_and_go(tmp_path: Path) -> None:
    """The list of all asks forgets those that have ended, and has those of names used again."""
    with Here() as here:
        here.post(
            {"op": "add_app", "app": "a", "queue": "root.q"},
            {"op": "add_ask", "app": "a", "ask": "keep", "resources": ONE},
        )
        for turn in range(4):
            here.post({"op": "add_app", "app": "b", "queue": "root.q"})
            here.post({"op": "add_ask", "app": "b", "ask": "x", "resources": ONE, "count": 4000})
            found = here.all("/api/v1/asks", fields="app,ask")
            assert len(found) == 4001, turn
            assert found[0] == {"app": "a", "ask": "keep"}
            assert [one["ask"] for one in found[1:]] == [f"x-{number}" for number in range(4000)]
            here.post({"op": "remove_app", "app": "b"})
        assert len(here.all("/api/v1/asks", fields="app")) == 1
