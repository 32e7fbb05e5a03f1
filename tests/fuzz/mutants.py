"""Does the fuzzing bite? Bugs are planted one at a time, and each has to be found.

``make mutants`` runs it. A bug is a change of a few words in the source of one function, made
in a process of its own; nothing of it stays. If the words are not there any more the script
says so: then the bug has to be planted elsewhere.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import Any, Final

import attrs
import click

from muster.testing.fuzz import Session, Tally
from tests.fuzz.naive_oracle import naive

PROGRAMS: Final = 100
"""How many programs are drawn from one seed."""


@attrs.frozen
class Mutant:
    """One bug.

    Attributes:
        name: What kind of bug it is.
        place: The function, as ``module:Class.method``.
        old: Words in it.
        new: The words that replace them.
    """

    name: str
    place: str
    old: str
    new: str

    def holder(self) -> tuple[Any, str]:
        """Return the class that has the function, and the function's name."""
        module, _, path = self.place.partition(":")
        holder, _, name = path.partition(".")
        return getattr(import_module(module), holder), name

    def function(self) -> FunctionType:
        """Return the function as it is at present."""
        holder, name = self.holder()
        function = getattr(holder, name)
        assert isinstance(function, FunctionType)
        return function


MUTANTS: Final = (
    Mutant(
        "a lost wake: only what finds a mailbox empty wakes its owner",
        "muster._runtime.owners:Mailbox.put",
        "if wake and",
        "if wake and len(self._messages) == 1 and",
    ),
    Mutant(
        "a lost wake: of two who wait for a value only the last is woken",
        "muster._runtime.observers:Watched.changed",
        "if self._changed is None:",
        "if True:",
    ),
    Mutant(
        "a wake of somebody who has gone: a cancelled reader stays registered",
        "muster._runtime.observers:Decisions._abort",
        "self._waiter = None",
        "pass",
    ),
    Mutant(
        "a cancelled call is carried out all the same",
        "muster._runtime.requests:Answer._abort",
        "self._withdrawn = True",
        "pass",
    ),
    Mutant(
        "a call that has been begun can be cancelled, and is done without an answer",
        "muster._runtime.requests:Answer._abort",
        "if self._taken:",
        "if False:",
    ),
    Mutant(
        "callers are answered before their batch is closed",
        "muster._runtime.live_coordinator:LiveCoordinator._serve",
        "if self._index != before:",
        "await self._pace.take(self._answer_all())\n        if self._index != before:",
    ),
    Mutant(
        "a commit is applied twice",
        "muster._runtime.batches:Batches._commit",
        "self._apps[key].mailbox.put(app_commit, wake=False)",
        "self._apps[key].mailbox.put(app_commit, wake=False)\n"
        "            self._apps[key].mailbox.put(app_commit, wake=False)",
    ),
    Mutant(
        "a commit to a gang is forgotten, unless it satisfies the gang",
        "muster._runtime.batches:Batches._commit",
        "self._gangs[key].mailbox.put(gang_commit, wake=False)",
        "if gang_commit.satisfied:\n"
        "                    self._gangs[key].mailbox.put(gang_commit, wake=False)",
    ),
    Mutant(
        "a release overtakes its commit: commits come a batch late",
        "muster._runtime.batches:Batches._commit",
        "self._apps[key].mailbox.put(app_commit, wake=False)",
        "pass\n"
        "        for mailbox, late in self.__dict__.pop('_late', ()):\n"
        "            mailbox.put(late, wake=False)\n"
        "        self.__dict__['_late'] = [\n"
        "            (self._apps[key].mailbox, late) for key, late in outcome.apps.items()\n"
        "        ]",
    ),
    Mutant(
        "an ask that does not come back is pending again after its node was lost",
        "muster_core.owners.application:ApplicationMachine._lose_node",
        "allocation.ask.once and",
        "False and",
    ),
    Mutant(
        "what is reserved on a node is free",
        "muster_core.nodes.node:Node.equip",
        "if reserved:",
        "if False:",
    ),
    Mutant(
        "a stale priority: a queue does not notice that one of its own has fallen",
        "muster_core.owners.queue:QueueMachine._set_child_values",
        "self._stale = True",
        "self._stale = values.priority is not None",
    ),
    Mutant(
        "a stale total: what is bound does not count in its queue until something else is",
        "muster_core.owners.queue:QueueMachine._set_child_values",
        "replace_in(self._allocated, before.allocated, values.allocated)",
        "replace_in(self._allocated, before.allocated, (values if values.pending else before)"
        ".allocated)",
    ),
    Mutant(
        "a forgotten rollback: a waiting member that goes back keeps its node",
        "muster_core.view.placements:Placements.release",
        "state.nodes.give_back(",
        "(lambda *_: None)(",
    ),
    Mutant(
        "an epoch off by one: a queue does not wait for the last of those below it",
        "muster_core.owners.queue:QueueMachine._report_if_complete",
        "< expected.children:",
        "< max(1, expected.children - 1):",
    ),
    Mutant(
        "an epoch off by one: reports carry that of before",
        "muster_core.owners.gang:GangMachine._report",
        "epoch=epoch",
        "epoch=epoch - (len(self._members) > 3)",
    ),
    Mutant(
        "an early timer is slept over: the timekeeper keeps to the later one",
        "muster._runtime.clock:Timekeeper.aim",
        "at_us < before",
        "at_us < before and False",
    ),
    Mutant(
        "timers that were due in between go off as if they were due now",
        "muster._runtime.batches:Batches.run_timers",
        "self.machine.begin(due_us)",
        "self.machine.begin(due_us if until_us is None else until_us)",
    ),
    Mutant(
        "a release hits another allocation of the same ask",
        "muster._runtime.tracking:Tracker.holds",
        "view.is_bound(key, ask.name, held.number)",
        "view.apps[key].bound.get(ask.name) is not None",
    ),
    Mutant(
        "two releases of one allocation in one batch are both let in",
        "muster._runtime.live_coordinator:LiveCoordinator._end",
        "held in self._ended or ",
        "",
    ),
    Mutant(
        "a binder that is about to start is not cancelled when its allocation ends",
        "muster._runtime.bindings:_Job.end",
        "self.scope.cancel()",
        "if self.has_started:\n            self.scope.cancel()",
    ),
    Mutant(
        "a binder begins while that of the allocation before is cleaning up",
        "muster._runtime.bindings:Bindings._work",
        "await job.wait_for_earlier()",
        "pass",
    ),
    Mutant(
        "a binder that does not start in time is waited for",
        "muster._runtime.bindings:Bindings._watch",
        "elif not job.settled.is_set():",
        "elif False:",
    ),
    Mutant(
        "a binder is cancelled with the program before it can know why",
        "muster._runtime.bindings:Bindings._supervise",
        "job.held.is_to_end(CLOSED)",
        "pass",
    ),
    Mutant(
        "who waits for a slot at the entry is forgotten when the scheduler closes",
        "muster._runtime.live_coordinator:LiveCoordinator.run",
        "for call in (*self._serving, *self._waiting()):",
        "for call in self._serving:",
    ),
    Mutant(
        "an observer that may lose decisions loses the newest, not the oldest",
        "muster._runtime.observers:Decisions.offer",
        "self._buffer.popleft()",
        "self._buffer.pop()",
    ),
    Mutant(
        "an observer misses the first decision of a batch if it waits for it",
        "muster._runtime.observers:Decisions.offer",
        "for one in wanted:",
        "for one in wanted[self._waiter is not None and len(wanted) > 3 :]:",
    ),
    Mutant(
        "bound does not wait until the binder has said that the work has started",
        "muster._surface.handles:Ask._held",
        "return status.held if status.started else None",
        "return status.held",
    ),
    Mutant(
        "who is preempted is told only that the allocation has ended",
        "muster._surface.allocation:TrioAllocation._cut_short",
        "if end in EVICTIONS and not self._is_gone():",
        "if False:",
    ),
    Mutant(
        "of several reasons in one batch the last is told, not that of the own allocation",
        "muster._runtime.tracking:Tracker._look_through",
        "touched.get(name) or end",
        "end or touched.get(name)",
    ),
    Mutant(
        "an ask is tried once too often",
        "muster._runtime.live_coordinator:LiveCoordinator._events_of",
        "self._tracker.count_failed_bind(ask, error, self._attempts)",
        "self._tracker.count_failed_bind(ask, error, self._attempts and self._attempts + 1)",
    ),
    Mutant(
        "failures count that were not in a row",
        "muster._runtime.tracking:Tracker._change",
        "if end.reason is not Reason.BIND_FAILED:",
        "if False:",
    ),
    Mutant(
        "the refusals of many events are answered in reverse",
        "muster._runtime.answers:Answers._entered",
        "tuple(refusals)",
        "tuple(refusals[::-1])",
    ),
    Mutant(
        "the handles of many asks are answered in reverse",
        "muster._runtime.answers:Answers._entered",
        "tuple(asks)",
        "tuple(reversed(asks))",
    ),
    Mutant(
        "the handle of an ask that is gone follows the next one of that name",
        "muster._runtime.tracking:Tracker._publish",
        "found.seq != tracked.seq",
        "False",
    ),
    Mutant(
        "what waits does not count for the limit of a user",
        "muster_core.view.placements:Placements._use",
        "if app.limits:",
        "if app.limits and ask.gang is None:",
    ),
    Mutant(
        "an application that may not run keeps those from running that do",
        "muster_core.view.tree.application:ViewApp.must_wait",
        "not self.running and ",
        "",
    ),
    Mutant(
        "a stale limit: what a user got back does not count",
        "muster_core.view.tree.constraints:ViewLimit.refresh",
        "self.refuses, self._is_full = self._refused(shapes)",
        "self.refuses, self._is_full = self.refuses | self._refused(shapes)",
    ),
    Mutant(
        "a node service takes room from asks of a higher priority",
        "muster_core.view.eviction.evictor:ServiceEligibility.is_beyond",
        "priority > self.ask.priority",
        "False",
    ),
    Mutant(
        "a node that is kept stays kept after the service was bound",
        "muster_core.view.state.history:KeptNodes.end",
        "if not of_node:",
        "if False:",
    ),
    Mutant(
        "a queue that is over its max loses asks only in the batch after the delay",
        "muster_core.view.state.history:OverMax.due",
        "self.end_us(key) <= now_us",
        "self.end_us(key) < now_us",
    ),
    Mutant(
        "an ask is taken before it has run for its minimum run time",
        "muster_core.view.state.timers:Protections.is_over",
        "<= self._delays.passed_us",
        "<= self._delays.passed_us + min_runtime_us",
    ),
    Mutant(
        "a batch is announced before it is on disk",
        "muster._runtime.announcer:Announcer._announce",
        """            if decided:
                began = perf_counter()
                with self._foreign_errors:
                    await self._write(decided)
                if self._meter is not None:
                    self._meter.commit.note(perf_counter() - began)
                self._pace.start()
            for announcement in announcements:
                await self._announce_one(announcement)
""",
        """            copies = [attrs.evolve(one) for one in decided]
            for announcement in announcements:
                await self._announce_one(announcement)
            if copies:
                await self._write(copies)
""",
    ),
    Mutant(
        "handles show what is not on disk",
        "muster._runtime.observers:Staged.put",
        "self._waiting.append(partial(watched.publish, value))",
        "watched.publish(value)",
    ),
    Mutant(
        "a surplus member holds a node before its group is satisfied",
        "muster_core.view.permits:Permits._try",
        "if not gang.missing:",
        "if False:",
    ),
    Mutant(
        "a taint that comes later keeps only asks of new shapes away",
        "muster_core.nodes.node_index:NodeIndex._match",
        "if node.name in self.tainted:",
        "if False:",
    ),
    Mutant(
        "an ask that lost its node before its start_by never expires",
        "muster_core.view.state.view_state:ViewState.end_bound",
        "if ask.start_by_us is not None:",
        "if False:",
    ),
    Mutant(
        "a run limit that ends with run_for ends the ask",
        "muster_core.view.state.timers:Timers.bound",
        "run_for_us <= limit_us",
        "run_for_us > limit_us",
    ),
    Mutant(
        "an ask that has reached its limit is not passed by those that age",
        "muster_core.view.tree.aging:AgingOrder._touched",
        "while self._due and self._due[0][0] <= self._tick:",
        "while False:",
    ),
    Mutant(
        "an ask stays behind the one before it in its line for ever",
        "muster_core.view.tree.aging:AgingOrder.next_up",
        "while line.behind:",
        "while False:",
    ),
    Mutant(
        "what a queue deserves by weight does not follow what its asks come to",
        "muster_core.view.state.divisions:Divisions.note",
        "if queue.by_weight and",
        "if False and",
    ),
    Mutant(
        "what came after the checkpoint is not let in again",
        "muster._runtime.storage:Storage.restore",
        "await recover(batches, self._kept, self._pace, self._run)",
        "0",
    ),
    Mutant(
        "what was used lately does not count: queues stand by what they hold now",
        "muster_core.view.tree.queue:ViewQueue.key_in",
        "if self.past is not None:",
        "if self.past is not None and self.past.is_nothing:",
    ),
)


