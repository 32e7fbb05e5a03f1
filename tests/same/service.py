"""What a service answers in a fixed state: its API, pages, metrics, YuniKorn's end points, its store.

Every function starts a ``muster serve`` of its own, whose clock stands where the last event of a
fixed program has put it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from html import unescape
from pathlib import Path
from typing import Any, Final, final
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import msgpack
import trio

import muster
from muster.feeds import Expect, FeedError, Refused, Settle, read_feed
from muster_core.errors import MusterError
from tests.actors.serving.served import Served, decisions_in
from tests.page import browser
from tests.same.fixed import END_NS, NANOSECONDS, START_NS
from tests.same.interface import DOCS, Run, Write, masked, run

HOUR_S: Final = 3_600
Event = dict[str, Any]


def program() -> Iterator[tuple[int, list[Event]]]:
    """Yield what happens: after how many seconds since the start, and the events of one request."""
    yield from zip((0, 60, 300, 700, 4_000), browser.a_little(), strict=True)
    shop = {"app": "shop"}
    yield (
        5_000,
        [
            {"op": "release", **shop, "ask": "web-0"},
            {"op": "release", **shop, "ask": "web-1", "outcome": "failed", "message": "exit 3"},
            {"op": "release", **shop, "ask": "web-2", "outcome": "cancelled"},
            {"op": "bind_failed", **shop, "ask": "web-3", "message": "no such image"},
            {"op": "remove_ask", "app": "etl", "ask": "part-29"},
            {"op": "release", **shop, "ask": "nobody"},
        ],
    )
    yield (
        3 * HOUR_S,
        [
            {"op": "remove_node", "node": "cpu-2"},
            {"op": "add_priority_class", "name": "urgent", "value": 90},
            browser.app("late", "root.research.vision", "cleo", groups=["eyes"]),
            browser.ask("late", "much", {"vcore": 400}, priority_class="urgent"),
            browser.ask("late", "zone", {"vcore": 1}, selector={"zone": "nowhere"}),
            browser.ask("late", "short", {"vcore": 1}, run_for="90m", retries=2),
            browser.app("brief", "root.batch", "bob"),
            browser.ask("brief", "one", {"vcore": 1}),
            {"op": "remove_app", "app": "brief"},
        ],
    )
    yield (
        (END_NS - START_NS) // 10**9,
        [{"op": "update_node", "node": "cpu-1", "capacity": {"vcore": 24}}],
    )


@final
class FixedService:
    """A service in the fixed state.

    Attributes:
        folder: Where its files are.
        client: A client of it.
        answers: What it has said to each request of the program.
    """

    def __init__(self, folder: Path, served: Served, answers: Sequence[httpx.Response]) -> None:
        self.folder = folder
        self.client = served.client
        self.url = served.urls[0]
        self.answers = answers

    def text_of(self, answer: httpx.Response) -> str:
        """Return the text of an answer, without the folder of the service."""
        headers = dict(sorted(answer.headers.items()))
        # Follows from the text, also from what is masked in it.
        headers.pop("content-length", None)
        lines = [f"{name}: {value}" for name, value in headers.items()]
        text = "\n".join([f"{answer.status_code}", *lines, "", answer.text, ""])
        return masked(text.replace(f"{self.folder}", "FOLDER"))

    def ask(self, write: Write, method: str, path: str, **more: Any) -> httpx.Response:  # noqa: ANN401
        """Send a request, and write the answer."""
        answer = self.client.request(method, path, **more)
        name = " ".join((method, path, *(f"{one}" for one in more.values())))
        write(name, f"{name}\n{self.text_of(answer)}")
        return answer


@contextmanager
def in_fixed_state() -> Generator[FixedService]:
    """Start a service, and let the program happen."""
    with tempfile.TemporaryDirectory(prefix="same-") as path:
        folder = Path(path)
        clock = folder / "clock"
        clock.write_bytes(NANOSECONDS.pack(START_NS))
        (folder / "queues.yaml").write_text(browser.CLUSTER_CONFIG, encoding="utf-8")
        # It runs in its folder, so that the names of its files are the same each time.
        files = ("--config", "queues.yaml", "--state", "state")
        with Served(
            folder,
            *(*files, "--durability", "process", "--checkpoint-every", "40"),
            config=None,
            listen=(f"unix:{folder}/socket",),
            prefix=(sys.executable, "-m", "tests.same.fixed", str(clock)),
        ) as served:
            answers: list[httpx.Response] = []
            for after_s, events in program():
                # In place: the service maps the file.
                with clock.open("r+b") as file:
                    file.write(NANOSECONDS.pack(START_NS + after_s * 10**9))
                answers.append(served.client.post("/api/v1/events", json=events))
            yield FixedService(folder, served, answers)


PLACES: Final = (
    *("config", "queues", "apps", "asks", "users", "gangs", "nodes", "decisions"),
    *(f"queues/{one}" for one in ("root", "root.render", "root.research.language", "root.nobody")),
    *(f"apps/{one}" for one in ("shop", "film", "brief", "nobody")),
    *(
        f"asks/{one}"
        for one in ("shop/web-1", "shop/web-3", "film/frame-4", "chat/tune", "no/body")
    ),
    *(f"gangs/{one}" for one in ("default%2Fall", "nobody")),
    *(f"nodes/{one}" for one in ("gpu-1", "dgx-1", "cpu-2")),
    *(f"asks/{one}/why" for one in ("film/frame-4", "etl/part-20", "late/much", "late/zone")),
    *(f"asks/{one}/why" for one in ("train/worker-0", "shop/web-1", "chat/tune", "no/body")),
    "asks/shop/web-4/logs",
)
"""What is asked for, below ``/api/v1``."""

SAMPLES: Final[Mapping[str, Sequence[str]]] = {
    "after": ("7", "x"),
    "app": ("shop", "nobody"),
    "attempt": ("1",),
    "forecast": ("true", "maybe"),
    "gang": ("default/all", "nobody"),
    "limit": ("1", "3", "0", "x"),
    "queue": ("root.research", "root.nobody"),
    "remedies": ("true",),
    "since": ("1h", "2023-11-14T23:00:00Z", "yesterday"),
    "until": ("20",),
    "user": ("ann", "nobody"),
}
"""Values of parameters whose values are not listed in the document."""

DRY: Final[tuple[list[object], ...]] = (
    [browser.node("new", 8, "16Gi", "c"), browser.ask("shop", "more", {"vcore": 2})],
    [{"op": "drain"}, {"op": "add_ask", "app": "shop"}, 7],
    [{"op": "release", "app": "shop", "ask": "web-4", "outcome": "lost"}],
    [{"op": "remove_app", "app": "film"}, {"op": "remove_node", "node": "gpu-2"}],
)


def samples(parameter: Event) -> Sequence[str]:
    """Return values of a parameter of the document: all that it lists, or samples."""
    schema = parameter["schema"]
    listed = schema.get("enum", schema.get("items", {}).get("enum", ()))
    return (*listed, "nonsense") if listed else SAMPLES.get(parameter["name"], ())


def show_api(write: Write) -> None:
    """Write the OpenAPI document, and answers to requests with each parameter that it names."""
    with in_fixed_state() as fixed:
        for number, answer in enumerate(fixed.answers):
            write(f"program {number}", fixed.text_of(answer))
        paths = fixed.ask(write, "GET", "/openapi.json").json()["paths"]
        patterns = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), path) for path in paths]
        for place in PLACES:
            fixed.ask(write, "GET", f"/api/v1/{place}")
            (path,) = [one for pattern, one in patterns if pattern.fullmatch(f"/api/v1/{place}")]
            for parameter in paths[path]["get"].get("parameters", ()):
                if parameter["in"] == "query":
                    for value in samples(parameter):
                        query = urlencode({parameter["name"]: value})
                        fixed.ask(write, "GET", f"/api/v1/{place}?{query}")
        for path in ("/healthz", "/readyz", "/api/v1/nobody", "/api/v1/queues?nonsense=1"):
            fixed.ask(write, "GET", path)
        for events in DRY:
            fixed.ask(write, "POST", "/api/v1/events?dry_run=true", json=events)
            fixed.ask(write, "POST", "/api/v1/events?dry_run=true&atomic=true", json=events)
        fixed.ask(write, "POST", "/api/v1/events", content=b"{")
        fixed.ask(write, "PUT", "/api/v1/config?dry_run=true", content=browser.CLUSTER_CONFIG)
        fixed.ask(write, "PUT", "/api/v1/config?dry_run=true", content="partitions: 3")
        last = max(
            one["seq"]
            for one in map(json.loads, fixed.client.get("/api/v1/decisions").iter_lines())
        )
        sent = decisions_in(fixed.client, "/api/v1/decisions?after=0", until=last)
        write("stream", "\n".join(f"{one.kind} {one.last_id} {one.data}" for one in sent))


LINK: Final = re.compile(r'(?:href|src|hx-get)="(/[^"#]*)')
MOST_ALIKE: Final = 5
"""How many pages are looked at that differ only in what they are about."""


def show_pages(write: Write) -> None:
    """Write every page that links lead to, a few of each sort, with their files."""
    with in_fixed_state() as fixed:
        fixed.client.get("/")  # Lets asks be counted, which the page shows of the time before.
        found, counts = ["/", "/login", "/nobody", "/asks/no/body"], Counter[object]()
        for path in found:
            parts = urlsplit(path)
            answer = fixed.ask(write, "GET", path)
            is_page = answer.headers["content-type"].startswith("text/html")
            for link in map(unescape, LINK.findall(answer.text) if is_page else ()):
                parts = urlsplit(link)
                steps = parts.path.split("/")
                alike = (steps[1], steps[4:], len(steps), *dict(parse_qsl(parts.query)))
                sort = link if steps[1] == "static" else f"{alike}"
                if link not in found and counts[sort] < MOST_ALIKE:
                    counts[sort] += 1
                    found.append(link)
        proof = re.search(r'"X-Muster-Proof": "([^"]+)"', fixed.client.get("/").text)
        headers = {"X-Muster-Proof": proof[1] if proof else ""}
        for path in ("/events/try", "/events"):
            data = {"events": '[{"op": "drain_node", "node": "gpu-1"}]', "what": "Drain gpu-1"}
            fixed.ask(write, "POST", path, data=data, headers=headers)
            fixed.ask(write, "POST", path, data=data)


def show_metrics(write: Write) -> None:
    """Write the names, types, labels and help of all metrics, and no figures."""
    with in_fixed_state() as fixed:
        for path in ("/metrics", "/ws/v1/metrics"):
            for accept in ("text/plain", "application/openmetrics-text"):
                answer = fixed.client.get(path, headers={"accept": accept})
                comments, samples_ = list[str](), dict[str, None]()
                for line in answer.text.splitlines():
                    if line.startswith("#"):
                        comments.append(line)
                    else:
                        # Not the figures: many are how long something took.
                        samples_[line.rpartition(" ")[0]] = None
                for line in comments:
                    write(f"{path} {accept} {line[:60]}", line)
                write(f"{path} {accept}", "\n".join([answer.headers["content-type"], *samples_]))


PARTITION: Final = "/ws/v1/partition/default"
YUNIKORN: Final = (
    *(f"/ws/v1/{one}" for one in ("clusters", "partitions", "config", "metrics", "nobody")),
    *(f"/ws/v1/scheduler/{one}" for one in ("healthcheck", "node-utilizations")),
    *(f"/ws/v1/{one}" for one in ("history/apps", "history/containers", "fullstatedump", "stack")),
    *("/ws/v1/events/batch", "/ws/v1/events/batch?count=3&start=2", "/debug/fullstatedump"),
    *(f"{PARTITION}/{one}" for one in ("queues", "nodes", "node/gpu-1", "node/nobody")),
    *(f"{PARTITION}/queue/{one}" for one in ("root", "root.render", "root.nobody")),
    *(f"{PARTITION}/queue/root.production/{one}" for one in ("applications", "application/shop")),
    *(f"{PARTITION}/queue/root.production/applications/{one}" for one in ("active", "rejected")),
    *(f"{PARTITION}/application/{one}" for one in ("shop", "film", "train", "late", "nobody")),
    *(f"{PARTITION}/applications/{one}" for one in ("active", "completed", "rejected", "x")),
    *(f"{PARTITION}/{one}" for one in ("placementrules", "usage/users", "usage/groups")),
    *(f"{PARTITION}/usage/{one}" for one in ("user/ann", "user/nobody", "group/eyes")),
    "/ws/v1/partition/nobody/queues",
)


def show_yunikorn(write: Write) -> None:
    """Write the answers of YuniKorn's end points."""
    with in_fixed_state() as fixed:
        for path in YUNIKORN:
            if path != "/ws/v1/metrics":  # Has figures of time; see `show_metrics`.
                fixed.ask(write, "GET", path)
        for text in (browser.CLUSTER_CONFIG, "partitions: 3"):
            fixed.ask(write, "POST", "/ws/v1/validate-conf", content=text)


