"""The naive model by itself: what must hold whatever comes in.

Drawn configurations, and the jobs of a benchmark.
"""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, strategies as st

from benchmarks.backlog import VARIANTS, configuration, trace
from muster_core.config import load_configuration
from muster_core.config.model import Configuration
from muster_core.decisions import Decision, Kind, Reason
from muster_core.events import Apply, Configure, UpdateNode
from muster_core.snapshots import AskPlace
from muster_core.values.configuration import LimitEntry
from tests.naive import gangs, node_choice, state
from tests.naive.back_off_strategies import back_offs
from tests.naive.device_strategies import device_configurations
from tests.naive.eviction_strategies import evictions
from tests.naive.gang_strategies import gang_scenarios
from tests.naive.gangs import group_of
from tests.naive.harness import Batch, Drive, Step, compare, run_plainly
from tests.naive.node_choice import fitting
from tests.naive.operator_strategies import faults, is_legal, operations, operator_configurations
from tests.naive.picture import Picture
from tests.naive.rounds import run_rounds
from tests.naive.scheduler import NaiveScheduler
from tests.naive.state import lineage, total_of
from tests.naive.strategies import configurations, scenarios, written
from tests.naive.theme import Choices, drawn, themed
from tests.share import share

_ANY = scenarios() | gang_scenarios() | evictions() | operations() | back_offs()


@share(0.12)
@given(scenarios())
def test_invariants_hold_after_every_batch(scenario: list[Step]) -> None:
    Drive(NaiveScheduler(), _Checks().after).run(scenario)


@share(0.12)
@given(gang_scenarios())
def test_invariants_hold_with_gangs_after_every_batch(scenario: list[Step]) -> None:
    Drive(NaiveScheduler(), _Checks(gangs=True).after).run(scenario)


@share(0.12)
@given(evictions())
def test_invariants_hold_with_evictions_after_every_batch(scenario: list[Step]) -> None:
    Drive(NaiveScheduler(), _Checks(gangs=True).after).run(scenario)


@share(0.12)
@given(back_offs())
def test_invariants_hold_with_back_offs_after_every_batch(scenario: list[Step]) -> None:
    Drive(NaiveScheduler(), _Checks(gangs=True).after).run(scenario)


@share(0.12)
@given(operations())
def test_invariants_hold_with_an_operator_after_every_batch(scenario: list[Step]) -> None:
    Drive(NaiveScheduler(), _Checks(gangs=True).after).run(scenario)


@share(0.12)
@given(_ANY)
def test_the_same_scenario_gives_the_same_log(scenario: list[Step]) -> None:
    first, second = (Drive(NaiveScheduler()).run(scenario) for _ in range(2))
    assert first == second


