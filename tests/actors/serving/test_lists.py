"""Lists of the service: items, selections, filters, fields, and pages while things come and go.

LISTS-1, LISTS-2, LISTS-3, LISTS-4, LISTS-5, LISTS-6, LISTS-7, LISTS-8, LISTS-9, LISTS-10,
LISTS-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

import attrs
import pytest

from muster.explain._output import explanation_map
from muster.service.ask_index import AskIndex
from muster.service.endpoints.schemas import row_of
from muster.service.ledger.ledger import Ledger
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.asks import ASKS
from muster.service.queries.reader import ReadContext
from muster_core.coordinator.plain_scheduler import PlainScheduler
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, BindFailed, Event, RemoveAsk
from muster_core.gangs import GangFields
from muster_core.reasons import Code
from muster_core.resources import Resources
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import all_at_once, in_pieces
from tests.actors.samples import reserved
from tests.actors.serving.served import ServiceThread
from tests.actors.serving.truth import PLACES, Item, Truth, compare_items, fill
from tests.core.building import configuration, queue

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            queues:
              - {name: web, resources: {max: {vcore: 4}}}
              - {name: jobs}
          - {name: dev, properties: {bind.retry.delay: 1h}}
"""
LISTS = ("queues", "apps", "asks", "gangs", "nodes")


def ask(app: str, name: str, vcore: float = 1, **more: object) -> dict[str, object]:
    return {"op": "add_ask", "app": app, "ask": name, "resources": {"vcore": vcore}, **more}


RING: dict[str, object] = {"spread": "zone", "max": 2}
SOFT = {"key": "old", "value": "yes", "effect": "PreferNoSchedule"}
EVENTS: tuple[dict[str, object], ...] = (
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 8}, "attributes": {"disk": "ssd"}},
    {"op": "add_node", "node": "n2", "capacity": {"vcore": 8}, "taints": [SOFT]},
    {"op": "add_app", "app": "shop", "queue": "root.prod.web", "user": "ann", "groups": ["g"]},
    {"op": "add_app", "app": "job", "queue": "root.prod.jobs", "user": "bob"},
    {"op": "add_app", "app": "test", "queue": "root.dev", "user": "ann", "tags": {"k": "v"}},
    ask("shop", "web", count=6),
    ask("job", "big", 100),
    ask("job", "small", 2, run_for="10h", command=["sleep", "1"], env={"A": "b"}, workdir="/x"),
    ask(
        *("test", "choosy", 9),
        selector={"disk": "ssd"},
        tolerations=[{"key": "old", "operator": "Exists"}],
        affinity=[[{"key": "zone", "operator": "In", "values": ["b", "a"]}], []],
    ),
    ask("test", "member", 1, gang="ring"),
    {"op": "add_gang", "gang": "ring", "min_member": 2, "wait_time": "2h", "topology": RING},
    ask("test", "flaky", 1, retries=3),
    {"op": "bind_failed", "app": "test", "ask": "flaky"},
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceThread]:
    folder = tmp_path_factory.mktemp("asks")
    config = folder / "queues.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    with ServiceThread(config=config) as running:
        # One request each, as a bind can only fail in a later batch.
        for event in EVENTS:
            running.post(event)
        yield running


def names(items: list[dict[str, Any]]) -> list[str]:
    return [f"{item['app']}/{item['ask']}" for item in items]


def test_the_answer_names_the_batch(service: ServiceThread) -> None:
    for one in LISTS:
        page = service.get(f"/api/v1/{one}")

        assert list(page) == ["batch", "at", "time", "items", "next"]
        assert page["batch"] == 1 + len(EVENTS)
        then = datetime.fromisoformat(page["time"])
        origin = then.timestamp() - page["at"]
        assert 0 <= page["at"] < 600
        assert abs(origin - datetime.now(UTC).timestamp()) < 600
        assert page["time"].endswith("Z")


