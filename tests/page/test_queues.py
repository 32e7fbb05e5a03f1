"""The tree of queues and a queue in a browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.actors.serving.served import Served
from tests.actors.serving.test_page_queues import CONFIG, EVENTS
from tests.page.browser import check_all, serving, window


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), EVENTS, config=CONFIG) as served:
        yield served


def expect_queues(page: Page, *names: str) -> None:
    """Wait until these queues are shown, and no others."""
    page.wait_for_function(
        "wanted => [...document.querySelectorAll('#queues tbody th a')]"
        ".map(one => one.textContent).join() === wanted",
        arg=",".join(names),
    )


# PAGE-21
def test_a_queue_is_folded_by_keyboard_and_stays_so(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/queues")
        expect_queues(shown.page, "root", "dev", "prod", "jobs", "web")
        fold = shown.page.get_by_role("button", name="Queues below root.prod")
        fold.focus()
        shown.page.keyboard.press("Enter")
        expect_queues(shown.page, "root", "dev", "prod")
        assert fold.get_attribute("aria-expanded") == "false"
        late = [
            {"op": "add_app", "app": "late", "queue": "root.dev"},
            {"op": "add_ask", "app": "late", "ask": "x", "resources": {"vcore": 3}},
        ]
        served.client.post("/api/v1/events", json=late)
        shown.page.locator("tr", has_text="3 cores, no max").wait_for()
        expect_queues(shown.page, "root", "dev", "prod")
        assert shown.page.evaluate("document.activeElement.dataset.fold") is not None
        shown.page.reload()
        expect_queues(shown.page, "root", "dev", "prod")
        shown.page.get_by_role("link", name="prod").focus()
        shown.page.keyboard.press("ArrowRight")
        expect_queues(shown.page, "root", "dev", "prod", "jobs", "web")
        shown.page.keyboard.press("ArrowDown")
        shown.page.keyboard.press("Enter")
        shown.page.get_by_role("heading", name="root.prod.jobs").wait_for()
        shown.check()


# PAGE-22
def test_queues_are_found_while_one_types(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/queues")
        shown.page.get_by_label("Name").press_sequentially("JOB")
        expect_queues(shown.page, "root", "prod", "jobs")
        shown.page.get_by_label("Name").fill("")
        shown.page.get_by_label("Only those with pending asks").check()
        expect_queues(shown.page, "root", "prod", "jobs")
        shown.page.wait_for_url("**/queues?*busy=1")
        shown.check()


# PAGE-20, PAGE-23
@pytest.mark.parametrize(("width", "is_dark"), [(360, True), (1280, False)])
def test_everybody_can_use_them(
    browser: Browser, served: Served, width: int, *, is_dark: bool
) -> None:
    paths = ("/queues", "/queues?name=nothing", "/queues/root.prod", "/queues/root.dev")
    check_all(browser, served.urls[0], paths, width=width, is_dark=is_dark)


# PAGE-23, PAGE-24
@pytest.mark.parametrize("width", [360, 1000])
def test_words_are_not_broken_where_it_is_narrow(
    browser: Browser, served: Served, width: int
) -> None:
    with window(browser, served.urls[0], size=(width, 800)) as shown:
        shown.open("/queues/root.prod")
        for selector in ("tbody th code", "table th a", "td > .amounts .kind"):
            shown.check_words(selector)
        shown.open("/queues")
        shown.check_words("table th a")
