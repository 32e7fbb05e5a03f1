"""Devices on the page, without a browser: on a node, in the list of nodes, and on asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.actors.serving.served import Served
from tests.actors.serving.test_page_queues import row_of, text_of

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
