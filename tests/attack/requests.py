"""Requests as bytes: those that make sense, and those that make none."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, final
from urllib.parse import quote

import attrs
import msgpack

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
MSGPACK: Final = "application/msgpack"
YAML: Final = "application/yaml"

GETS: Final = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/api/v1/config",
    "/api/v1/queues",
    "/api/v1/queues/root.dev",
    "/api/v1/apps",
    "/api/v1/apps/a1",
    "/api/v1/asks",
    "/api/v1/asks/a1/k",
    "/api/v1/asks/a1/k/why",
    "/api/v1/gangs",
    "/api/v1/nodes",
    "/api/v1/nodes/n1",
    "/api/v1/decisions",
    "/ws/v1/queues",
    "/ws/v1/partitions",
    "/ws/v1/partition/default/queues",
    "/ws/v1/partition/default/nodes",
    "/ws/v1/partition/default/applications/active",
)

PARAMETERS: Final = (
    "after",
    "until",
    "limit",
    "kinds",
    "queue",
    "app",
    "gang",
    "fields",
    "state",
    "user",
    "reason",
    "remedies",
    "since",
    "dry_run",
    "count",
    "start",
)

CONFIG: Final = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: prod, resources: {guaranteed: {vcore: 4}, max: {vcore: 8}}}
          - {name: dev}
"""


def events(random: Random) -> list[dict[str, object]]:
    """Return some events; most of them are possible."""
    app, node = f"a{random.randrange(50)}", f"n{random.randrange(20)}"
    return random.choice(
        [
            [{"op": "add_node", "node": node, "capacity": {"vcore": 2, "memory": "1Gi"}}],
            [{"op": "remove_node", "node": node}],
            [
                {"op": "add_app", "app": app, "queue": "root.dev", "user": "u"},
                {"op": "add_ask", "app": app, "ask": "k", "resources": {"vcore": 1}, "count": 2},
            ],
            [{"op": "release", "app": app, "ask": "k-0"}, {"op": "remove_app", "app": app}],
            [{"op": "add_gang", "gang": "g", "min_member": 2, "wait_time": "10s"}],
            [{"op": "add_priority_class", "name": "high", "value": 10}],
        ]
    )


def body(random: Random) -> tuple[str, bytes]:
    """Return the body of a request with events, and its media type."""
    made = events(random)
    match random.randrange(4):
        case 0:
            return LINES, b"".join(json.dumps(one).encode() + b"\n" for one in made)
        case 1:
            packed: bytes = msgpack.packb(made)
            return MSGPACK, packed
        case _:
            return JSON, json.dumps(made).encode()


HOST: Final = b"host: 127.0.0.1\r\n"


@final
@attrs.frozen
class Attack:
    """A request that is sent.

    Attributes:
        kind: What is wrong with it.
        data: The bytes.
        ends: Whether the client then closes its side, though it announced more.
    """

    kind: str
    data: bytes
    ends: bool = False


_EMPTY: Final[list[object]] = []
_NOTHING: Final[dict[str, object]] = {}
_ODD: Final[list[object]] = [
    None,
    True,
    -1,
    0,
    1 << 63,
    1 << 64,
    10**40,
    -(10**40),
    1e308,
    0.1,
    "",
    " ",
    "\0",
    "\ud800x",
    "\U0001f4a5" * 50,
    "x" * 5000,
    _EMPTY,
    [_EMPTY],
    _NOTHING,
    {"": ""},
    "9" * 400,
    "1e999",
    "-5",
    "NaN",
    "../..",
    "a/b",
]
_ODD_JSON: Final = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e999",
    b"9" * 5000,
    b"0x10",
    b"01",
    b"1.",
    b".5",
    b"'a'",
    b'"\\ud800"',
    b'"\\x"',
    b'"\xff\xfe"',
    b'"\x00"',
    b"undefined",
    b'{"a":1,"a":2}',
    b"[1,]",
    b"{,}",
    b"/**/1",
    b"",
    b" ",
    b"\xef\xbb\xbf[]",
    b"\x00",
    b"[" * 70 + b"]" * 70,
)
_MEDIA: Final = (
    JSON,
    MSGPACK,
    YAML,
    "application/x-ndjson",
    "text/plain",
    "application/json; charset=utf-16",
    "multipart/form-data; boundary=x",
    "application/x-www-form-urlencoded",
    "",
    "a",
    "/",
    "*/*",
)


def request(
    method: str, target: bytes, headers: bytes, content: bytes, length: int | None = None
) -> bytes:
    """Return a request; its content-length is true unless ``length`` is given."""
    declared = len(content) if length is None else length
    head = method.encode() + b" " + target + b" HTTP/1.1\r\n" + HOST + headers
    return head + b"content-length: %d\r\n\r\n" % declared + content