CLIENTS: Final = (
    *(
        f"get {kind} -o {form}"
        for kind in ("queues", "apps", "asks", "gangs", "nodes", "users")
        for form in ("table", "wide", "json", "yaml")
    ),
    *("get asks --state pending", "get asks --state ended -o wide", "get asks --queue root.nobody"),
    *("get apps shop", "get queues root.render -o json", "get gangs all", "get nodes nobody"),
    *(f"why {ask}" for ask in ("film/frame-4", "late/much --remedies", "shop/web-1", "no/body")),
    *(f"why {ask} -o json" for ask in ("film/frame-4 --forecast", "late/zone --remedies")),
    *("config get", "config get -o json", "config diff queues.yaml", "config diff backfill.yaml"),
    *("decisions", "decisions --kinds bound,released --app shop", "logs shop/web-4"),
    *("submit first.yaml --dry-run", "submit first.yaml --dry-run --format json"),
    *("submit refused.yaml --run one --keep-going", "submit first.yaml --run two --format json"),
    *(
        "drain cpu-1",
        "drain nobody",
        "cancel shop/web-5 --message over",
        "cancel shop",
        "cancel no",
    ),
    "submit --command true --name quick --user ann --queue root.batch --no-wait",
    *("get asks -o json", "get apps -o wide", "config apply queues.yaml", "get queues"),
)
"""The commands that ask a server, in this order; the last ones change its state."""


