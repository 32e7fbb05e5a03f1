"""Fixtures: a browser for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.page.browser import NO_BROWSER, program, start


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield a browser without a window."""
    if program() is None:
        pytest.skip(NO_BROWSER)
    with sync_playwright() as playwright:
        found = start(playwright)
        yield found
        found.close()