def _posted(content: bytes, media: str = JSON, headers: bytes = b"") -> bytes:
    content_type = b"content-type: " + media.encode("latin-1") + b"\r\n"
    return request("POST", b"/api/v1/events", content_type + headers, content)


def _mutated(random: Random, content: bytes) -> bytes:
    data = bytearray(content)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0:
                del data[at : at + random.randint(1, 8)]
            case 1:
                data[at:at] = random.randbytes(random.randint(1, 8))
            case 2 if data:
                data[at % len(data)] ^= 1 << random.randrange(8)
            case 3:
                data[at:at] = random.choice(_ODD_JSON)
            case 4:
                data[at:at] = data[: random.randrange(len(data) + 1)]
            case _:
                del data[at:]
    return bytes(data)


def _body_mutated(random: Random) -> bytes:
    media, content = body(random)
    return _posted(_mutated(random, content), media)


def _body_random(random: Random) -> bytes:
    return _posted(random.randbytes(random.randrange(400)), random.choice(_MEDIA))


def _values_odd(random: Random) -> bytes:
    made = events(random)
    for _ in range(random.randint(1, 3)):
        event = random.choice(made)
        name = random.choice([*event])
        event[random.choice([name, name, "x", "op", "count", "at"])] = random.choice(_ODD)
    sent: list[object] = [*made]
    if random.random() < 0.2:
        sent[random.randrange(len(sent))] = random.choice(_ODD)
    if random.random() < 0.3:
        sent = json.loads(json.dumps(sent), parse_int=_packable)
        return _posted(msgpack.packb(sent, unicode_errors="surrogatepass"), MSGPACK)
    return _posted(json.dumps(sent).encode())


def _packable(written: str) -> int | float:
    number = int(written)
    return number if -(1 << 63) <= number < 1 << 64 else float(number)


def _encoded_wrongly(random: Random) -> bytes:
    text = json.dumps(events(random)).replace("u", "ü")
    encoding = random.choice(("utf-16", "utf-32", "latin-1", "utf-8-sig", "utf-7", "cp037"))
    declared = random.choice((b"", b"content-encoding: gzip\r\n", b"content-encoding: br\r\n"))
    return _posted(text.encode(encoding), random.choice(_MEDIA), declared)


def _nested(random: Random) -> bytes:
    deep = random.choice((63, 64, 65, 200, 5_000, 60_000))
    match random.randrange(4):
        case 0:
            return _posted(b"[" * deep + b"]" * random.choice((deep, 0, deep - 1)))
        case 1:
            return _posted(b'{"a":' * deep + b"1" + b"}" * deep)
        case 2:
            return _posted(b"\x91" * deep + b"\x01", MSGPACK)
        case _:
            return _configured(b"[" * min(deep, 5_000), random)


def _configured(content: bytes, random: Random) -> bytes:
    media = random.choice((YAML, JSON))
    dry = random.choice((b"?dry_run=true&since=0", b"?dry_run=1", b""))
    headers = b"content-type: " + media.encode() + b"\r\n"
    return request("PUT", b"/api/v1/config" + dry, headers, content)


