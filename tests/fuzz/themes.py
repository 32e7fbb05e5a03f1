"""Random feeds of a theme, decided by the core and by the plain algorithm, and made small where
they differ.

    python -m tests.fuzz.themes backfill --feeds 20000 --jobs 2 --seed 1

Each process takes every n-th seed. It says how many feeds ran, and shows the first that is decided
differently, made as small as it goes, as a feed that ``muster check`` takes.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty
from typing import Any, Final
from zlib import crc32

import attrs
import click
import yaml
from hypothesis import HealthCheck, Phase, given, seed as seeded, settings, strategies as st

from muster.feeds import write_event
from muster_core.config.model import Configuration, QueueConfig
from muster_core.decisions import Announced
from muster_core.errors import EventError
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Configure
from tests.actors import real
from tests.naive.affinity_strategies import affinities
from tests.naive.aging_strategies import agings
from tests.naive.back_off_strategies import back_offs
from tests.naive.backfill_strategies import backfills, joined, unordered
from tests.naive.device_strategies import devices, topologies
from tests.naive.eviction_strategies import evictions, tangles
from tests.naive.explained import explain_all, watched
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.harness import (
    SETTLE,
    Drive,
    Marker,
    Relay,
    Step,
    What,
    compare,
    compare_with_state,
    run_plainly,
    through_bytes,
)
from tests.naive.once_strategies import once
from tests.naive.operator_strategies import operations
from tests.naive.promise import Promises
from tests.naive.quota_strategies import quotas
from tests.naive.scheduler import NaiveScheduler
from tests.naive.strategies import scenarios, settings_of
from tests.naive.time_strategies import time_limits
from tests.naive.usage_strategies import usages
from tests.naive.weight_strategies import weights

Fails = Callable[[Sequence[Step]], bool]

_SHAPED: Final = (AddApp, AddAsk, AddNode)
_NEEDED: Final = frozenset({"app", "ask", "queue", "resources", "node", "capacity", "says", "gang"})
_OPTIONAL: Final = frozenset({"gang", "node"})


def smallest(scenario: Sequence[Step], fails: Fails) -> list[Step]:
    """Return a scenario that still fails, and of which no single part can be left out.

    Args:
        scenario: A scenario that fails.
        fails: Says whether a scenario does.
    """
    steps = list(scenario)
    while True:
        shorter = _simpler(_shorter(steps, fails), fails)
        if shorter == steps:
            return steps
        steps = shorter


def _shorter(steps: list[Step], fails: Fails) -> list[Step]:
    """Leave out runs of steps, the long ones first."""
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps):
            without = steps[:at] + steps[at + size :]
            if fails(without):
                steps = without
            else:
                at += size
        size //= 2
    return steps


def _simpler(steps: list[Step], fails: Fails) -> list[Step]:
    """Simplify single steps."""
    for at in range(len(steps)):
        for _ in range(100):
            step = steps[at]
            tries = (
                [*steps[:at], Step(step.at_us, what), *steps[at + 1 :]] for what in _less(step)
            )
            found = next((one for one in tries if fails(one)), None)
            if found is None:
                break
            steps = found
    return steps


def _less(step: Step) -> Iterator[What]:
    """Yield simpler forms of a step, each with one change."""
    what = step.what
    if isinstance(what, Configure):
        for config in _less_of(what.config):
            yield attrs.evolve(what, config=config)
    elif isinstance(what, _SHAPED):
        for field in attrs.fields(type(what)):
            needed = field.name in _NEEDED and not (
                isinstance(what, AddAsk) and field.name in _OPTIONAL
            )
            default = _default(field)
            if not needed and getattr(what, field.name) != default:
                with suppress(EventError):  # An ask that wants nothing else needs its devices.
                    yield _evolved(what, field.name, default)
    elif isinstance(what, AddGang):
        for name in ("total", "wait_us", "mode", "groups", "topology"):
            if getattr(what.says, name) is not None:
                yield attrs.evolve(what, says=attrs.evolve(what.says, **{name: None}))


def _evolved(what: AddApp | AddAsk | AddNode, name: str, value: Any) -> What:  # noqa: ANN401 - of any field
    return attrs.evolve(what, **{name: value})


def _default(field: attrs.Attribute[Any]) -> object:
    made = getattr(field.default, "factory", None)
    return field.default if made is None else made()


def _less_of(config: Configuration) -> Iterator[Configuration]:
    plain = Configuration(config.partition, config.root)
    for field in attrs.fields(Configuration):
        if getattr(config, field.name) != getattr(plain, field.name):
            yield attrs.evolve(config, **{field.name: getattr(plain, field.name)})
    for root in _less_of_queue(config.root):
        yield attrs.evolve(config, root=_resolved(root))


def _less_of_queue(queue: QueueConfig) -> Iterator[QueueConfig]:
    for at, child in enumerate(queue.children):
        rest = (queue.children[:at], queue.children[at + 1 :])
        yield attrs.evolve(queue, children=(*rest[0], *rest[1]))
        for less in _less_of_queue(child):
            yield attrs.evolve(queue, children=(*rest[0], less, *rest[1]))
    for at in range(len(queue.own_properties)):
        own = queue.own_properties
        yield attrs.evolve(queue, own_properties=own[:at] + own[at + 1 :])
    plain = QueueConfig(queue.name, queue.path, queue.is_parent)
    for name in ("guaranteed", "max", "max_applications", "template", "submit_acl", "limits"):
        if getattr(queue, name) != getattr(plain, name):
            yield attrs.evolve(queue, **{name: getattr(plain, name)})


def _resolved(root: QueueConfig) -> QueueConfig:
    """Give a tree the settings that its properties say."""

    def again(queue: QueueConfig, above: QueueConfig | None) -> QueueConfig:
        settings = settings_of(
            dict(queue.own_properties), queue.path, None if above is None else above.settings
        )
        queue = attrs.evolve(queue, settings=settings)
        return attrs.evolve(queue, children=tuple(again(one, queue) for one in queue.children))

    return again(root, None)


FEEDS: Final = 50
"""How many feeds are drawn from each seed."""

Check = Callable[[Sequence[Step]], Counter[str]]
"""Runs a feed, and counts what was reached; it raises where something is wrong."""

Line = dict[str, Any]
"""The result of one seed."""


def _decides_the_same(steps: Sequence[Step]) -> Counter[str]:
    return compare(steps, run_plainly).world.reached


def _decides_the_same_of_latecomers(steps: Sequence[Step]) -> Counter[str]:
    """Compare where each event is a batch, and comes after rounds that have changed nothing."""
    quiet = (SETTLE, SETTLE)
    apart = [Step(step.at_us, what) for step in steps for what in (step.what, *quiet)]
    return _decides_the_same(apart)


def _decides_the_same_in_any_way(steps: Sequence[Step]) -> Counter[str]:
    """Decide with one machine, loaded anew after each batch, and as tasks that run in any order."""
    relay = Relay(through_bytes, looks=False)
    relay.take(steps)

    def run(scenario: Sequence[Step]) -> Sequence[Announced]:
        log = real.run(scenario, crc32(repr(relay.log).encode()))
        assert log == relay.log, "tasks in some order decide otherwise"
        return log

    return compare(steps, run).world.reached


def _explains_the_same(steps: Sequence[Step]) -> Counter[str]:
    compare_with_state(watched(steps), explain_all)
    return Counter()


def _is_greedy_without_the_names(steps: Sequence[Step]) -> Counter[str]:
    named, plain = (run_plainly(unordered(steps, order)) for order in ("greedy", None))
    assert named == plain, "what says that it is greedy is decided otherwise"
    return Counter()


def _is_loaded_after_every_batch(steps: Sequence[Step]) -> Counter[str]:
    Relay(through_bytes, looks=True).take(steps)
    return Counter()


def _keeps_its_promise(steps: Sequence[Step]) -> Counter[str]:
    promises = Promises()
    Drive(NaiveScheduler(), promises.after).run(steps)
    compare(steps, run_plainly)
    return promises.counts


THEMES: Final[Mapping[str, tuple[st.SearchStrategy[list[Step]], Check]]] = {
    "affinity": (affinities(), _decides_the_same),
    "affinity-reasons": (affinities(2), _explains_the_same),
    "aging": (agings(), _decides_the_same),
    "aging-reasons": (agings(2), _explains_the_same),
    "backfill": (backfills(lists=3), _decides_the_same),
    "backfill-reasons": (backfills(lists=2), _explains_the_same),
    "promise": (backfills(lists=3, honest=True), _keeps_its_promise),
    "back-off": (back_offs(), _decides_the_same),
    "devices": (devices(), _decides_the_same),
    "evictions": (evictions(), _decides_the_same),
    "gangs": (gang_scenarios(), _decides_the_same),
    "greedy": (backfills(lists=3), _is_greedy_without_the_names),
    "joined": (joined(), _decides_the_same),
    "latecomers": (backfills(lists=3), _decides_the_same_of_latecomers),
    "once": (once(), _decides_the_same),
    "once-reasons": (once(2), _explains_the_same),
    "operators": (operations(), _decides_the_same),
    "plain": (scenarios(), _decides_the_same),
    "quota": (quotas(), _decides_the_same),
    "quota-reasons": (quotas(2), _explains_the_same),
    "tangles": (tangles(), _decides_the_same),
    "time": (time_limits(), _decides_the_same),
    "time-reasons": (time_limits(2), _explains_the_same),
    "topology": (topologies(), _decides_the_same),
    "weights": (weights(), _decides_the_same),
    "weights-reasons": (weights(), _explains_the_same),
    "usage": (usages(), _decides_the_same),
    "usage-checkpoints": (usages(3), _is_loaded_after_every_batch),
    "usage-reasons": (usages(2), _explains_the_same),
}
"""What feeds are drawn from, and what must be true of each of them."""


def _check_of(theme: str, *, thorough: bool) -> Check:
    check = THEMES[theme][1]
    return _decides_the_same_in_any_way if thorough and check is _decides_the_same else check


def search(
    theme: str, seed: int, feeds: int, *, thorough: bool = False
) -> tuple[int, Counter[str], list[Step] | None]:
    """Run feeds of one seed up to the first at which something is wrong.

    Returns:
        How many ran, what they reached, and the feed at which something is wrong.
    """
    drawn, check = THEMES[theme][0], _check_of(theme, thorough=thorough)
    counts: Counter[str] = Counter()
    found: list[list[Step]] = []
    ran = 0

    @seeded(seed)
    @settings(
        max_examples=feeds,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    @given(drawn)
    def run(steps: list[Step]) -> None:
        nonlocal ran
        if found:
            return
        ran += 1
        wrong = fault(check, steps, counts)
        if wrong is not None:
            found.append(steps)

    run()
    return ran, counts, found[0] if found else None


def fault(check: Check, steps: Sequence[Step], counts: Counter[str] | None = None) -> str | None:
    """Return what is wrong with a feed, in many lines; None if nothing is."""
    try:
        reached = check(steps)
    except AssertionError as difference:
        return str(difference) or "an assertion"
    except Exception as error:  # noqa: BLE001 - whatever the core raises is to be shown
        return f"{type(error).__name__}: {error}"
    if counts is not None:
        counts.update(reached)
    return None


def as_feed(steps: Sequence[Step]) -> str:
    """Return a scenario as a feed."""
    items: list[Line] = []
    for step in steps:
        if isinstance(step.what, Marker):
            item: Line = {"op": "settle"}
        elif isinstance(step.what, str):
            item = {"op": step.what}
        else:
            item = dict(write_event(step.what))
        items.append({"at": step.at_us / 1_000_000, **item})
    return "\n".join(
        f"- {json.dumps(item)}" if item["op"] != "configure" else _block(item) for item in items
    )


def _block(item: Line) -> str:
    return yaml.safe_dump([json.loads(json.dumps(item))], sort_keys=False).rstrip()


def work(theme: str, seeds: Sequence[int], results: Queue[Line], *, thorough: bool) -> None:
    """Run seeds, and report each; stop at the first at which something is wrong."""
    check = _check_of(theme, thorough=thorough)
    for seed in seeds:
        ran, counts, steps = search(theme, seed, FEEDS, thorough=thorough)
        line: Line = {"seed": seed, "feeds": ran, "counts": dict(counts)}
        if steps is not None:
            few = smallest(steps, lambda some: fault(check, some) is not None)
            line |= {"fault": fault(check, few), "feed": as_feed(few)}
        results.put(line)
        if steps is not None:
            return


@attrs.define
class Tally:
    """Sums of what ran, and the first finding."""

    feeds: int = 0
    counts: Counter[str] = attrs.field(factory=Counter[str])
    found: list[Line] = attrs.field(factory=list[Line])

    def add(self, line: Line) -> None:
        """Take a seed into account."""
        self.feeds += line["feeds"]
        self.counts.update(line["counts"])
        if "fault" in line:
            self.found.append(line)


def soak(theme: str, feeds: int, jobs: int, seed: int, *, thorough: bool) -> Tally:
    """Run so many feeds in some processes, which stop at the first that finds something."""
    context = multiprocessing.get_context("spawn")
    results: Queue[Line] = context.Queue()
    seeds = range(seed, seed + -(-feeds // FEEDS))
    workers = [
        context.Process(
            target=work, args=(theme, seeds[job::jobs], results), kwargs={"thorough": thorough}
        )
        for job in range(jobs)
    ]
    for worker in workers:
        worker.start()
    tally, shown = Tally(), time.monotonic()
    while True:
        alive = any(worker.is_alive() for worker in workers)
        try:
            tally.add(results.get(timeout=1))
        except Empty:
            if not alive:
                break
        if time.monotonic() - shown > 60:
            shown = time.monotonic()
            click.echo(f"{tally.feeds:,} feeds so far")
        if tally.found:
            for worker in workers:
                worker.terminate()
            break
    for worker in workers:
        worker.join()
    if not tally.found and any(worker.exitcode for worker in workers):
        msg = "a process failed"
        raise RuntimeError(msg)
    return tally


@click.command()
@click.argument("theme", type=click.Choice(sorted(THEMES)))
@click.option("--feeds", default=20_000, show_default=True, help="How many feeds.")
@click.option("--jobs", default=2, show_default=True, help="How many processes.")
@click.option("--seed", default=1, show_default=True, help="The first seed.")
@click.option(
    "--thorough", is_flag=True, help="As tasks in any order, and loaded anew after each batch."
)
@click.option("--out", type=click.Path(path_type=Path), help="Where a feed that differs goes.")
def main(theme: str, feeds: int, jobs: int, seed: int, out: Path | None, *, thorough: bool) -> None:
    """Run random feeds of a theme; the exit status is 1 if one is decided differently."""
    began = time.monotonic()
    tally = soak(theme, feeds, jobs, seed, thorough=thorough)
    click.echo(f"{tally.feeds:,} feeds of {theme} in {time.monotonic() - began:,.0f} s")
    for name, count in tally.counts.most_common():
        click.echo(f"  {name:<48} {count:>10,}")
    for line in tally.found[:1]:
        click.echo(f"seed {line['seed']}:\n{line['fault']}\n\n{line['feed']}")
        if out is not None:
            out.write_text(line["feed"] + "\n", encoding="utf-8")
    sys.exit(1 if tally.found else 0)


if __name__ == "__main__":
    main()
