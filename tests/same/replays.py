"""Feeds, and what is decided on them: by the command, and by a program that looks at the state.

Random feeds are drawn by the tree that is looked at, once; what replays them uses public names only.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

import attrs
import trio

import muster
from examples.openb.evidence import POLICIES
from examples.philly.backfill import ESTIMATES, TRIALS, Trial, with_estimates
from examples.philly.demo import EXPERIMENTS, HERE as PHILLY, Experiment
from muster.feeds import Expect, FeedError, Refused, Settle, read_feed
from muster.testing import Recording
from muster_core.errors import RefusedError
from muster_core.snapshots import AskPlace, Snapshot
from tests.same.interface import PROJECT, Run, Write, run

ENDINGS: Final = (".yaml", ".yml", ".jsonl", ".msgpack", ".gz")
MOST_ASKS: Final = 12
"""Of how many asks a look at the state asks why they are not running."""

MOST_LOOKS: Final = 6
"""How often a program looks at the state before the end of a feed."""


def feeds_below(folder: Path) -> list[Path]:
    """Return all feeds below a folder, those that are wrong on purpose included."""
    return sorted(path for path in folder.rglob("*") if path.name.endswith(ENDINGS))


def replay_feeds(folder: Path, feeds: Sequence[Path], write: Write, *, check: bool) -> None:
    """Replay some feeds, each by commands and by a program.

    Args:
        folder: What the names of the feeds are relative to.
        feeds: The feeds.
        write: Gets one item for each feed.
        check: Whether to check what they expect, and to explain their asks, as well.
    """
    for feed in feeds:
        name = f"{feed.relative_to(folder)}"
        commands: list[Sequence[str]] = [("replay", name, "--decisions", "-")]
        if check:
            commands += [("check", name), ("explain", name, "--all", "--why-only")]
        parts = [f"{run(words, folder)}" for words in commands]
        write(name, "\n".join([*parts, trio.run(program, feed)]))


async def program(feed: Path) -> str:
    """Replay a feed with the Python API; tell the state, and why asks do not run, now and then."""
    log, lines = Recording(), list[str]()
    async with muster.open_simulation(journal=log) as simulation:

        async def look(at: str) -> None:
            snapshot = await simulation.snapshot()
            lines.append(
                f"== {at}: {simulation.next_timer_us()} {as_json(simulation.statistics())}"
            )
            lines.extend(state(snapshot))
            for app, ask in waiting(snapshot)[:MOST_ASKS]:
                lines.append(f"why {app}/{ask}: {as_json(await simulation.why_pending(app, ask))}")

        looks = 0
        try:
            for number, item in enumerate(read_feed(feed)):
                match item.content:
                    case Settle() | Expect():
                        await simulation.settle(item.at_us)
                        if looks < MOST_LOOKS:
                            await look(f"item {number}")
                        looks += 1
                    case Refused(message):
                        await simulation.refuse(message, at_us=item.at_us, index=number)
                    case event:
                        await simulation.submit(event, at_us=item.at_us, index=number)
        except (FeedError, RefusedError) as error:
            lines.append(f"{type(error).__name__}: {error}")
        await look("before the end")
        await simulation.finish()
        await look("end")
    lines.append("== decisions")
    lines += [json.dumps(one.as_map()) for one in log.decisions]
    return "\n".join(["$ program", *lines, ""])


def state(snapshot: Snapshot) -> Iterator[str]:
    """Yield lines that tell a whole snapshot, one for each thing in it."""
    for field in attrs.fields(Snapshot):
        value: object = getattr(snapshot, field.name)
        if isinstance(value, Mapping):
            known = cast("Mapping[object, object]", value)
            yield from sorted(
                f"{field.name} {as_json(key)}: {as_json(known[key])}" for key in known
            )
        else:
            yield f"{field.name}: {as_json(value)}"


def waiting(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return the asks of a snapshot that are not running."""
    return [
        (app.name, ask.name)
        for app in snapshot.apps.values()
        for ask in app.asks
        if ask.place is not AskPlace.BOUND
    ]


def as_json(value: object) -> str:
    """Return a value as JSON with all its public fields, wherever its class is defined."""
    # Where several tasks add to a map, its order depends on which of them trio runs first.
    return json.dumps(_plain(value), ensure_ascii=False, sort_keys=True)


def _plain(value: object) -> object:
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            known = cast("Mapping[object, object]", value)
            return {f"{_plain(key)}": _plain(one) for key, one in known.items()}
        case set() | frozenset():
            return sorted(f"{_plain(one)}" for one in cast("Set[object]", value))
        case list() | tuple():
            return [_plain(one) for one in cast("Sequence[object]", value)]
        case _ if attrs.has(of := cast("type[Any]", type(value))):
            names = [one.name for one in attrs.fields(of) if one.name[:1] != "_"]
            return [of.__name__, {one: _plain(getattr(value, one)) for one in names}]
        case _:
            return f"{value}"


def philly_feed(trial: Trial | Experiment, folder: Path) -> Run:
    """Make the feed of a replay of Philly's jobs, as the examples do."""
    nodes, feed = trial.cluster.nodes_text, folder / "feed.jsonl"
    if isinstance(trial, Experiment):
        jobs, mapping, config = trial.cluster.jobs, PHILLY / "philly.yaml", trial.config
    else:
        jobs, mapping = folder / "jobs.csv", folder / "mapping.yaml"
        with_estimates(trial.cluster.jobs, ESTIMATES[trial.estimates], jobs)
        plain = (PHILLY / "philly.yaml").read_text(encoding="utf-8")
        mapping.write_text(f"estimate: estimate_s\n{plain}", encoding="utf-8")
        config = PHILLY / f"{trial.order}.yaml"
    words = ("import", "csv", f"{jobs}", "--mapping", f"{mapping}", "--nodes", nodes)
    return run((*words, "--config", f"{config}", "-o", f"{feed}"), folder)


TRACES: Final[Mapping[str, Trial | Experiment | str]] = {
    **{f"philly {one.cluster.name} {one.policy}": one for one in EXPERIMENTS},
    **{f"philly {one.cluster.name} {one.order} {one.estimates}": one for one in TRIALS},
    **{f"openb {one.name}": one.name for one in POLICIES},
}
"""The replays of the demo and of the evidence; of openb's shuffles the first for each policy."""


def replay_trace(name: str, write: Write) -> None:
    """Replay a trace of the examples by commands, as they do; the item has all decisions."""
    trace = TRACES[name]
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        feed, log = folder / "feed.jsonl", folder / "decisions.jsonl"
        if isinstance(trace, str):
            script = PROJECT / "examples" / "openb" / "openb.py"
            drawn = ("--policy", trace, "--seed", "1")
            subprocess.run([sys.executable, script, feed, *drawn], check=True)
            made = ""
        else:
            made = f"{philly_feed(trace, folder)}".replace(path, ".")
        words = ("replay", feed.name, "--decisions", log.name, "--format", "json")
        summary = f"{run(words, folder)}"
        texts = [path.read_text(encoding="utf-8") for path in (feed, log)]
        write(name, "\n".join([made, summary, *texts]))
