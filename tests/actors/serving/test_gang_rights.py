"""Nobody harms the gangs of another: every use, on a gang of each owner."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs
import pytest
import yaml

from muster.service.access import Principal, Role, append, mint
from tests.actors.serving.people import (
    KOORDINATOR,
    Event,
    People,
    app,
    applied,
    ask,
    gang_of,
    is_of_rights,
    marked,
    people_of,
    pod_group,
)

NUMBERS: Final = count()


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with people_of(tmp_path_factory.mktemp("rights")) as found:
        found.submit(
            {"op": "add_node", "node": "n", "capacity": {"vcore": 1000}},
            *(app(f"of-{who}", user=who) for who in ("ann", "bob", "eve", "zoe")),
            app("of-nobody"),
        )
        yield found


# INPUT-20 to INPUT-24, GANG-54: gangs


@attrs.frozen
class GangKind:
    """A gang of some user, or a name of one.

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


def making(*events: Callable[[str], Event], who: str = "root") -> Callable[[People, str], None]:
    """Return a function that makes a gang by events."""
    return lambda people, gang: people.submit(*(event(gang) for event in events), who=who)


def member(of: str, **more: object) -> Callable[[str], Event]:
    return lambda gang: ask(f"of-{of}", f"m-{next(NUMBERS)}", gang=gang, **more)


def defining_member(of: str) -> Callable[[str], Event]:
    """Return a member whose annotations define its gang."""

    def event(gang: str) -> Event:
        marks = marked(gang, min_available="1")
        return ask(f"of-{of}", f"s-{next(NUMBERS)}", annotations=marks)

    return event


def listing_gang(of: str) -> Callable[[str], Event]:
    return lambda gang: gang_of(f"default/l-{next(NUMBERS)}", user=of, groups=[gang])


def listing_member(of: str) -> Callable[[str], Event]:
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


def in_steps(*steps: Callable[[People, str], None]) -> Callable[[People, str], None]:
    def make(people: People, gang: str) -> None:
        for step in steps:
            step(people, gang)

    return make


