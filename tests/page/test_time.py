"""The slider over the kept history, and what happened in a span, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser

from muster.figures.text import iso_date
from muster.store import StateReader
from tests.actors.serving.served import Served
from tests.page.browser import window

NODES: Final = 4


class Program(NamedTuple):
    """A service, and the instant at which each of its nodes came."""

    served: Served
    instants: list[str]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    folder: Path = tmp_path_factory.mktemp("time")
    state = folder / "state"
    instants: list[str] = []
    with Served(folder, "--state", str(state)) as served:
        for number in range(1, NODES + 1):
            name = f"n{number}"
            events = [
                {"op": "add_node", "node": name, "capacity": {"vcore": 8}},
                {"op": "add_app", "app": f"a{number}", "queue": "root.prod"},
                {"op": "add_ask", "app": f"a{number}", "ask": "x", "resources": {"vcore": 1}},
            ]
            served.client.post("/api/v1/events", json=events).raise_for_status()
            with StateReader(state) as reader:
                instants.append(iso_date(reader.meta.origin_us + reader.last().at_us))
        yield Program(served, instants)


@pytest.mark.parametrize(("width", "is_dark"), [(1280, False), (360, True)])
def test_one_goes_to_the_past_and_back(
    browser: Browser, program: Program, width: int, is_dark: bool
) -> None:
    # PAGE-63, PAGE-64
    url, size = program.served.urls[0], (width, 800)
    with window(browser, url, size=size, is_dark=is_dark) as shown:
        page = shown.page
        shown.open("/queues")
        assert not page.get_by_role("slider").is_visible()
        page.get_by_text("Look at the past").click()
        slider = page.get_by_role("slider", name="Moment in the kept history")
        slider.focus()
        assert slider.get_attribute("aria-valuetext") == "now"
        # Keys move it, and the page follows when it rests.
        page.keyboard.press("PageDown")
        assert str(slider.get_attribute("aria-valuetext")).endswith(" UTC")
        page.keyboard.press("Home")
        page.get_by_text("The past:").wait_for()
        assert "/queues?at=" in page.url
        assert page.locator("body[data-live]").count() == 0
        shown.check()
        page.get_by_role("link", name="Overview", exact=True).click()
        page.wait_for_url("**/?at=*")
        page.get_by_role("link", name="Back to now").click()
        page.wait_for_url(f"{url}/")


def test_one_steps_from_batch_to_batch(browser: Browser, program: Program) -> None:
    # PAGE-63
    with window(browser, program.served.urls[0]) as shown:
        page = shown.page
        shown.open("/time")
        page.get_by_text("Look at the past").click()
        for number in (3, 2):
            page.get_by_role("button", name="◀ previous change").click()
            # The page before says of what moment it is, too, until this one is there.
            page.locator(f'.time-then time[datetime="{program.instants[number - 1]}"]').wait_for()
        assert page.evaluate("document.activeElement.textContent") == "◀ previous change"
        page.get_by_role("button", name="next change ▶").click()
        page.locator(f'.time-then time[datetime="{program.instants[2]}"]').wait_for()
        page.get_by_label("UTC", exact=True).fill("2999-01-01T00:00:00")
        page.keyboard.press("Enter")
        page.wait_for_url("**/time")


@pytest.mark.parametrize(("width", "is_dark"), [(1280, True), (360, False)])
def test_a_decision_leads_to_its_moment(
    browser: Browser, program: Program, width: int, is_dark: bool
) -> None:
    # PAGE-65, PAGE-66
    url = program.served.urls[0]
    with window(browser, url, size=(width, 800), is_dark=is_dark) as shown:
        page = shown.page
        shown.open("/time")
        shown.check()
        page.get_by_label("bound", exact=True).check()
        page.get_by_role("button", name="Show what happened").click()
        page.wait_for_url("**kind=bound**")
        page.locator("#happened").wait_for()
        assert page.locator("#happened tbody tr").count() == NODES
        link = page.locator("#happened").get_by_role("link", name="a2/x")
        wanted = f"/asks/a2/x?{urlencode({'at': program.instants[1]})}"
        assert link.get_attribute("href") == wanted


def test_a_service_that_keeps_nothing_says_so(browser: Browser, tmp_path: Path) -> None:
    # PAGE-63, PAGE-65
    with Served(tmp_path) as served, window(browser, served.urls[0]) as shown:
        shown.open("/time")
        shown.until("start the service with --state")
        shown.check()


def test_now_is_the_end_of_the_bar_also_in_the_first_second(tmp_path: Path) -> None:
    # PAGE-63
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        event = {"op": "add_node", "node": "n", "capacity": {"vcore": 8}}
        served.client.post("/api/v1/events", json=[event]).raise_for_status()
        shown = served.client.get("/queues", headers={"Accept": "text/html"}).text

    found = re.search(r'id="time-slide".* max="([0-9.]+)" value="([0-9.]+)"', shown)
    assert found is not None, shown
    assert found[1] == found[2]


def test_now_goes_on_in_the_bar_of_time(browser: Browser, program: Program) -> None:
    # PAGE-63
    with window(browser, program.served.urls[0]) as shown:
        page = shown.page
        page.clock.install()
        shown.open("/queues")
        page.get_by_text("Look at the past").click()
        moment = page.get_by_label("UTC", exact=True)
        loaded = datetime.fromisoformat(moment.input_value())
        page.clock.run_for(90_000)
        gone_on = datetime.fromisoformat(moment.input_value()) - loaded
        assert timedelta(seconds=88) <= gone_on <= timedelta(seconds=91)
        assert page.get_by_role("slider").get_attribute("aria-valuetext") == "now"
        # Typed text stays.
        moment.fill("2026-01-01T00:00:07")
        page.clock.run_for(5_000)
        assert moment.input_value() == "2026-01-01T00:00:07"
