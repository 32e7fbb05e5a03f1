"""What a submitter may do: applications and asks, as the user of the token."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.actors.serving.people import PATH, Event, People, app, ask, people_of


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    with people_of(tmp_path_factory.mktemp("served")) as found:
        yield found


def test_applications_belong_to_the_user_of_the_token(people: People) -> None:
    # INPUT-10
    errors = people.send(
        "ann", app("mine"), app("mine-too", user="ann"), app("not-mine", user="bob")
    )

    assert errors == [None, None, "user: 'bob': this token adds applications as 'ann'"]
    found = people.served.client.get("/api/v1/apps/mine", headers=people.headers("ann")).json()
    assert found["item"]["user"] == "ann"


def test_groups_are_those_of_the_token(people: People) -> None:
    # INPUT-10
    errors = people.send(
        "ann", app("grouped", groups=["dev"]), app("promoted", groups=["dev", "heads"])
    )

    assert errors == [None, "groups: 'heads': 'ann' is not in this group"]


def test_the_acl_of_the_queue_counts(people: People) -> None:
    # INPUT-10
    assert people.send("bob", app("in-team", "root.team")) == [None]
    (error,) = people.send("zoe", app("too-much", "root.team"))
    assert error is not None
    assert "does not admit 'zoe'" in error


def test_others_do_not_touch_what_somebody_has_submitted(people: People) -> None:
    # INPUT-11
    assert people.send("ann", app("anns"), ask("anns")) == [None, None]
    wanted = "app: 'anns' belongs to 'ann', and no adminacl on the path of its queue names 'bob'"

    touching: list[Event] = [
        ask("anns", "y"),
        {"op": "remove_ask", "app": "anns", "ask": "x"},
        {"op": "release", "app": "anns", "ask": "x"},
        {"op": "bind_failed", "app": "anns", "ask": "x"},
        {"op": "remove_app", "app": "anns"},
    ]
    assert people.send("bob", *touching) == [wanted] * len(touching)
    assert people.send("bob", *touching, dry_run="true") == [wanted] * len(touching)
    assert people.send("ann", touching[1], touching[4]) == [None, None]


@pytest.mark.parametrize("who", ["eve", "hal", "root"])
def test_who_administers_the_queue_may(people: People, who: str) -> None:
    # INPUT-11
    name = f"for-{who}"
    assert people.send("bob", app(name, "root.team"), ask(name)) == [None, None]

    assert people.send(who, ask(name, "y"), {"op": "remove_app", "app": name}) == [None, None]


def test_what_is_unknown_is_refused_by_the_scheduler(people: People) -> None:
    # INPUT-11
    (error,) = people.send("bob", ask("nobody-has-this"))

    assert error is not None
    assert error.startswith("app: 'nobody-has-this' is unknown")


def test_a_name_that_somebody_has_is_not_taken_over(people: People) -> None:
    # INPUT-11
    assert people.send("ann", app("taken")) == [None]

    errors = people.send("bob", app("taken"), ask("taken"))

    assert errors[0] == "app: 'taken' is already an application"
    assert errors[1] is not None
    assert "belongs to 'ann'" in errors[1]


def test_a_reader_sends_nothing(people: People) -> None:
    # INPUT-9
    for path, method in ((PATH, "POST"), ("/api/v1/config", "PUT")):
        answer = people.served.client.request(
            method, path, json=[], headers=people.headers("reader")
        )
        assert answer.status_code == 403
    answer = people.served.client.put("/api/v1/config", content="", headers=people.headers("ann"))
    assert answer.status_code == 403
    answer = people.served.client.put("/api/v1/nodes/n/lease", headers=people.headers("ann"))
    assert answer.status_code == 403


def test_a_repeat_of_somebody_else_is_another_request(people: People) -> None:
    # INPUT-6
    def once(who: str, name: str) -> int:
        answer = people.served.client.post(
            PATH, json=[app(name)], headers={**people.headers(who), "Idempotency-Key": "same"}
        )
        return answer.status_code

    assert [once("ann", "one"), once("bob", "two"), once("ann", "three")] == [200, 200, 422]


def test_of_an_atomic_request_nothing_is_let_in_if_a_part_is_not_allowed(people: People) -> None:
    # INPUT-11, INPUT-30
    events = [app("atomic"), ask("atomic"), {"op": "remove_node", "node": "n"}]

    refused = people.served.client.post(
        "/api/v1/events", json=events, params={"atomic": "true"}, headers=people.headers("ann")
    )

    assert refused.status_code == 422
    first, second, third = (one["error"] for one in refused.json()["results"])
    assert (first, second) == (None, None)
    assert third.startswith("op: this needs the role admin")
    done = people.served.client.post(
        "/api/v1/events", json=events[:2], params={"atomic": "true"}, headers=people.headers("ann")
    )
    assert [one["ok"] for one in done.json()] == [True, True]
