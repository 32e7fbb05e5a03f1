"""Nobody harms another: every operation, by each role, on a thing of each owner."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Final

import attrs
import pytest
import yaml

from muster.feeds._ops import OPS
from muster.service.access.minting import append, mint
from muster.service.access.who import Role, Who
from tests.actors.serving.people import PATH, Event, People, app, ask, people_of

KOORDINATOR: Final = "gang.scheduling.koordinator.sh"
RIGHTS: Final = ("belongs to", "is in the namespace of", "needs the role admin")
"""What the refusals say that come from rights; others are the scheduler's own."""

NUMBERS: Final = count()


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with people_of(tmp_path_factory.mktemp("rights")) as found:
        found.made(
            {"op": "add_node", "node": "n", "capacity": {"vcore": 1000}},
            {"op": "add_node", "node": "other", "capacity": {"vcore": 1}},
            {"op": "add_priority_class", "name": "mine", "value": 5},
            {"op": "add_priority_class", "name": "high", "value": 1_000_000_000},
            *(app(f"of-{who}", user=who) for who in ("ann", "bob", "eve", "zoe")),
            app("of-nobody"),
        )
        yield found


def gang_of(name: str, least: int = 1, **more: object) -> Event:
    return {"op": "add_gang", "gang": name, "min_member": least, **more}


def pod_group(name: str, user: str | None = None, groups: str | None = None) -> Event:
    namespace, _, own = name.rpartition("/")
    marks: Event = {}
    if user is not None:
        marks["yunikorn.apache.org/user.info"] = f'{{"user": "{user}"}}'
    if groups is not None:
        marks[f"{KOORDINATOR}/groups"] = groups
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": own, "namespace": namespace or "default", "annotations": marks},
        "spec": {"minMember": 1},
    }


def applied(*objects: Event, op: str = "apply") -> Event:
    if len(objects) == 1:
        return {"op": op, "manifest": objects[0]}
    return {"op": op, "manifest": {"apiVersion": "v1", "kind": "List", "items": [*objects]}}


def marked(gang: str, **marks: str) -> Event:
    """Return the annotations of a member of a gang."""
    written = {name.replace("_", "-"): value for name, value in marks.items()}
    return {f"{KOORDINATOR}/{name}": value for name, value in {"name": gang, **written}.items()}


def is_of_rights(error: str | None) -> bool:
    return error is not None and any(said in error for said in RIGHTS)


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
    people.made(
        app(name, queue if owner else "root.open", **whose),
        ask(name, "runs", node="n"),
        ask(name, "waits", selector={"nowhere": "x"}),
    )
    event = OF_APPS[op](name)

    told = people.form(who, "/events/try", event)
    assert ("belongs to" in told) is not may
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
    people.made(app("limited", "root.low.lower", user="bob"))

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


# INPUT-20 to INPUT-24, GANG-54: gangs


@attrs.frozen
class Kind:
    """A gang of somebody, or a name of one.

    Attributes:
        make: Makes it, by a server and the name of the gang.
        may: What ``bob`` may do with it: ``join``, ``list``, ``define``, ``end``.
        namespace: The namespace of the gang.
        user: Whose it is.
    """

    make: Callable[[People, str], None]
    may: frozenset[str] = frozenset()
    namespace: str = "default"
    user: str | None = None


def made(*events: Callable[[str], Event], who: str = "root") -> Callable[[People, str], None]:
    """Return what makes a gang by events."""
    return lambda people, gang: people.made(*(event(gang) for event in events), who=who)


def member(of: str, **more: object) -> Callable[[str], Event]:
    return lambda gang: ask(f"of-{of}", f"m-{next(NUMBERS)}", gang=gang, **more)


def spoken(of: str) -> Callable[[str], Event]:
    """Return a member whose annotations define its gang."""

    def event(gang: str) -> Event:
        marks = marked(gang, min_available="1")
        return ask(f"of-{of}", f"s-{next(NUMBERS)}", annotations=marks)

    return event


