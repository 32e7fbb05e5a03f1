"""Nobody harms another: every operation, by each role, on a thing of each owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Final

import pytest

from muster.feeds._operations import OPS
from tests.actors.serving.people import (
    PATH,
    Event,
    People,
    app,
    applied,
    ask,
    gang_of,
    people_of,
    pod_group,
)

NUMBERS: Final = count()


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with people_of(tmp_path_factory.mktemp("rights")) as found:
        found.submit(
            {"op": "add_node", "node": "n", "capacity": {"vcore": 1000}},
            {"op": "add_node", "node": "other", "capacity": {"vcore": 1}},
            {"op": "add_priority_class", "name": "mine", "value": 5},
            {"op": "add_priority_class", "name": "high", "value": 1_000_000_000},
            *(app(f"of-{who}", user=who) for who in ("ann", "bob", "eve", "zoe")),
            app("of-nobody"),
        )
        yield found


# INPUT-11, INPUT-22: operations on applications and asks, and those that need an admin

OF_APPS: Final[Mapping[str, Callable[[str], Event]]] = {
    "add_ask": lambda app: ask(app, "more"),
    "remove_ask": lambda app: {"op": "remove_ask", "app": app, "ask": "waits"},
    "release": lambda app: {"op": "release", "app": app, "ask": "runs"},
    "bind_failed": lambda app: {"op": "bind_failed", "app": app, "ask": "runs"},
    "remove_app": lambda app: {"op": "remove_app", "app": app},
}
NODE: Final[Event] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "k"},
    "status": {"allocatable": {"cpu": 1}},
}
POD: Final[Event] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"applicationId": "of-bob", "queue": "root.open"}},
    "spec": {"containers": [{"resources": {"requests": {"cpu": 1}}}]},
}
CLASS: Final[Event] = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "c"},
    "value": 7,
}
QUEUE: Final[Event] = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "open"},
    "spec": {"priority": 7},
}
OF_ADMINS: Final[Mapping[str, Event]] = {
    "configure": {
        "op": "configure",
        "config": {"partitions": [{"name": "default", "queues": [{"name": "root"}]}]},
    },
    "add_node": {"op": "add_node", "node": "new", "capacity": {"vcore": 1}},
    "update_node": {"op": "update_node", "node": "n", "schedulable": False},
    "remove_node": {"op": "remove_node", "node": "n"},
    "add_priority_class": {"op": "add_priority_class", "name": "c", "value": 1},
    "set_usage": {"op": "set_usage", "queue": "root.open", "usage": {"vcore": 1}},
    "fail_bind": {"op": "fail_bind", "app": "of-bob", "ask": "x"},
    **{f"apply {one['kind']}": applied(one) for one in (NODE, POD, CLASS, QUEUE)},
    **{f"delete {one['kind']}": applied(one, op="delete") for one in (NODE, POD, CLASS, QUEUE)},
    "apply a List": applied(pod_group("default/of-list"), POD),
    "delete a List": applied(pod_group("default/of-list"), POD, op="delete"),
}


def test_no_operation_is_forgotten() -> None:
    tried = {str(event["op"]) for event in OF_ADMINS.values()} | {*OF_APPS}

    assert tried | {"add_app", "add_gang", "remove_gang"} == {*OPS} - {"settle", "expect"}


@pytest.mark.parametrize("op", OF_APPS)
@pytest.mark.parametrize(
    ("who", "owner", "queue", "may"),
    [
        ("bob", "bob", "root.open", True),
        ("bob", "ann", "root.open", False),
        ("bob", None, "root.open", False),
        ("bob", "ann", "root.team", False),
        ("eve", "ann", "root.team", True),
        ("hal", "ann", "root.team", True),
        ("eve", "ann", "root.open", False),
        ("root", "ann", "root.open", True),
        ("root", None, "root.open", True),
    ],
)
def test_applications_and_asks(
    people: People, op: str, who: str, owner: str | None, queue: str, may: bool
) -> None:
    # INPUT-11
    name = f"{op}-{next(NUMBERS)}"
    whose: Event = {} if owner is None else {"user": owner}
    people.submit(
        app(name, queue if owner else "root.open", **whose),
        ask(name, "runs", node="n"),
        ask(name, "waits", selector={"nowhere": "x"}),
    )
    event = OF_APPS[op](name)

    answer = people.form(who, "/events/try", event)
    assert ("belongs to" in answer) is not may
    for error in (*people.send(who, event, dry_run="true"), *people.send(who, event)):
        assert (error is None) is may
        if not may:
            assert error is not None
            assert error.startswith(f"app: {name!r} belongs to {owner!r}" if owner else "app: ")
    if not may:
        there = people.served.client.get(f"/api/v1/asks/{name}/runs", headers=people.headers(who))
        assert there.json()["item"]["place"] == "bound"


@pytest.mark.parametrize("who", ["bob", "eve"])
@pytest.mark.parametrize("what", OF_ADMINS)
def test_everything_else_needs_an_admin(people: People, what: str, who: str) -> None:
    # INPUT-11, INPUT-22
    (error,) = people.send(who, OF_ADMINS[what])

    assert error is not None
    assert "this needs the role admin" in error
    assert people.send(who, OF_ADMINS[what], dry_run="true") == [error]
    assert "this needs the role admin" in people.form(who, "/events", OF_ADMINS[what])


@pytest.mark.parametrize(("who", "status"), [("", 401), ("reader", 403)])
def test_without_a_role_nothing_goes(people: People, who: str, status: int) -> None:
    # INPUT-9, ACCESS-3
    events = [*OF_ADMINS.values(), gang_of("g"), ask("of-bob"), app("new")]
    for path in (PATH, f"{PATH}?dry_run=true", "/events", "/events/try"):
        for event in events:
            answer = people.served.client.post(path, json=[event], headers=people.headers(who))
            assert answer.status_code == status
    for method, path in (("PUT", "/api/v1/config"), ("PUT", "/api/v1/nodes/n/lease")):
        answer = people.served.client.request(method, path, headers=people.headers(who))
        assert answer.status_code == status


# INPUT-19: priorities


@pytest.mark.parametrize(
    ("queue", "fields", "refused"),
    [
        ("open", {"priority": 1_000_000_000}, ""),
        ("open", {"priority_class": "high"}, ""),
        ("open", {"priority": 1_000_000_001}, "1000000000, the highest that a submitter may name"),
        ("open", {"priority_class": "system-cluster-critical"}, "is 2000000000, which is above"),
        ("low.plain", {"priority": 100}, ""),
        ("low.plain", {}, ""),
        ("low.plain", {"priority": 101}, "is above 100, the priority.limit in queue"),
        ("low.plain", {"priority_class": "high"}, "'high' is 1000000000, which is above 100, the"),
        ("low.lower", {"priority_class": "mine"}, "'mine' is 5, which is above -5, the"),
        ("low.lower", {}, "priority: 0, the default, is above -5, the priority.limit"),
        ("low.lower", {"priority": -5}, ""),
        ("low.higher", {"priority": 2_000_000_000}, ""),
        ("low.higher", {"priority_class": "system-node-critical"}, "is above 1000000000, the high"),
    ],
)
def test_who_may_use_which_priority(
    people: People, queue: str, fields: Event, refused: str
) -> None:
    # INPUT-19, CONFIG-88
    name, path = f"p-{next(NUMBERS)}", f"root.{queue}"
    sent = (app(name, path), ask(name, "x", **fields))

    for errors in (people.send("zoe", *sent, dry_run="true"), people.send("zoe", *sent)):
        assert errors[0] is None
        assert (errors[1] is None) is (not refused)
        if refused:
            assert errors[1] is not None
            assert refused in errors[1]
            right = f"this needs the role admin, or an adminacl of {path} that names 'zoe'"
            assert errors[1].endswith(right)
    assert people.send("root", ask(name, "by-admin", **fields)) == [None]


def test_who_administers_the_queue_may_use_every_priority(people: People) -> None:
    # INPUT-19
    people.submit(app("limited", "root.low.lower", user="bob"))

    def critical(name: str) -> Event:
        return ask("limited", name, priority_class="system-node-critical")

    assert people.send("eve", ask("limited", "a", priority=7), critical("b")) == [None, None]
    (error,) = people.send("bob", critical("c"))
    assert error is not None
    assert "an adminacl of root.low.lower that names 'bob'" in error


def test_a_class_that_is_unknown_is_not_a_matter_of_rights(people: People) -> None:
    # INPUT-19
    (error,) = people.send("bob", ask("of-bob", "u", priority_class="hihg"))

    assert error is not None
    assert error.startswith("priority_class: 'hihg'")


# INPUT-25, INPUT-26


def test_nobody_runs_commands_as_another(people: People) -> None:
    # INPUT-26
    people.submit(app("runs", "root.team"), ask("runs", "own", command=["true"]), who="bob")

    (error,) = people.send("eve", ask("runs", "of-eve", command=["id"]))
    assert error == (
        "command: what application 'runs' runs may run as its user, and it belongs to 'bob': this "
        "needs the role admin"
    )
    assert people.send("root", ask("runs", "of-root", command=["true"])) == [None]


def test_no_tag_leads_past_the_acls(people: People) -> None:
    # INPUT-25
    forced = app("forced", tags={"application.create.force": "true"})
    (error,) = people.send("bob", forced)

    assert error is not None
    assert error.startswith("tags.application.create.force: 'true': this needs the role admin")
    assert people.send("root", forced) == [None]


# What a user might try


def test_nobody_evicts_others_by_a_system_class(people: People) -> None:
    # INPUT-19
    people.submit(app("attacker"), who="zoe")
    attacks = [
        ask("attacker", "sys", priority_class="system-node-critical"),
        ask("attacker", "number", priority=1_999_999_999),
    ]

    ending = (
        "is above 1000000000, the highest that a submitter may name in queue 'root.open': this needs "
        "the role admin, or an adminacl of root.open that names 'zoe'"
    )
    assert people.send("zoe", *attacks) == [
        f"priority_class: 'system-node-critical' is 2000001000, which {ending}",
        f"priority: 1999999999 {ending}",
    ]
