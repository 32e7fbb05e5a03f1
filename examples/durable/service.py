"""A service that survives: kill it at any moment, start it again, and it goes on.

    python examples/durable/service.py STATE PAGES

It prints PAGES pages, two at a time. What is to be printed and what is being printed stands in the
folder STATE, because the scheduler has a store there. How far each page is stands there as well,
in a file for each page, because that is the work's own business.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import trio

import muster

CONFIG = "partitions: [{name: default, queues: [{name: root, queues: [{name: print}]}]}]"
LINES = 5


class Printer:
    """Prints the page of an ask, line by line, and remembers how far it is.

    Args:
        folder: Where it remembers that.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Print a page from its first line on."""
        (self._folder / allocation.ask).write_text("0")
        started()
        await self._print(allocation.ask, 0)

    async def resume(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Go on with a page that was being printed when the service was killed."""
        written = (self._folder / allocation.ask).read_text()  # raises if run() had not begun
        printed = int(written or 0)
        say(f"{allocation.ask}: goes on after line {printed}")
        started()
        await self._print(allocation.ask, printed)

    async def _print(self, page: str, printed: int) -> None:
        for line in range(printed + 1, LINES + 1):
            await trio.sleep(0.05)
            (self._folder / page).write_text(str(line))
        say(f"{page}: printed")


def say(line: str) -> None:
    """Print a line at once, also into a pipe."""
    print(line, flush=True)


async def main(state: Path, pages: int) -> None:
    """Add the asks at the first start, and wait until none is left.

    Args:
        state: The folder of the service.
        pages: How many pages there are.
    """
    printer = Printer(state / "pages")
    store = state / "scheduler"
    async with muster.open_scheduler(CONFIG, store=store, binder=printer) as scheduler:
        if not (await scheduler.snapshot()).nodes:
            # All in one call: after a kill all of it is there, or nothing.
            await scheduler.submit_many(
                [
                    {"op": "add_node", "node": "printer", "capacity": {"tray": 2}},
                    {"op": "add_app", "app": "book", "queue": "root.print"},
                    {
                        "op": "add_ask",
                        "app": "book",
                        "ask": "page",
                        "count": pages,
                        "resources": {"tray": 1},
                    },
                ]
            )
        left = await scheduler.asks(app="book")
        say(f"{len(left)} of {pages} pages are left")
        for ask in left:
            await (await ask.bound()).ended()
    say("done")


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