def test_asks_have_what_is_known_of_them(service: ServiceThread) -> None:
    item = service.get("/api/v1/asks/job/small")["item"]

    assert item["command"] == ["sleep", "1"]
    assert item["env"] == {"A": "b"}
    assert item["workdir"] == "/x"
    assert item["run_for"] == 36_000
    assert item["place"] == "bound"
    assert item["came"] <= item["taken"] <= item["bound"]
    assert item["since"] is item["reason"] is item["message"] is None
    flaky = service.get("/api/v1/asks/test/flaky")["item"]
    assert flaky["place"] == "pending"
    assert flaky["reason"] == "BackingOff"
    assert "it is not tried before" in flaky["message"]
    assert flaky["failed_binds"] == 1
    assert flaky["backs_off_until"] == pytest.approx(flaky["last_failed"] + 3600)
    assert flaky["node"] is flaky["taken"] is flaky["bound"] is None
    choosy = service.get("/api/v1/asks/test/choosy")["item"]
    assert choosy["selector"] == {"disk": "ssd"}
    assert choosy["tolerations"] == [{"key": "old", "operator": "Exists"}]
    one_of = {"key": "zone", "operator": "In", "values": ["a", "b"]}
    assert choosy["affinity"] == [[], [one_of]], "in an order of its own"
    assert (flaky["tolerations"], flaky["affinity"]) == ([], None)


def test_applications_have_what_is_known_of_them(service: ServiceThread) -> None:
    item = service.get("/api/v1/apps/test")["item"]

    assert item["tags"] == {"k": "v"}
    assert item["came"] is not None
    assert [one["state"] for one in item["states"]][:2] == ["New", "Accepted"]
    assert service.get("/api/v1/apps/shop")["item"]["groups"] == ["g"]


# LISTS-5


def test_queues_say_which_limit_they_hit(service: ServiceThread) -> None:
    queues = {one["queue"]: one for one in service.all("/api/v1/queues")}

    assert queues["root.prod.web"]["hits"] == ["vcore"]
    assert queues["root.prod.web"]["overused"]
    assert queues["root.prod"]["hits"] == []
    assert not queues["root.prod"]["overused"]
    assert queues["root.prod"]["apps"] == 2
    assert not queues["root.prod"]["leaf"]
    assert queues["root.prod.jobs"]["parent"] == "root.prod"
    assert queues["root.dev"]["properties"] == {"bind.retry.delay": "1h"}
    assert service.get("/api/v1/queues/PROD")["item"]["below"] == [
        "root.prod.jobs",
        "root.prod.web",
    ]


# LISTS-8


def test_gangs_say_how_long_they_wait(service: ServiceThread) -> None:
    (gang,) = service.all("/api/v1/gangs")

    assert gang["gang"] == "default/ring"
    assert gang["definition"]["wait_time"] == 7200
    assert gang["definition"]["topology"] == RING
    assert gang["members"] == {"pending": 1, "parked": 0, "waiting": 0, "bound": 0}
    assert gang["missing"] == 2
    assert service.get("/api/v1/gangs/ring")["item"]["asks"]["pending"] == ["test/member"]


# LISTS-9


def test_nodes_say_what_stands_on_them(service: ServiceThread) -> None:
    nodes = service.all("/api/v1/nodes")

    assert [node["node"] for node in nodes] == ["n1", "n2"]
    assert sum(node["count"] for node in nodes) == 5
    assert nodes[0]["attributes"] == {"disk": "ssd"}
    assert [node["taints"] for node in nodes] == [[], [SOFT]]
    for node in nodes:
        assert node["available"] == {"vcore": 8000 - node["used"].get("vcore", 0)}
        assert node["utilisation"] == pytest.approx(node["used"].get("vcore", 0) / 8000)
        found = service.get(f"/api/v1/nodes/{node['node']}")["item"]["asks"]
        assert len(found) == node["count"]
        assert all(one["bound"] is not None for one in found)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"state": "bound"}, ["shop/web-0", "shop/web-1", "shop/web-2", "shop/web-3", "job/small"]),
        ({"state": "pending", "queue": "root.prod"}, ["shop/web-4", "shop/web-5", "job/big"]),
        ({"state": "pending,bound", "app": "job"}, ["job/big", "job/small"]),
        ({"state": "waiting"}, []),
        (
            {"user": "ann", "state": "pending", "queue": "dev"},
            ["test/choosy", "test/member", "test/flaky"],
        ),
        ({"queue": "ROOT.Prod.Web", "reason": "QueueMax"}, ["shop/web-4", "shop/web-5"]),
        ({"reason": "QueueMax", "app": "job"}, []),
        ({"reason": "NeverFits,BackingOff"}, ["job/big", "test/choosy", "test/flaky"]),
        ({"reason": "GangTooFewMembers", "gang": "default/ring"}, ["test/member"]),
        ({"reason": "GangTooFewMembers", "state": "bound"}, []),
        ({"reason": "PermitWaiting,GangTimedOut"}, []),
        ({"gang": "ring"}, ["test/member"]),
        ({"gang": "ring", "user": "bob"}, []),
        ({"app": "none"}, []),
        ({"queue": "root.none"}, []),
        ({"queue": "root.pro"}, []),
        ({"user": "nobody"}, []),
        ({"gang": "none"}, []),
        ({"gang": "No Gang!"}, []),
    ],
)
def test_filters_together(
    service: ServiceThread, filters: dict[str, str], wanted: list[str]
) -> None:
    assert names(service.all("/api/v1/asks", **filters)) == wanted
    assert names(service.all("/api/v1/asks", 1, **filters)) == wanted


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"queue": "root.prod"}, ["shop", "job"]),
        ({"queue": "root.prod", "user": "bob"}, ["job"]),
        ({"state": "Running"}, ["shop"]),
        ({"state": "Running,Starting", "user": "ann"}, ["shop"]),
        ({"queue": "none"}, []),
    ],
)
def test_filters_of_applications(
    service: ServiceThread, filters: dict[str, str], wanted: list[str]
) -> None:
    found = service.all("/api/v1/apps", 1, **filters)

    assert [one["app"] for one in found if one["app"] != "test"] == wanted


