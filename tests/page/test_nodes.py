"""The heat map of nodes and a node in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser

from tests.actors.serving.served import Served
from tests.actors.serving.test_page_nodes import EVENTS
from tests.page.browsing import window


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served")) as served:
        served.client.post("/api/v1/events", json=EVENTS)
        yield served


BEYOND: Final = "document.documentElement.scrollWidth - innerWidth"


# PAGE-31
def test_arrow_keys_go_from_node_to_node(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/nodes")
        here, tip = shown.page.locator(".here"), shown.page.locator("#tip")
        shown.page.locator(".here[data-name=a1]").wait_for()
        shown.page.get_by_label("Type").focus()
        shown.page.keyboard.press("Tab")
        assert tip.inner_text() == "a1: 0 % used, 0 allocations, unschedulable"
        shown.page.keyboard.press("ArrowRight")
        assert tip.inner_text() == "a2: 25 % used, 1 allocation"
        shown.page.keyboard.press("End")
        assert here.get_attribute("aria-label") == "plain: 0 % used, 0 allocations"
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
    with Served(tmp_path) as served, window(browser, served.urls[0]) as shown:
        served.client.post("/api/v1/events", json=EVENTS)
        shown.open("/nodes")
        shown.page.locator(".here[data-name=a1]").focus()
        shown.page.keyboard.press("ArrowRight")
        new = {"op": "add_node", "node": "a11", "capacity": {"vcore": 1}}
        served.client.post("/api/v1/events", json=[new])
        shown.until("6 nodes")
        shown.page.locator(".here[data-at='2'][data-name=a2]").wait_for()
        assert shown.page.evaluate("document.activeElement.dataset.name") == "a2"


# PAGE-36
def test_a_node_is_drained(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path) as served, window(browser, served.urls[0]) as shown:
        served.client.post("/api/v1/events", json=EVENTS)
        shown.open("/nodes/b1")
        shown.page.get_by_text("Drain it").click()
        assert '"schedulable": false' in shown.main()
        shown.page.get_by_role("button", name="Apply").click()
        shown.page.get_by_text("Let it take asks again").wait_for()
        assert served.client.get("/api/v1/nodes/b1").json()["item"]["schedulable"] is False
        shown.check()


# PAGE-30, PAGE-32, PAGE-35
@pytest.mark.parametrize(("width", "is_dark"), [(360, True), (1280, False)])
def test_everybody_can_use_them(
    browser: Browser, served: Served, width: int, *, is_dark: bool
) -> None:
    with window(browser, served.urls[0], size=(width, 800), is_dark=is_dark) as shown:
        for path in ("/nodes", "/nodes?group=zone&color=queue", "/nodes?name=none", "/nodes/b1"):
            shown.open(path)
            shown.check()
            assert shown.page.evaluate(BEYOND) <= 0, path


# PAGE-30
def test_without_nodes_it_says_how_one_comes(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path) as served, window(browser, served.urls[0], size=(360, 700)) as shown:
        shown.open("/nodes")
        shown.until("There are no nodes")
        shown.check()
        assert shown.page.evaluate(BEYOND) <= 0