def listing(of: str) -> Callable[[str], Event]:
    return lambda gang: gang_of(f"default/l-{next(NUMBERS)}", user=of, groups=[gang])


def says_groups(of: str) -> Callable[[str], Event]:
    """Return a member of a gang that is not defined, whose annotations list another one."""

    def event(gang: str) -> Event:
        marks = marked(f"default/u-{next(NUMBERS)}", groups=f'["{gang}"]')
        return ask(f"of-{of}", f"g-{next(NUMBERS)}", annotations=marks)

    return event


def nothing(_people: People, _gang: str) -> None:
    """Make no gang: there is only the name."""


def plain(gang: str) -> Event:
    return gang_of(gang)


def of_user(user: str) -> Callable[[str], Event]:
    return lambda gang: gang_of(gang, user=user)


def apart(*steps: Callable[[People, str], None]) -> Callable[[People, str], None]:
    def make(people: People, gang: str) -> None:
        for step in steps:
            step(people, gang)

    return make


ALL: Final = frozenset({"join", "list", "define", "end"})
KINDS: Final[Mapping[str, Kind]] = {
    "of the user, by add_gang": Kind(made(plain, who="bob"), ALL, user="bob"),
    "of the user, by a PodGroup": Kind(
        made(lambda gang: applied(pod_group(gang)), who="bob"), ALL, user="bob"
    ),
    "of the user, by annotations": Kind(made(spoken("bob"), who="bob"), ALL, user="bob"),
    "of the user, not defined": Kind(made(member("bob"), who="bob"), ALL, user="bob"),
    "of the user, by the first member": Kind(
        apart(made(plain), made(member("bob"), who="bob")), ALL, user="bob"
    ),
    "of the user, by the definition, with a member of another": Kind(
        made(of_user("bob"), member("ann")), ALL, user="bob"
    ),
    "of another, by add_gang": Kind(made(plain, who="ann"), user="ann"),
    "of another, by a PodGroup": Kind(
        made(lambda gang: applied(pod_group(gang)), who="ann"), user="ann"
    ),
    "of another, by annotations": Kind(made(spoken("ann"), who="ann"), user="ann"),
    "of another, not defined": Kind(made(member("ann"), who="ann"), user="ann"),
    "of another, by the first member": Kind(
        apart(made(plain), made(member("ann"), who="ann")), user="ann"
    ),
    "of another, by an admin": Kind(made(of_user("ann")), user="ann"),
    "of another, by a PodGroup of an admin": Kind(
        made(lambda gang: applied(pod_group(gang, "ann"))), user="ann"
    ),
    "of another, by the definition, with a member of the user": Kind(
        made(of_user("ann"), member("bob")), user="ann"
    ),
    "of another, removed, with members": Kind(
        made(
            plain,
            member("ann"),
            lambda gang: {"op": "remove_gang", "gang": gang},
        ),
        user="ann",
    ),
    "listed by a gang of another": Kind(made(listing("ann"))),
    "listed by a member of another, whose gang is not defined": Kind(made(says_groups("ann"))),
    "listed by a gang of another, and defined": Kind(made(listing("ann"), plain)),
    "which lists a gang of another": Kind(
        lambda people, gang: people.made(
            of_user("ann")(f"{gang}-listed"), gang_of(gang, groups=[f"{gang}-listed"])
        )
    ),
    "listed by a gang of the user": Kind(made(listing("bob"), who="bob"), ALL),
    "in the namespace of another": Kind(nothing, namespace="ann"),
    "of the user, in the namespace of another": Kind(
        made(of_user("bob")), namespace="ann", user="bob"
    ),
    "in the namespace of the user": Kind(made(plain), ALL, namespace="bob"),
    "of another, in the namespace of the user": Kind(
        made(of_user("ann")), namespace="bob", user="ann"
    ),
    "of an application of nobody": Kind(made(plain, member("nobody"))),
    "defined, of nobody": Kind(made(plain), frozenset({"join", "list"})),
    "which is not there": Kind(nothing, ALL),
}

