"""Pages of the past, steps through the kept history, and what happened in a span."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

import pytest

from muster.figures.text import iso_date
from muster.store import StateReader
from tests.actors.serving.served import Served, until
from tests.actors.serving.test_page import proof

NODE: Final = {"op": "add_node", "node": "n1", "capacity": {"vcore": 8}}
APP: Final = {"op": "add_app", "app": "a", "queue": "root.prod", "user": "ann"}
PATHS: Final = (
    *("/queues", "/queues/root.prod", "/nodes", "/nodes/n1", "/nodes/n2"),
    *("/asks", "/asks?state=pending", "/asks/a/one", "/asks/a/two", "/apps/a"),
    *("/gangs", "/gangs/default/g"),
)


_OTHERWISE: Final = (
    r'<details class="apply".*?</details>',
    r'<p class="hint">.*?</p>',
    r'<section [^>]*id="remedies".*?</section>',
    r'<div class="searching".*?</div>',
    r'<section [^>]*aria-labelledby="history".*?</section>',
)


def ask(name: str, **more: object) -> Mapping[str, object]:
    return {"op": "add_ask", "app": "a", "ask": name, "resources": {"vcore": 3}, **more}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        yield served


def state_of(served: Served) -> Path:
    """Return the state directory of a service."""
    arguments = cast("list[str]", served.process.args)
    return Path(arguments[arguments.index("--state") + 1])


def post(served: Served, *events: Mapping[str, object]) -> str:
    """Submit events; return the instant of the last batch."""
    served.client.post("/api/v1/events", json=[*events]).raise_for_status()
    with StateReader(state_of(served)) as reader:
        return iso_date(reader.meta.origin_us + reader.last().at_us)


def content(served: Served, path: str, at: str = "") -> str:
    """Return the content of a page without its parts about the present moment."""
    address = f"{path}{'&' if '?' in path else '?'}{urlencode({'at': at})}" if at else path
    response = served.client.get(address, headers={"HX-Request": "true"})
    if response.status_code == 404:
        return "404"
    assert response.status_code == 200, response.text
    text = re.sub(r'<span class="(?:ago|age)" .*?</span>', "", response.text)
    text = re.sub(r"[?&](amp;)?at=[^\"&]*", "", text)
    # Buttons, with their descriptions, and searches are not there in the past; what was
    # decided is in memory, or loaded; and durations go on in the present.
    for part in _OTHERWISE:
        text = re.sub(part, "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", re.sub(r"</?(?:bdi|wbr)>", "", text))
    text = re.sub(r"left us\s+[0-9,]+|[0-9.,]+ (µs|ms|s|min)\b", "", text)
    return " ".join(text.split())


# PAGE-60
def test_pages_are_shown_as_they_were(served: Served) -> None:
    steps: list[list[Mapping[str, object]]] = [
        [NODE, APP, ask("one")],
        [ask("two", priority=3), ask("three")],
        [{"op": "add_gang", "gang": "g", "min_member": 2}, ask("member", gang="g")],
        [{"op": "release", "app": "a", "ask": "one", "outcome": "completed"}],
        [{"op": "remove_node", "node": "n1"}],
        [{"op": "remove_app", "app": "a"}],
    ]
    moments: list[tuple[str, dict[str, str]]] = []
    for events in steps:
        at = post(served, *events)
        moments.append((at, {path: content(served, path) for path in PATHS}))

    assert all(
        len({shown[path] for _, shown in moments}) > 1 for path in PATHS if path[-2:] != "n2"
    )
    for at, shown in moments:
        assert {path: content(served, path, at) for path in PATHS} == shown


# PAGE-62
@pytest.mark.parametrize(
    ("at", "status", "problem"),
    [
        ("yesterday", 400, "must be a date in UTC such as 2026-01-31T18:30:00Z, or seconds since"),
        ("2999-01-01", 400, "lies in the future: now is 20"),
        ("2001-01-01T00:00:00Z", 410, "there is history from 20"),
    ],
)
def test_a_moment_that_cannot_be_is_refused(
    served: Served, at: str, status: int, problem: str
) -> None:
    response = served.client.get("/queues", params={"at": at})

    assert (response.status_code, problem in response.text) == (status, True), response.text


# PAGE-62
def test_without_a_state_there_is_no_past(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        response = served.client.get("/queues", params={"at": "2026-01-01"})
        assert response.status_code == 409
        assert "start the service with --state" in response.text
        assert 'id="time"' not in served.client.get("/queues").text
        assert "--state DIR" in served.client.get("/time").text


# PAGE-62
def test_a_moment_has_several_forms_and_links_keep_it(served: Served) -> None:
    at = post(served, NODE)
    with StateReader(state_of(served)) as reader:
        seconds = reader.last().at_us / 1e6
    post(served, {**NODE, "node": "n2"})
    for written in (at, at.replace("Z", "+00:00"), at.removesuffix("Z"), f"{seconds:.6f}"):
        text = served.client.get("/queues", params={"at": written}).text
        found = {parse_qs(urlsplit(one).query)["at"][0] for one in _links(text)}
        assert found == {at}


def _links(text: str) -> list[str]:
    top = text.partition('<nav aria-label="Parts">')[2].partition("</nav>")[0]
    return [one.replace("&amp;", "&") for one in re.findall(r'href="([^"]+)"', top)]


# PAGE-64, PAGE-5
def test_a_page_of_the_past_says_so_and_changes_nothing(served: Served) -> None:
    at = post(served, NODE)
    post(served, {**NODE, "node": "n2"})
    text = served.client.get("/queues", params={"at": at}).text

    assert "data-live" not in text
    assert "The past:" in text
    assert "data-live" in served.client.get("/queues").text
    form = {"events": json.dumps([{"op": "remove_node", "node": "n1"}])}
    response = served.client.post(
        "/events", params={"at": at}, data=form, headers=proof(served.client)
    )
    assert response.status_code == 409
    assert "The past cannot be changed" in response.text


# PAGE-63
def test_steps_lead_from_moment_to_moment(served: Served) -> None:
    first = post(served, NODE)
    second = post(served, {**NODE, "node": "n2"})
    third = post(served, {**NODE, "node": "n3"})

    def step(**query: str) -> dict[str, Any]:
        response = served.client.get(
            "/time/go", params={"back": "/queues?x=1", **query}, follow_redirects=False
        )
        assert response.status_code == 303, response.text
        found = urlsplit(response.headers["location"])
        assert found.path == "/queues"
        return {name: values[0] for name, values in parse_qs(found.query).items()}

    assert step(by="-batch") == {"x": "1", "at": second}
    assert step(by="-batch", at=second) == {"x": "1", "at": first}
    assert step(by="batch", at=first) == {"x": "1", "at": second}
    assert step(by="batch", at=second) == {"x": "1", "at": third}
    assert step(by="batch", at=third) == {"x": "1"}
    assert step(by="3600", at=first) == {"x": "1"}
    assert step(by="when", when="2999-01-01") == {"x": "1"}
    begins = step(by="-3600", at=second)["at"]
    assert step(by="-60", at=second)["at"] == begins < first
    assert step(by="slide", slide="0") == {"x": "1", "at": begins}
    # Nobody is led elsewhere.
    response = served.client.get(
        "/time/go", params={"by": "-batch", "back": "//elsewhere.example"}, follow_redirects=False
    )
    assert response.headers["location"].startswith("/?at=")
    assert served.client.get("/time/go", params={"by": "x"}).status_code == 400


# PAGE-61
def test_it_says_how_much_of_a_past_state_is_made(served: Served) -> None:
    response = served.client.get("/time/made")
    assert (response.status_code, response.text) == (200, "")


# PAGE-65, PAGE-66
def test_a_span_says_what_happened(served: Served) -> None:
    first = post(served, NODE, APP, ask("one"))
    second = post(served, ask("two"), ask("three"), {"op": "remove_node", "node": "n9"})
    post(served, {"op": "remove_node", "node": "n1"})
    span = {"from": first, "until": second}

    def tiles(**query: str) -> dict[str, str]:
        text = served.client.get("/time", params=query).text
        found = re.findall(r'class="tile"><b>(.*?)</b><span>(.*?)</span>', text)
        return {name: value for value, name in found}

    found = tiles(**span)
    assert (found["asks bound"], found["event refused"], found["nodes removed"]) == ("2", "1", "0")
    assert (found["node added"], tiles()["node removed"]) == ("1", "1")
    assert tiles(**span, queue="root.dev")["asks bound"] == "0"
    text = served.client.get("/time", params={**span, "kind": "bound"}).text
    assert re.findall(r'href="(/asks/a/[^"?]+)\?at=', text) == ["/asks/a/one", "/asks/a/two"]
    assert f"at={first.replace(':', '%3A')}" in text
    text = served.client.get("/time", params={**span, "kind": "warning"}).text
    assert "No decision of this span matches." in text
    before = datetime.fromisoformat(first) - timedelta(milliseconds=1)
    quiet = {"from": before.isoformat(), "until": before.isoformat()}
    text = served.client.get("/time", params=quiet).text
    assert "Nothing happened." in text
    assert "Nothing was decided in this span." in text


# PAGE-65
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"kind": "binds"}, "kind: &#39;binds&#39;: must be one of assigned"),
        ({"from": "noon"}, "from: &#39;noon&#39;: must be a date in UTC"),
        ({"from": "2026-01-02", "until": "2026-01-01"}, "is after until"),
        ({"after": "x"}, "after: &#39;x&#39;: must be a whole number"),
    ],
)
def test_a_span_that_cannot_be_is_refused(
    served: Served, query: dict[str, str], problem: str
) -> None:
    response = served.client.get("/time", params={**query, "queue": "root.dev"})

    assert (response.status_code, problem in response.text) == (400, True), response.text
    # The form is there as it was filled in.
    assert field(response.text, "queue") == "root.dev"
    written = query.get("from", "")
    assert field(response.text, "from") == (f"{written}T00:00:00" if "-" in written else "")


def field(text: str, name: str) -> str:
    """Return the value of a field of the form."""
    found = re.search(rf'name="{name}"(?: step="1")? value="([^"]*)"', text)
    assert found is not None
    return found[1]


# PAGE-65
def test_a_span_that_is_not_all_there_has_a_note(served: Served) -> None:
    first = post(served, NODE)

    def page_with(**query: str) -> tuple[str, str]:
        text = served.client.get("/time", params=query).text
        notes = re.search(r'class="time-notes".*?</div>', text, re.DOTALL)
        return text, "" if notes is None else notes[0]

    assert page_with()[1] == ""
    text, notes = page_with(**{"from": "2001-01-01", "until": "2001-01-02"})
    assert "You asked for 2001-01-01 00:00:00 UTC until 2001-01-02 00:00:00 UTC." in notes
    assert "history is kept from 20" in notes
    assert 'id="summary"' not in text
    assert (field(text, "from"), field(text, "until")) == (
        "2001-01-01T00:00:00",
        "2001-01-02T00:00:00",
    )
    text, notes = page_with(**{"from": "2001-01-01"})
    assert "You asked from 2001-01-01 00:00:00 UTC on. History is kept from 20" in notes
    assert (field(text, "from"), 'id="summary"' in text) == ("2001-01-01T00:00:00", True)
    # That is what follows who chooses one of the spans that are offered.
    preset = re.search(r'href="/time\?from=([^"]+)">last 10 minutes', text)
    assert preset is not None
    assert "History is kept from" in page_with(**{"from": unquote(preset[1])})[1]
    assert "which lies in the future: it ends at 20" in page_with(until="2999-01-01")[1]
    assert "That lies in the future" in page_with(**{"from": "2999-01-01"})[1]
    notes = page_with(queue="root.prdo")[1]
    assert "There is no queue &#39;root.prdo&#39; now; did you mean" in notes
    assert "No decision of this span is about the application &#39;x&#39;." in page_with(app="x")[1]
    assert page_with(queue="root.dev", **{"from": first})[1] == ""


# PAGE-65
def test_an_eviction_is_shown_once(served: Served) -> None:
    claim: dict[str, object] = {"name": "prod", "resources": {"guaranteed": {"vcore": 4}}}
    claim["properties"] = {"preemption.delay": "1ms"}
    root = {"name": "root", "submitacl": "*", "queues": [claim, {"name": "dev"}]}
    config = {"partitions": [{"name": "default", "queues": [root]}]}
    other = {"op": "add_app", "app": "b", "queue": "root.dev"}
    low = {"op": "add_ask", "app": "b", "ask": "low", "resources": {"vcore": 8}}
    first = post(served, {"op": "configure", "config": config}, NODE, other, low)
    post(served, APP, ask("one"))

    def words() -> str:
        text = served.client.get("/time", params={"from": first}).text
        return " ".join(re.sub(r"<[^>]*>", "", text).split())

    until(lambda: "1 ask evicted" in words())
    assert "b/low: released (reclaimed) from n1 for a/one: root.prod is below" in words()


# PAGE-65
def test_a_span_begins_with_its_story(served: Served) -> None:
    more = [{"name": f"z{number:02}"} for number in range(20)]
    tight = {"name": "prod", "resources": {"guaranteed": {"vcore": 4}, "max": {"vcore": 6}}}
    root = {"name": "root", "submitacl": "*", "queues": [tight, {"name": "new"}, *more]}
    first = post(served, NODE, APP, ask("one"), ask("two"), ask("three"))
    config = {"partitions": [{"name": "default", "queues": [root]}]}
    post(served, {"op": "configure", "config": config}, {"op": "remove_node", "node": "n9"})
    text = served.client.get("/time", params={"from": first}).text
    story = text[text.index('class="time-story"') : text.index('class="tiles"')]
    words = " ".join(re.sub(r"<[^>]*>", "", story).split())

    assert re.search(r"1 node came at (\S+ )?\d\d:\d\d:\d\d: n1\.", words)
    assert "1 application came, 1 became Accepted, 1 became Starting" in words
    assert "2 asks started: 2 of a." in words
    assert "the configuration changed: root.prod: resources.max.vcore 8 → 6" in words
    assert "root.new was added" in words
    # What comes after the first twenty queues is counted only.
    assert "and 3 other queues: 2 added, 1 removed" in words
    assert "root.z18" not in words
    assert "1 event refused" in words
    assert text.index("time-story") < text.index('id="happened"')
    # Equal decisions of a moment stand together, and open.
    group = re.search(r"<summary>2 asks bound to n1</summary><ul>(.*?)</ul>", text)
    assert group is not None
    together = group[1].replace("<wbr>", "")
    assert re.findall(r">([^<]+)</a>", together) == ["a/one", "a/two"]
    # An application has a page of its own.
    state = re.search(r'<a href="/apps/a\?at=[^"]*">a</a></td><td>is Accepted</td>', text)
    assert state is not None
    assert "the first configuration" in served.client.get("/time").text
    # A node that went leads to the moment before, at which it has a page.
    last = post(served, {"op": "remove_node", "node": "n1"})
    text = served.client.get("/time", params={"from": last}).text
    assert "2 asks lost their nodes, which went." in text
    went = re.search(r'1 node went at [^<]*<a href="(/nodes/n1\?at=[^"]+)">', text)
    assert went is not None
    assert served.client.get(unescape(went[1])).status_code == 200


# PAGE-69
def test_what_was_not_there_yet_says_when_it_came(served: Served) -> None:
    begins = post(served, {**NODE, "node": "n9"})
    gang = {"op": "add_gang", "gang": "g", "min_member": 2}
    app = {**APP, "queue": "root.new"}
    asks = ({**ask("one", gang="g"), "app": "a"}, ask("many", count=3))
    root = {"name": "root", "submitacl": "*", "queues": [{"name": "prod"}, {"name": "new"}]}
    config = {"partitions": [{"name": "default", "queues": [root]}]}
    post(served, {"op": "add_node", "node": "n1"})  # Refused: it has no capacity.
    came = post(served, {"op": "configure", "config": config}, NODE, app, gang, *asks)
    paths = ("/asks/a/many-2", "/apps/a", "/gangs/default/g", "/nodes/n1", "/queues/root.new")
    for path in paths:
        response = served.client.get(path, params={"at": begins})
        assert response.status_code == 404
        assert ' did not exist at <time datetime="20' in response.text, path
        assert f'{path}?{urlencode({"at": came})}">Show it as it was then' in response.text
        assert served.client.get(path, params={"at": came}).status_code == 200


# PAGE-69
def test_what_is_gone_says_since_when(served: Served) -> None:
    post(served, NODE)
    root = {"name": "root", "submitacl": "*", "queues": [{"name": "prod"}]}
    config = {"partitions": [{"name": "default", "queues": [root]}]}
    gone = post(served, {"op": "remove_node", "node": "n1"}, {"op": "configure", "config": config})
    for path in ("/nodes/n1", "/queues/root.dev"):
        for query in ({}, {"at": gone}):
            response = served.client.get(path, params=query)
            assert response.status_code == 404
            assert f'gone since <time datetime="{gone}">' in response.text, response.text
            link = re.search(r'href="([^"]+)">Show it as it was before', response.text)
            assert link is not None
            assert served.client.get(link[1]).status_code == 200
    response = served.client.get("/nodes/n2")
    assert (response.status_code, "gone since" in response.text) == (404, False)
    assert "There is no node" in response.text
    assert 'href="/nodes">All nodes</a>' in response.text
    post(served, NODE)
    assert "It came again at" in served.client.get("/nodes/n1", params={"at": gone}).text


# PAGE-63
def test_the_beginning_of_history_is_shown(served: Served) -> None:
    post(served, NODE)
    query = {"by": "-3600", "back": "/queues"}
    text = served.client.get("/time/go", params=query, follow_redirects=True).text
    assert "nothing earlier can be shown" in text
    assert re.search(r'value="-3600"[^>]* disabled', text)
    latest = post(served, {**NODE, "node": "n2"})
    text = served.client.get("/queues", params={"at": latest}).text
    assert "nothing earlier can be shown" not in text
    assert not re.search(r'value="-3600"[^>]* disabled', text)
