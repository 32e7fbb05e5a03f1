"""The frame of all pages: live updates, logging in, no other address, the service away."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Request, Route

from muster.service.access import Role
from muster.service.page.site import PAUSE
from tests.actors.serving.served import Served
from tests.actors.serving.test_access import SECRETS, line_of
from tests.page.browser import Window, window

EXPECT_DECISION: Final = """() => {
    const resolve = (done) => document.addEventListener("muster:decided", () => done(), {once: true});
    window.decided = new Promise(resolve);
}"""
"""Makes a promise that is kept at the next news of the page."""

NODE: Final = {"op": "add_node", "node": "n1", "capacity": {"vcore": 8}}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as served:
        yield served


@contextmanager
def window_on(browser: Browser, folder: Path, *options: str) -> Generator[tuple[Served, Window]]:
    """Open a window on a service of its own, which may be killed."""
    with Served(folder, *options) as served, window(browser, served.urls[0]) as shown:
        yield served, shown


def test_it_follows_what_is_decided(browser: Browser, served: Served) -> None:
    # PAGE-4
    with window(browser, served.urls[0]) as shown:
        shown.open()
        assert "0\nnodes" in shown.main()
        served.client.post("/api/v1/events", json=[NODE])
        shown.until("1node")
        shown.check()


def test_a_page_stays_while_the_service_is_away(browser: Browser, tmp_path: Path) -> None:
    # PAGE-4, PAGE-68
    with window_on(browser, tmp_path) as (served, shown):
        page, away = shown.page, shown.page.locator("#away")
        shown.open()
        served.kill()
        away.filter(has_text=re.compile(r"has not answered since \d\d:\d\d:\d\d UTC")).wait_for()
        page.get_by_role("link", name="Queues", exact=True).click()
        away.filter(has_text="“Queues” was not opened").wait_for()
        assert "nodes" in shown.main()
        health = page.get_by_role("list", name="Health")
        assert "The service does not answer" in health.inner_text()
        assert "ready" not in health.inner_text()
        shown.check(but=("ERR_",))
        with Served(tmp_path, "--listen", served.urls[0].removeprefix("http://")) as again:
            again.client.post("/api/v1/events", json=[NODE]).raise_for_status()
            shown.until("1node")
            away.wait_for(state="hidden")
            assert "The scheduler is ready" in health.inner_text()
            assert "does not answer" not in health.inner_text()
            page.get_by_role("link", name="Queues", exact=True).click()
            page.wait_for_url("**/queues")


def test_a_page_of_the_past_stays_as_well(browser: Browser, tmp_path: Path) -> None:
    # PAGE-68
    with window_on(browser, tmp_path, "--state", str(tmp_path / "state")) as (served, shown):
        served.client.post("/api/v1/events", json=[NODE]).raise_for_status()
        shown.open("/time")
        shown.page.locator("#happened a").first.click()
        shown.page.get_by_text("The past:").wait_for()
        served.kill()
        for name in ("next change", "Go there"):
            shown.page.get_by_role("button", name=name).click()
            shown.page.get_by_text("This was not opened").wait_for()
        shown.page.get_by_role("link", name="Back to now").click()
        shown.page.get_by_text("“Back to now” was not opened").wait_for()


def test_a_page_rests_as_long_as_the_service_says(browser: Browser, served: Served) -> None:
    # PAGE-67
    with window(browser, served.urls[0]) as shown:
        page = shown.page
        page.clock.install()
        requests: list[Request] = []
        page.on(
            "request", lambda one: requests.append(one) if "hx-request" in one.headers else None
        )

        def answer(route: Route) -> None:
            if "hx-request" in route.request.headers:
                response = route.fetch()
                route.fulfill(
                    response=response, headers={**response.headers, PAUSE.lower(): "600000"}
                )
            else:
                route.continue_()

        page.route(served.urls[0] + "/", answer)
        shown.open()
        served.client.post("/api/v1/events", json=[NODE]).raise_for_status()
        shown.until("1node")
        page.evaluate(EXPECT_DECISION)
        served.client.post("/api/v1/events", json=[{**NODE, "node": "n2"}]).raise_for_status()
        page.evaluate("window.decided")
        page.clock.run_for(5_000)
        assert len(requests) == 1
        page.clock.fast_forward(600_000)
        shown.until("2nodes")


def test_one_logs_in_with_a_token(browser: Browser, tmp_path: Path) -> None:
    # PAGE-2
    tokens = tmp_path / "tokens"
    tokens.write_text("".join(f"{line_of(role, secret)}\n" for role, secret in SECRETS.items()))
    with (
        Served(tmp_path, "--tokens", str(tokens)) as served,
        window(browser, served.urls[0]) as shown,
    ):
        shown.open("/queues")
        shown.page.get_by_label("Token").fill("wrong")
        shown.page.keyboard.press("Enter")
        shown.page.get_by_role("alert").wait_for()
        shown.page.get_by_label("Token").fill(SECRETS[Role.READER])
        shown.page.keyboard.press("Enter")
        shown.until("prod")  # of the tree of queues
        cookies = shown.page.context.cookies()
        assert [(one.get("httpOnly"), one.get("sameSite")) for one in cookies] == [(True, "Strict")]
        shown.page.get_by_role("button", name="Log out").click()
        shown.page.get_by_label("Token").wait_for()
        shown.check(but=("401", "403"))