def show_clients(write: Write) -> None:
    """Write what commands say that ask a server."""
    with in_fixed_state() as fixed:
        for number, ran in enumerate(run_clients(fixed)):
            text = f"{ran}".replace(f"{fixed.folder}", "FOLDER")
            write(f"{number:02} {CLIENTS[number]}", text)


def run_clients(fixed: FixedService) -> Iterator[Run]:
    """Run the commands that ask a server."""
    os.environ["MUSTER_SERVER"] = fixed.url
    for command in CLIENTS:
        yield run(command.split(), DOCS / "feeds")
    del os.environ["MUSTER_SERVER"]


@final
class HandClock:
    """A clock that stands where it is put."""

    at_us = START_NS // 1_000

    def now_us(self) -> int:
        """Return where it stands."""
        return self.at_us

    async def wait_until_us(self, at_us: int) -> None:
        """Wait for ever, unless that is over."""
        if at_us > self.at_us:
            await trio.sleep_forever()


async def keep(feed: Path, directory: Path) -> None:
    """Let a scheduler with a store go through a feed, event by event."""
    clock = HandClock()
    options: Any = {"durability": "process", "checkpoint_every": 5}
    async with muster.open_scheduler(store=directory, clock=clock, **options) as scheduler:
        for item in read_feed(feed):
            clock.at_us = START_NS // 1_000 + item.at_us
            match item.content:
                case Settle() | Expect() | Refused():
                    pass
                case event:
                    with suppress(MusterError):  # What is refused is kept as well.
                        await scheduler.submit(event)