def test_fields(service: ServiceThread) -> None:
    page = service.get("/api/v1/asks", fields="ask,app", limit=1)

    assert page["items"] == [{"app": "shop", "ask": "web-0"}]
    single = service.get("/api/v1/asks/shop/web-0", fields="command,place")
    assert single["item"] == {"place": "bound", "command": None}


@pytest.mark.parametrize("one", LISTS)
def test_unknown_fields_are_refused(service: ServiceThread, one: str) -> None:
    detail = service.get(f"/api/v1/{one}", 400, fields="none")["detail"]

    assert detail.startswith("fields: 'none': must be names out of ")
    # What only single items have is no field of a list.
    assert service.get("/api/v1/asks", 400, fields="command")["parameter"] == "fields"


@pytest.mark.parametrize(
    ("path", "parameter", "value"),
    [
        ("asks", "limit", "0"),
        ("asks", "limit", "1001"),
        ("asks", "state", "running"),
        ("asks", "reason", "Because"),
        ("asks", "after", "%"),
        ("asks", "after", "e30"),
        ("asks", "after", "WzFd"),
        ("asks", "after", "x" * 5000),
        ("asks", "app", ""),
        ("apps", "state", "pending"),
        ("queues", "state", "x"),
    ],
)
def test_wrong_parameters_are_refused(
    service: ServiceThread, path: str, parameter: str, value: str
) -> None:
    problem = service.get(f"/api/v1/{path}", 400, **{parameter: value})

    assert problem["parameter"] == parameter
    assert problem["detail"].startswith(parameter)


def test_a_cursor_of_another_list_is_refused(service: ServiceThread) -> None:
    after = service.get("/api/v1/nodes", limit=1)["next"]

    assert service.get("/api/v1/nodes", after=after)["next"] is None
    for other in ("asks", "queues", "gangs", "apps"):
        assert service.get(f"/api/v1/{other}", 400, after=after)["parameter"] == "after"


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("queues/root.prod.wep", "did you mean root.prod.web"),
        ("apps/shob", "did you mean shop?"),
        ("asks/shop/wep-0", "did you mean shop/web-0"),
        ("asks/shob/web-0", "app 'shob' is unknown; did you mean shop?"),
        ("asks/shob/web-0/why", "app 'shob' is unknown; did you mean shop?"),
        ("gangs/rind", "did you mean default/ring?"),
        ("nodes/n11", "did you mean n1?"),
        ("nodes/a/b/c", "'a/b/c' is unknown"),
    ],
)
def test_unknown_names(service: ServiceThread, path: str, meant: str) -> None:
    problem = service.get(f"/api/v1/{path}", 404)

    assert problem["title"] == "Not Found"
    assert meant in problem["detail"]


FEEDS = Path(__file__).parents[2] / "feeds"
EVERY_SO_MANY = 9
OF_A_NODE = ("app", "ask", "resources", "devices")
DEVICES = FEEDS / "devices" / "shares_and_whole_ones.yaml"
SOME = sorted({DEVICES, *sorted(one for one in FEEDS.rglob("*.yaml"))[::EVERY_SO_MANY]})