ALL: Final = frozenset({"join", "list", "define", "end"})
KINDS: Final[Mapping[str, GangKind]] = {
    "of the user, by add_gang": GangKind(making(plain, who="bob"), ALL, user="bob"),
    "of the user, by a PodGroup": GangKind(
        making(lambda gang: applied(pod_group(gang)), who="bob"), ALL, user="bob"
    ),
    "of the user, by annotations": GangKind(
        making(defining_member("bob"), who="bob"), ALL, user="bob"
    ),
    "of the user, not defined": GangKind(making(member("bob"), who="bob"), ALL, user="bob"),
    "of the user, by the first member": GangKind(
        in_steps(making(plain), making(member("bob"), who="bob")), ALL, user="bob"
    ),
    "of the user, by the definition, with a member of another": GangKind(
        making(of_user("bob"), member("ann")), ALL, user="bob"
    ),
    "of another, by add_gang": GangKind(making(plain, who="ann"), user="ann"),
    "of another, by a PodGroup": GangKind(
        making(lambda gang: applied(pod_group(gang)), who="ann"), user="ann"
    ),
    "of another, by annotations": GangKind(making(defining_member("ann"), who="ann"), user="ann"),
    "of another, not defined": GangKind(making(member("ann"), who="ann"), user="ann"),
    "of another, by the first member": GangKind(
        in_steps(making(plain), making(member("ann"), who="ann")), user="ann"
    ),
    "of another, by an admin": GangKind(making(of_user("ann")), user="ann"),
    "of another, by a PodGroup of an admin": GangKind(
        making(lambda gang: applied(pod_group(gang, "ann"))), user="ann"
    ),
    "of another, by the definition, with a member of the user": GangKind(
        making(of_user("ann"), member("bob")), user="ann"
    ),
    "of another, removed, with members": GangKind(
        making(
            plain,
            member("ann"),
            lambda gang: {"op": "remove_gang", "gang": gang},
        ),
        user="ann",
    ),
    "listed by a gang of another": GangKind(making(listing_gang("ann"))),
    "listed by a member of another, whose gang is not defined": GangKind(
        making(listing_member("ann"))
    ),
    "listed by a gang of another, and defined": GangKind(making(listing_gang("ann"), plain)),
    "which lists a gang of another": GangKind(
        lambda people, gang: people.submit(
            of_user("ann")(f"{gang}-listed"), gang_of(gang, groups=[f"{gang}-listed"])
        )
    ),
    "listed by a gang of the user": GangKind(making(listing_gang("bob"), who="bob"), ALL),
    "in the namespace of another": GangKind(nothing, namespace="ann"),
    "of the user, in the namespace of another": GangKind(
        making(of_user("bob")), namespace="ann", user="bob"
    ),
    "in the namespace of the user": GangKind(making(plain), ALL, namespace="bob"),
    "of another, in the namespace of the user": GangKind(
        making(of_user("ann")), namespace="bob", user="ann"
    ),
    "of an application of nobody": GangKind(making(plain, member("nobody"))),
    "defined, of nobody": GangKind(making(plain), frozenset({"join", "list"})),
    "which is not there": GangKind(nothing, ALL),
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
    """Yield every way in which ``bob`` may use a gang, with the right that it needs."""

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
    people.submit(gang_of("default/by-page"), who="ann")
    page = people.served.client.get("/gangs/default/by-page", headers=people.headers("bob"))
    assert '<a href="/asks?user=ann">ann</a>' in page.text
    for _, event in uses("default/by-page"):
        for path in ("/events/try", "/events"):
            assert "belongs to" in people.form("bob", path, event)


def test_who_administers_an_application_adds_to_its_gangs(people: People) -> None:
    # INPUT-21
    people.submit(
        app("teams", "root.team"), gang_of("teams", 2), ask("teams", gang="teams"), who="bob"
    )
    people.submit(app("eves"), who="eve")

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
    people.submit(
        app("passing", user="ann"),
        app("next", user="bob"),
        ask("passing", annotations=marked("handed-on", min_available="1")),
        app("ended", "root.team", user="ann"),
        ask("ended", annotations=marked("helped", min_available="1")),
    )
    (error,) = people.send("bob", ask("next", gang="handed-on"))
    assert error == "gang: 'default/handed-on' belongs to 'ann'"

    # Whoever administers the queue removes the application, and the gang is gone with its member.
    assert (
        people.send(
            "eve",
            {"op": "remove_app", "app": "ended"},
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
    people.submit(gang_of("default/ann-1"), who="ann")
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
    people.submit(gang_of("lister", groups=["later"]), who="ann")

    (error,) = people.send("bob", gang_of("later"))
    assert error == (
        "gang: 'default/later' is in a group with 'default/lister', which belongs to 'ann'"
    )
    assert people.send("ann", gang_of("later")) == [None]
    people.submit({"op": "remove_gang", "gang": "later"}, who="ann")
    people.submit({"op": "remove_gang", "gang": "lister"}, who="ann")
    assert people.send("bob", gang_of("later")) == [None]


def test_a_list_that_does_not_count_yet_cannot_tie_a_gang_later(people: People) -> None:
    # INPUT-24: bob lists the gangs that he needs before they exist, and defines his own later.
    people.submit(
        ask("of-bob", "early", annotations=marked("ties", groups='["default/tied"]')), who="bob"
    )

    (error,) = people.send("ann", gang_of("tied"))
    assert error is not None
    assert "is in a group with 'default/ties', which belongs to 'bob'" in error


# What a user might try


def test_nobody_spoils_the_gang_of_another(people: People) -> None:
    # INPUT-21
    people.submit(gang_of("big", 3))
    people.submit(app("bobs"), ask("bobs", "m", count=2, gang="big"), who="bob")
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
        people.submit(gang_of("carl/first"), who="bob")
        _, token = mint(Principal("carl", Role.READER, "carl"))
        append(tmp_path / "tokens", token)
        people.served.process.send_signal(signal.SIGHUP)
        people.served.line("tokens: read again: in force")

        (error,) = people.send("bob", gang_of("carl/second"))
        assert error == "gang: 'carl/second' is in the namespace of the user 'carl'"


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
        people.submit(
            app("of-ann", user="ann"),
            app("of-bob", user="bob"),
            gang_of("default/defined", user="ann"),
            applied(pod_group("default/object", "ann")),
            defining_member("bob")("default/spoken"),
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
        people.submit(member("bob")("default/free"), who="bob")
        (error,) = people.send("ann", member("ann")("default/free"))
        assert error == "gang: 'default/free' belongs to 'bob'"


# Whatever a user sends, the things of others stay as they are


GANGS: Final = ("default/a", "default/b", "default/c", "default/d", "ann/own", "bob/own")
SENDERS: Final = ("ann", "bob", "zoe")


def random_event(chance: Random, who: str) -> Event:
    """Return an event of a user about an application, ask or gang of any user."""
    gang, other = chance.choice(GANGS), chance.choice(GANGS)
    owner = who if chance.random() < 0.7 else chance.choice(SENDERS)
    name = f"{owner}-{chance.randrange(2)}"
    groups = chance.choice([None, None, f'["{other}"]'])
    marks = {
        key: value
        for key, value in MARKS.items()
        if chance.random() < 0.15 and not (key == "groups" and groups is not None)
    }
    if groups is not None:
        marks["groups"] = groups
    lists: Event = {} if groups is None else {"groups": [other]}
    nowhere = {"selector": {"nowhere": "x"}}
    number = f"k{chance.randrange(6)}"
    ops: list[Callable[[], Event]] = [
        lambda: app(name),
        lambda: ask(name, number, gang=gang, **nowhere),
        lambda: ask(name, number, annotations=marked(gang, **marks), **nowhere),
        lambda: gang_of(gang, 1, **lists),
        lambda: applied(pod_group(gang, groups=groups)),
        lambda: applied(pod_group(gang, groups=groups), pod_group(other)),
        lambda: applied(pod_group(gang), op="delete"),
        lambda: {"op": "remove_gang", "gang": gang},
        lambda: {"op": "remove_ask", "app": name, "ask": number},
        lambda: {"op": "remove_app", "app": name},
    ]
    weights = (2, 3, 4, 2, 2, 1, 1, 1, 2, 0.5)
    return chance.choices(ops, weights)[0]()


def items_of(people: People, what: str) -> list[dict[str, Any]]:
    answer = people.served.client.get(
        f"/api/v1/{what}?limit=1000", headers=people.headers("reader")
    )
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


@attrs.frozen
class Inventory:
    """The applications and asks by their users, and the gangs with their groups."""

    apps: Mapping[str, str]
    asks: Mapping[str, tuple[str, str, str | None]]
    gangs: Mapping[str, dict[str, Any]]

    @classmethod
    def of(cls, people: People) -> Inventory:
        apps = {one["app"]: one["user"] for one in items_of(people, "apps")}
        asks = {
            f"{one['app']}/{one['ask']}": (apps[one["app"]], one["place"], one["gang"])
            for one in items_of(people, "asks")
        }
        return cls(apps, asks, {one["gang"]: one for one in items_of(people, "gangs")})

    def besides(self, who: str) -> object:
        """Return all that belongs to others."""
        return (
            {name: user for name, user in self.apps.items() if user != who},
            {name: ask for name, ask in self.asks.items() if ask[0] != who},
            {name: gang for name, gang in self.gangs.items() if gang["user"] != who},
        )

    def check(self) -> None:
        """Check that no gang has members of two users, and no group gangs of two."""
        links = {name: {name} for name in (*self.gangs, *GANGS)}
        for name, gang in self.gangs.items():
            for other in () if gang["definition"] is None else gang["definition"]["groups"]:
                both = links[name] | links[other]
                for one in both:
                    links[one] = both
        for group in links.values():
            users = {self.gangs[name]["user"] for name in group if name in self.gangs}
            users |= {user for user, _, gang in self.asks.values() if gang in group}
            assert len(users) <= 1, (group, users)
            assert all(
                user == name.split("/")[0] for name in group for user in users if "own" in name
            )


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """A server without applications and gangs."""
    with people_of(tmp_path_factory.mktemp("crowd")) as found:
        yield found


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_sent_the_things_of_others_stay(crowd: People, seed: int) -> None:
    # INPUT-11, INPUT-21, INPUT-22, INPUT-23, INPUT-24, INPUT-8
    chance = Random(seed)
    before, carried_out = Inventory.of(crowd), 0
    for _ in range(60):
        who = chance.choice(SENDERS)
        events = [random_event(chance, who) for _ in range(chance.randrange(1, 6))]
        errors = crowd.send(who, *events, dry_run="true")
        assert crowd.send(who, *events) == errors
        carried_out += errors.count(None)
        after = Inventory.of(crowd)
        assert after.besides(who) == before.besides(who), (who, events, errors)
        after.check()
        before = after
    assert carried_out > 20
    removed: list[Event] = [{"op": "remove_app", "app": name} for name in before.apps]
    undefined: list[Event] = [{"op": "remove_gang", "gang": name} for name in GANGS]
    crowd.send("root", *removed, *undefined)
