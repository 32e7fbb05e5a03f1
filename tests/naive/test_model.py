"""The naive model by itself: what must hold whatever comes in."""

from __future__ import annotations

import attrs
from hypothesis import given

from muster_core.decisions import Decision, Kind
from muster_core.events import Configure, UpdateNode
from tests.naive.harness import Batch, Drive, Step
from tests.naive.picture import Picture
from tests.naive.rounds import first_node, run_rounds
from tests.naive.scheduler import NaiveScheduler
from tests.naive.state import lineage
from tests.naive.strategies import scenarios


@given(scenarios())
def test_invariants_hold_after_every_batch(scenario: list[Step]) -> None:
    Drive(NaiveScheduler(), _Checks().after).run(scenario)


@given(scenarios())
def test_the_same_scenario_gives_the_same_log(scenario: list[Step]) -> None:
    first, second = (Drive(NaiveScheduler()).run(scenario) for _ in range(2))
    assert first == second


@attrs.define
class _Checks:
    """Checks a model after each batch against what its log has said so far."""

    bound: dict[str, str | None] = attrs.field(factory=dict[str, str | None])
    priorities: dict[str | None, int | None] = attrs.field(factory=dict[str | None, int | None])
    apps: dict[str | None, str | None] = attrs.field(factory=dict[str | None, str | None])
    shrunk: bool = False

    def after(self, model: NaiveScheduler, batch: Batch) -> None:
        changes = (Configure, UpdateNode)
        self.shrunk |= any(isinstance(entry, changes) for _, entry in batch.entries)
        self._log_tells_the_state(model, batch)
        _every_ask_is_in_one_place(model)
        _tree_is_whole(model)
        _nothing_more_fits(model)
        if not self.shrunk:
            _nothing_is_over_its_limits(model)

    def _log_tells_the_state(self, model: NaiveScheduler, batch: Batch) -> None:
        for decision in batch.decisions:
            self._follow(decision)
        assert dict(model.bound) == self.bound
        for path, queue in model.queues.items():
            assert self.priorities.get(path) == queue.priority, path
        for name, app in model.apps.items():
            assert self.apps[name] == app.state

    def _follow(self, decision: Decision) -> None:
        name = f"{decision.app}/{decision.ask}"
        match decision.kind:
            case Kind.BOUND:
                assert name not in self.bound
                self.bound[name] = decision.node
            case Kind.RELEASED:
                assert self.bound.pop(name, decision.node) == decision.node
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
    assert not model.pending & {name for name, _ in model.bound}
    assert all(node in model.world.nodes for _, node in model.bound)
    assert all(app.state != "Completed" or not app.asks for app in model.world.apps.values())


def _tree_is_whole(model: NaiveScheduler) -> None:
    world = model.world
    for path, queue in world.queues.items():
        assert all(above in world.queues for above in lineage(path))
        assert queue.is_parent or not world.children(path)
        assert world.below(path) or not (queue.dynamic or queue.draining)
    for app in world.in_queues():
        assert not world.queues[app.queue].is_parent


def _nothing_is_over_its_limits(model: NaiveScheduler) -> None:
    picture = Picture(model.world)
    for node in model.world.nodes.values():
        assert all(node.capacity[name] >= used for name, used in picture.used[node.name].items())
    for path, queue in model.world.queues.items():
        for name, used in picture.allocated[path].items():
            assert used <= queue.limits.get(name, used)


def _nothing_more_fits(model: NaiveScheduler) -> None:
    before = model.bound
    run_rounds(model.world, 0)
    assert model.bound == before
    assert not model.world.log
    picture = Picture(model.world)
    for ask in model.world.pending():
        leaf = model.world.queues[ask.app.queue].settings
        if leaf.blocking or leaf.sort_policy == "stateaware" or picture.kept_out(ask.app):
            continue
        assert not picture.fits_headroom(ask) or first_node(picture, ask) is None
