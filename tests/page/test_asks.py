"""Asks, applications and gangs in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.actors.serving.served import Served, running_commands
from tests.actors.serving.test_page_asks import CONFIG, EVENTS, release
from tests.page.browser import PATIENCE_S, Window, serving, window

WAIT_MS = PATIENCE_S * 1e3


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Yield a service that no test changes."""
    with serving(tmp_path_factory.mktemp("asks"), EVENTS, config=CONFIG) as served:
        yield served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    state = ("--state", str(tmp_path / "state"))
    with serving(tmp_path, EVENTS, *state, config=CONFIG) as served:
        yield served


def rows(shown: Window) -> list[str]:
    return shown.page.locator("#main tbody th").all_inner_texts()


# PAGE-40
@pytest.mark.parametrize(("size", "is_dark"), [((360, 740), True), ((1280, 800), False)])
@pytest.mark.parametrize(
    "path",
    [
        "/asks",
        "/asks?name=none",
        "/asks/train/worker-1",
        "/apps/train",
        "/gangs",
        "/gangs/ml/bert",
        "/users",
    ],
)
def test_everybody_can_use_each_page(
    browser: Browser, shared: Served, path: str, size: tuple[int, int], is_dark: bool
) -> None:
    with window(browser, shared.urls[0], size=size, is_dark=is_dark) as shown:
        shown.open(path)
        expect(shown.page.locator(".searching")).to_have_count(0, timeout=WAIT_MS)
        shown.check()
        shown.check_width()


# PAGE-43, PAGE-68
def test_what_would_help_is_searched_for_when_the_service_is_back(
    browser: Browser, shared: Served
) -> None:
    with window(browser, shared.urls[0]) as shown:
        lost = "**/asks/train/worker-1/helps*"
        shown.page.route(lost, lambda route: route.abort("connectionrefused"), times=1)
        with shown.page.expect_event("requestfailed", lambda one: one.url.endswith("/helps")):
            shown.open("/asks/train/worker-1")
        expect(shown.page.locator(".searching")).to_have_count(0, timeout=WAIT_MS)
        shown.page.get_by_role("button", name="Search again").wait_for()
        expect(shown.page.locator("#away")).to_be_hidden()


