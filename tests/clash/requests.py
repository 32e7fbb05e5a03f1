"""HTTP over a bare socket, so that a client can leave in the middle, and random requests in all
encodings.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from random import Random
from types import TracebackType
from typing import Any, Final, Self, final

import attrs
import h11
import msgpack
import trio

from muster.feeds import RawEvent, parse
from muster_core.config.model import Configuration
from muster_core.events import Event

PATIENCE_S: Final = 180.0
"""How long an answer may take, in seconds; it is never reached by a server that works."""

PART_BYTES: Final = 65_536


class CutError(Exception):
    """The connection has ended before all of the answer was there."""


class StuckError(Exception):
    """There was no answer in time."""


@final
@attrs.frozen
class Request:
    """A request.

    Attributes:
        method: Its method.
        target: Its path and query.
        headers: Its headers, but for those about its length.
        body: Its body.
        chunked: Whether the body goes in chunks.
    """

    method: str
    target: str
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    body: bytes = b""
    chunked: bool = False


@final
@attrs.frozen
class Answer:
    """An answer.

    Attributes:
        status: Its status.
        headers: Its headers, with names in lower case.
        body: Its body.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 - JSON can be anything
        """Return the body as JSON."""
        return json.loads(self.body)

    def number(self, header: str) -> int | None:
        """Return a header that is a number, or None without it."""
        found = self.headers.get(header)
        return None if found is None else int(found)


