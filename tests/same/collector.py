"""Write everything visible of Muster, of one kind, one file for each item::

    python -m tests.same.fixed CLOCK -m tests.same.collector TREE OUT FEEDS JOBS KIND…

It is this tree's own, also where it runs the Muster of another: so it and what it imports use public
modules of Muster, the command and HTTP, and nothing else.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

import attrs

import muster
import muster_core
from tests.same import interface, replays, service
from tests.same.interface import PROJECT, Write

AT_ONCE: Final = 40
"""How many feeds are one task."""

LONGEST_NAME: Final = 150

Work = Callable[[Write], None]


@attrs.frozen
class Kind:
    """A kind of items.

    Attributes:
        about: What its items are.
        work: Returns the tasks that write them and may run in parallel; it gets the folder of
            the random feeds.
        least: How many there are at least; fewer are a failure. None: one for each random feed.
        inputs: The files that decide what is asked, beside this package.
    """

    about: str
    work: Callable[[Path], Sequence[Work]]
    least: int | None
    inputs: Sequence[str] = ()


def _feeds(folder: Path, *, check: bool) -> Sequence[Work]:
    found = replays.feeds_below(folder)
    return [
        partial(_replay, folder, found[first : first + AT_ONCE], check)
        for first in range(0, len(found), AT_ONCE)
    ]


def _replay(folder: Path, feeds: Sequence[Path], check: bool, write: Write) -> None:
    replays.replay_feeds(folder, feeds, write, check=check)


def _traces(_: Path) -> Sequence[Work]:
    return [partial(replays.replay_trace, name) for name in replays.TRACES]


def _one(work: Work) -> Callable[[Path], Sequence[Work]]:
    return lambda _: [work]


FEEDS: Final = PROJECT / "tests" / "feeds"
SERVICE: Final = ("tests/page/browser.py", "tests/actors/serving/served.py", "docs/feeds")

# What takes long by itself comes first.
KINDS: Final[Mapping[str, Kind]] = {
    "pages": Kind("pages of a service", _one(service.show_pages), 280, SERVICE),
    "traces": Kind("traces of the examples", _traces, len(replays.TRACES), ("examples",)),
    "api": Kind("answers of the API", _one(service.show_api), 700, SERVICE),
    "clients": Kind("commands that ask a server", _one(service.show_clients), 58, SERVICE),
    "documented": Kind(
        "documented commands", _one(interface.run_documented), 50, ("docs", "examples", "README.md")
    ),
    "stores": Kind("tables of stores", _one(service.show_stores), 250, SERVICE),
    "yunikorn": Kind("YuniKorn's end points", _one(service.show_yunikorn), 40, SERVICE),
    "metrics": Kind("metrics", _one(service.show_metrics), 250, SERVICE),
    "json": Kind("JSON of commands", _one(interface.run_on_feeds), 200, ("docs/feeds",)),
    "help": Kind("help of commands", _one(interface.show_help), 29),
    "names": Kind("public modules", _one(interface.show_names), 24, ("docs/reference/python.md",)),
    "feeds": Kind(
        "feeds of the tests", lambda _: _feeds(FEEDS, check=True), 1_000, ("tests/feeds",)
    ),
    "random": Kind("random feeds", lambda folder: _feeds(folder, check=False), None),
}
"""All kinds, by their names."""


def file_name(item: str) -> str:
    """Return the name of the file of an item."""
    name = quote(item, safe=" =&?,:;@+()[]'")
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]} {hashlib.sha256(item.encode()).hexdigest()[:8]}"


def keep(folder: Path, item: str, text: str) -> None:
    """Write an item.

    Raises:
        FileExistsError: If it was there: two items have the same name.
    """
    with (folder / file_name(item)).open("xb") as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def perform(task: tuple[Path, Work]) -> None:
    """Write the items of a task into a folder."""
    folder, work = task
    work(partial(keep, folder))


def main(tree: Path, out: Path, random: Path, jobs: int, kinds: Sequence[str]) -> None:
    """Write all items of some kinds.

    Raises:
        RuntimeError: If this is not the Muster of that tree.
    """
    for module, root in ((muster, "actors"), (muster_core, "core")):
        if not Path(module.__path__[0]).is_relative_to(tree / root):
            msg = f"{module.__path__[0]} is not in {tree / root}"
            raise RuntimeError(msg)
    tasks: list[tuple[Path, Work]] = []
    for name, kind in KINDS.items():
        if name in kinds:
            (out / name).mkdir(parents=True)
            tasks += [(out / name, work) for work in kind.work(random)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for _ in pool.imap_unordered(perform, tasks):
            pass


if __name__ == "__main__":
    TREE, OUT, RANDOM, JOBS, *NAMES = sys.argv[1:]
    main(Path(TREE), Path(OUT), Path(RANDOM), int(JOBS), NAMES)
