"""How a service is after an attack: what it holds, and whether it still works."""

from __future__ import annotations

import time
from typing import Final, final

import attrs
from prometheus_client.parser import text_string_to_metric_families

from tests.actors.serving.served import PATIENCE_S, Served

GROWS_BYTES: Final = 64 * 1024 * 1024
GROWS_EACH_BYTES: Final = 2_000
"""What may be kept of a request: its decisions in memory, as a refusal; and what it added."""


@final
@attrs.frozen
class Look:
    """What a service holds.

    Attributes:
        memory_bytes: Its memory.
        files: Its open files.
        connections: Its open connections.
        streams: Its open streams.
    """

    memory_bytes: float
    files: float
    connections: float
    streams: float


def look(served: Served) -> Look:
    """Return what a service holds."""
    answer = served.client.get("/metrics", headers={"accept": "text/plain"})
    assert answer.status_code == 200, answer.text
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if not sample.labels
    }
    return Look(
        values["process_resident_memory_bytes"],
        values["process_open_fds"],
        values["muster_connections"],
        values["muster_streams"],
    )


def faults_after(served: Served, before: Look, sent: int) -> list[str]:
    """Return what is wrong with a service after an attack.

    Args:
        served: The service.
        before: What it held before.
        sent: How many requests were sent.
    """
    until = time.monotonic() + PATIENCE_S
    after = look(served)
    while _has_left_open(before, after) and time.monotonic() < until:
        after = look(served)  # A connection lingers for a moment, so that its client reads all.
    faults: list[str] = []
    health = served.client.get("/healthz")
    if health.status_code != 200:
        faults.append(f"it is not healthy: {health.text}")
    most = before.memory_bytes + GROWS_BYTES + GROWS_EACH_BYTES * sent
    if after.memory_bytes > most:
        faults.append(f"its memory has grown from {before.memory_bytes} to {after.memory_bytes}")
    if _has_left_open(before, after):
        faults.append(f"files, connections or streams were left open: {before}, {after}")
    return faults


def _has_left_open(before: Look, after: Look) -> bool:
    return (
        after.files > before.files + 4
        or after.connections > before.connections
        or after.streams > before.streams
    )


def faults_in_log(served: Served) -> list[str]:
    """Return what the log of a service that has ended tells of bugs."""
    lines = served.lines
    return [
        "\n".join(lines[max(0, at - 1) : at + 80])
        for at, line in enumerate(lines)
        if "Traceback" in line or "a bug" in line
    ][:3]
