"""Looking at the page with a real browser: Debian's Chromium, without a window."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Final, final

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
    """Return the script of axe-core, which looks for what somebody could not use."""
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
        said: What was said on the console, and what has failed to load.
    """

    page: Page
    url: str
    said: list[str]

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
        """Press Tab until an element has the focus, as somebody without a mouse does."""
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
        """Fail if one would have to scroll sideways."""
        beyond = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0, self.page.url

    def check_words(self, selector: str) -> None:
        """Fail if a text that has no blanks does not stand in one line."""
        # A line may have several parts, where a name has.
        tops = "new Set([...one.getClientRects()].map(part => Math.round(part.top))).size"
        lines = f"all => all.map(one => [one.textContent, {tops}])"
        found = self.page.locator(selector).evaluate_all(lines)
        assert found
        broken = [text for text, count in found if " " not in text and count > 1]
        assert broken == [], broken

    def check(self, *, but: Sequence[str] = ()) -> None:
        """Fail if anything is on the console, or anybody could not use this page.

        Args:
            but: Parts of messages that are meant to be there.
        """
        said = [one for one in self.said if not any(part in one for part in but)]
        assert said == []
        self.page.evaluate(axe())
        found = self.page.evaluate("axe.run().then(found => found.violations)")
        told = [(one["id"], one["help"], [node["html"] for node in one["nodes"]]) for one in found]
        assert told == [], told


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
        is_dark: Whether its owner prefers dark pages.
    """
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme="dark" if is_dark else "light",
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_S * 1e3)
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        said.append(f"{message.type}: {message.text}")

    def fail(request: Request) -> None:
        # A stream of events that ends with its page is no failure.
        if "ERR_ABORTED" not in (request.failure or ""):
            said.append(f"{request.url}: {request.failure}")

    page = context.new_page()
    page.on("console", note)
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("requestfailed", fail)
    page.on("request", lambda request: _check_origin(request, url, said))
    try:
        yield Window(page, url, said)
    finally:
        context.close()


def _check_origin(request: Request, url: str, said: list[str]) -> None:
    if not request.url.startswith((url, "data:")):
        said.append(f"{request.url}: is at another address")


def check_all(
    browser: Browser, url: str, paths: Sequence[str], *, width: int, is_dark: bool
) -> None:
    """Fail if anybody could not use one of some pages, or would have to scroll sideways."""
    with window(browser, url, size=(width, 800), is_dark=is_dark) as shown:
        for path in paths:
            shown.open(path)
            shown.check()
            shown.check_width()
