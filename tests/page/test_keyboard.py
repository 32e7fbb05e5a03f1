"""Each part of the page with Tab and Enter alone, during live updates.

The tests share one service; each changes another part of its state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.actors.serving.served import Served
from tests.actors.serving.test_page_asks import CONFIG, EVENTS
from tests.page.browser import PATIENCE_S, Window, serving, window

WAIT_MS: Final = PATIENCE_S * 1e3
SMALL: Final = {"op": "add_node", "node": "small", "capacity": {"vcore": "1m"}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("keyboard"), [*EVENTS, SMALL], config=CONFIG) as served:
        yield served


@pytest.fixture
def shown(browser: Browser, served: Served) -> Iterator[Window]:
    with window(browser, served.urls[0]) as shown:
        yield shown


def press(shown: Window, role: str, name: str) -> None:
    """Go to a button or the like with Tab, and press it with Enter."""
    if role == "summary":
        wanted = shown.page.locator("summary", has_text=name)
    else:
        wanted = shown.page.locator(role, has_text=name)
    shown.tab_to(wanted.first)
    shown.page.keyboard.press("Enter")


def has_focus(shown: Window, selector: str) -> None:
    expect(shown.page.locator(f"{selector}:focus")).to_have_count(1, timeout=WAIT_MS)


# PAGE-5, PAGE-14, PAGE-40, PAGE-42
def test_from_the_overview_to_an_ask_that_is_cancelled(shown: Window) -> None:
    shown.open()
    shown.page.keyboard.press("Tab")
    expect(shown.page.locator(":focus")).to_have_text("Skip to the content")
    shown.page.keyboard.press("Enter")
    has_focus(shown, "#main")
    shown.check()
    shown.follow("its queue has too little headroom under max")
    shown.until("shop/cart-0")
    shown.tab_to(shown.page.get_by_label("Name"))
    shown.page.keyboard.type("cart-1")
    expect(shown.page.locator("#main tbody tr")).to_have_count(11, timeout=WAIT_MS)
    shown.check()
    shown.follow("shop/cart-1")
    shown.until("Each of these alone gets shop/cart-1 bound at once")
    shown.check()
    press(shown, "summary", "Cancel this ask")
    press(shown, "button", "Apply")
    # The button goes away with the ask; the answer stays, and has the focus.
    expect(shown.page.locator("h1")).to_contain_text("over", timeout=WAIT_MS)
    expect(shown.page.locator("#answer")).to_contain_text("Cancel this ask: done at")
    has_focus(shown, "#answer")
    shown.check()
    press(shown, "button", "Close")
    expect(shown.page.locator("#answer")).to_be_empty()
    has_focus(shown, "#main")


# PAGE-5, PAGE-48, PAGE-49
def test_a_gang_is_helped(shown: Window, served: Served) -> None:
    shown.open()
    shown.follow("Gangs")
    shown.until("3 missing")
    shown.check()
    shown.follow("ml/bert")
    shown.until("Each of these changes alone lets the gang start at once")
    press(shown, "form:has-text('remove_gang') button", "Apply")
    shown.until("its members run")
    expect(shown.page.locator("#remedies")).to_have_count(0, timeout=WAIT_MS)
    has_focus(shown, "#answer")
    # It stays while the page goes on.
    served.client.post("/api/v1/events", json=[{**SMALL, "node": "late"}]).raise_for_status()
    shown.follow("Nodes")
    shown.until("late")


# PAGE-21, PAGE-50, PAGE-53, PAGE-54
def test_a_queue_leads_to_its_lines_and_these_are_changed(shown: Window) -> None:
    page = shown.page
    shown.open()
    shown.follow("Queues")
    fold = page.get_by_role("button", name="Queues below root")
    shown.tab_to(fold)
    page.keyboard.press("Enter")
    expect(page.locator("#queues tbody tr")).to_have_count(1, timeout=WAIT_MS)
    page.keyboard.press("Enter")
    expect(page.locator("#queues tbody tr")).to_have_count(3, timeout=WAIT_MS)
    shown.check()
    shown.follow("web")
    page.get_by_role("heading", name="root.web").wait_for()
    shown.check()
    shown.follow("Change its configuration")
    has_focus(shown, "#config-text")
    text = page.locator("#config-text").input_value()
    first = int(page.locator("#config-lines .here").first.inner_text())
    assert text.splitlines()[first - 1].strip() == "- name: web"
    for _ in text.splitlines()[first - 1 : _line_of_max(text)]:
        page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    page.keyboard.type("0")
    page.locator("#config-checked", has_text="It is valid, and changes this").wait_for()
    shown.check()
    page.keyboard.press("Escape")
    shown.tab_to(page.locator("#config-apply"))
    page.keyboard.press("Enter")
    page.locator("#config-applied", has_text="It is in force").wait_for()
    has_focus(shown, "#config-applied")
    shown.check()


def _line_of_max(text: str) -> int:
    """Return the number of lines before the one with the only ``max`` of the configuration."""
    return next(at for at, line in enumerate(text.splitlines()) if "vcore: 8" in line)


# PAGE-5, PAGE-31, PAGE-36
def test_a_node_is_drained(shown: Window, served: Served) -> None:
    shown.open()
    shown.follow("Nodes")
    shown.tab_to(shown.page.locator(".here"))
    shown.page.keyboard.press("End")
    shown.check()
    shown.page.keyboard.press("Enter")
    shown.page.get_by_role("heading", name="small").wait_for()
    press(shown, "summary", "Drain it")
    assert '"schedulable": false' in shown.main()
    press(shown, "button", "Apply")
    shown.until("Let it take asks again")
    expect(shown.page.locator("#answer")).to_contain_text("Drain it: done at")
    has_focus(shown, "#answer")
    assert served.client.get("/api/v1/nodes/small").json()["item"]["schedulable"] is False
    shown.check()


# PAGE-4
def test_ages_count_on_by_themselves(shown: Window) -> None:
    shown.page.clock.install()
    shown.open("/asks/shop/front")
    ago = shown.page.locator(".facts .ago").first
    expect(ago).to_have_text(re.compile("just now| s ago"))
    urls: list[str] = []
    shown.page.on("request", lambda request: urls.append(request.url))
    shown.page.clock.fast_forward(2 * 3_600_000)
    expect(ago).to_have_text(re.compile("^2 h"))
    assert urls == []
