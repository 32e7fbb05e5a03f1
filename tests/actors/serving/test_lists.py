"""The lists of the service say what a scheduler has that got the same events.

LISTS-1, LISTS-2, LISTS-3, LISTS-4, LISTS-5, LISTS-6, LISTS-7, LISTS-8, LISTS-9, LISTS-10.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from muster.explain._output import explanation_map
from tests.actors.reserving import reserved
from tests.actors.serving.here import Here
from tests.actors.serving.truth import PLACES, Item, Truth, fill, same

FEEDS = Path(__file__).parents[2] / "feeds"
EVERY_SO_MANY = 9
OF_A_NODE = ("app", "ask", "resources", "devices")
DEVICES = FEEDS / "devices" / "shares_and_whole_ones.yaml"
SOME = sorted({DEVICES, *sorted(one for one in FEEDS.rglob("*.yaml"))[::EVERY_SO_MANY]})


def differences(here: Here, truth: Truth) -> Iterator[str]:
    for name, wanted in (
        ("queues", truth.queues()),
        ("apps", truth.apps()),
        ("asks", truth.asks()),
        ("gangs", truth.gangs()),
        ("nodes", truth.nodes()),
    ):
        for limit in (1000, 3):
            for told in same(here.all(f"/api/v1/{name}", limit), wanted):
                yield f"{name}: {told}"
    yield from of_filters(here, truth.asks())
    yield from of_singles(here, truth)


def of_filters(here: Here, asks: list[Item]) -> Iterator[str]:
    """Compare what filters give with what they leave of all asks."""
    codes = {ask["reason"] for ask in asks if ask["reason"] is not None}
    filters: list[tuple[str, str, list[Item]]] = [
        *(("state", place, [ask for ask in asks if ask["place"] == place]) for place in PLACES),
        *(("reason", code, [ask for ask in asks if ask["reason"] == code]) for code in codes),
        *(
            (field, value, [ask for ask in asks if ask[field] == value])
            for field in ("app", "user", "gang")
            for value in {ask[field] for ask in asks} - {None}
        ),
        *(
            (
                "queue",
                path,
                [ask for ask in asks if f"{ask['queue']}.".startswith(f"{path}.")],
            )
            for path in {ask["queue"] for ask in asks} | {"root"}
        ),
    ]
    for field, value, wanted in filters:
        for told in same(here.all("/api/v1/asks", 2, **{field: value}), wanted):
            yield f"asks?{field}={value}: {told}"


def of_singles(here: Here, truth: Truth) -> Iterator[str]:
    for item in truth.queues():
        found = here.get(f"/api/v1/queues/{quote(item['queue'], safe='')}")
        yield from same([found["item"]], [item])
    for item in truth.apps():
        found = here.get(f"/api/v1/apps/{item['app']}")
        yield from same([found["item"]], [item])
    for item in truth.asks()[:10]:
        path = f"/api/v1/asks/{item['app']}/{item['ask']}"
        yield from same([here.get(path)["item"]], [item])
        explanation = truth.scheduler.explain_fully(item["app"], item["ask"])
        why = here.get(f"{path}/why")["item"]
        yield from same([why], [as_json(explanation_map(explanation))])
    for name, members in truth.members().items():
        item = here.get(f"/api/v1/gangs/{name}")["item"]
        yield from same([item], [{"asks": {**members}}])
    held = truth.asks()
    for item in truth.nodes():
        found = here.get(f"/api/v1/nodes/{item['node']}")["item"]
        yield from same([found], [item])
        assert found["reserved"] == truth.reserved(item["node"])
        assert len(found["asks"]) == item["count"] == sum(found["queues"].values())
        assert all(ask["place"] in {"waiting", "bound"} for ask in found["asks"])
        there = [ask for ask in held if ask["node"] == item["node"]]
        yield from same(found["asks"], [{name: ask[name] for name in OF_A_NODE} for ask in there])


def as_json(value: dict[str, object]) -> Item:
    import json  # noqa: PLC0415 - facts have tuples

    found: Item = json.loads(json.dumps(value))
    return found


# LISTS-14
def test_reservations(tmp_path: Path) -> None:
    keeper = fill(tmp_path / "state", reserved(tmp_path))
    with Here(tmp_path / "state") as here:
        truth = Truth.of(keeper.scheduler)

        assert [*differences(here, truth)] == []
        found = {one["ask"]: one["reservation"] for one in here.all("/api/v1/asks", app="new")}
        assert found == {
            "wide": {"node": "n1", "start": 100, "scope": "root.q"},
            "next": {"node": "n2", "start": None, "scope": "root.q"},
            "held": None,
            "small": None,
        }
        assert [one["ask"] for one in truth.reserved("n1")] == ["wide"]


@pytest.mark.parametrize("feed", SOME, ids=lambda feed: f"{feed.parent.name}/{feed.stem}")
def test_lists_agree_with_the_snapshot(feed: Path, tmp_path: Path) -> None:
    keeper = fill(tmp_path / "state", feed)
    with Here(tmp_path / "state") as here:
        truth = Truth.of(keeper.scheduler)

        assert [*differences(here, truth)] == []
        page = here.get("/api/v1/queues")
        assert page["batch"] == keeper.scheduler.machine.batches
        assert page["at"] == truth.snapshot.at_us / 1_000_000