def differences(service: ServiceThread, truth: Truth) -> Iterator[str]:
    for name, wanted in (
        ("queues", truth.queues()),
        ("apps", truth.apps()),
        ("asks", truth.asks()),
        ("gangs", truth.gangs()),
        ("nodes", truth.nodes()),
    ):
        for limit in (1000, 3):
            for difference in compare_items(service.all(f"/api/v1/{name}", limit), wanted):
                yield f"{name}: {difference}"
    yield from differences_of_filters(service, truth.asks())
    yield from differences_of_single_items(service, truth)


def differences_of_filters(service: ServiceThread, asks: list[Item]) -> Iterator[str]:
    """Compare the answers to filters with the filtered list of all asks."""
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
        for difference in compare_items(service.all("/api/v1/asks", 2, **{field: value}), wanted):
            yield f"asks?{field}={value}: {difference}"


def differences_of_single_items(service: ServiceThread, truth: Truth) -> Iterator[str]:
    for item in truth.queues():
        found = service.get(f"/api/v1/queues/{quote(item['queue'], safe='')}")
        yield from compare_items([found["item"]], [item])
    for item in truth.apps():
        found = service.get(f"/api/v1/apps/{item['app']}")
        yield from compare_items([found["item"]], [item])
    for item in truth.asks()[:10]:
        path = f"/api/v1/asks/{item['app']}/{item['ask']}"
        yield from compare_items([service.get(path)["item"]], [item])
        explanation = truth.scheduler.explain_fully(item["app"], item["ask"])
        why = service.get(f"{path}/why")["item"]
        yield from compare_items([why], [as_json(explanation_map(explanation))])
    for name, members in truth.members().items():
        item = service.get(f"/api/v1/gangs/{name}")["item"]
        yield from compare_items([item], [{"asks": {**members}}])
    held = truth.asks()
    for item in truth.nodes():
        found = service.get(f"/api/v1/nodes/{item['node']}")["item"]
        yield from compare_items([found], [item])
        assert found["reserved"] == truth.reserved(item["node"])
        assert len(found["asks"]) == item["count"] == sum(found["queues"].values())
        assert all(ask["place"] in {"waiting", "bound"} for ask in found["asks"])
        there = [ask for ask in held if ask["node"] == item["node"]]
        yield from compare_items(
            found["asks"], [{name: ask[name] for name in OF_A_NODE} for ask in there]
        )


def as_json(value: dict[str, object]) -> Item:
    import json  # noqa: PLC0415 - facts have tuples

    found: Item = json.loads(json.dumps(value))
    return found


# LISTS-14
def test_reservations(tmp_path: Path) -> None:
    keeper = fill(tmp_path / "state", reserved(tmp_path))
    with ServiceThread(tmp_path / "state") as service:
        truth = Truth.of(keeper.scheduler)

        assert [*differences(service, truth)] == []
        found = {one["ask"]: one["reservation"] for one in service.all("/api/v1/asks", app="new")}
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
    with ServiceThread(tmp_path / "state") as service:
        truth = Truth.of(keeper.scheduler)

        assert [*differences(service, truth)] == []
        page = service.get("/api/v1/queues")
        assert page["batch"] == keeper.scheduler.machine.batches
        assert page["at"] == truth.snapshot.at_us / 1_000_000


ONE = {"vcore": 1}