# PAGE-40
def test_a_search_goes_on_while_one_types(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/asks")
        assert len(rows(shown)) == 50
        shown.page.get_by_label("Name").press_sequentially("cart-1")
        expect(shown.page.locator("#main tbody tr")).to_have_count(11, timeout=WAIT_MS)
        shown.page.get_by_label("State").select_option("bound")
        shown.until("No ask matches")
        # What is decided meanwhile is shown, and what was written stays.
        served.client.post("/api/v1/events", json=[release("front")])
        shown.until("shop/cart-1")
        assert shown.page.get_by_label("Name").input_value() == "cart-1"
        assert "name=cart-1" in shown.page.url
        shown.check()


# PAGE-43
def test_what_would_help_stays_while_the_page_changes(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        searches: list[str] = []
        shown.page.on(
            "request", lambda one: searches.append(one.url) if "/helps" in one.url else None
        )
        shown.open("/asks/shop/cart-1")
        button = shown.page.get_by_role("button", name="Try").first
        button.wait_for()
        button.click()
        shown.until("These decisions would follow")
        facts = shown.page.locator("#r-QueueMax details")
        facts.locator("summary").click()
        urgent = {"op": "add_ask", "app": "shop", "ask": "urgent", "priority": 5}
        served.client.post("/api/v1/events", json=[{**urgent, "resources": {"vcore": 2}}])
        shown.until("leaves 0 vcore of 8 vcore")
        assert "These decisions would follow" in shown.main()
        assert "root.web 0 cores" in facts.inner_text()
        assert len(searches) == 1


# PAGE-41, PAGE-49
def test_one_finds_why_a_gang_does_not_start_and_mends_it(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open()
        shown.page.get_by_role("link", name="Gangs").click()
        shown.until("3 missing")
        shown.page.get_by_role("link", name="ml/bert").click()
        shown.until("there was no room for its whole gang")
        # From one of its members, two clicks: to its page, and on the button.
        shown.page.locator("#main tbody").get_by_role("link", name="train/worker-1").click()
        shown.until("Each of these alone gets train/worker-1 bound at once")
        # OUTLOOK-33
        node = shown.page.locator(".helps li", has_text="another node")
        expect(node.get_by_text("This is advice")).to_be_visible()
        expect(node.get_by_role("button")).to_have_count(0)
        fewer = shown.page.locator(".helps li", has_text="min_member 2 instead of 3")
        expect(fewer.locator("pre")).to_contain_text('"op": "remove_gang"')
        fewer.get_by_role("button", name="Apply").click()
        expect(shown.page.locator("h1")).to_contain_text("bound", timeout=WAIT_MS)
        expect(shown.page.locator("#remedies")).to_have_count(0)
        shown.page.get_by_role("link", name="ml/bert").click()
        shown.until("its members run")
        shown.check()


# PAGE-44
def test_older_decisions_are_loaded_and_stay(browser: Browser, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    with Served(tmp_path, *state, config=CONFIG) as served:
        served.client.post("/api/v1/events", json=EVENTS)
        served.client.post("/api/v1/events", json=[release("front", message="done")])
    with (
        Served(tmp_path, *state, config=CONFIG) as served,
        window(browser, served.urls[0]) as shown,
    ):
        shown.open("/asks/shop/front")
        shown.until("released (completed) on n1: done")
        added = {"op": "add_ask", "app": "shop", "resources": {"vcore": 4}}
        with shown.page.expect_response("**/asks/shop/front"):
            served.client.post("/api/v1/events", json=[{**added, "ask": "other"}])
        shown.until("released (completed) on n1: done")
        shown.check()
        # PAGE-85: another ask of this name has a history of its own.
        served.client.post("/api/v1/events", json=[{**added, "ask": "front"}])
        expect(shown.page.locator("h1")).to_contain_text("pending", timeout=WAIT_MS)
        shown.until("everything since it was added")
        expect(shown.page.locator("#main")).not_to_contain_text("done")
        shown.check()


# PAGE-45
def test_the_output_is_shown_while_it_is_written(browser: Browser, tmp_path: Path) -> None:
    go = tmp_path / "go"
    numbers = "".join(f"{number}\n" for number in range(1, 91))
    ask = {
        "op": "add_ask",
        "app": "a",
        "ask": "hello",
        "resources": {"vcore": "1m"},
        "command": f"echo begun; seq 90; until [ -e {go} ]; do sleep 0.1; done; echo ended",
    }
    with (
        running_commands(tmp_path, config=CONFIG) as served,
        window(browser, served.urls[0]) as shown,
    ):
        app = {"op": "add_app", "app": "a", "queue": "root.ml"}
        served.client.post("/api/v1/events", json=[app, ask])
        shown.open("/asks/a/hello")
        shown.until("begun")
        # The last lines are in view.
        expect(shown.page.get_by_text("90", exact=False).last).to_be_visible()
        output = shown.page.get_by_role("region", name="The output")
        end = "one => Math.abs(one.firstElementChild.getBoundingClientRect().bottom - one.getBoundingClientRect().bottom)"
        assert output.evaluate(end) < 20
        shown.check()
        # PAGE-4: it rests while the page is not in view.
        urls: list[str] = []
        shown.page.on("request", lambda one: urls.append(one.url))
        shown.page.evaluate(
            "Object.defineProperty(document, 'hidden', {configurable: true, get: () => true})"
        )
        urls.clear()
        shown.page.evaluate("htmx.trigger(document.querySelector('[data-renews]'), 'again')")
        assert [one for one in urls if one.endswith("/output")] == []
        with shown.page.expect_request("**/output"):
            shown.page.evaluate(
                "delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))"
            )
        go.touch()
        shown.until("ended")
        expect(shown.page.locator("h1")).to_contain_text("over", timeout=WAIT_MS)
        shown.page.get_by_role("link", name="All of the output").click()
        expect(shown.page.locator("body")).to_have_text(f"begun\n{numbers}ended\n")
