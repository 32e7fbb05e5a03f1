"""The page without a browser: sessions, proofs, and the requests of its buttons."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from muster.service.access import Role
from muster.service.page.site import PAUSE, pause_ms
from tests.actors.serving.served import Served
from tests.actors.serving.test_access import SECRETS, line_of

NODE: Final = {"op": "add_node", "node": "n1", "capacity": {"vcore": 8}}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as served:
        yield served


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Served]:
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{line_of(role, secret)}\n" for role, secret in SECRETS.items()))
    with Served(tmp_path, "--tokens", str(tokens)) as served:
        yield served


def log_in(client: httpx.Client, role: Role) -> httpx.Response:
    form = {"token": SECRETS[role], "wanted": "/queues"}
    return client.post("/login", data=form, follow_redirects=False)


def proof(client: httpx.Client) -> dict[str, str]:
    found = re.search(r'"X-Muster-Proof": "([^"]+)"', client.get("/").text)
    assert found is not None
    return {"X-Muster-Proof": found[1]}


# PAGE-1
def test_a_page_fetches_nothing_from_elsewhere(served: Served) -> None:
    response = served.client.get("/")
    policy = dict(
        part.strip().split(" ", 1)
        for part in response.headers["content-security-policy"].split(";")
    )

    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    for address in re.findall(r'(?:src|href)="([^"]+)"', response.text):
        assert address.startswith(("/", "#")), address
    for address in re.findall(r'(?:src|href)="(/static/[^"]+)"', response.text):
        found = served.client.get(address)
        assert found.status_code == 200
        assert "immutable" in found.headers["cache-control"]


# PAGE-2
def test_a_session_begins_and_ends(guarded: Served) -> None:
    client = guarded.client
    refused = client.get("/queues")
    assert (refused.status_code, 'value="/queues"' in refused.text) == (401, True)
    wrong = client.post("/login", data={"token": "wrong", "wanted": "/"})
    assert (wrong.status_code, dict(client.cookies)) == (403, {})

    response = log_in(client, Role.READER)
    assert (response.status_code, response.headers["location"]) == (303, "/queues")
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert "root.prod" in client.get("/queues").text
    held = dict(client.cookies)
    client.post("/logout")
    client.cookies.update(held)
    assert client.get("/queues").status_code == 401


# PAGE-2
@pytest.mark.parametrize("wanted", ["//elsewhere.example", "https://elsewhere.example", "/\\x"])
def test_logging_in_leads_nowhere_else(guarded: Served, wanted: str) -> None:
    form = {"token": SECRETS[Role.READER], "wanted": wanted}
    response = guarded.client.post("/login", data=form, follow_redirects=False)

    assert response.headers["location"] == "/"


# PAGE-2
def test_a_role_allows_what_it_allows_in_requests(guarded: Served) -> None:
    log_in(guarded.client, Role.READER)
    form = {"events": json.dumps([NODE])}
    response = guarded.client.post("/events", data=form, headers=proof(guarded.client))

    assert response.status_code == 403
    assert "This needs the role submitter" in response.text


# PAGE-3
def test_a_form_without_its_proof_is_refused(served: Served) -> None:
    form = {"events": json.dumps([NODE])}
    for headers in ({}, {"X-Muster-Proof": "x"}, {"X-Muster-Proof": ""}):
        response = served.client.post("/events", data=form, headers=headers)
        assert response.status_code == 403
    assert served.client.get("/api/v1/nodes").json()["items"] == []


# PAGE-3
def test_a_proof_lasts_while_others_come_and_go(served: Served) -> None:
    headers = proof(served.client)
    served.client.get("/login")
    form = {"events": json.dumps([NODE])}

    assert served.client.post("/events", data=form, headers=headers).status_code == 200


# PAGE-5
def test_events_are_tried_and_applied(served: Served) -> None:
    headers = proof(served.client)
    wrong = {"op": "drain_node", "node": "n1"}
    form = {"events": json.dumps([NODE, wrong]), "what": "Add n1"}
    tried = served.client.post("/events/try", data=form, headers=headers)
    assert "This would be refused" in tried.text
    assert served.client.get("/api/v1/nodes").json()["items"] == []

    applied = served.client.post("/events", data=form, headers=headers)
    assert "Add n1: refused in part" in applied.text
    assert [one["node"] for one in served.client.get("/api/v1/nodes").json()["items"]] == ["n1"]


# PAGE-4
def test_a_page_gets_news_of_an_ask_that_has_to_wait(served: Served) -> None:
    app = {"op": "add_app", "app": "a", "queue": "root.dev", "user": "olga"}
    ask = {"op": "add_ask", "app": "a", "ask": "x", "resources": {"vcore": 1}}
    served.client.post("/api/v1/events", json=[app, ask])
    with served.client.stream("GET", "/live", timeout=10) as response:
        lines = response.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        served.client.post("/api/v1/events", json=[{**ask, "ask": "y"}])
        assert next(line for line in lines if line.startswith("data: ")) != first


# PAGE-67
@pytest.mark.parametrize(
    ("took_s", "rests_ms"), [(0, 0), (0.005, 50), (0.24, 2_400), (0.5, 5_000), (60, 5_000)]
)
def test_a_page_rests_ten_times_as_long_as_it_took(took_s: float, rests_ms: int) -> None:
    assert pause_ms(took_s) == rests_ms


# PAGE-67
def test_a_part_that_is_fetched_again_says_how_long_it_rests(served: Served) -> None:
    assert PAUSE not in served.client.get("/nodes").headers
    found = served.client.get("/nodes", headers={"HX-Request": "true"}).headers[PAUSE]
    assert 1 <= int(found) <= 5_000
