"""The suite: all parts, the functions that measure them, and their figures.

A part has one or several contenders, which run in turns, each in a process of its own. Their
results of one turn become figures.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, final

import attrs

from benchmarks import backlog, growth, instructions
from benchmarks.child import Measured
from benchmarks.figures import Figure, with_unit
from benchmarks.workloads import WORKLOADS
from tests.engines.cluster import why_not
from tests.kubernetes import cluster as kubernetes_cluster

LB: Final = "× LB"
CORE: Final = "× core"
TASKS: Final = 1.5
"""The largest cost with tasks, as a multiple of the cost without tasks."""

LIMITED: Final = 1.5
"""The largest cost with a limit for each user, as a multiple of the cost without limits."""

SIMPY: Final = 0.1
"""The share of W3 that SimPy can finish: it sorts all waiting requests for each ask."""

PLAIN: Final = ("W1", "W2", "W3a", "W3b", "W4")
"""The workloads without gangs. Their goals are instructions, as the yardstick is not steady."""

_SERVICES: Final = {
    "serve": "benchmarks.serve:measure",
    "page": "benchmarks.pages:measure",
    "replicas": "benchmarks.replicas:measure",
}
"""What measures a service."""

Found = Mapping[str, Measured]


@final
@attrs.frozen
class Contender:
    """A function that runs in a process of its own.

    Attributes:
        name: Its name among the contenders of its part.
        target: The function: `MODULE:NAME`.
        arguments: Its arguments before the scale.
        share: The factor for its scale.
    """

    name: str
    target: str
    arguments: tuple[str, ...] = ()
    share: float = 1.0


@final
@attrs.frozen
class Part:
    """A part of the suite.

    Attributes:
        name: Its name on the command line.
        about: Its description.
        contenders: The contenders, which run in turns.
        figures: Computes the figures of one turn.
        most: The largest number of turns: more would find the same, or take too long.
        is_long: Whether it takes long at any scale, so that a quick run leaves it out.
        missing: Why it cannot be measured here, or None.
    """

    name: str
    about: str
    contenders: tuple[Contender, ...]
    figures: Callable[[Found], list[Figure]]
    most: int = 100
    is_long: bool = False
    missing: str | None = None


def parts(scale: float, trace: Path | None = None) -> list[Part]:
    """Return all parts, in the order of the table.

    Args:
        scale: The share of the full size.
        trace: The table of all jobs of Philly, or None.
    """
    return [
        *(_workload(name) for name in PLAIN),
        _gangs(),
        _limits(),
        *(_growth(one, scale) for one in growth.DIMENSIONS.values()),
        attrs.evolve(
            _module("memory", "how much memory asks take, and what a day leaves behind"),
            most=1,
            is_long=True,
        ),
        attrs.evolve(
            _module("scale", "a million asks in 10,000 queues on 100,000 nodes"),
            most=1,
            is_long=True,
        ),
        _module("latency", "how long other tasks wait"),
        _module("evictions", "what reclaim and preemption cost"),
        _module("backfill", "what a reservation costs while many asks are pending"),
        _module("aging", "what it costs that many asks in one leaf age"),
        _backlog(),
        _module(
            "jobs", "a log of jobs on one node, and the shortest program that decides the same"
        ),
        _module("devices", "filling nodes with GPUs, in orders for the ask at hand"),
        _module("reload", "a new configuration with 10,000 applications and 100,000 asks"),
        _module("store", "what it costs to keep the state on disk"),
        _service("serve", "what muster serve bears on one core, with its clients on another"),
        _service("replicas", "what a follower costs its leader, and how it takes over"),
        _service("page", "how long a page of muster serve takes, of a large cluster"),
        _ray(),
        _kubernetes(),
        _module("philly", "replaying two clusters of the Philly trace"),
        _whole_trace(trace),
        _imports(),
        _module("startup", "starting the command"),
        attrs.evolve(_module("bridge", "the scheduler in an asyncio program"), is_long=True),
        _instructions(),
    ]


def _each(found: Measured, seconds: str = "rounds_s") -> float:
    """Return the time of an allocation, in seconds."""
    return found[seconds] / max(1, found["binds"])


def _in_lb(found: Measured) -> float:
    return _each(found) / found["lb_s"]


def _rate_text(found: Measured) -> str:
    each = _each(found)
    return f"{1 / each:,.0f} a second, {with_unit(each * 1e6, 'µs')} each" if each else ""


def _over_core(tasks: Measured, core: Measured) -> float:
    """Return the cost with tasks as a multiple of that without, each relative to its yardstick."""
    return (tasks["whole_s"] / tasks["lb_s"]) / (core["whole_s"] / core["lb_s"])


def _mib(found: Measured) -> float:
    return found["peak_bytes"] / 2**20


def _workload(name: str) -> Part:
    workload = WORKLOADS[name]
    contenders = [
        Contender("tasks", "benchmarks.drive:with_tasks", (name,)),
        Contender("core", "benchmarks.drive:without_tasks", (name,)),
        Contender("naive", "benchmarks.naive:measure", (name,)),
    ]
    missing_simpy = importlib.util.find_spec("simpy") is None
    if name == "W1" and not missing_simpy:
        contenders.append(Contender("simpy", "benchmarks.simpy_model:w1"))
    if workload.releases and not missing_simpy:
        contenders.append(Contender("simpy", "benchmarks.simpy_model:w3", (name,), SIMPY))
    return Part(name, workload.about, tuple(contenders), partial(_figures_of_workload, name))


def _figures_of_workload(name: str, found: Found) -> list[Figure]:
    tasks, core, naive = found["tasks"], found["core"], found["naive"]
    seconds = f"{tasks['whole_s']:.2f} s over {core['whole_s']:.2f} s"
    times = f"{naive['naive_s']:.2f} s over {naive['muster_s']:.2f} s"
    few = f"naive algorithm, {naive['binds']:,.0f} allocations"
    figures = [
        Figure(name, "with tasks", _in_lb(tasks), LB, raw=_rate_text(tasks)),
        Figure(name, "core without tasks", _in_lb(core), LB, raw=_rate_text(core)),
        Figure(name, "tasks over core", _over_core(tasks, core), CORE, TASKS, raw=seconds),
        Figure(name, few, naive["naive_s"] / naive["muster_s"], CORE, raw=times),
    ]
    simpy = found.get("simpy")
    if simpy is not None:
        figures += _figures_of_simpy(name, simpy, core)
    note = f"without tasks {_mib(core):,.0f} MiB"
    return [*figures, Figure(name, "peak memory with tasks", _mib(tasks), "MiB", note=note)]


def _figures_of_simpy(name: str, simpy: Measured, core: Measured) -> list[Figure]:
    if name == "W1":
        each, ours = _each(simpy, "whole_s"), _each(core, "whole_s")
        raw = f"{with_unit(each * 1e6, 'µs')} over {with_unit(ours * 1e6, 'µs')} each"
        return [Figure(name, "SimPy model, all of it", each / ours, CORE, raw=raw)]
    each, ours = _each(simpy), simpy["muster_s"] / max(1, simpy["muster_binds"])
    raw = f"{with_unit(each * 1e6, 'µs')} over {with_unit(ours * 1e6, 'µs')} each"
    entry, our_entry = simpy["entry_s"], simpy["muster_entry_s"]
    seconds = f"{entry:.2f} s over {our_entry:.2f} s"
    return [
        Figure(name, "SimPy model of a tenth, releases", each / ours, CORE, raw=raw),
        Figure(name, "SimPy model of a tenth, before", entry / our_entry, CORE, raw=seconds),
    ]


_GANGS: Final = {"W6a": "asks-110", "W6b": "asks-60", "W6c": "asks-60"}
"""Each workload with gangs, and the same members as plain asks."""


def _gangs() -> Part:
    ways = {"tasks": "with_tasks", "core": "without_tasks"}
    names = dict.fromkeys(name for pair in _GANGS.items() for name in pair)
    contenders = tuple(
        Contender(f"{name} {way}", f"benchmarks.drive:{function}", (name,))
        for name in names
        for way, function in ways.items()
    )
    return Part(
        "W6",
        "1,000 gangs of 8 to 64, beside the same members as asks",
        contenders,
        _figures_of_gangs,
    )


def _figures_of_gangs(found: Found) -> list[Figure]:
    figures: list[Figure] = []
    for name, asks in _GANGS.items():
        tasks, core = found[f"{name} tasks"], found[f"{name} core"]
        about = WORKLOADS[name].about
        for way in ("tasks", "core"):
            gang, plain = found[f"{name} {way}"], found[f"{asks} {way}"]
            more_s = (gang["whole_s"] - plain["whole_s"]) / gang["asks"]
            lb_s = (gang["lb_s"] + plain["lb_s"]) / 2
            what = f"{about}: a member beyond an ask, {_WAYS[way]}"
            raw = with_unit(more_s * 1e6, "µs")
            figures.append(Figure(name, what, more_s / lb_s, LB, raw=raw))
        what = f"{about}: tasks over core"
        figures.append(Figure(name, what, _over_core(tasks, core), CORE, TASKS))
    return figures


def _limits() -> Part:
    ways = {"tasks": "with_tasks", "core": "without_tasks"}
    contenders = tuple(
        Contender(f"{name} {way}", f"benchmarks.drive:{function}", (name,))
        for name in ("W2", "limits")
        for way, function in ways.items()
    )
    return Part("limits", WORKLOADS["limits"].about, contenders, _figures_of_limits)


def _figures_of_limits(found: Found) -> list[Figure]:
    figures: list[Figure] = []
    for way, description in _WAYS.items():
        limits, plain = found[f"limits {way}"], found[f"W2 {way}"]
        ratio = _in_lb(limits) / _in_lb(plain)
        raw = f"{limits['whole_s']:.2f} s over {plain['whole_s']:.2f} s"
        what = f"a limit for each of 1,000 users: over W2, {description}"
        figures.append(Figure("limits", what, ratio, "× W2", LIMITED, raw=raw))
    return figures


_WAYS: Final = {"tasks": "with tasks", "core": "core"}


def _growth(dimension: growth.Dimension, scale: float) -> Part:
    contenders = tuple(
        Contender(str(size), "benchmarks.growth:measure", (dimension.name, str(size)))
        for size in growth.sizes(dimension, scale)
    )

    def figures(found: Found) -> list[Figure]:
        costs = {int(size): (_each(one), _in_lb(one)) for size, one in found.items()}
        return [growth.figure(dimension, costs)]

    return Part(f"growth {dimension.name}", dimension.about, contenders, figures, most=2)


def _backlog() -> Part:
    contenders = tuple(
        Contender(name, "benchmarks.backlog:measure", (name,))
        for name, variant in backlog.VARIANTS.items()
        if variant.target_s is not None
    )

    def figures(found: Found) -> list[Figure]:
        return [figure for one in found.values() for figure in one.figures]

    return Part(
        "backlog", "replaying two weeks in which a backlog grows", contenders, figures, most=1
    )


def _module(name: str, about: str) -> Part:
    """Return the part of a module that computes figures itself."""
    contender = Contender(name, f"benchmarks.{name}:measure")
    return Part(name, about, (contender,), partial(_as_they_are, name))


def _as_they_are(name: str, found: Found) -> list[Figure]:
    return list(found[name].figures)


def _ray() -> Part:
    contender = Contender("ray", "benchmarks.on_ray:measure")
    about = "running asks on Ray, beside plain Ray"
    figures = partial(_as_they_are, "ray")
    return Part("ray", about, (contender,), figures, most=1, is_long=True, missing=why_not())


def _kubernetes() -> Part:
    contender = Contender("kubernetes", "benchmarks.kubernetes:measure")
    about = "scheduling a cluster of Kubernetes, beside a loop that only binds"
    figures = partial(_as_they_are, "kubernetes")
    missing = kubernetes_cluster.why_not()
    return Part("kubernetes", about, (contender,), figures, most=1, is_long=True, missing=missing)


def _imports() -> Part:
    contender = Contender("import", "benchmarks.imports:measure")
    about = "importing a million jobs of Slurm"
    return Part("import", about, (contender,), partial(_as_they_are, "import"), most=1)


def _service(name: str, about: str) -> Part:
    part = attrs.evolve(_module(name, about), contenders=(Contender(name, _SERVICES[name]),))
    absent = [name for name in ("starlette", "orjson") if importlib.util.find_spec(name) is None]
    if sys.platform != "linux":
        return attrs.evolve(part, missing="only Linux gives a process a core of its own")
    return attrs.evolve(part, missing=f"{absent[0]} is not installed" if absent else None)


def _whole_trace(trace: Path | None) -> Part:
    part = _module("philly-whole", "replaying all of the Philly trace")
    contender = Contender(part.name, "benchmarks.philly:whole", (str(trace),))
    missing = None if trace is not None else "no --trace FILE was given (make bench TRACE=FILE)"
    return attrs.evolve(part, contenders=(contender,), most=1, missing=missing)


def _instructions() -> Part:
    part = _module("instructions", "what callgrind counts for 1,000 more of each workload")
    missing = None if instructions.available() else "valgrind is not installed"
    return attrs.evolve(part, most=1, is_long=True, missing=missing)


def chosen(names: Sequence[str], available: Sequence[Part], *, is_quick: bool) -> list[Part]:
    """Return the parts whose names begin with one of these names; without names, all parts.

    Args:
        names: The names.
        available: All parts.
        is_quick: Whether to leave out long parts, unless they are named.

    Raises:
        ValueError: No part has such a name.
    """
    for name in names:
        if not any(part.name.startswith(name) for part in available):
            known = ", ".join(part.name for part in available)
            raise ValueError(f"{name!r} is none of: {known}")
    if names:
        return [part for part in available if part.name.startswith(tuple(names))]
    return [part for part in available if not (is_quick and part.is_long)]
