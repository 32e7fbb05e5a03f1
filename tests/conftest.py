"""How much Hypothesis tries.

``modest`` is what ``make test`` runs: the same examples every time, so that a red
suite is red again. ``thorough`` draws new ones and many more; choose it with
``--hypothesis-profile=thorough`` or ``HYPOTHESIS_PROFILE=thorough``.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

# Whole scheduling histories take long to build, and a shared machine is slow at times:
# neither says anything about the code under test.
_PATIENT = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "modest", max_examples=36, derandomize=True, deadline=None, suppress_health_check=_PATIENT
)
settings.register_profile(
    "thorough",
    max_examples=20_000,
    derandomize=False,
    deadline=None,
    print_blob=True,
    suppress_health_check=_PATIENT,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "modest"))


@pytest.fixture(scope="session", autouse=True)
def heard_signals() -> Generator[None]:
    """Let tests send signals where they are ignored, as in ``nohup make test &``.

    Processes that tests start inherit what is ignored, so nothing is ignored here either.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    for number, handler in before.items():
        if handler is signal.SIG_IGN:
            is_ctrl_c = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what was collected for the suite: it stays to the end.

    Looking at ten thousand tests again and again takes several per cent of the time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that take long by themselves begin first."""
    items.sort(key=lambda item: item.get_closest_marker("starts_early") is None)
