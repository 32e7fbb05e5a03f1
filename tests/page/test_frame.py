"""What all pages have in common: live, logging in, no other address, the service away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser

from muster.service.access.who import Role
from tests.actors.serving.served import Served
from tests.actors.serving.test_tokens import SECRETS, line_of
from tests.page.browsing import window

NODE: Final = {"op": "add_node", "node": "n1", "capacity": {"vcore": 8}}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as served:
        yield served


def test_it_follows_what_is_decided(browser: Browser, served: Served) -> None:
    # PAGE-4
    with window(browser, served.urls[0]) as shown:
        shown.open()
        assert "0\nnodes" in shown.main()
        served.client.post("/api/v1/events", json=[NODE])
        shown.until("1node")
        shown.check()


def test_it_says_that_the_service_is_away(browser: Browser, tmp_path: Path) -> None:
    # PAGE-4
    with Served(tmp_path) as served, window(browser, served.urls[0]) as shown:
        shown.open()
        served.kill()
        shown.page.locator("#away", has_text="does not answer").wait_for()


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
