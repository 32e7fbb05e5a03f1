"""A binder that starts the work of asks, and what happens when the work does not start."""

from collections.abc import Callable

import trio
from trio.testing import MockClock

import muster


class Machines:
    """Starts work on machines that do not always answer."""

    def __init__(self, trouble: dict[str, int]) -> None:
        self.trouble = trouble  # how often each ask will not start

    async def run(self, allocation: muster.Allocation, started: Callable[[], None]) -> None:
        """Do the work of an allocation."""
        say(f"starting {allocation.ask} on {allocation.node}")
        await trio.sleep(2)
        if self.trouble[allocation.ask] > 0:
            self.trouble[allocation.ask] -= 1
            raise OSError("the machine does not answer")
        started()  # now `bound()` returns
        await trio.sleep(30)  # the work; when we return, the allocation is released


def say(what: str) -> None:
    print(f"{trio.current_time():3.0f} s: {what}")


async def main() -> None:
    machines = Machines({"one": 1, "two": 100})
    async with muster.open_scheduler(binder=machines, bind_attempts=2) as scheduler:
        await scheduler.add_node("node-1", {"vcore": 1})
        report = await scheduler.add_app("report", "root.batch")
        for name in ("one", "two"):
            ask = await report.add_ask(name, {"vcore": 1})
            try:
                allocation = await ask.bound()
            except muster.BindFailedError as error:
                say(f"{error}; the last time: {error.__cause__}")
            else:
                say(f"{name} runs on {allocation.node}")
                say(f"{name} is {await allocation.ended()}")


trio.run(main, clock=MockClock(autojump_threshold=0))