MARKS: Final[Mapping[str, str]] = {
    "min_available": "99",
    "total_number": "200",
    "waiting_time": "1s",
    "mode": "NonStrict",
    "groups": "[]",
    "timeout": "true",
}
"""What annotations say of a gang, beside its name."""


def uses(gang: str) -> Iterator[tuple[str, Event]]:
    """Yield every way in which ``bob`` may use a gang, with what it needs."""

    def joining(**more: object) -> tuple[str, Event]:
        return "join", ask("of-bob", f"j-{next(NUMBERS)}", **more)

    yield joining(gang=gang)
    yield joining(annotations=marked(gang))
    yield joining(annotations={"pod-group.scheduling.sigs.k8s.io": gang})
    yield joining(annotations={"scheduling.k8s.io/group-name": gang})
    yield joining(gang=gang, count=3)
    for name, value in MARKS.items():
        yield joining(annotations=marked(gang, **{name: value}))
        yield joining(gang=gang, annotations={f"{KOORDINATOR}/{name.replace('_', '-')}": value})
    own = f"default/o-{next(NUMBERS)}"
    yield "list", gang_of(own, groups=["default/bobs", gang])
    yield "list", applied(pod_group(own, groups=f'["{gang}"]'))
    yield "list", ask("of-bob", "lists", annotations=marked(own, groups=f'["{gang}"]'))
    yield "define", gang_of(gang, 99)
    yield "define", applied(pod_group(gang))
    yield "define", applied(pod_group(f"{own}-too"), pod_group(gang))
    yield "end", {"op": "remove_gang", "gang": gang}
    yield "end", applied(pod_group(gang), op="delete")
    yield "end", applied(pod_group(gang), pod_group(own), op="delete")


@pytest.mark.parametrize("kind", KINDS)
def test_gangs(people: People, kind: str) -> None:
    # INPUT-20, INPUT-21, INPUT-22, INPUT-23, INPUT-24, GANG-54
    one = KINDS[kind]
    gang = f"{one.namespace}/k-{next(NUMBERS)}"
    one.make(people, gang)
    before, refused = people.gang(gang), list[Event]()

    assert before is None or before["user"] == one.user
    for use, event in uses(gang):
        (error,) = people.send("bob", event, dry_run="true")
        assert is_of_rights(error) is (use not in one.may), (event, error)
        if use not in one.may:
            refused.append(event)
        (error,) = people.send("root", event, dry_run="true")
        assert not is_of_rights(error)
    if not refused:
        return
    errors = people.send("bob", *refused)
    assert None not in errors
    assert people.gang(gang) == before


def test_every_use_of_a_gang_of_another_by_a_page(people: People) -> None:
    # INPUT-21, PAGE-5
    people.made(gang_of("default/by-page"), who="ann")
    page = people.served.client.get("/gangs/default/by-page", headers=people.headers("bob"))
    assert '<a href="/asks?user=ann">ann</a>' in page.text
    for _, event in uses("default/by-page"):
        for path in ("/events/try", "/events"):
            assert "belongs to" in people.form("bob", path, event)


def test_who_administers_an_application_adds_to_its_gangs(people: People) -> None:
    # INPUT-21
    people.made(
        app("teams", "root.team"), gang_of("teams", 2), ask("teams", gang="teams"), who="bob"
    )
    people.made(app("eves"), who="eve")

    assert people.send("eve", ask("teams", "y", gang="teams")) == [None]
    others: list[Event] = [
        ask("eves", gang="teams"),
        {"op": "remove_gang", "gang": "teams"},
        gang_of("eve-too", groups=["teams"]),
        applied(pod_group("default/teams")),
    ]
    for error in people.send("eve", *others):
        assert error is not None
        assert "'default/teams' belongs to 'bob'" in error