@attrs.define
class _Checks:
    """Checks a model after each batch against its log so far."""

    gangs: bool = False
    held: dict[str, str | None] = attrs.field(factory=dict[str, str | None])
    bound: set[str] = attrs.field(factory=set[str])
    satisfied: set[str | None] = attrs.field(factory=set[str | None])
    priorities: dict[str | None, int | None] = attrs.field(factory=dict[str | None, int | None])
    apps: dict[str | None, str | None] = attrs.field(factory=dict[str | None, str | None])
    shrunk: bool = False

    def after(self, model: NaiveScheduler, batch: Batch) -> None:
        changes = (Configure, UpdateNode, Apply)
        self.shrunk |= any(isinstance(entry, changes) for at, entry in batch.entries if at)
        self._log_tells_the_state(model, batch)
        _every_ask_is_in_one_place(model)
        _tree_is_whole(model)
        _gangs_are_whole(model, batch.at_us)
        _limits_are_those_of_its_group(model)
        _who_keeps_a_node_waits_for_it(model)
        if not self.gangs:
            _nothing_more_fits(model)
        if not self.shrunk:
            _nothing_is_over_its_limits(model)
            _nobody_is_over_a_limit(model)
            _no_service_was_a_victim(model, batch)

    def _log_tells_the_state(self, model: NaiveScheduler, batch: Batch) -> None:
        for decision in batch.decisions:
            self._follow(decision)
        assert {name: self.held[name] for name in self.bound} == dict(model.bound)
        assert self.held == dict(model.bound + model.waiting)
        for path, queue in model.queues.items():
            assert self.priorities.get(path) == queue.priority, path
        self.priorities = {path: queue.priority for path, queue in model.queues.items()}
        for name, app in model.apps.items():
            assert self.apps[name] == app.state
        self.satisfied = {None} | {name for name, gang in model.gangs.items() if gang.satisfied}

    def _follow(self, decision: Decision) -> None:
        name = f"{decision.app}/{decision.ask}"
        match decision.kind:
            case Kind.ASSIGNED:
                assert name not in self.held
                self.held[name] = decision.node
            case Kind.WAITING:
                assert self.held[name] == decision.node
            case Kind.BOUND:  # A pod that runs already comes bound.
                assert self.held.setdefault(name, decision.node) == decision.node
                assert decision.gang in {*self.satisfied, None}, "bound before it is satisfied"
                self.bound.add(name)
            case Kind.RELEASED:
                assert self.held.pop(name, None) == decision.node
                self.bound.discard(name)
            case Kind.GANG_SATISFIED:
                self.satisfied.add(decision.gang)
            case Kind.QUEUE_PRIORITY:
                self.priorities[decision.queue] = decision.priority
            case Kind.APP_STATE:
                self._follow_state(decision.app, decision.state)
            case _:
                pass

    def _follow_state(self, app: str | None, state: str | None) -> None:
        before = self.apps.get(app)
        allowed: dict[str, set[str | None]] = {
            "New": {None, "Completed", before},
            "Accepted": {"New"},
            "Starting": {"Accepted"},
            "Running": {"Accepted", "Starting", "Completing"},
            "Completing": {"Accepted", "Starting", "Running"},
            "Completed": {"Completing"},
        }
        assert before in allowed[str(state)], (before, state)
        self.apps[app] = state


def _every_ask_is_in_one_place(model: NaiveScheduler) -> None:
    held = model.bound + model.waiting
    names = [name for name, _ in held] + [*model.pending, *model.parked]
    assert sorted(names) == sorted(f"{ask.app.name}/{ask.name}" for ask in model.world.asks())
    assert all(node in model.world.nodes for _, node in held)
    assert all((ask.node is not None) == ask.held for ask in model.world.asks())
    assert all(app.state != "Completed" or not app.asks for app in model.world.apps.values())


def _tree_is_whole(model: NaiveScheduler) -> None:
    world = model.world
    for path, queue in world.queues.items():
        assert all(above in world.queues for above in lineage(path))
        assert queue.is_parent or not world.children(path)
        assert world.below(path) or not (queue.dynamic or queue.draining)
    for app in world.in_queues():
        assert not world.queues[app.queue].is_parent


def _gangs_are_whole(model: NaiveScheduler, at_us: int) -> None:
    for name, gang in model.gangs.items():
        assert gang.definition is not None or not gang.waiting
        assert gang.definition is not None or gang.pending or gang.bound or gang.parked
        there = gang.pending or gang.bound or gang.parked or gang.waiting
        assert there or not (gang.satisfied or gang.timed_out), "as new"
        assert (gang.since_us is not None) == bool(gang.waiting)
        assert gang.since_us is None or gang.since_us <= at_us
        assert not gang.satisfied or not gang.waiting, "a satisfied gang's members are bound"
        assert gang.timed_out or not gang.parked
        assert not (gang.timed_out and gang.satisfied)
        assert not gang.timed_out or not (gang.pending or gang.waiting)
        group = group_of(model.world, name)
        assert group.satisfied or not gangs.permitted(model.world, group)
        if gang.waiting and group.strict:
            assert gang.cycle_valid
    deadline = model.next_deadline()
    assert not any(gang.waiting for gang in model.gangs.values()) or deadline is not None


def _nothing_is_over_its_limits(model: NaiveScheduler) -> None:
    picture = Picture(model.world)
    for node in model.world.nodes.values():
        assert all(node.capacity[name] >= used for name, used in picture.used[node.name].items())
    for path, queue in model.world.queues.items():
        for name, used in picture.allocated[path].items():
            assert used <= queue.limits.get(name, used)