def bitten(mutant: Mutant) -> FunctionType:
    """Return a function with its bug.

    Raises:
        LookupError: If what is to be changed is not there.
    """
    function = mutant.function()
    source = inspect.getsource(function)
    if mutant.old not in source:
        msg = f"{mutant.place} has no {mutant.old!r}"
        raise LookupError(msg)
    # As it stands in its class, so that what is new may have lines of its own.
    text = f"from __future__ import annotations\nif True:\n{source.replace(mutant.old, mutant.new)}"
    made: dict[str, Any] = {}
    code = compile(text, f"<{mutant.place}, with a bug>", "exec", dont_inherit=True)
    exec(code, function.__globals__, made)
    planted_function = made[function.__name__]
    assert isinstance(planted_function, FunctionType)
    return planted_function


@contextmanager
def planted(mutant: Mutant) -> Generator[None]:
    """Plant a bug in this process, as long as the block lasts.

    Raises:
        LookupError: If what is to be changed is not there.
    """
    holder, name = mutant.holder()
    before = mutant.function()
    setattr(holder, name, bitten(mutant))
    try:
        yield
    finally:
        setattr(holder, name, before)


@attrs.frozen
class Verdict:
    """The result of a hunt for a bug."""

    name: str
    found: bool
    oracle: str
    programs: int
    seconds: float