@final
class Connection:
    """A connection with the server, as an asynchronous context manager.

    Args:
        port: The port of the server on this machine.
        receive_bytes: The size of the buffer for what comes, or None for the usual one.
        part_bytes: How much is taken at once of what has come.
    """

    def __init__(
        self, port: int, receive_bytes: int | None = None, part_bytes: int = PART_BYTES
    ) -> None:
        self._port = port
        self._receive_bytes = receive_bytes
        self._part_bytes = part_bytes
        self._stream: trio.SocketStream
        self._http = h11.Connection(h11.CLIENT)

    async def __aenter__(self) -> Self:
        made = trio.socket.socket()
        if self._receive_bytes is not None:
            made.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, self._receive_bytes)
        try:
            with trio.fail_after(PATIENCE_S):
                await made.connect(("127.0.0.1", self._port))
        except OSError as error:
            made.close()
            raise CutError(str(error)) from None
        except BaseException:
            made.close()
            raise
        self._stream = trio.SocketStream(made)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.socket.close()

    def encode(self, request: Request) -> bytes:
        """Return the bytes of a request; after that, its answer can be read."""
        headers = [("Host", "localhost"), *request.headers.items()]
        if request.chunked:
            headers.append(("Transfer-Encoding", "chunked"))
        elif request.body or request.method != "GET":
            headers.append(("Content-Length", str(len(request.body))))
        http = self._http
        parts = [
            http.send(h11.Request(method=request.method, target=request.target, headers=headers))
        ]
        step = max(1, len(request.body) // 3) if request.chunked else max(1, len(request.body))
        parts += [
            http.send(h11.Data(data=request.body[at : at + step]))
            for at in range(0, len(request.body), step)
        ]
        parts.append(http.send(h11.EndOfMessage()))
        return b"".join(part or b"" for part in parts)

    async def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            CutError: If the server has ended the connection.
            StuckError: If it does not take them.
        """
        try:
            with trio.fail_after(PATIENCE_S):
                await self._stream.send_all(data)
        except trio.TooSlowError:
            raise StuckError("the server does not read what is sent") from None
        except trio.BrokenResourceError as error:
            raise CutError(str(error)) from None

    async def ask(self, request: Request, slowly: Random | None = None) -> Answer:
        """Send a request, and return its answer.

        Args:
            request: The request.
            slowly: If given, the answer is read in small parts with pauses.

        Raises:
            CutError: If the connection ends before.
            StuckError: If there is no answer in time.
        """
        await self.send(self.encode(request))
        return await self.answer(slowly)

    async def answer(self, slowly: Random | None = None) -> Answer:
        """Return the answer; see :meth:`ask`."""
        head: Mapping[str, str] = {}
        status, body = 0, bytearray()
        async for event in self.events(slowly):
            match event:
                case h11.Response():
                    status = event.status_code
                    head = {name.decode(): value.decode() for name, value in event.headers}
                case h11.Data():
                    body += event.data
                case _:
                    pass
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        return Answer(status, head, bytes(body))

    async def events(self, slowly: Random | None = None) -> AsyncIterator[h11.Event]:
        """Yield events until the answer is complete.

        Raises:
            CutError: If the connection ends before.
            StuckError: If nothing comes for too long.
        """
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise CutError(str(error)) from None
            if event is h11.NEED_DATA:
                if slowly is not None:
                    await trio.sleep(slowly.random() * 0.02)
                self._http.receive_data(
                    await self._receive(self._part_bytes if slowly is None else 4096)
                )
                continue
            if isinstance(event, h11.ConnectionClosed):
                raise CutError("the connection was closed")
            assert not isinstance(event, type), "h11 wants nothing else"
            yield event
            if isinstance(event, h11.EndOfMessage):
                return

    async def _receive(self, most: int) -> bytes:
        try:
            with trio.fail_after(PATIENCE_S):
                return bytes(await self._stream.receive_some(most))
        except trio.TooSlowError:
            raise StuckError(f"nothing came for {PATIENCE_S:g} s") from None
        except trio.BrokenResourceError as error:
            raise CutError(str(error)) from None


Map = dict[str, Any]

MARK: Final = "mark-"
"""How the applications begin whose removal marks the events of a request."""

LEASED: Final = "leased-"
"""How the nodes begin that have a lease."""

NODES: Final = tuple(f"n{number}" for number in range(5))
APPS: Final = tuple(f"app-{number}" for number in range(12))
QUEUES: Final = ("root.dev", "root.prod", "root.team.a", "root.team.b")
GANGS: Final = ("default/g0", "default/g1", "other/g0")
_INVALID: Final[tuple[Map, ...]] = (
    {"op": "nonsense"},
    {"op": "add_ask", "app": "app-0"},
    {"op": "add_app", "app": "app-0", "queue": "root.dev", "colour": "red"},
    {"op": "add_node", "node": "n0", "capacity": {"vcore": -1}},
    {"op": "release", "app": "app-0", "ask": "k0", "at": 3},
    {"op": "settle"},
)
_MEDIA: Final = (
    "application/json",
    "application/json",
    "application/x-ndjson",
    "application/msgpack",
)

CONFIGS: Final = tuple(
    {
        "partitions": [
            {
                "name": "default",
                "queues": [
                    {
                        "name": "root",
                        "submitacl": "*",
                        "properties": {"preemption.delay": "0s"},
                        "queues": [
                            {
                                "name": "prod",
                                "resources": {
                                    "guaranteed": {"vcore": guaranteed},
                                    "max": {"vcore": 8},
                                },
                            },
                            {"name": "dev", "maxapplications": applications},
                            {"name": "team", "parent": True, "queues": [{"name": "a"}, *more]},
                        ],
                    }
                ],
            }
        ]
    }
    for guaranteed, applications, more in (
        (4, 6, [{"name": "b"}]),
        (2, 3, [{"name": "b", "properties": {"application.sort.policy": "fair"}}]),
        (6, 9, []),
    )
)
"""Configurations; the first one is that of the start."""


@final
@attrs.define(eq=False)
class Draft:
    """A request with events, its answers and its place in the store.

    Attributes:
        marker: The name that marks its events; empty for a single event without a mark.
        request: The request.
        is_valid: Of each event as written, whether it is one.
        events: Those that are, in order.
        was_sent: Whether it was ever sent to its end.
        tries: How often it was begun to be sent.
        answers: The answers with status 200: the headers with numbers, and the body.
        kept: Its place in the store.
    """

    marker: str
    request: Request
    is_valid: Sequence[bool]
    events: Sequence[Event]
    was_sent: bool = False
    tries: int = 0
    answers: list[tuple[Sequence[int | None], bytes]] = attrs.field(
        factory=list[tuple["Sequence[int | None]", bytes]]
    )
    kept: StoredRequest | None = None

    @property
    def key(self) -> str | None:
        """The key of the request, or None."""
        return self.request.headers.get("Idempotency-Key")


@final
@attrs.frozen
class StoredRequest:
    """The place of the events of a request in the store.

    Attributes:
        batch: The number of the batch.
        seqs: The numbers of its first and its last decision; None without any.
        first: The index of the first event.
        errors: The messages of those that were refused, by their number among the valid ones.
    """

    batch: int
    seqs: tuple[int, int] | None
    first: int
    errors: dict[int, str]


def event_of(value: Map) -> Event | None:
    """Return the event of a map, or None if it is no event for a service."""
    if "at" in value or value["op"] in {"settle", "expect"}:
        return None
    (item,) = parse([RawEvent(0, None, value)])
    found = item.content
    return found if isinstance(found, Event) else None


def configuration_of(config: Map) -> Configuration:
    """Return a configuration."""
    from muster_core.events import Configure  # noqa: PLC0415

    event = event_of({"op": "configure", "config": config})
    assert isinstance(event, Configure)
    return event.config


@final
class Drawing:
    """Draws random requests.

    Args:
        random: The source of chance.
        name: The unique beginning of markers and keys.
    """

    def __init__(self, random: Random, name: str) -> None:
        self._random = random
        self._name = name
        self._count = 0

    def draft(self) -> Draft:
        """Draw a request with events."""
        random = self._random
        self._count += 1
        marker = f"{MARK}{self._name}-{self._count}"
        maps = [self._event() for _ in range(self._many())]
        if len(maps) > 1 or random.random() < 0.5:
            maps.insert(0, {"op": "remove_app", "app": marker})
        else:
            marker = ""
        headers = {"Content-Type": (media := random.choice(_MEDIA))}
        if marker and random.random() < 0.6:
            headers["Idempotency-Key"] = f"key {self._name} {self._count}"
        made = [event_of(one) for one in maps]
        return Draft(
            marker,
            Request(
                "POST",
                "/api/v1/events",
                headers,
                self._body(media, maps),
                chunked=random.random() < 0.2,
            ),
            [one is not None for one in made],
            [one for one in made if one is not None],
        )

    def _many(self) -> int:
        chance = self._random.random()
        if chance < 0.35:
            return 1
        return self._random.randint(2, 12) if chance < 0.97 else self._random.randint(50, 400)

    def _body(self, media: str, maps: list[Map]) -> bytes:
        if media == "application/x-ndjson":
            return b"".join(json.dumps(one).encode() + b"\n" for one in maps)
        value: object = maps[0] if len(maps) == 1 and self._random.random() < 0.5 else maps
        if media == "application/msgpack":
            packed: bytes = msgpack.packb([value] if isinstance(value, dict) else value)
            return packed
        return json.dumps(value).encode()

    def _event(self) -> Map:
        random = self._random
        if random.random() < 0.05:
            return random.choice(_INVALID)
        makers = (
            *(self._add_ask,) * 8,
            *(self._end_ask,) * 8,
            *(self._add_app,) * 3,
            *(self._node,) * 4,
            *(self._gang,) * 2,
            self._object,
        )
        return random.choice(makers)()

    def _app(self) -> str:
        return self._random.choice(APPS)

    def _ask(self) -> str:
        return f"k{self._random.randrange(12)}"

    def _add_app(self) -> Map:
        random = self._random
        if random.random() < 0.2:
            return {"op": "remove_app", "app": self._app()}
        made: Map = {"op": "add_app", "app": self._app(), "queue": random.choice(QUEUES)}
        if random.random() < 0.5:
            made |= {"user": random.choice(("u", "vv")), "groups": ["g"]}
        return made

    def _add_ask(self) -> Map:
        random = self._random
        made: Map = {
            "op": "add_ask",
            "app": self._app(),
            "ask": self._ask(),
            "resources": random.choice(({"vcore": 1}, {"vcore": 2}, {"vcore": "500m", "gpu": 1})),
        }
        if random.random() < 0.3:
            made["priority"] = random.randint(-2, 9)
        if random.random() < 0.2:
            made["count"] = random.randint(1, 4)
        if random.random() < 0.2:
            made["gang"] = random.choice(GANGS)
        if random.random() < 0.2:
            made["retries"] = 2
        if random.random() < 0.3:
            made["run_for"] = random.choice(("300ms", "2s"))
        if random.random() < 0.1:
            made["node"] = random.choice(NODES)
        return made

    def _end_ask(self) -> Map:
        random = self._random
        ask = self._ask()
        if random.random() < 0.2:
            ask += f"-{random.randrange(4)}"
        made: Map = {
            "op": random.choice(("release", "release", "remove_ask", "bind_failed")),
            "app": self._app(),
            "ask": ask,
        }
        if made["op"] == "release" and random.random() < 0.3:
            made |= {"outcome": "failed", "message": "exit status 3"}
        return made

    def _node(self) -> Map:
        random = self._random
        chance, node = random.random(), random.choice(NODES)
        if chance < 0.15:
            name = f"{LEASED}{random.randrange(3)}"
            return {"op": "add_node", "node": name, "capacity": {"vcore": 1}, "lease": "700ms"}
        if chance < 0.5:
            return {"op": "add_node", "node": node, "capacity": {"vcore": 4, "gpu": 1}}
        if chance < 0.6:
            return {"op": "remove_node", "node": node}
        return {"op": "update_node", "node": node, "schedulable": random.random() < 0.6}

    def _gang(self) -> Map:
        random = self._random
        if random.random() < 0.2:
            return {"op": "remove_gang", "gang": random.choice(GANGS)}
        return {
            "op": "add_gang",
            "gang": random.choice(GANGS),
            "min_member": random.randint(1, 4),
            "wait_time": random.choice(("300ms", "3s")),
        }

    def _object(self) -> Map:
        random = self._random
        pod: Map = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"pod-{random.randrange(4)}",
                "labels": {"applicationId": self._app(), "queue": "root.dev"},
            },
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}]},
        }
        if random.random() < 0.3:
            return {"op": "delete", "manifest": {"kind": "Pod", "metadata": pod["metadata"]}}
        return {"op": "apply", "manifest": pod}
