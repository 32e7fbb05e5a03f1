"""The heat map of nodes and a node in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.actors.serving import test_page_devices
from tests.actors.serving.served import Served
from tests.actors.serving.test_page_nodes import EVENTS
from tests.page.browser import check_all, serving, window


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), EVENTS) as served:
        yield served


# PAGE-31
def test_arrow_keys_go_from_node_to_node(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/nodes")
        current, tip = shown.page.locator(".here"), shown.page.locator("#tip")
        shown.page.locator(".here[data-name=a1]").wait_for()
        shown.page.get_by_label("Type").focus()
        shown.page.keyboard.press("Tab")
        assert tip.inner_text() == "a1: 0 % used, 0 allocations, unschedulable"
        shown.page.keyboard.press("ArrowRight")
        assert tip.inner_text() == "a2: 25 % used, 1 allocation"
        shown.page.keyboard.press("End")
        assert current.get_attribute("aria-label") == "plain: 0 % used, 0 allocations"
        shown.page.keyboard.press("ArrowUp")
        shown.page.keyboard.press("Enter")
        shown.page.get_by_role("heading", name="a1").wait_for()
        shown.check()


# PAGE-31
def test_a_click_opens_the_node_below_the_pointer(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/nodes?color=queue")
        box = shown.page.locator(".heat").bounding_box()
        assert box is not None
        side = box["width"] / 4
        shown.page.mouse.move(box["x"] + 2.5 * side, box["y"] + side / 2)
        shown.page.locator("#tip", has_text="b1: 50 % used, 1 allocation, root.prod").wait_for()
        shown.page.mouse.click(box["x"] + 3.5 * side, box["y"] + side / 2)
        shown.page.get_by_role("heading", name="b2").wait_for()


# PAGE-31
def test_the_focus_stays_on_its_node_while_others_come(browser: Browser, tmp_path: Path) -> None:
    with serving(tmp_path, EVENTS) as served, window(browser, served.urls[0]) as shown:
        shown.open("/nodes")
        shown.page.locator(".here[data-name=a1]").focus()
        shown.page.keyboard.press("ArrowRight")
        new = {"op": "add_node", "node": "a11", "capacity": {"vcore": 1}}
        served.client.post("/api/v1/events", json=[new])
        shown.until("6 nodes")
        shown.page.locator(".here[data-at='2'][data-name=a2]").wait_for()
        assert shown.page.evaluate("document.activeElement.dataset.name") == "a2"


# PAGE-30, PAGE-32, PAGE-35
@pytest.mark.parametrize(("width", "is_dark"), [(360, True), (1280, False)])
def test_everybody_can_use_them(
    browser: Browser, served: Served, width: int, *, is_dark: bool
) -> None:
    paths = ("/nodes", "/nodes?group=zone&color=queue", "/nodes?name=none", "/nodes/b1")
    check_all(browser, served.urls[0], paths, width=width, is_dark=is_dark)


# PAGE-82, PAGE-83, PAGE-84
@pytest.mark.parametrize(("width", "is_dark"), [(360, True), (1280, False)])
def test_everybody_can_see_who_holds_which_device(
    browser: Browser, tmp_path: Path, width: int, *, is_dark: bool
) -> None:
    paths = ("/nodes/g1", "/nodes", "/asks/a/share", "/asks")
    with serving(tmp_path, test_page_devices.EVENTS, config=test_page_devices.CONFIG) as served:
        check_all(browser, served.urls[0], paths, width=width, is_dark=is_dark)


# PAGE-82, PAGE-84
def test_who_holds_a_device_is_one_click_away(browser: Browser, tmp_path: Path) -> None:
    with (
        serving(tmp_path, test_page_devices.EVENTS, config=test_page_devices.CONFIG) as served,
        window(browser, served.urls[0]) as shown,
    ):
        shown.open("/nodes/g1")
        shown.check_words(".devices a")
        rows = shown.page.locator(".devices tbody tr")
        rows.filter(has_text="gpu 2").get_by_role("link", name="a/other").click()
        shown.page.locator(".facts", has_text="200 milli of gpu 2").wait_for()
        shown.page.locator(".facts").get_by_role("link", name="g1").first.click()
        rows.filter(has_text="gpu 3").get_by_text("nobody").wait_for()
        taken = test_page_devices.ask("late", {"gpu": 1})
        served.client.post("/api/v1/events", json=[taken]).raise_for_status()
        rows.filter(has_text="gpu 3").get_by_role("link", name="a/late").wait_for()
        shown.check()


# PAGE-30
def test_without_nodes_it_says_how_one_comes(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path) as served, window(browser, served.urls[0], size=(360, 700)) as shown:
        shown.open("/nodes")
        shown.until("There are no nodes")
        shown.check()
        shown.check_width()


# PAGE-34, PAGE-35
@pytest.mark.parametrize("width", [360, 1000])
def test_words_are_not_broken_where_it_is_narrow(
    browser: Browser, served: Served, width: int
) -> None:
    with window(browser, served.urls[0], size=(width, 800)) as shown:
        for path in ("/nodes", "/nodes/b1"):
            shown.open(path)
            shown.check_words("table a")
