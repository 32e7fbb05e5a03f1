"""A real browser, Debian's Chromium without a window, and the clusters whose pages the tests show."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, final

import attrs
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright, Request

from tests.actors.serving.served import CONFIG, Served

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")

PATIENCE_S: Final = 60.0
"""How long anything is waited for, in seconds; it is never reached on a machine that works."""

MOST_TABS: Final = 150
"""How often Tab is pressed at most to reach an element."""

NO_BROWSER: Final = "no Chromium here: install it, for example with apt-get install chromium"


def program() -> str | None:
    """Return the browser of this machine, or None."""
    return next((found for one in PROGRAMS if (found := shutil.which(one))), None)


@lru_cache(maxsize=1)
def axe() -> str:
    """Return the script of axe-core, which finds what is not accessible."""
    return files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")


@contextmanager
def serving(
    folder: Path, events: Sequence[object], *arguments: str, config: str = CONFIG
) -> Generator[Served]:
    """Run a service in which some events have happened.

    Args:
        folder: Where its files are.
        events: The events.
        *arguments: Further arguments of the command.
        config: The configuration.
    """
    with Served(folder, *arguments, config=config) as served:
        served.client.post("/api/v1/events", json=list(events)).raise_for_status()
        yield served


def start(playwright: Playwright) -> Browser:
    """Start the browser."""
    # Chromium refuses to isolate its processes for root; tests open no page of strangers.
    return playwright.chromium.launch(executable_path=program(), chromium_sandbox=False)


@final
@attrs.frozen(eq=False)
class Window:
    """A window of a browser that shows one page of a service.

    Attributes:
        page: The page, as Playwright has it.
        url: The address of the service.
        messages: The messages of the console, and the requests that failed.
    """

    page: Page
    url: str
    messages: list[str]

    def open(self, path: str = "/") -> None:
        """Open a page of the service."""
        self.page.goto(f"{self.url}{path}")

    def main(self) -> str:
        """Return the text of the content."""
        return self.page.locator("#main").inner_text()

    def until(self, text: str) -> None:
        """Wait until the content has a text."""
        self.page.locator("#main", has_text=text).wait_for()

    def tab_to(self, wanted: Locator) -> None:
        """Press Tab until an element has the focus, as a user without a mouse does."""
        for _ in range(MOST_TABS):
            self.page.keyboard.press("Tab")
            if wanted.evaluate("one => one === document.activeElement"):
                return
        raise AssertionError(f"{wanted} is not reached with Tab")

    def follow(self, name: str) -> None:
        """Go to a link with Tab, and follow it with Enter."""
        self.tab_to(self.page.get_by_role("link", name=name, exact=True).first)
        self.page.keyboard.press("Enter")

    def check_width(self) -> None:
        """Fail if the page is wider than the window."""
        beyond = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0, self.page.url

    def check_words(self, selector: str) -> None:
        """Fail if a text without blanks is broken into lines."""
        # A line may have several parts, where a name has.
        tops = "new Set([...one.getClientRects()].map(part => Math.round(part.top))).size"
        lines = f"all => all.map(one => [one.textContent, {tops}])"
        found = self.page.locator(selector).evaluate_all(lines)
        assert found
        broken = [text for text, count in found if " " not in text and count > 1]
        assert broken == [], broken

    def check(self, *, but: Sequence[str] = ()) -> None:
        """Fail if anything is on the console, or the page is not accessible.

        Args:
            but: Parts of messages that are meant to be there.
        """
        unexpected = [one for one in self.messages if not any(part in one for part in but)]
        assert unexpected == []
        self.page.evaluate(axe())
        found = self.page.evaluate("axe.run().then(found => found.violations)")
        violations = [
            (one["id"], one["help"], [node["html"] for node in one["nodes"]]) for one in found
        ]
        assert violations == [], violations


@contextmanager
def window(
    browser: Browser,
    url: str,
    *,
    size: tuple[int, int] = (1280, 800),
    is_dark: bool = False,
) -> Generator[Window]:
    """Open a window for the time of a block; it has no cookies of others.

    Args:
        browser: The browser.
        url: The address of the service.
        size: The width and the height, in pixels of CSS.
        is_dark: Whether the user prefers dark pages.
    """
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if is_dark else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_S * 1e3)
    messages: list[str] = []

    def note(message: ConsoleMessage) -> None:
        messages.append(f"{message.type}: {message.text}")

    def fail(request: Request) -> None:
        # A stream of events that ends with its page is no failure.
        if "ERR_ABORTED" not in (request.failure or ""):
            messages.append(f"{request.url}: {request.failure}")

    page = context.new_page()
    page.on("console", note)
    page.on("pageerror", lambda error: messages.append(f"error: {error}"))
    page.on("requestfailed", fail)
    page.on("request", lambda request: _check_origin(request, url, messages))
    try:
        yield Window(page, url, messages)
    finally:
        context.close()


def _check_origin(request: Request, url: str, messages: list[str]) -> None:
    if not request.url.startswith((url, "data:")):
        messages.append(f"{request.url}: is at another address")


def check_all(
    browser: Browser, url: str, paths: Sequence[str], *, width: int, is_dark: bool
) -> None:
    """Fail if one of some pages is not accessible, or wider than the window."""
    with window(browser, url, size=(width, 800), is_dark=is_dark) as shown:
        for path in paths:
            shown.open(path)
            shown.check()
            shown.check_width()


Event = dict[str, Any]

CLUSTER_CONFIG: Final = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: production
            properties: {priority.offset: "10"}
            resources: {guaranteed: {vcore: 32, memory: 128Gi}, max: {vcore: 96, memory: 384Gi}}
          - name: research
            resources: {guaranteed: {vcore: 48, memory: 192Gi}, max: {vcore: 64, memory: 256Gi}}
            queues:
              - {name: vision}
              - {name: language, properties: {priority.policy: fence}}
          - name: batch
            resources: {max: {vcore: 40}}
          - name: render
            properties: {scheduling.order: backfill, backfill.depth: "3"}
"""