_BOMB: Final = (
    "a: &a [x, x, x, x, x, x, x, x, x]\n"
    + "".join(
        f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n"
        for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
).encode()


def _config_mutated(random: Random) -> bytes:
    match random.randrange(5):
        case 0:
            return _configured(_BOMB, random)
        case 1:
            return _configured(b"!!python/object/apply:os.system ['true']", random)
        case _:
            return _configured(_mutated(random, CONFIG.encode()), random)


def _query_odd(random: Random) -> bytes:
    pairs: list[str] = []
    for _ in range(random.randint(0, 4)):
        value = random.choice(_ODD)
        text = value if isinstance(value, str) else json.dumps(value)
        written = quote(text.encode("utf-8", "surrogatepass")[:3000])
        pairs.append(f"{random.choice(PARAMETERS)}={written}")
    target = random.choice(GETS).encode() + b"?" + "&".join(pairs).encode()
    accept = random.choice(
        (b"*/*", b"text/html", b"application/openmetrics-text", b"a" * 900, b"\xff")
    )
    return b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"accept: " + accept + b"\r\n\r\n"


def _path_odd(random: Random) -> bytes:
    target = bytearray(random.choice(GETS).encode())
    for _ in range(random.randint(1, 3)):
        odd = random.choice(
            (b"%00", b"%ff", b"%", b"%2F", b"//", b"/..", b"%zz", b"*", b"x" * 3000)
        )
        at = random.randrange(1, len(target) + 1)
        target[at:at] = odd
    method = random.choice(
        (b"GET", b"GET", b"POST", b"PUT", b"DELETE", b"PATCH", b"BREW", b"OPTIONS")
    )
    return method + b" " + bytes(target) + b" HTTP/1.1\r\n" + HOST + b"content-length: 0\r\n\r\n"


_HEADERS: Final = (
    b"content-length: 5\r\ncontent-length: 6\r\n",
    b"content-length: -1\r\n",
    b"content-length: 99999999999999999999\r\n",
    b"content-length: 0x10\r\n",
    b"transfer-encoding: chunked\r\ncontent-length: 3\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"transfer-encoding: chunked, chunked\r\n",
    b"expect: 100-continue\r\n",
    b"expect: nonsense\r\n",
    b"upgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
    b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: x\r\nsec-websocket-version: 13\r\n",
    b"host: other.example\r\n",
    b"host: \r\n",
    b": nameless\r\n",
    b" folded: yes\r\n",
    b"x-a: b\r\n folded\r\n",
    b"x y: z\r\n",
    b"x: \x00\r\n",
    b"x: \xff\xfe\r\n",
    b"authorization: Bearer \r\n",
    b"authorization: Basic eA==\r\n",
    b"authorization: Bearer " + b"t" * 5000 + b"\r\n",
    b"last-event-id: -1\r\n",
    b"idempotency-key: " + b"k" * 4000 + b"\r\n",
    b'if-match: "\r\n',
    b"range: bytes=0-1\r\n",
    b"origin: http://evil.example\r\n",
    b"cookie: " + b"a=b; " * 900 + b"\r\n",
    b"x: " + b"y" * 70_000 + b"\r\n",
    b"".join(b"x-%d: y\r\n" % at for at in range(300)),
)


def _head_odd(random: Random) -> bytes:
    line = random.choice(
        (
            b"GET /healthz HTTP/1.1\r\n",
            b"GET /api/v1/queues HTTP/1.1\r\n",
            b"POST /api/v1/events HTTP/1.1\r\n",
            b"GET /healthz HTTP/1.0\r\n",
            b"GET /healthz HTTP/9.9\r\n",
            b"GET /healthz\r\n",
            b"GET  HTTP/1.1\r\n",
            b"GET http://127.0.0.1/healthz HTTP/1.1\r\n",
            b"CONNECT 127.0.0.1:80 HTTP/1.1\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n",
            b"\r\n\r\nGET /healthz HTTP/1.1\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        )
    )
    chosen = random.sample(_HEADERS, random.randint(1, 2))
    return line + random.choice((HOST, HOST, b"")) + b"".join(chosen) + b"\r\n" + b"[1,2]"


def _chunked(random: Random) -> bytes:
    head = b"POST /api/v1/events HTTP/1.1\r\n" + HOST
    head += b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    content = json.dumps(events(random)).encode()
    right = b"%x\r\n%s\r\n0\r\n\r\n" % (len(content), content)
    wrong = (
        b"zz\r\n[]\r\n0\r\n\r\n",
        b"-2\r\n[]\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\n[]",
        b"2\r\n[]0\r\n\r\n",
        b"2;" + b"x" * 5000 + b"\r\n[]\r\n0\r\n\r\n",
        b"0\r\nx: " + b"y" * 5000 + b"\r\n\r\n",
        b"\r\n\r\n",
        b"1\r\n" * 50,
        b"2\n[]\n0\n\n",
        b"0\r\n: x\r\n\r\n",
        right,
        _mutated(random, right),
    )
    return head + random.choice(wrong)


def _cut_short(random: Random) -> bytes:
    media, content = body(random)
    headers = b"content-type: " + media.encode() + b"\r\n"
    more = random.choice((1, 100, 10_000_000))
    whole = request("POST", b"/api/v1/events", headers, content, len(content) + more)
    return whole[: random.randint(1, len(whole))]


_KINDS: Final[Sequence[tuple[int, bool, Callable[[Random], bytes]]]] = (
    (24, False, _body_mutated),
    (6, False, _body_random),
    (20, False, _values_odd),
    (5, False, _encoded_wrongly),
    (4, False, _nested),
    (6, False, _config_mutated),
    (14, False, _query_odd),
    (8, False, _path_odd),
    (6, True, _head_odd),
    (4, True, _chunked),
    (3, True, _cut_short),
)
"""How often each kind is drawn, whether more may have been promised, and what makes it."""


def draw(random: Random) -> Attack:
    """Return a request that makes no sense, or hardly any."""
    (chosen,) = random.choices(_KINDS, [weight for weight, _, _ in _KINDS])
    _, ends, make = chosen
    return Attack(make.__name__.strip("_"), make(random), ends)