def _limits_are_those_of_its_group(model: NaiveScheduler) -> None:
    for app in model.world.in_queues():
        entries = [entry for path in lineage(app.queue) for entry in _entries(model, path)]
        limited = {name for entry in entries for name in entry.groups}
        assert app.counts_for in limited or app.counts_for is None
        assert app.counts_for in {*app.groups, "*", None}
        if app.counts_for is None:
            assert not limited & {*app.groups, "*"}


def _entries(model: NaiveScheduler, path: str) -> tuple[LimitEntry, ...]:
    return model.world.queues[path].entries


def _nobody_is_over_a_limit(model: NaiveScheduler) -> None:
    """No bind that a round decided, and no eviction, brought a user or a group above a limit."""
    for path in model.world.queues:
        apps = model.world.below(path)
        users = {app.user for app in apps}
        for entry in _entries(model, path):
            sums = [[app for app in apps if app.counts_for == name] for name in entry.groups]
            own = users & set(entry.users)
            if "*" in entry.users:
                own |= users - {name for one in _entries(model, path) for name in one.users}
            sums += [[app for app in apps if app.user == name] for name in own]
            for one in sums:
                held = total_of(ask for app in one for ask in app.held())
                assert all(held.get(name, 0) <= most for name, most in entry.max.amounts)


def _who_keeps_a_node_waits_for_it(model: NaiveScheduler) -> None:
    picture = Picture(model.world)
    for ask in model.world.asks():
        if ask.keeps:
            assert ask.place is AskPlace.PENDING
            assert ask.required is not None
    for node in model.world.nodes.values():
        for ask in node_choice.keepers(model.world, node):
            assert node_choice.is_service(model.world, ask)
            assert node_choice.lacks_only_room(picture, ask)


def _no_service_was_a_victim(model: NaiveScheduler, batch: Batch) -> None:
    for decision in batch.decisions:
        app = model.world.apps.get(decision.app or "")
        ask = None if app is None else app.asks.get(decision.ask or "")
        if decision.reason in {Reason.PREEMPTED, Reason.RECLAIMED} and ask is not None:
            assert not node_choice.is_service(model.world, ask)


def _nothing_more_fits(model: NaiveScheduler) -> None:
    before = model.bound
    run_rounds(model.world, 0)
    assert model.bound == before
    assert not model.world.log
    picture = Picture(model.world)
    for ask in state.awake(model.world, model.world.pending()):
        leaf = model.world.queues[ask.app.queue].settings
        if leaf.blocking or leaf.sort_policy == "stateaware" or picture.kept_out(ask.app):
            continue
        assert fitting(picture, ask) is None


@st.composite
def some_configurations(draw: st.DrawFn) -> list[Configuration]:
    choices: Choices = draw(drawn(24))
    return draw(configurations(themed(choices)))


@given(some_configurations())
def test_the_loader_makes_the_same_of_them(configs: list[Configuration]) -> None:
    _accepted(configs)


@given(operator_configurations())
def test_the_loader_makes_the_same_of_limits_and_rules(configs: list[Configuration]) -> None:
    _accepted(configs)


@share(0.3)
@given(device_configurations())
def test_the_loader_makes_the_same_of_orders_by_ask(configs: list[Configuration]) -> None:
    _accepted(configs)


@given(operator_configurations())
def test_no_limit_is_drawn_that_the_specification_refuses(configs: list[Configuration]) -> None:
    for config in configs:
        assert not faults(config.root)
        assert all(is_legal(rule, config.root) for rule in config.placement_rules)


def _accepted(configs: list[Configuration]) -> None:
    for config in configs:
        loaded = load_configuration(written(config))
        assert attrs.evolve(loaded, warnings=config.warnings) == config


@pytest.mark.parametrize(
    "name",
    [
        "a limit of 64 cores",
        pytest.param("depth 100 and a limit of 64 cores", marks=pytest.mark.takes_long),
    ],
)
def test_a_backlog_is_decided_as_by_the_plain_algorithm(name: str) -> None:
    # ROUND-10, BACKFILL-20, LIMIT-9
    few = attrs.evolve(VARIANTS[name], cores=32)
    steps = [Step(0, Configure(configuration(few)))]
    steps += [Step(at_us, event) for at_us, event in trace(0.007)]

    compare(steps, run_plainly)
