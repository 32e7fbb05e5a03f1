"""The overview in a browser: live, its figures, for every size and colour scheme."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.actors.serving.served import Served
from tests.actors.serving.test_page_overview import EVENTS, MANY
from tests.page.browser import serving, window

MORE: Final = {"op": "add_ask", "app": "a b", "ask": "more", "resources": {"vcore": 5}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("overview")) as served:
        yield served


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("overview"), EVENTS) as served:
        yield served


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize("width", [360, 1280])
def test_anybody_can_use_it(
    browser: Browser, served: Served, filled: Served, width: int, *, is_dark: bool
) -> None:
    for one in (served, filled):
        with window(browser, one.urls[0], size=(width, 800), is_dark=is_dark) as shown:
            shown.open("/?period=6h")
            shown.page.locator(".drawn canvas").first.wait_for()
            shown.check()
            shown.check_width()


def test_the_first_screen_says_why_asks_wait(browser: Browser, filled: Served) -> None:
    # PAGE-14
    with window(browser, filled.urls[0], size=(1280, 800)) as shown:
        shown.open("/")
        reasons = shown.page.get_by_role("region", name="Why asks are not running")
        shown.page.locator(".drawn canvas").first.wait_for()
        for one in (reasons.get_by_role("heading"), reasons.get_by_role("row").nth(1)):
            box = one.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 800
        tiles = [tile.bounding_box() for tile in shown.page.locator(".tile").all()]
        right = max(tile["x"] + tile["width"] for tile in tiles if tile)
        last = tiles[-1]
        assert last is not None
        assert abs(last["x"] + last["width"] - right) < 1  # No row has a gap at its end.


def test_figures_are_drawn_anew_and_read_as_tables(browser: Browser, filled: Served) -> None:
    # PAGE-17
    with window(browser, filled.urls[0]) as shown:
        shown.open()
        page = shown.page
        figure = page.locator("#figure-asks")
        canvas = figure.locator("canvas")
        canvas.wait_for()
        before = figure.locator(".drawing").get_attribute("data-plot")
        page.evaluate("document.querySelector('#figure-asks canvas').dataset.seen = 'yes'")
        figure.locator("summary").focus()
        page.keyboard.press("Enter")
        figure.locator("td", has_text="2").first.wait_for()

        filled.client.post("/api/v1/events", json=[MORE])
        shown.until("3asks pending")
        expect(figure.locator(".drawing")).not_to_have_attribute("data-plot", before or "")
        assert canvas.get_attribute("data-seen") == "yes"
        assert figure.locator("details").get_attribute("open") is not None

        box = figure.locator(".u-over").bounding_box()
        assert box is not None
        for left in (40, 3):
            page.mouse.move(box["x"] + box["width"] - left, box["y"] + 60)
        page.locator("#tip", has_text="pending3").wait_for()
        shown.check()


# PAGE-87
def test_reasons_renew_themselves(browser: Browser, tmp_path: Path) -> None:
    with Served(tmp_path) as served, window(browser, served.urls[0]) as shown:
        served.client.post("/api/v1/events", json=[*EVENTS, *MANY[:101]])
        shown.open()
        expect(shown.page.locator(".counted")).to_contain_text("20,002 asks as of")
        expect(shown.page.locator(".counted")).not_to_contain_text("counted anew")
        expect(shown.page.get_by_text("20,002", exact=True)).to_be_visible()
        shown.check()


def test_on_paper_the_plain_drawing_stands_there(browser: Browser, filled: Served) -> None:
    # PAGE-17
    with window(browser, filled.urls[0]) as shown:
        shown.open()
        still = shown.page.locator("#figure-asks .still .plot svg")
        shown.page.locator("#figure-asks canvas").wait_for()
        expect(still).to_be_hidden()
        shown.page.emulate_media(media="print")
        expect(still).to_be_visible()
        expect(shown.page.locator("#figure-asks canvas")).to_be_hidden()
