"""Takes pictures of every page, for a review by eye: ``python -m tests.page.pictures FOLDER``.

Each page is taken with no data, with a little, and with much, at four widths, light and dark; some
of them after an action, and all of them while the service is away. It reports what is not accessible,
and what is wider than the window.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs
import click
import httpx
from playwright.sync_api import Browser, Error, sync_playwright

from muster.service.access import Role
from tests.actors.serving.served import Served
from tests.actors.serving.test_access import SECRETS, line_of
from tests.page.browser import CLUSTER_CONFIG, DATA, NO_BROWSER, Window, program, start, window

SIZES: Final = {360: (360, 740), 1000: (1000, 800), 1280: (1280, 800), 3840: (3840, 2160)}

LITTLE: Final = "little"
AWAY: Final = "away"
TOKENS: Final = "tokens"
KINDS: Final = (*DATA, AWAY, TOKENS)
"""What the service has; ``away`` is little of a service that does not answer any more."""

EXPECTED: Final = (
    "status of 40",
    "ERR_INTERNET_DISCONNECTED",
    "error: htmx:afterRequest",
    "error: htmx:sendError",
)
"""What the console may say: some things are not there, and the service may be away."""

LISTENING: Final = """
const streams = [];
window.EventSource = class extends EventSource {
  constructor(url) { super(url); streams.push(this); }
};
window.cutStreams = () => streams.forEach((one) => { one.close(); one.dispatchEvent(new Event("error")); });
"""
"""Lets the streams of a page be cut: a browser that is set offline keeps them."""

SEARCH_MS: Final = 30_000
"""How long a search for what would help is waited for, in milliseconds."""


def nothing(_: Window) -> None:
    """Do nothing on a page."""


def log_in(shown: Window) -> None:
    """Send a wrong token."""
    shown.page.get_by_label("Token").fill("wrong")
    shown.page.keyboard.press("Enter")
    shown.page.get_by_role("alert").wait_for()


def wait_for_forecast(shown: Window) -> None:
    """Wait for the forecast of when an ask starts."""
    shown.page.get_by_role("button", name="Forecast again").wait_for(timeout=SEARCH_MS)


def try_remedy(shown: Window) -> None:
    """Open all changes that would help, and try the first of them."""
    helps = shown.page.locator(".helps")
    helps.wait_for(timeout=SEARCH_MS)
    for summary in helps.locator(".apply > summary").all():
        if summary.evaluate("one => !one.parentElement.open"):
            summary.click()
    helps.get_by_role("button", name="Try").first.click()
    shown.page.get_by_text("These decisions would follow").wait_for(timeout=SEARCH_MS)


def write(shown: Window, changes: Mapping[str, str]) -> None:
    """Change the configuration in the editor: all places with some texts."""
    text = shown.page.get_by_label("The configuration as YAML")
    written = text.input_value()
    for old, new in changes.items():
        written = written.replace(old, new)
    text.fill(written)
    shown.page.locator("[data-verdict]").wait_for()


def compare(shown: Window) -> None:
    """Change the configuration, and compare."""
    team = "- name: team-005\n"
    write(
        shown, {"vcore: 40": "vcore: 60", team: f"{team}      resources: {{max: {{vcore: 9}}}}\n"}
    )
    shown.page.get_by_role("button", name="What would it change?").click()
    shown.page.get_by_role("heading", name="If it had been in force").wait_for()


def write_refused(shown: Window) -> None:
    """Write a configuration that is refused."""
    write(shown, {"submitacl: '*'": "submitacl: '*'\n    resources: {max: {vcore: many}}"})


@attrs.frozen
class View:
    """The subject of a picture.

    Attributes:
        path: The address: ``{before}`` is a moment before the first event, ``{between}`` one
            after the first request.
        act: What a user does there first.
    """

    path: str
    act: Callable[[Window], None] = nothing


PAGES: Final = {
    "overview": View("/"),
    "queues": View("/queues"),
    "queue": View("/queues/root.research"),
    "asks": View("/asks"),
    "ask": View("/asks/train/worker-0"),
    "reserved": View("/asks/film/frame-0", wait_for_forecast),
    "held-back": View("/asks/film/thumbnail-1", wait_for_forecast),
    "remedy": View("/asks/train/worker-0", try_remedy),
    "app": View("/apps/train"),
    "gangs": View("/gangs"),
    "gang": View("/gangs/default/all"),
    "users": View("/users"),
    "nodes": View("/nodes"),
    "nodes-by-queue": View("/nodes?group=zone&color=queue"),
    "node": View("/nodes/gpu-1"),
    "node-reserved": View("/nodes/cpu-1"),
    "node-devices": View("/nodes/dgx-1"),
    "ask-devices": View("/asks/chat/reply-0"),
    "config": View("/config"),
    "config-compared": View("/config", compare),
    "config-refused": View("/config", write_refused),
    "time": View("/time"),
    "time-span": View("/time?from={before}"),
    "past": View("/?at={between}"),
    "past-node": View("/nodes/gpu-1?at={between}"),
    "not-yet": View("/nodes/gpu-1?at={before}"),
}

ALONE: Final = {"login": View("/queues"), "login-refused": View("/queues", log_in)}
"""The pages that exist only with tokens."""


def fill(client: httpx.Client, requests: Sequence[list[dict[str, Any]]]) -> Mapping[str, str]:
    """Send the events of each request, and return the moments that addresses name."""
    before = between = datetime.now(UTC)
    for number, events in enumerate(requests):
        response = client.post("/api/v1/events", json=events)
        assert response.status_code == 200, response.text
        if number == 0:
            between = datetime.now(UTC)
    moments = {"before": before, "between": between}
    return {name: f"{at:%Y-%m-%dT%H:%M:%S.%fZ}" for name, at in moments.items()}


@attrs.frozen
class Camera:
    """Takes pictures of a service.

    Attributes:
        browser: The browser.
        url: The address of the service.
        folder: Where the pictures go.
        name: The kind of data, for the names of files.
        widths: The widths, in pixels.
        is_away: Whether the service does not answer any more once a page is there.
        moments: The moments that addresses name.
    """

    browser: Browser
    url: str
    folder: Path
    name: str
    widths: Sequence[int]
    is_away: bool
    moments: Mapping[str, str]

    def windows(self) -> Iterator[tuple[str, Window]]:
        """Yield a window for each width, light and dark, with its part of the file names."""
        for width in self.widths:
            for is_dark in (False, True):
                with window(self.browser, self.url, size=SIZES[width], is_dark=is_dark) as shown:
                    yield f"{self.name}-{width}-{'dark' if is_dark else 'light'}", shown

    def take_all(self, views: Mapping[str, View]) -> None:
        """Take the pictures of views."""
        for name, shown in self.windows():
            shown.page.add_init_script(LISTENING)
            for page, view in views.items():
                self.take(shown, view, f"{page}-{name}")

    def take(self, shown: Window, view: View, name: str) -> None:
        """Take a picture of a view, and print its faults."""
        context = shown.page.context
        try:
            shown.open(view.path.format(**self.moments))
            shown.page.wait_for_load_state("load")
            view.act(shown)
            if self.is_away:
                context.set_offline(True)
                shown.page.evaluate("cutStreams()")
                parts = shown.page.get_by_role("navigation", name="Parts")
                parts.get_by_role("link", name="Asks").click()
                shown.page.locator("#away", has_text="was not opened").wait_for()
        except Error as error:
            click.echo(f"{name}: {error.message.splitlines()[0]}")
        shown.page.screenshot(path=self.folder / f"{name}.png", full_page=True)
        try:
            shown.check(but=EXPECTED)
            shown.check_width()
        except AssertionError as error:
            click.echo(f"{name}: {error} {shown.messages}")
        shown.messages.clear()
        context.set_offline(False)


def has_view(view: View, data: str) -> bool:
    """Return whether a view can be had with some data."""
    if view.act is wait_for_forecast:
        return data in {LITTLE, AWAY}
    return data != "none" or view.act is not try_remedy


@contextmanager
def serving(data: str) -> Generator[Served]:
    """Run a service in a folder of its own; with tokens for the pages that ask for one."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--state", f"{folder}/state"]
        if data == TOKENS:
            tokens = Path(folder, "tokens")
            line = line_of(Role.ADMIN, SECRETS[Role.ADMIN])
            tokens.write_text(f"{line}\n", encoding="utf-8")
            arguments += ["--tokens", str(tokens)]
        with Served(Path(folder), *arguments, config=CLUSTER_CONFIG) as served:
            yield served


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--data", type=click.Choice(KINDS), multiple=True, default=KINDS)
@click.option("--page", "pages", type=click.Choice([*PAGES, *ALONE]), multiple=True)
@click.option("--width", "widths", type=click.Choice([*SIZES]), multiple=True, default=[*SIZES])
def main(folder: Path, data: Sequence[str], pages: Sequence[str], widths: Sequence[int]) -> None:
    """Take pictures of every page into FOLDER."""
    if program() is None:
        raise click.ClickException(NO_BROWSER)
    folder.mkdir(parents=True, exist_ok=True)
    for name in data:
        known = ALONE if name == TOKENS else PAGES
        views = {
            page: view
            for page, view in known.items()
            if has_view(view, name) and (not pages or page in pages)
        }
        with serving(name) as served, sync_playwright() as playwright:
            requests = DATA[LITTLE if name == AWAY else name]() if name != TOKENS else ()
            moments = fill(served.client, [*requests])
            camera = Camera(
                start(playwright), served.urls[0], folder, name, widths, name == AWAY, moments
            )
            camera.take_all(views)


if __name__ == "__main__":
    main()
