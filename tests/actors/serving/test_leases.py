"""Leases: a node that nobody renews goes away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
from httpx import Response

from muster.store import StateReader
from muster_core.events import RemoveNode
from tests.actors.serving.served import PATIENCE_S, Served, until

LEASES_S: Final = (1.5, 10.0, 60.0)
"""Leases to try: the first one is long enough, unless the machine is very slow."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as running:
        yield running


def add(served: Served, node: str, lease: str | None) -> None:
    event = {"op": "add_node", "node": node, "capacity": {"vcore": 1}}
    more = {} if lease is None else {"lease": lease}
    (answer,) = served.client.post("/api/v1/events", json=[event | more]).json()
    assert answer["ok"], answer


def renew(served: Served, node: str) -> Response:
    return served.client.put(f"/api/v1/nodes/{node}/lease")


def is_there(served: Served, node: str) -> bool:
    return served.client.get(f"/api/v1/nodes/{node}").status_code == 200


def wait_until_gone(served: Served, node: str) -> None:
    """Wait until a node is gone."""
    until(lambda: not is_there(served, node))


def test_a_node_goes_when_its_lease_runs_out(served: Served, tmp_path: Path) -> None:
    # INPUT-16
    add(served, "leased", "500ms")
    add(served, "lasting", None)

    wait_until_gone(served, "leased")
    assert is_there(served, "lasting")
    served.line("node leased is removed: its lease ran out")
    assert went(tmp_path / "state", "leased")


def renewed(served: Served, node: str, lease_s: float) -> Response | None:
    """Renew a lease for twice as long as it is; return None if that was not often enough."""
    last = began = time.monotonic()
    answer = None
    while last < began + 2 * lease_s:
        answer, now = renew(served, node), time.monotonic()
        if now > last + lease_s / 2:
            return None
        last = now
    return answer


def test_a_renewal_keeps_it(served: Served) -> None:
    # INPUT-17
    for lease_s in LEASES_S:
        add(served, "n/1", f"{lease_s}s")
        answer = renewed(served, "n/1", lease_s)
        if answer is not None:
            assert answer.status_code == 200, answer.text
            left = datetime.fromisoformat(answer.json()["until"]) - datetime.now(UTC)
            assert 0 < left.total_seconds() <= lease_s
            assert (answer.json()["node"], answer.json()["lease"]) == ("n/1", lease_s)
            wait_until_gone(served, "n/1")
            return
        wait_until_gone(served, "n/1")
    pytest.fail("this machine is too slow")


def test_a_renewal_needs_a_node_with_a_lease(served: Served) -> None:
    # INPUT-17
    add(served, "lasting", None)

    unknown, without = renew(served, "lastin"), renew(served, "lasting")

    assert unknown.status_code == 404
    assert unknown.json()["detail"] == "node: 'lastin' is unknown; did you mean lasting?"
    assert without.status_code == 409


def test_a_renewal_while_the_node_is_added_never_says_that_it_has_no_lease(
    served: Served,
) -> None:
    # INPUT-17
    def come(node: str) -> None:
        nodes = [
            {"op": "add_node", "node": f"{node}-{n}", "capacity": {"vcore": 1}, "lease": "30s"}
            for n in range(300)
        ]
        with Served.client_of(served.urls[0]) as client:
            client.post("/api/v1/events", json=nodes)

    for number in range(5):
        coming = threading.Thread(target=come, args=(f"n{number}",))
        coming.start()
        told = 404
        began = time.monotonic()
        while told == 404:
            assert time.monotonic() - began < PATIENCE_S, "the node has never come"
            told = renew(served, f"n{number}-0").status_code
        coming.join(PATIENCE_S)

        assert told == 200


def test_what_is_added_again_has_only_its_own_lease(served: Served) -> None:
    # INPUT-16
    add(served, "n", "1s")
    served.client.post("/api/v1/events", json=[{"op": "remove_node", "node": "n"}])
    add(served, "n", None)
    add(served, "other", "1500ms")

    wait_until_gone(served, "other")

    assert is_there(served, "n")
    assert renew(served, "n").status_code == 409


@pytest.mark.parametrize("killed", [False, True])
def test_after_a_start_the_whole_lease_begins_again(tmp_path: Path, killed: bool) -> None:
    # INPUT-18
    for lease_s in LEASES_S:
        state = tmp_path / f"state-{lease_s}"
        with Served(tmp_path, "--state", str(state)) as served:
            add(served, "long", "1h")
            add(served, "short", f"{lease_s}s")
            over = time.monotonic() + lease_s
            if killed:
                served.kill()
        if went(state, "short"):
            continue  # The machine was too slow to end the service in time.
        while time.monotonic() < over:
            pass  # nobody runs, and the lease would have run out
        began = time.monotonic()
        with Served(tmp_path, "--state", str(state)) as served:
            status = renew(served, "short").status_code
            if status == 404 and time.monotonic() - began > lease_s:
                continue  # It was too slow to renew it in time.
            assert status == 200
            assert renew(served, "long").json()["lease"] == 3600
            wait_until_gone(served, "short")
            assert is_there(served, "long")
        return
    pytest.fail("this machine is too slow")


def went(state: Path, node: str) -> bool:
    """Return whether a node was removed."""
    with StateReader(state) as reader:
        return any(RemoveNode(node) in batch.events for batch in reader.batches())