def a_little() -> Iterator[list[Event]]:
    """Yield the events of a small cluster; each list is one request."""
    yield [
        *(node(f"cpu-{number}", 32, "128Gi", "a" if number < 3 else "b") for number in range(1, 5)),
        *(node(f"gpu-{number}", 16, "256Gi", "b", gpus=4) for number in range(1, 3)),
        {"op": "update_node", "node": "cpu-4", "schedulable": False},
    ]
    yield [
        app("shop", "root.production", "ann"),
        ask("shop", "web", {"vcore": 2, "memory": "4Gi"}, count=12, priority=5),
        app("etl", "root.batch", "bob"),
        ask("etl", "part", {"vcore": 4, "memory": "8Gi"}, count=30, estimate="2h"),
        app("label", "root.research.vision", "cleo"),
        ask("label", "image", {"vcore": 1, "memory": "2Gi"}, count=14),
    ]
    members = [
        ask("train", f"worker-{number}", {"vcore": 8, "nvidia.com/gpu": 2}, gang="all")
        for number in range(6)
    ]
    gang = {"op": "add_gang", "gang": "all", "min_member": 6, "wait_time": "30m"}
    yield [gang, app("train", "root.research.language", "dora"), *members]
    yield [
        app("film", "root.render", "emil"),
        ask("film", "frame", {"vcore": 20, "memory": "16Gi"}, count=5, estimate="1h"),
        ask("film", "thumbnail", {"vcore": 6, "memory": "4Gi"}, count=3),
        {"op": "add_app", "app": "odd", "queue": "root.nowhere"},
    ]
    yield [
        node("dgx-1", 15, "512Gi", "b", devices={"gpu": {"count": 8, "model": "A100"}, "nic": 2}),
        app("chat", "root.production", "ann"),
        ask("chat", "tune", {"vcore": 8}, devices={"gpu": 4, "nic": 1}),
        ask("chat", "reply", {"vcore": 1}, count=7, devices={"gpu": {"milli": 300}}),
    ]


def much() -> Iterator[list[Event]]:
    """Yield the events of a large cluster."""
    queues = [{"name": f"team-{number:03}", "queues": [{"name": "a"}]} for number in range(500)]
    queues.append({"name": "research", "queues": [{"name": "language"}]})
    root = {"name": "root", "submitacl": "*", "queues": queues}
    yield [{"op": "configure", "config": {"partitions": [{"name": "default", "queues": [root]}]}}]
    for first in range(0, 10_000, 5_000):
        numbers = range(first, first + 5_000)
        yield [node(f"node-{number:05}", 32, "128Gi", "abcdef"[number % 6]) for number in numbers]
    for number in range(100):
        name = f"job-{number:03}"
        yield [
            app(name, f"root.team-{number * 5:03}.a", f"user-{number % 7}"),
            ask(name, "part", {"vcore": 7 + number % 9, "memory": "16Gi"}, count=1_300),
        ]
    # What the pages of single things are about.
    yield [
        node("gpu-1", 2_000, "2000Gi", "b", gpus=8),
        app("small", "root.research.language", "cleo"),
        ask("small", "part", {"vcore": "500m"}, count=3_000, selector={"zone": "b"}),
        {"op": "add_gang", "gang": "all", "min_member": 2_000, "wait_time": "30m"},
        app("train", "root.research.language", "dora"),
        ask("train", "worker", {"vcore": 8, "nvidia.com/gpu": 2}, count=2_000, gang="all"),
    ]


def node(name: str, vcore: int, memory: str, zone: str, *, gpus: int = 0, **more: object) -> Event:
    """Return the event that adds a node."""
    capacity: Event = {"vcore": vcore, "memory": memory}
    if gpus:
        capacity["nvidia.com/gpu"] = gpus
    there = {"op": "add_node", "node": name, "capacity": capacity, "attributes": {"zone": zone}}
    return there | more


def app(name: str, queue: str, user: str, **more: object) -> Event:
    """Return the event that adds an application."""
    return {"op": "add_app", "app": name, "queue": queue, "user": user, **more}


def ask(of: str, name: str, resources: Event, **more: object) -> Event:
    """Return the event that adds an ask."""
    return {"op": "add_ask", "app": of, "ask": name, "resources": resources, **more}


def nothing() -> Iterator[list[Event]]:
    """Yield nothing."""
    yield from ()


DATA: Final = {"none": nothing, "little": a_little, "much": much}