@attrs.define
class World:
    """Adds and removes things at random, and knows which of them were there all the time."""

    service: ServiceThread
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
        self.service.post(
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
        self.service.post({"op": "add_ask", "app": app, "ask": name, "resources": ONE})
        self.there["asks"].append(f"{app}/{name}")

    def remove(self) -> None:
        place = self.chance.randrange(len(self.there["apps"]))
        app, queue = self.there["apps"].pop(place), self.there["queues"].pop(place)
        node, gang = self.there["nodes"].pop(place), self.there["gangs"].pop(place)
        self.service.post(
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
    with ServiceThread() as service:
        world = World(service, Random(listed))
        for _ in range(24):
            world.add()
        before, after, found = set(world.there[listed]), None, list[str]()
        while True:
            page = service.get(f"/api/v1/{listed}", limit=3, after=after)
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
    with ServiceThread(tmp_path / "state") as service:
        service.post(
            {"op": "add_app", "app": "a", "queue": "root.q"},
            {"op": "add_ask", "app": "a", "ask": "x", "resources": ONE, "count": 5},
        )
        after = service.get("/api/v1/asks", limit=2)["next"]
        service.post(
            {"op": "remove_ask", "app": "a", "ask": "x-1"},
            {"op": "remove_ask", "app": "a", "ask": "x-2"},
        )
    with ServiceThread(tmp_path / "state") as service:
        service.post({"op": "add_ask", "app": "a", "ask": "x-1", "resources": ONE})
        items = service.get("/api/v1/asks", after=after)["items"]

        assert [item["ask"] for item in items] == ["x-3", "x-4", "x-1"]


# LISTS-2


def test_many_asks_come_and_go(tmp_path: Path) -> None:
    """The list of all asks forgets those that have ended, and has those of names used again."""
    with ServiceThread() as service:
        service.post(
            {"op": "add_app", "app": "a", "queue": "root.q"},
            {"op": "add_ask", "app": "a", "ask": "keep", "resources": ONE},
        )
        for turn in range(4):
            service.post({"op": "add_app", "app": "b", "queue": "root.q"})
            service.post({"op": "add_ask", "app": "b", "ask": "x", "resources": ONE, "count": 4000})
            found = service.all("/api/v1/asks", fields="app,ask")
            assert len(found) == 4001, turn
            assert found[0] == {"app": "a", "ask": "keep"}
            assert [one["ask"] for one in found[1:]] == [f"x-{number}" for number in range(4000)]
            service.post({"op": "remove_app", "app": "b"})
        assert len(service.all("/api/v1/asks", fields="app")) == 1


SELECTION_CONFIG = configuration(
    queue("small", resources={"max": {"vcore": "9"}}),
    queue("strict", properties={"application.sort.blocking": "enabled"}),
    queue("late", properties={"bind.retry.delay": "1h"}),
    queue("few", maxapplications=2),
    queue("free"),
)
QUEUES = ("root.small", "root.strict", "root.late", "root.few", "root.free")


def vcore(number: int) -> Resources:
    return Resources({"vcore": number * 1000})


class ManyAsks:
    """Many asks in all places, and an index of them.

    Args:
        apps: How many applications there are.
        each: How many asks each of them has.
    """

    def __init__(self, apps: int, each: int) -> None:
        self.scheduler, self.ask_index = PlainScheduler(SELECTION_CONFIG), AskIndex()
        self.chance = Random(apps)
        self.submit([AddNode(f"n{number}", vcore(16)) for number in range(60)])
        self.submit(
            [AddGang(f"default/g{number}", GangFields(min_member=3)) for number in range(30)]
        )
        all_at_once(self.ask_index.catch_up(self.scheduler.machine))
        numbers = self.chance.sample(range(20, apps), apps - 20)
        # The first ones come while there is room for asks of all queues.
        for some in (list(range(20)), *in_pieces(numbers, 150)):
            self.submit([event for number in some for event in self.events(number, each)])
        bound = [ask for ask in self.truth().asks() if ask["place"] == "bound"]
        late = [ask for ask in bound if ask["queue"] == "root.late"][:3]
        for ask in (*late, *self.chance.sample([ask for ask in bound if ask not in late], 12)):
            self.submit([BindFailed(ask["app"], ask["ask"])])
        for ask in self.chance.sample(self.truth().asks(), 20):
            if ask["place"] == "pending":
                self.submit([RemoveAsk(ask["app"], ask["ask"])])
        self.asks = self.truth().asks()

    def events(self, number: int, each: int) -> Iterator[Event]:
        app, chance = f"a{number}", self.chance
        yield AddApp(app, QUEUES[number % 5], user=f"u{number % 3}")
        yield AddAsk(app, "x", vcore(chance.choice([1, 2, 5])), count=each)
        if chance.random() < 0.1:
            gang = f"default/g{chance.randrange(30)}"
            yield AddAsk(app, "m", vcore(4), gang=gang, priority=chance.randrange(3))
        if chance.random() < 0.1:
            yield AddAsk(app, "huge", vcore(99))

    def submit(self, events: list[Event]) -> None:
        for event in events:
            self.scheduler.submit(event)
        self.scheduler.settle()
        self.ask_index.observe(events)

    def truth(self) -> Truth:
        return Truth.of(self.scheduler)

    def select(self, wanted: AskFilter, most: int) -> list[tuple[str, str]]:
        """Return the asks that a filter gives, page by page."""
        context = ReadContext(self.scheduler.machine, Ledger(), self.ask_index)
        found: list[tuple[str, str]] = []
        place: tuple[int, int] | None = None
        while True:
            rows = all_at_once(select_asks(context, wanted, place, most))
            found += [(row.app.identity.name, row.ask.name) for row in rows]
            if len(rows) < most:
                return found
            place = rows[-1].ask.seq, rows[-1].ask.number


@pytest.fixture(scope="module", params=[(250, 24), (4_300, 1)], ids=["long", "wide"])
def many(request: pytest.FixtureRequest) -> ManyAsks:
    return ManyAsks(*request.param)


def filters() -> Iterator[AskFilter]:
    yield AskFilter()
    for place in AskPlace:
        yield AskFilter(places=frozenset({place}))
        yield AskFilter(places=frozenset(AskPlace) - {place})
    for code in Code:
        yield AskFilter(codes=frozenset({code}))
        yield AskFilter(codes=frozenset({code}), user="u1", queue="root.strict")
    yield AskFilter(codes=frozenset({Code.BLOCKED, Code.PERMIT_WAITING, Code.NEVER_FITS}))
    yield AskFilter(codes=frozenset(Code), places=frozenset({AskPlace.PENDING}))
    for path in (*QUEUES, "root"):
        yield AskFilter(queue=path)
        yield AskFilter(queue=path, places=frozenset({AskPlace.BOUND, AskPlace.PENDING}))
    for app in ("a0", "a7", "a249"):
        yield AskFilter(app=app)
    yield AskFilter(user="u2")
    yield AskFilter(gang="default/g3")
    yield AskFilter(gang="default/g4", codes=frozenset(Code))


def admits(wanted: AskFilter, ask: Item) -> bool:
    return (
        (wanted.places is None or ask["place"] in wanted.places)
        and (wanted.codes is None or ask["reason"] in wanted.codes)
        and (wanted.queue in {None, "root", ask["queue"]})
        and (wanted.app in {None, ask["app"]})
        and (wanted.user in {None, ask["user"]})
        and (wanted.gang in {None, ask["gang"]})
    )


def test_there_is_something_to_select(many: ManyAsks) -> None:
    places = {ask["place"] for ask in many.asks}
    codes = {ask["reason"] for ask in many.asks}

    assert len(many.asks) > 4_200
    assert {"pending", "bound"} <= places
    assert {"QueueMax", "NeverFits", "Blocked", "BackingOff", "QueueMaxApps"} <= codes


@pytest.mark.parametrize("wanted", list(filters()))
def test_a_filter_gives_what_it_admits(many: ManyAsks, wanted: AskFilter) -> None:
    expected = [(ask["app"], ask["ask"]) for ask in many.asks if admits(wanted, ask)]

    assert many.select(wanted, 700) == expected
    if len(expected) > 20:
        assert many.select(wanted, len(expected) // 3) == expected


# AGING-10
def test_the_aged_priority_is_listed() -> None:
    config = configuration(queue("old", properties={"priority.aging": "2s"}), queue("plain"))
    scheduler, index = PlainScheduler(config), AskIndex()
    events: list[Event] = [
        AddNode("n", vcore(1)),
        AddApp("a", "root.old"),
        AddApp("p", "root.plain"),
        AddAsk("a", "bound", vcore(1)),
        AddAsk("a", "waits", vcore(1), priority=3),
        AddAsk("p", "k", vcore(1), priority=5),
    ]
    for event in events:
        scheduler.submit(event)
        scheduler.settle()
    index.observe(events)
    scheduler.settle(9_000_000)
    context = ReadContext(scheduler.machine, Ledger(), index)
    asks = all_at_once(select_asks(context, AskFilter(), None, 9))
    columns = ASKS.picked(("ask", "priority", "aged"), single=False)
    assert [[*row_of(columns, row).values()] for row in asks] == [
        ["bound", 0, None],
        ["waits", 3, 7],
        ["k", 5, None],
    ]
    assert context.view.priority_of(asks[1].app) == 7
    assert [one["aged"] for one in Truth.of(scheduler).asks()] == [None, 7, None]
