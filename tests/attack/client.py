"""Send requests that make no sense over raw sockets, and check the service afterwards."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Final, final

import attrs
import h11
import trio
from prometheus_client.parser import text_string_to_metric_families

from muster.service.payloads import PROBLEM_JSON
from tests.actors.serving.served import PATIENCE_S, Served
from tests.attack.requests import Attack, draw

ANSWER_PATIENCE_S: Final = 120.0
"""How long an answer may take, in seconds."""

ALLOWED: Final = frozenset({501, 503})
"""A transfer coding that is unknown (RFC 9112, 6.1), and a limit on connections or calls."""

NO_HTTP: Final = 999
"""Stands for the status of what is no answer."""


@final
@attrs.frozen
class Answer:
    """An answer of the service.

    Attributes:
        status: The status.
        media: The media type.
        content: The body.
        goes_on: Whether the connection can be used again.
    """

    status: int
    media: str
    content: bytes
    goes_on: bool


@final
@attrs.define
class Findings:
    """The results of an attack.

    Attributes:
        sent: How many requests were sent.
        statuses: How many answers there were, by kind of request and status; 0 for none.
        faults: What must not happen, each with its request.
    """

    sent: int = 0
    statuses: Counter[tuple[str, int]] = attrs.field(factory=Counter[tuple[str, int]])
    faults: list[str] = attrs.field(factory=list[str])


async def attack(host: str, port: int, seed: int, count: int, workers: int = 8) -> Findings:
    """Send requests that make no sense.

    Args:
        host: The host of the service.
        port: Its port.
        seed: The seed that determines the requests.
        count: How many are sent.
        workers: How many connections there are at the same time.
    """
    findings = Findings()
    random = Random(seed)
    attacks = (draw(random) for _ in range(count))
    async with trio.open_nursery() as nursery:
        for _ in range(workers):
            nursery.start_soon(_work, host, port, attacks, findings)
    return findings


async def _work(host: str, port: int, attacks: Iterator[Attack], findings: Findings) -> None:
    stream: trio.SocketStream | None = None
    for one in attacks:
        findings.sent += 1
        if stream is None:
            stream = await trio.open_tcp_stream(host, port)
        answered: Answer | None = None
        with trio.move_on_after(ANSWER_PATIENCE_S) as waiting:
            answered = await _exchange(stream, one)
        if waiting.cancelled_caught:
            findings.faults.append(
                f"no answer in {ANSWER_PATIENCE_S} s: {one.kind}: {one.data[:500]!r}"
            )
        _judge(one, answered, findings)
        if answered is None or not answered.goes_on or one.ends:
            await trio.aclose_forcefully(stream)
            stream = None
    if stream is not None:
        await trio.aclose_forcefully(stream)


async def _exchange(stream: trio.SocketStream, one: Attack) -> Answer | None:
    """Send a request, and return the answer, or None if there is none."""
    with suppress(trio.BrokenResourceError):
        await stream.send_all(one.data)
        if one.ends:
            await stream.send_eof()
    # This side of h11 only reads: what is sent is no HTTP.
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method="GET", target="/", headers=[("host", "h")]))
    parser.send(h11.EndOfMessage())
    received = bytearray()
    try:
        return await _answer(stream, parser, received)
    except h11.RemoteProtocolError:
        return Answer(NO_HTTP, "", bytes(received), goes_on=False) if received else None
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return None


async def _answer(
    stream: trio.SocketStream, parser: h11.Connection, received: bytearray
) -> Answer | None:
    response: h11.Response | None = None
    content = bytearray()
    while not isinstance(event := parser.next_event(), h11.EndOfMessage):
        match event:
            case h11.NEED_DATA:
                data = await stream.receive_some(65536)
                received += data
                parser.receive_data(data)
            case h11.Response():
                response = event
            case h11.Data():
                content += event.data
            case h11.InformationalResponse():
                pass
            case _:
                return None
    assert response is not None, "an end without a beginning"
    headers = dict(response.headers)
    media = headers.get(b"content-type", b"").decode("latin-1")
    goes_on = headers.get(b"connection") != b"close" and not parser.trailing_data[0]
    return Answer(response.status_code, media, bytes(content), goes_on)


def _judge(one: Attack, answered: Answer | None, findings: Findings) -> None:
    status = 0 if answered is None else answered.status
    findings.statuses[one.kind, status] += 1
    if answered is None:
        return
    description = f"{status} {answered.content[:300]!r}: {one.kind}: {one.data[:1000]!r}"
    if status >= 500 and status not in ALLOWED:
        findings.faults.append(description)
    if b"Traceback" in answered.content:
        findings.faults.append(f"it shows its inside: {description}")
    if status >= 400 and answered.media != PROBLEM_JSON and not _is_for_yunikorn(one):
        findings.faults.append(f"no problem: {description}")


def _is_for_yunikorn(one: Attack) -> bool:
    """Return whether a request is for an end point of YuniKorn, which refuses as YuniKorn does."""
    target = one.data.partition(b" ")[2]
    return target.lstrip(b"/").startswith((b"ws", b"debug"))


GROWS_BYTES: Final = 64 * 1024 * 1024
GROWS_EACH_BYTES: Final = 2_000
"""What may be kept of a request: its decisions in memory, as a refusal; and what it added."""


@final
@attrs.frozen
class ServiceState:
    """The resources that a service holds.

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


def read_state(served: Served) -> ServiceState:
    """Return the resources that a service holds."""
    answer = served.client.get("/metrics", headers={"accept": "text/plain"})
    assert answer.status_code == 200, answer.text
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if not sample.labels
    }
    return ServiceState(
        values["process_resident_memory_bytes"],
        values["process_open_fds"],
        values["muster_connections"],
        values["muster_streams"],
    )


def faults_after(served: Served, before: ServiceState, sent: int) -> list[str]:
    """Return what is wrong with a service after an attack.

    Args:
        served: The service.
        before: What it held before.
        sent: How many requests were sent.
    """
    until = time.monotonic() + PATIENCE_S
    after = read_state(served)
    while _has_left_open(before, after) and time.monotonic() < until:
        after = read_state(
            served
        )  # A connection lingers for a moment, so that its client reads all.
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


def _has_left_open(before: ServiceState, after: ServiceState) -> bool:
    return (
        after.files > before.files + 4
        or after.connections > before.connections
        or after.streams > before.streams
    )


def faults_in_log(served: Served) -> list[str]:
    """Return the signs of bugs in the log of a service that has ended."""
    lines = served.lines
    return [
        "\n".join(lines[max(0, at - 1) : at + 80])
        for at, line in enumerate(lines)
        if "Traceback" in line or "a bug" in line
    ][:3]
