"""Reservations on the page, and when an ask will start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.actors.reserving import reserved
from tests.actors.serving.here import Here
from tests.actors.serving.truth import fill


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder: Path = tmp_path_factory.mktemp("reserved")
    fill(folder / "state", reserved(folder))
    with Here(folder / "state") as running:
        yield running


def shown(here: Here, path: str) -> str:
    """Give the text of a page, without its marks."""
    response = here.client.get(path)
    assert response.status_code == 200, response.text
    page = response.text.replace("<wbr>", "")
    text = re.sub(r"<script.*?</script>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(text).split())


# PAGE-81
def test_the_overview_names_who_has_a_reservation(here: Here) -> None:
    text = shown(here, "/")

    assert "2 reservations nodes that are reserved" in text
    table = text[text.index("Reserved Nodes that are reserved") :]
    assert re.search(r"new/wide n1 from 20\d\d-.{15,40} root\.q 5 cores", table)
    assert "new/next n2 from an end that is not known root.q 4 cores" in table
    assert re.search(r"n1 is reserved for new/wide from 20\d\d", text)


# PAGE-81
def test_the_page_of_a_node_says_for_whom_it_is_reserved(here: Here) -> None:
    text = shown(here, "/nodes/n1")

    assert "schedulable reserved" in text
    assert re.search(r"For When By backfill of Resources Gang new/wide from 20\d\d", text)
    assert "new/next" not in text
    assert shown(here, "/nodes").count("schedulable reserved") == 2


# PAGE-80, PAGE-81
def test_the_page_of_an_ask_says_what_it_has_and_where_it_stands(here: Here) -> None:
    text = shown(here, "/asks/new/wide")

    assert re.search(r"Reserved for it n1 from 20\d\d-.{15,40}, by backfill of root\.q", text)
    assert "When will it start? It is number 1 of all pending asks in order." in text
    assert re.search(r"reserved on n1 from 20\d\d", text)
    assert re.search(r"Reserved for it: n1 from .*, when old/long on n1 is expected to end\.", text)
    assert "as soon as an ask ends of which no end is known" in shown(here, "/asks/new/next")
    assert re.search(r"reserved: n1 from 20\d\d", shown(here, "/asks"))
    assert "When will it start?" not in shown(here, "/asks/old/long")


# PAGE-41, OUTLOOK-8, OUTLOOK-9
def test_the_page_of_an_ask_that_runs_says_when_it_ends_and_whom_it_passed(here: Here) -> None:
    text = shown(here, "/asks/new/small")

    date = r"20\d\d-\S+ \S+"
    assert re.search(rf"Expected to end {date} ", text)
    assert re.search(
        r"Whom it passed It passed new/wide, with a reservation from .{15,40}: it was expected to "
        r"end by .{15,40}\. It passed new/next, with a reservation whose start was not known: ",
        text,
    )
    assert "Whom it passed" not in shown(here, "/asks/old/long")
    assert "Expected to end" not in shown(here, "/asks/old/open")


# PAGE-65, PAGE-66
def test_what_happened_in_a_span_tells_reservations(here: Here) -> None:
    text = shown(here, f"/time?{urlencode({'from': '0', 'until': here.get('/api/v1/asks')['at']})}")

    assert "new/wide : reserved on n1" in text
    assert "new/next : reserved on n2" in text


# PAGE-42
def test_the_start_that_would_be_delayed_is_a_date(here: Here) -> None:
    text = shown(here, "/asks/new/held")

    assert re.search(r"It fits on n1 and is held back: .* which starts at 20\d\d-\d\d-\d\d ", text)


# PAGE-80
def test_a_copy_of_the_state_says_when_an_ask_starts(here: Here) -> None:
    page = here.client.get("/asks/new/wide").text
    assert 'hx-get="/asks/new/wide/starts" hx-trigger="load, again"' in page

    text = shown(here, "/asks/new/wide/starts")
    assert re.search(r"It would fit alone at 20\d\d.* It starts at 20\d\d", text)
    assert "Forecast again" in text
    assert "It would fit alone now." in shown(here, "/asks/new/held/starts")
    assert "It is not pending any more." in shown(here, "/asks/old/long/starts")
    at = here.client.get("/asks/new/wide/starts", params={"at": "10"})
    assert at.status_code == 409
    assert "forecast in the present only" in at.text
