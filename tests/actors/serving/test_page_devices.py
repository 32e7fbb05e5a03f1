"""Devices and reservations on the page, without a browser.

On nodes, on asks, and when an ask will start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.actors.samples import reserved
from tests.actors.serving.served import Served, ServiceThread
from tests.actors.serving.test_page_queues import row_of, text_of
from tests.actors.serving.truth import fill

#: Nodes are ordered by ``fgd``; a typical ask wants a whole GPU.
CONFIG: Final = """
partitions:
  - name: default
    nodesortpolicy:
      type: fgd
      resourceweights: {device/gpu: 1}
      typical: [{devices: {gpu: 1}, weight: 1}]
    queues: [{name: root, submitacl: "*", queues: [{name: dev}]}]
"""


def ask(name: str, devices: dict[str, Any], **more: object) -> dict[str, Any]:
    return {"op": "add_ask", "app": "a", "ask": name, "node": "g1", "devices": devices, **more}


EVENTS: Final[list[dict[str, Any]]] = [
    {
        "op": "add_node",
        "node": "g1",
        "capacity": {"vcore": 8},
        "devices": {"gpu": {"count": 4, "model": "A100"}, "nic": 1},
    },
    {"op": "add_node", "node": "g2", "capacity": {"vcore": 8}, "devices": {"gpu": 2}},
    {"op": "add_node", "node": "plain", "capacity": {"vcore": 8}},
    {"op": "add_app", "app": "a", "queue": "root.dev"},
    ask("whole", {"gpu": 2}, resources={"vcore": 1}),
    ask("share", {"gpu": {"milli": 300}, "nic": 1}),
    ask("other", {"gpu": {"milli": 200}}),
    {"op": "add_ask", "app": "a", "ask": "cpu", "node": "plain", "resources": {"vcore": 1}},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served"), config=CONFIG) as served:
        served.client.post("/api/v1/events", json=EVENTS).raise_for_status()
        yield served


# PAGE-82
def test_a_node_says_who_holds_each_device(served: Served) -> None:
    shown = text_of(served, "/nodes/g1")
    assert "gpu, model A100: 1 of 4 gpu wholly free, 0.5 in parts" in shown
    assert "nic: 0 of 1 nic wholly free" in shown
    rows = [line for line in shown.splitlines() if line.startswith(("gpu ", "nic "))]
    assert rows == [
        "gpu 0 all nothing a/whole",
        "gpu 1 all nothing a/whole",
        "gpu 2 500 milli 500 milli a/share 300 milli , a/other 200 milli",
        "gpu 3 nothing all nobody",
        "nic 0 all nothing a/share",
    ]
    assert (
        'aria-label="gpu 2: used is 500\N{NO-BREAK SPACE}milli"'
        in served.client.get("/nodes/g1").text
    )
    assert "a/other root.dev 0 bound 0.2 device/gpu 200 milli of gpu 2" in shown


# PAGE-82
def test_with_fgd_it_says_what_typical_asks_cannot_use(served: Served) -> None:
    # The half of gpu 2: a typical ask wants a whole one.
    lost = "On average, 0.5 devices of what is free here are of no use to a typical ask"
    assert lost in text_of(served, "/nodes/g1")
    assert "A typical ask of the order fgd can use all that is free" in text_of(served, "/nodes/g2")


# PAGE-82
def test_a_node_without_devices_shows_none(served: Served) -> None:
    page = served.client.get("/nodes/plain").text
    assert "a/cpu" in page.replace("<wbr>", "")
    assert 'id="devices"' not in page


# PAGE-82
def test_many_devices_and_holders_are_not_all_shown(tmp_path: Path) -> None:
    devices = {f"t{number}": 64 for number in range(5)}
    many = [
        {"op": "add_node", "node": "g1", "capacity": {"vcore": 1}, "devices": devices},
        EVENTS[3],
        *(ask(f"ask-{number:02}", {"t0": {"milli": 10}}) for number in range(20)),
    ]
    with Served(tmp_path) as served:
        served.client.post("/api/v1/events", json=many).raise_for_status()
        shown = text_of(served, "/nodes/g1")
    assert "a/ask-15 10 milli and 4 more asks" in shown
    assert "t3 63 nothing all nobody" in shown
    assert "and 64 more devices" in shown
    assert "t4 0 nothing" not in shown
    # Nodes are not ordered by fgd here.
    assert "typical ask" not in shown


# PAGE-83
def test_the_list_of_nodes_says_what_is_free_of_devices(served: Served) -> None:
    shown = text_of(served, "/nodes")
    assert "Devices: 3 of 6 gpu wholly free, 0.5 in parts; 0 of 1 nic wholly free." in shown
    free = "1 of 4 gpu wholly free, 0.5 in parts; 0 of 1 nic wholly free"
    assert free in row_of(served, "/nodes", "g1 ")
    assert "2 of 2 gpu wholly free" in row_of(served, "/nodes", "g2 ")
    assert "wholly free" not in row_of(served, "/nodes", "plain ")


# PAGE-83
def test_without_devices_the_list_has_no_column_of_them(served: Served) -> None:
    shown = text_of(served, "/nodes?name=plain")
    assert "Node Used Allocations Free State Attributes" in shown
    assert "Devices" not in shown


# PAGE-84
def test_asks_say_which_devices_they_hold(served: Served) -> None:
    assert "Devices gpu 0, 1 Added" in " ".join(text_of(served, "/asks/a/whole").split())
    assert "Devices 300 milli of gpu 2; nic 0" in text_of(served, "/asks/a/share")
    assert "Devices" not in text_of(served, "/asks/a/cpu")
    assert "assigned on g1 (gpu 0, 1)" in text_of(served, "/asks/a/whole")
    for path in ("/asks", "/apps/a"):
        assert row_of(served, path, "a/whole ").endswith("g1 gpu 0, 1")
        assert row_of(served, path, "a/cpu ").endswith("plain")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceThread]:
    folder: Path = tmp_path_factory.mktemp("reserved")
    fill(folder / "state", reserved(folder))
    with ServiceThread(folder / "state") as running:
        yield running


def text_at(service: ServiceThread, path: str) -> str:
    """Return the text of a page, without its marks."""
    response = service.client.get(path)
    assert response.status_code == 200, response.text
    page = response.text.replace("<wbr>", "")
    text = re.sub(r"<script.*?</script>|<[^>]*>", " ", page, flags=re.DOTALL)
    return " ".join(unescape(text).split())


# PAGE-81
def test_the_overview_names_who_has_a_reservation(service: ServiceThread) -> None:
    text = text_at(service, "/")

    assert "2 reservations nodes that are reserved" in text
    table = text[text.index("Reserved Nodes that are reserved") :]
    assert re.search(r"new/wide n1 from 20\d\d-.{15,40} root\.q 5 cores", table)
    assert "new/next n2 from an end that is not known root.q 4 cores" in table
    assert re.search(r"n1 is reserved for new/wide from 20\d\d", text)


# PAGE-81
def test_the_page_of_a_node_says_for_whom_it_is_reserved(service: ServiceThread) -> None:
    text = text_at(service, "/nodes/n1")

    assert "schedulable reserved" in text
    assert re.search(r"For When By backfill of Resources Gang new/wide from 20\d\d", text)
    assert "new/next" not in text
    assert text_at(service, "/nodes").count("schedulable reserved") == 2


# PAGE-80, PAGE-81
def test_the_page_of_an_ask_says_what_it_has_and_where_it_stands(service: ServiceThread) -> None:
    text = text_at(service, "/asks/new/wide")

    assert re.search(r"Reserved for it n1 from 20\d\d-.{15,40}, by backfill of root\.q", text)
    assert "When will it start? It is number 1 of all pending asks in order." in text
    assert re.search(r"reserved on n1 from 20\d\d", text)
    assert re.search(r"Reserved for it: n1 from .*, when old/long on n1 is expected to end\.", text)
    assert "as soon as an ask ends of which no end is known" in text_at(service, "/asks/new/next")
    assert re.search(r"reserved: n1 from 20\d\d", text_at(service, "/asks"))
    assert "When will it start?" not in text_at(service, "/asks/old/long")


# PAGE-41, OUTLOOK-8, OUTLOOK-9
def test_the_page_of_an_ask_that_runs_says_when_it_ends_and_whom_it_passed(
    service: ServiceThread,
) -> None:
    text = text_at(service, "/asks/new/small")

    date = r"20\d\d-\S+ \S+"
    assert re.search(rf"Expected to end {date} ", text)
    assert re.search(
        r"Whom it passed It passed new/wide, with a reservation from .{15,40}: it was expected to "
        r"end by .{15,40}\. It passed new/next, with a reservation whose start was not known: ",
        text,
    )
    assert "Whom it passed" not in text_at(service, "/asks/old/long")
    assert "Expected to end" not in text_at(service, "/asks/old/open")


# PAGE-65, PAGE-66
def test_what_happened_in_a_span_tells_reservations(service: ServiceThread) -> None:
    text = text_at(
        service, f"/time?{urlencode({'from': '0', 'until': service.get('/api/v1/asks')['at']})}"
    )

    assert "new/wide : reserved on n1" in text
    assert "new/next : reserved on n2" in text


# PAGE-42
def test_the_start_that_would_be_delayed_is_a_date(service: ServiceThread) -> None:
    text = text_at(service, "/asks/new/held")

    assert re.search(r"It fits on n1 and is held back: .* which starts at 20\d\d-\d\d-\d\d ", text)


# PAGE-80
def test_a_copy_of_the_state_says_when_an_ask_starts(service: ServiceThread) -> None:
    page = service.client.get("/asks/new/wide").text
    assert 'hx-get="/asks/new/wide/starts" hx-trigger="load, again"' in page

    text = text_at(service, "/asks/new/wide/starts")
    assert re.search(r"It would fit alone at 20\d\d.* It starts at 20\d\d", text)
    assert "Forecast again" in text
    assert "It would fit alone now." in text_at(service, "/asks/new/held/starts")
    assert "It is not pending any more." in text_at(service, "/asks/old/long/starts")
    at = service.client.get("/asks/new/wide/starts", params={"at": "10"})
    assert at.status_code == 409
    assert "forecast in the present only" in at.text
