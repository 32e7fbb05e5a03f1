"""The editor of the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Route, expect

from muster.service.access import Role
from tests.actors.serving.served import Served
from tests.actors.serving.test_access import SECRETS, line_of
from tests.page.browser import Window, serving, window

HISTORY: Final = [
    {"op": "add_node", "node": "n1", "capacity": {"vcore": 8}},
    {"op": "add_app", "app": "etl", "queue": "root.prod"},
    {"op": "add_ask", "app": "etl", "ask": "load", "count": 10, "resources": {"vcore": 1}},
]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, HISTORY, "--state", str(tmp_path / "state")) as served:
        yield served


def write(shown: Window, old: str, new: str) -> None:
    """Replace a part of the text in the editor, as if typed."""
    text = shown.page.get_by_label("The configuration as YAML")
    before = text.input_value()
    assert before.count(old) == 1, before
    text.fill(before.replace(old, new))


def verdict(shown: Window, text: str) -> None:
    shown.page.locator("#config-checked", has_text=text).wait_for()


# PAGE-51
def test_problems_are_shown_at_their_lines(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/config")
        write(shown, "vcore: 4", "vcore: four")
        verdict(shown, "It would be refused, with 1 problem")
        line = shown.page.locator("#config-checked .line")
        number = int((line.get_attribute("data-line")) or 0)
        text = shown.page.get_by_label("The configuration as YAML").input_value()
        assert "four" in text.splitlines()[number - 1]
        assert shown.page.locator("#config-lines .wrong").inner_text() == str(number)
        line.click()
        assert "four" in str(shown.page.evaluate("getSelection().toString()"))
        assert shown.page.get_by_role("button", name="Apply").is_disabled()
        shown.check()


# PAGE-51, PAGE-52, PAGE-53
def test_a_quota_is_raised_safely(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/config")
        write(shown, "vcore: 8", "vcore: 4")
        verdict(shown, "changes this")
        row = shown.page.locator("#config-checked tbody tr")
        assert row.inner_text().split() == ["root.prod", "resources.max.vcore", "8", "4"]
        compare = shown.page.get_by_role("button", name="What would it change?")
        compare.focus()
        shown.page.keyboard.press("Enter")
        shown.page.locator("#config-compared", has_text="asks bound").wait_for()
        expect(compare).to_be_focused()
        assert "asks bound\t8\t4\t\N{MINUS SIGN}4" in shown.main()
        shown.check()
        shown.page.get_by_role("button", name="Apply").click()
        shown.page.locator("#config-applied", has_text="It is in force").wait_for()
        verdict(shown, "no different from what is in force")
        assert shown.page.locator("#config-compared").inner_text() == ""
        assert shown.page.get_by_role("button", name="Apply").is_disabled()
        assert shown.page.locator("#config-state").inner_text() == ""
        shown.check()
    queue = served.client.get("/api/v1/queues/root.prod").json()["item"]
    assert queue["max"] == {"vcore": 4000}


# PAGE-51
def test_what_is_written_before_the_page_is_ready_is_checked_too(
    browser: Browser, served: Served
) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.page.add_init_script(
            """document.addEventListener("readystatechange", () => {
              const text = document.getElementById("config-text");
              if (document.readyState === "interactive" && text) {
                text.value = text.value.replace("vcore: 8", "vcore: 4");
                text.dispatchEvent(new Event("input", {bubbles: true}));
              }
            });"""
        )
        shown.open("/config")
        verdict(shown, "changes this")
        shown.page.get_by_role("button", name="Apply").click()
        shown.page.locator("#config-applied", has_text="It is in force").wait_for()
        shown.check()


# PAGE-53
def test_an_answer_from_before_it_was_applied_says_nothing(
    browser: Browser, served: Served
) -> None:
    held: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if held:
            route.continue_()
        held.append(route)

    with window(browser, served.urls[0]) as shown:
        shown.open("/config")
        write(shown, "vcore: 8", "vcore: 4")
        verdict(shown, "changes this")
        shown.page.route("**/config/state*", hold_the_first)
        with shown.page.expect_request("**/config/state*"):
            shown.page.evaluate("htmx.trigger('#main', 'refresh')")
        shown.page.get_by_role("button", name="Apply").click()
        shown.page.locator("#config-applied", has_text="It is in force").wait_for()
        # What is asked later names what is in force since.
        with shown.page.expect_response(held[0].request.url) as answered:
            held[0].continue_()
        assert "Another configuration" in answered.value.text()
        verdict(shown, "no different from what is in force")
        assert shown.page.locator("#config-state").inner_text() == ""
        shown.check()


# PAGE-53
def test_another_configuration_came_meanwhile(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0]) as shown:
        shown.open("/config")
        write(shown, "vcore: 8", "vcore: 16")
        verdict(shown, "changes this")
        text = served.client.get("/api/v1/config", headers={"Accept": "application/yaml"}).text
        other = text.replace("vcore: 8", "vcore: 12").encode()
        put = {"Content-Type": "application/yaml"}
        assert served.client.put("/api/v1/config", content=other, headers=put).status_code == 200
        shown.page.locator("#config-state", has_text="Another configuration").wait_for()
        written = shown.page.get_by_label("The configuration as YAML").input_value()
        assert "vcore: 16" in written
        shown.page.get_by_role("button", name="Apply").click()
        shown.page.locator("#told", has_text="came into force meanwhile").wait_for()
        shown.check(but=("412",))
    queue = served.client.get("/api/v1/queues/root.prod").json()["item"]
    assert queue["max"] == {"vcore": 12000}


# PAGE-50
def test_the_editor_is_left_by_the_keyboard(browser: Browser, served: Served) -> None:
    with window(browser, served.urls[0], size=(360, 740), is_dark=True) as shown:
        shown.open("/config")
        text = shown.page.get_by_label("The configuration as YAML")
        text.focus()
        shown.page.keyboard.press("Tab")
        assert text.input_value().startswith("  partitions")
        shown.page.keyboard.press("Escape")
        shown.page.keyboard.press("Tab")
        assert shown.page.evaluate("document.activeElement.id") == "config-since"
        shown.check()
        # PAGE-68
        served.kill()
        shown.tab_to(shown.page.get_by_role("button", name="What would it change?"))
        shown.page.keyboard.press("Enter")
        shown.page.get_by_text("“What would it change?” was not sent.").wait_for()


# PAGE-70
@pytest.mark.parametrize("has_tokens", [False, True])
def test_what_was_written_outlasts_a_restart(
    browser: Browser, tmp_path: Path, has_tokens: bool
) -> None:
    options = ["--state", str(tmp_path / "state")]
    if has_tokens:
        tokens = tmp_path / "tokens"
        tokens.write_text(f"{line_of(Role.ADMIN, SECRETS[Role.ADMIN])}\n", encoding="utf-8")
        options += ["--tokens", str(tokens)]

    def log_in(shown: Window) -> None:
        if has_tokens:
            shown.page.get_by_label("Token").fill(SECRETS[Role.ADMIN])
            shown.page.keyboard.press("Enter")

    with Served(tmp_path, *options) as served, window(browser, served.urls[0]) as shown:
        shown.open("/config")
        log_in(shown)
        write(shown, "vcore: 4", "vcore: 5")
        verdict(shown, "changes this")
        served.kill()
        address = served.urls[0].removeprefix("http://")
        with Served(tmp_path, *options, listen=(address,)):
            if not has_tokens:
                write(shown, "vcore: 5", "vcore: 6")
                alert = shown.page.get_by_role("alert")
                alert.filter(has_text="before the service was started again").wait_for()
                alert.get_by_role("button", name="Load the page again").click()
            log_in(shown)
            verdict(shown, "changes this")
            text = shown.page.get_by_label("The configuration as YAML").input_value()
            assert ("vcore: 5" if has_tokens else "vcore: 6") in text
            shown.page.get_by_role("button", name="Apply").click()
            shown.page.get_by_text("It is in force").wait_for()
