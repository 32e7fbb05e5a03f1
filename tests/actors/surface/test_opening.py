"""The likeliest first mistakes of a program are answered with what would be right."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import trio

import muster
import muster.asyncio


async def enter(opening: Any) -> None:  # noqa: ANN401 - what a program writes without types
    async with opening:
        pass


@pytest.mark.parametrize("name", ["open_scheduler", "ray.connect", "slurm.connect"])
def test_the_api_of_the_other_library(name: str) -> None:
    def called(package: str) -> Any:  # noqa: ANN401 - one of several functions
        module, _, function = f"{package}.{name}".rpartition(".")
        return getattr(import_module(module), function)()

    message = f"muster.{name} is for programs that run in trio, and this one runs in asyncio"
    with pytest.raises(RuntimeError, match=f"{message}: use muster.asyncio.{name}"):
        asyncio.run(enter(called("muster")))
    message = (
        f"muster.asyncio.{name} is for programs that run in asyncio, and this one runs in trio"
    )
    with pytest.raises(RuntimeError, match=f"{message}: use muster.{name}"):
        trio.run(enter, called("muster.asyncio"))


@pytest.mark.parametrize("module", [muster, muster.asyncio])
def test_a_scheduler_that_is_not_opened(module: Any) -> None:  # noqa: ANN401 - one of two modules
    name = f"{module.__name__}.open_scheduler"
    scheduler = module.open_scheduler()
    right = rf"write `async with {name}\(…\) as opened:`, and use `opened` inside"
    with pytest.raises(
        AttributeError, match=f"{name} has no 'add_node' before it is opened: {right}"
    ):
        scheduler.add_node("n", {"vcore": 1})
    with pytest.raises(TypeError, match=f"{name} cannot be awaited: {right}"):
        scheduler.__await__()
    assert not hasattr(scheduler, "__enter__")


def test_an_error_inside_passes_through() -> None:
    async def main() -> None:
        async with muster.open_scheduler():
            raise LookupError("of the program")

    with pytest.raises(LookupError, match="of the program"):
        trio.run(main)


def test_a_package_that_is_missing() -> None:
    code = "import sys; sys.modules['httpx'] = None; import muster.client"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert "muster.client needs httpx: pip install 'muster-scheduler[client]'" in done.stderr