def test_a_gang_belongs_to_the_user_of_the_token(people: People) -> None:
    # INPUT-20
    events = [
        gang_of("owned", user="bob"),
        gang_of("stolen", user="ann"),
        applied(pod_group("default/owned-too", "bob")),
        applied(pod_group("default/stolen", "ann")),
        applied(pod_group("default/x"), pod_group("default/stolen", "ann")),
    ]
    key = "metadata.annotations.yunikorn.apache.org/user.info"

    assert people.send("bob", *events) == [
        None,
        "user: 'ann': this token adds gangs as 'bob'",
        None,
        f"manifest.{key}: 'ann': this token adds gangs as 'bob'",
        f"manifest.items[1].{key}: 'ann': this token adds gangs as 'bob'",
    ]


# INPUT-21: the events of one request meet what those before them have left


def test_within_one_request_what_was_removed_is_free(people: People) -> None:
    # INPUT-21, GANG-17
    people.made(
        app("passing", user="ann"),
        app("next", user="bob"),
        ask("passing", annotations=marked("handed-on", min_available="1")),
        app("helper", "root.team", user="ann"),
        ask("helper", annotations=marked("helped", min_available="1")),
    )
    (error,) = people.send("bob", ask("next", gang="handed-on"))
    assert error == "gang: 'default/handed-on' belongs to 'ann'"

    # Whoever administers the queue removes the application, and the gang is gone with its member.
    assert (
        people.send(
            "eve",
            {"op": "remove_app", "app": "helper"},
            app("eve-now"),
            ask("eve-now", gang="helped"),
            gang_of("helped"),
        )
        == [None] * 4
    )
    found = people.gang("default/helped")
    assert found is not None
    assert found["user"] == "eve"


def test_within_one_request_an_application_and_its_gang(people: People) -> None:
    # INPUT-19, INPUT-21, INPUT-22
    people.made(gang_of("default/ann-1"), who="ann")
    errors = people.send(
        "bob",
        app("one-request"),
        gang_of("one-gang", 2, groups=["one-more"]),
        ask("one-request", "a", gang="one-gang"),
        ask("one-request", "b", gang="one-gang", priority=1_999_999_999),
        ask("one-request", "c", gang="ann-1"),
        {"op": "remove_gang", "gang": "one-gang"},
        gang_of("one-gang", 1),
        {"op": "remove_gang", "gang": "ann-1"},
        gang_of("one-more"),
        {"op": "remove_app", "app": "one-request"},
        ask("one-request", "d", gang="one-gang"),
    )

    refused = [number for number, error in enumerate(errors) if error is not None]
    assert refused == [3, 4, 7, 10]
    assert errors[4] == errors[7] == "gang: 'default/ann-1' belongs to 'ann'"


def test_a_name_that_another_lists_in_the_same_request_is_still_theirs(people: People) -> None:
    # INPUT-24
    people.made(gang_of("lister", groups=["later"]), who="ann")

    (error,) = people.send("bob", gang_of("later"))
    assert error == (
        "gang: 'default/later' is in a group with 'default/lister', which belongs to 'ann'"
    )
    assert people.send("ann", gang_of("later")) == [None]
    people.made({"op": "remove_gang", "gang": "later"}, who="ann")
    people.made({"op": "remove_gang", "gang": "lister"}, who="ann")
    assert people.send("bob", gang_of("later")) == [None]


def test_a_list_that_does_not_count_yet_cannot_tie_a_gang_later(people: People) -> None:
    # INPUT-24: bob says which gangs he needs before anybody has them, and defines his own later.
    people.made(
        ask("of-bob", "early", annotations=marked("ties", groups='["default/tied"]')), who="bob"
    )

    (error,) = people.send("ann", gang_of("tied"))
    assert error is not None
    assert "is in a group with 'default/ties', which belongs to 'bob'" in error


# INPUT-25, INPUT-26


def test_nobody_runs_commands_as_another(people: People) -> None:
    # INPUT-26
    people.made(app("runs", "root.team"), ask("runs", "own", command=["true"]), who="bob")

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


