"""The decisions of a corpus of feeds, of the traces of the demo, and of stores of each format.

A log is kept as it is read, a line for each decision below the instant. Messages belong to it: a
follower, and a start with a store, compare them as well.
Of a trace only digests are kept, one for each thousand decisions.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import trio

import muster
from examples.philly.demo import EXPERIMENTS
from tests.actors.state_directories import HandClock
from tests.same.interface import PROJECT, run
from tests.same.replays import philly_feed

EVERY: Final = 1_000
"""How many decisions of a trace have a digest."""

TRACES: Final = {f"{one.cluster.name} {one.policy}": one for one in EXPERIMENTS}
FORMATS: Final = PROJECT / "tests" / "actors" / "store" / "formats"
_PLAIN: Final = re.compile(r"(?!null$|true$|false$)[A-Za-z][\w./:-]*")
_SHORT: Final = {"app": "", "ask": "", "node": "on ", "queue": "in "}
_NOT_TOLD: Final = frozenset({"seq", "at", "kind"})
"""Fields that stand elsewhere in the lines."""


def decide(words: Sequence[str], folder: Path) -> Iterator[Mapping[str, Any]]:
    """Run ``muster replay``, and yield the decisions of its log.

    Raises:
        RuntimeError: If it cannot.
    """
    ran = run(("replay", *words, "--decisions", "-"), folder)
    if ran.status not in (0, 1):
        msg = f"{ran}"
        raise RuntimeError(msg)
    yield from map(json.loads, ran.out.splitlines())


def lines(decisions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of a log: each instant, and the decisions below it."""
    at: object = None
    for seq, one in enumerate(decisions, 1):
        if one["seq"] != seq:
            msg = f"decision {seq} has the number {one['seq']}"
            raise RuntimeError(msg)
        if one["at"] != at:
            at = one["at"]
            yield f"@{at}"
        more = [
            f"{_SHORT.get(key, f'{key}=')}{plain(one[key])}" for key in one if key not in _NOT_TOLD
        ]
        yield " ".join([one["kind"], *more])


def plain(value: object) -> str:
    """Return a value in a line."""
    is_plain = isinstance(value, str) and _PLAIN.fullmatch(value)
    return f"{value}" if is_plain else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def of_feed(name: str) -> list[str]:
    """Return the lines of a feed: the digest of its text, then those of its log."""
    digest = hashlib.sha256((PROJECT / name).read_bytes()).hexdigest()[:12]
    return [f"feed {digest}", *lines(decide((name,), PROJECT))]


def of_trace(name: str) -> list[str]:
    """Return the digests of the decisions of a trace of the demo."""
    digest, found, count = hashlib.sha256(), list[str](), 0
    with tempfile.TemporaryDirectory() as path:
        made = philly_feed(TRACES[name], Path(path))
        if made.status:
            msg = f"{made}"
            raise RuntimeError(msg)
        for count, one in enumerate(decide(("feed.jsonl",), Path(path)), 1):
            digest.update(json.dumps(one, sort_keys=True).encode())
            if count % EVERY == 0:
                found.append(f"up to {count:,}: {digest.hexdigest()[:12]}")
    return [*found, f"all {count:,}: {digest.hexdigest()[:12]}"]


def of_store(number: int, directory: Path) -> list[str]:
    """Unpack the store of a format, and return the lines of what it holds, as it is decided today.

    It is brought up to date if it has to be, and checked: all digests, and all decisions again.
    """
    content = gzip.decompress((FORMATS / f"{number}.db.gz").read_bytes())
    (directory / "muster.db").write_bytes(content)
    trio.run(opened, directory)
    for words in (("store", f"{directory}", "--verify"), ("check", f"{directory}")):
        ran = run(words, directory)
        if ran.status:
            msg = f"{ran}"
            raise RuntimeError(msg)
    return [*lines(decide((f"{directory}",), directory))]


async def opened(directory: Path) -> None:
    """Open a scheduler with a state directory; its clock stands, so no timer goes off."""
    async with muster.open_scheduler(store=directory, clock=HandClock(0)):
        pass


def text_of(logs: Mapping[str, Sequence[str]]) -> str:
    """Return the text of a file with some logs."""
    return "\n\n".join("\n".join([f"[{name}]", *log]) for name, log in sorted(logs.items())) + "\n"


def read(text: str) -> dict[str, list[str]]:
    """Read the text of a file with some logs."""
    parts = [part.split("\n") for part in text.rstrip("\n").split("\n\n")] if text else []
    return {head[1:-1]: log for head, *log in parts}


def first_difference(kept: Sequence[str], now: Sequence[str]) -> str | None:
    """Return the first difference of two logs as a text; None if they are the same."""
    at = ""
    for number, (one, two) in enumerate(zip_longest(kept, now)):
        if one != two:
            if (one or "").startswith("feed "):
                return "the feed itself was changed: write its decisions anew"
            return f"line {number + 1}{at}: was {one or 'nothing'}, and is {two or 'nothing'}"
        if one is not None and one[0] == "@":
            at = f", at {one[1:]} s"
    return None