def show_stores(write: Write) -> None:
    """Write what is in the stores of the service, and of schedulers that go through feeds."""
    with in_fixed_state() as fixed:
        write_store("service", fixed.folder / "state", write)
    for feed in sorted((DOCS / "feeds").iterdir()):
        with tempfile.TemporaryDirectory() as path:
            try:
                trio.run(keep, feed, Path(path, "state"))
            except FeedError:
                continue
            write_store(feed.name, Path(path, "state"), write)


def write_store(name: str, directory: Path, write: Write) -> None:
    """Write the rows of every table of a store, and what the command says of it."""
    with closing(sqlite3.connect(f"file:{directory}/muster.db?mode=ro", uri=True)) as store:
        tables = store.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        write(f"{name} schema", "\n".join(f"{one}: {sql}" for one, sql in tables))
        for table in sorted(one for one, sql in tables if f"{sql}".startswith("CREATE TABLE")):
            rows = store.execute(f'SELECT * FROM "{table}"').fetchall()
            write(f"{name} {table}", "\n".join([" | ".join(map(cell, row)) for row in rows]))
    for words in (("store", "state", "--verify", "--format", "json"), ("check", "state")):
        write(f"{name} {' '.join(words)}", f"{run(words, directory.parent)}")
    write(f"{name} replay", f"{run(('replay', 'state', '--decisions', '-'), directory.parent)}")


def cell(value: object) -> str:
    """Return the text of a value in a row; of bytes a digest, and the content if it is msgpack."""
    if not isinstance(value, bytes):
        return repr(value)
    digest = hashlib.sha256(value).hexdigest()[:12]
    try:
        return f"{msgpack.unpackb(value, strict_map_key=False)!r} #{digest}"
    except (ValueError, TypeError):  # the latter for a part of a value that looks like a map
        return f"{value.hex()} #{digest}"