# The attacks of a trial


def test_nobody_evicts_others_by_a_system_class(people: People) -> None:
    # INPUT-19
    people.made(app("attacker"), who="zoe")
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


def test_nobody_spoils_the_gang_of_another(people: People) -> None:
    # INPUT-21
    people.made(gang_of("big", 3))
    people.made(app("bobs"), ask("bobs", "m", count=2, gang="big"), who="bob")
    before = people.gang("default/big")
    attacks = [
        ask("of-zoe", "more", annotations=marked("big", min_available="99")),
        ask("of-zoe", "late", annotations=marked("big", timeout="true")),
    ]

    assert people.send("zoe", *attacks) == ["gang: 'default/big' belongs to 'bob'"] * 2
    assert people.gang("default/big") == before
    # And bob can mend it himself.
    assert people.send("bob", {"op": "remove_gang", "gang": "big"}, gang_of("big", 2)) == [None] * 2


# What the guides show


def test_what_the_guides_show_works_for_a_submitter(tmp_path: Path) -> None:
    # INPUT-22
    example = Path(__file__).parents[3] / "examples" / "serve"
    jobs: list[Event] = yaml.safe_load((example / "jobs.yaml").read_text("utf-8"))
    training = [
        app("training", "root.batch", user="ann"),
        gang_of("default/training", 4),
        ask("training", "worker", count=4, gang="default/training", command=["true"], retries=3),
    ]
    config = (example / "queues.yaml").read_text("utf-8")
    with people_of(tmp_path, config=config) as people:
        assert people.send("ann", *jobs, *training) == [None] * (len(jobs) + len(training))
        for gang in ("default/pair", "default/training"):
            found = people.gang(gang)
            assert found is not None
            assert found["user"] == "ann"


# INPUT-23: the file of tokens is read again


def test_the_namespace_of_a_user_who_comes(tmp_path: Path) -> None:
    # INPUT-23, ACCESS-4
    with people_of(tmp_path) as people:
        people.made(gang_of("newcomer/first"), who="bob")
        _, token = mint(Who("newcomer", Role.READER, "newcomer"))
        append(tmp_path / "tokens", token)
        people.served.process.send_signal(signal.SIGHUP)
        people.served.line("tokens: read again: in force")

        (error,) = people.send("bob", gang_of("newcomer/second"))
        assert error == "gang: 'newcomer/second' is in the namespace of the user 'newcomer'"


# GANG-53, CHECKPOINT-3: a gang stays whose it is


@pytest.mark.parametrize("way", ["checkpoint", "kill"])
def test_a_gang_belongs_to_the_same_user_after_a_start(tmp_path: Path, way: str) -> None:
    # GANG-53, GANG-54
    state = ("--state", str(tmp_path / "state"))
    users = {
        "default/defined": "ann",
        "default/object": "ann",
        "default/spoken": "bob",
        "default/member": "bob",
        "default/free": None,
    }
    with people_of(tmp_path, *state) as people:
        people.made(
            app("of-ann", user="ann"),
            app("of-bob", user="bob"),
            gang_of("default/defined", user="ann"),
            applied(pod_group("default/object", "ann")),
            spoken("bob")("default/spoken"),
            gang_of("default/member", 5),
            member("bob")("default/member"),
            member("ann")("default/member"),
            gang_of("default/free"),
            gang_of("default/lists", user="ann", groups=["listed"]),
        )
        secrets = people.secrets
        if way == "kill":
            people.served.kill()
    with people_of(tmp_path, *state, secrets=secrets) as people:
        for gang, user in users.items():
            found = people.gang(gang)
            assert found is not None
            assert found["user"] == user
        (error,) = people.send("bob", gang_of("listed"))
        assert error is not None
        assert "which belongs to 'ann'" in error
        people.made(member("bob")("default/free"), who="bob")
        (error,) = people.send("ann", member("ann")("default/free"))
        assert error == "gang: 'default/free' belongs to 'bob'"