def hunt(number: int, budget_s: float, seed: int) -> Verdict:
    """Plant a bug in this process, and look for it; none if the number is less than 0."""
    if number < 0:
        return _search("no bug at all", budget_s, seed)
    with planted(MUTANTS[number]):
        return _search(MUTANTS[number].name, budget_s, seed)


def _search(name: str, budget_s: float, seed: int) -> Verdict:
    session = Session(oracles=(naive,), shrink=False)
    began, tally = time.monotonic(), Tally()
    while time.monotonic() - began < budget_s:
        finding = session.search(seed, PROGRAMS, tally)
        if finding is not None:
            fault = finding.outcome.faults[0].strip().splitlines()
            brief = fault[-1] if "Traceback" in fault[0] else fault[0]
            return Verdict(name, True, brief, tally.programs, time.monotonic() - began)
        seed += 1
    return Verdict(name, False, "", tally.programs, time.monotonic() - began)


def hunt_apart(number: int, *, budget_s: float, seed: int) -> Verdict:
    """Look for a bug in a process of its own."""
    command = [sys.executable, "-m", "tests.fuzz.mutants", "--one", str(number)]
    command += ["--budget", str(budget_s), "--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return Verdict(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, ValueError):
        name = MUTANTS[number].name if number >= 0 else "no bug at all"
        return Verdict(name, False, f"cannot be planted: {done.stderr.strip()[-200:]}", 0, 0.0)


def line(one: Verdict) -> str:
    """Return the line of a bug."""
    found = "yes" if one.found else "NO"
    row = f"{found:5}  {one.programs:>8,}  {one.seconds:>7.1f}  {one.name}"
    return f"{row}\n{'':26}{one.oracle[:150]}".rstrip()


@click.command()
@click.option("--jobs", default=2, show_default=True, help="How many processes.")
@click.option("--budget", default=240.0, show_default=True, help="Seconds for each bug.")
@click.option("--clean", default=30.0, show_default=True, help="Seconds without a bug, at first.")
@click.option("--seed", default=1, show_default=True)
@click.option("--only", multiple=True, type=int, help="Only the bugs of these numbers.")
@click.option("--one", type=int, hidden=True)
def main(
    jobs: int, budget: float, clean: float, seed: int, only: tuple[int, ...], one: int | None
) -> None:
    """Plant bugs, one at a time, and say how long it takes to find each of them."""
    if one is not None:
        click.echo(json.dumps(attrs.asdict(hunt(one, budget, seed))))
        return
    without = hunt_apart(-1, budget_s=clean, seed=seed) if clean else None
    if without is not None:
        click.echo(f"without a bug: {without.programs} programs in {without.seconds:.0f} s")
        if without.found or not without.programs:
            click.echo(f"something is found all the same: {without.oracle}")
            sys.exit(1)
    numbers = only or range(len(MUTANTS))
    with ThreadPoolExecutor(jobs) as pool:
        verdicts: list[Verdict] = []
        click.echo(f"{'found':5}  {'programs':>8}  {'seconds':>7}  bug")
        for verdict in pool.map(partial(hunt_apart, budget_s=budget, seed=seed), numbers):
            verdicts.append(verdict)
            click.echo(line(verdict))
    missed = [verdict for verdict in verdicts if not verdict.found]
    click.echo(f"{len(verdicts) - len(missed)} of {len(verdicts)} bugs were found")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
