"""The rounds: which ask is placed next, and where (SPEC section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.decisions import Decision, Kind, Reason
from muster_core.lifecycle import Trigger, next_state
from muster_core.messages import Allocation, Ask, CommitApp, CommitQueue, Values
from muster_core.totals import add_to, take_from
from muster_core.view.queues import VISIT, LeafView, ParentView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from muster_core.nodes import Node
    from muster_core.view.apps import ViewApp
    from muster_core.view.state import ViewState


@final
class Rounds:
    """Runs rounds on the view.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        self._binds = 0
        #: The leaves that were found blocked in this round.
        self._blocked: list[LeafView] = []
        #: The applications of which an ask was tried in this round and is pending still.
        self._tried: dict[int, ViewApp] = {}
        #: What this batch decided, for the owners.
        self._bound: dict[int, list[Allocation]] = {}
        self._failed: dict[int, list[str]] = {}

    def decide(self, now_us: int) -> Iterator[list[Decision]]:
        """Run rounds until one changes nothing.

        Args:
            now_us: The instant of the batch, in microseconds.

        Yields:
            What each step decided; between two steps the caller may do other things,
            but must not touch the view.
        """
        changed = True
        while changed:
            changed = False
            self._start_round()
            while True:
                self._state.refresh()
                if not self._state.root.open & (self._state.nodes.fitting | VISIT):
                    break
                decisions = self._step(now_us)
                changed = changed or bool(decisions)
                yield decisions
        self._start_round()
        self._state.refresh()

    def _start_round(self) -> None:
        for leaf in self._blocked:
            leaf.blocked = False
            self._state.dirty[leaf.key] = leaf
        self._blocked.clear()
        for app in self._tried.values():
            app.start_round()
            self._state.list_app(app)
        self._tried.clear()

    def _step(self, now_us: int) -> list[Decision]:
        """Try the best ask; nothing is decided if that only showed that a leaf is blocked."""
        mask = self._state.nodes.fitting | VISIT
        queue = self._state.root
        mask &= queue.open
        while isinstance(queue, ParentView):
            queue = queue.first(mask)
            mask &= queue.open
        assert isinstance(queue, LeafView), "a queue is a parent or a leaf"
        chosen = queue.choose(mask)
        if chosen is None:
            queue.blocked = True
            self._blocked.append(queue)
            self._state.dirty[queue.key] = queue
            return []
        app, bit, ask = chosen
        node = self._state.nodes.find(bit)
        assert node is not None, "chose an ask that fits no node"
        decisions = [self._say(Kind.ASSIGNED, queue, app, ask, node)]
        if app.spoilt.get(ask.name):
            decisions.append(self._fail(queue, app, ask, bit, node))
        else:
            decisions.extend(self._bind(queue, app, ask, node, now_us))
        return decisions

    def _fail(self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int, node: Node) -> Decision:
        """Give up an assignment whose bind fails: the ask stays pending, tried in this round."""
        app.spoilt[ask.name] -= 1
        self._failed.setdefault(app.identity.key, []).append(ask.name)
        app.tried(ask, bit)
        self._tried[app.identity.key] = app
        self._state.list_app(app)
        return self._say(Kind.RELEASED, leaf, app, ask, node, Reason.BIND_FAILED)

    def _bind(
        self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node, now_us: int
    ) -> Iterator[Decision]:
        self._binds += 1
        allocation = Allocation(ask, node.name, self._binds)
        spoilt = app.spoilt.pop(ask.name, None)
        assert not spoilt, "bound an ask whose bind is to fail"
        self._state.remove_pending(app, ask)
        app.bound[ask.name] = (allocation, node)
        add_to(app.allocated, ask.resources)
        self._state.nodes.take(node, ask.resources, app.identity.key)
        for queue in leaf.upward():
            take_from(queue.pending, ask.resources)
            add_to(queue.allocated, ask.resources)
        self._bound.setdefault(app.identity.key, []).append(allocation)
        self._state.timers.bound(app, allocation, now_us)
        yield self._say(Kind.BOUND, leaf, app, ask, node)
        before = app.state
        after = next_state(before, Trigger.ASK_BOUND, skip_starting=app.identity.skip_starting)
        if after is not before:
            self._state.enter(app, leaf, after, now_us)
            yield Decision(
                Kind.APP_STATE, app=app.identity.name, queue=leaf.config.path, state=after.value
            )
        self._state.list_app(app)

    @staticmethod
    def _say(
        kind: Kind, leaf: LeafView, app: ViewApp, ask: Ask, node: Node, reason: Reason | None = None
    ) -> Decision:
        return Decision(
            kind,
            app=app.identity.name,
            ask=ask.name,
            node=node.name,
            queue=leaf.config.path,
            reason=reason,
        )

    def commits(self) -> tuple[dict[int, CommitApp], dict[int, CommitQueue]]:
        """Give what the batch decided, for each application and each queue concerned, once."""
        apps: dict[int, CommitApp] = {}
        children: dict[int, dict[int, Values]] = {}
        for key in sorted(self._bound.keys() | self._failed.keys()):
            apps[key] = CommitApp(tuple(self._bound.get(key, ())), tuple(self._failed.get(key, ())))
        for key in sorted(self._bound):
            app = self._state.apps[key]
            children.setdefault(app.identity.leaf, {})[key] = app.values()
        for key in list(children):
            for queue in self._state.queues[key].upward():
                siblings = (
                    None if queue.parent is None else children.setdefault(queue.parent.key, {})
                )
                if siblings is None or queue.key in siblings:
                    break
                siblings[queue.key] = queue.values()
        self._bound.clear()
        self._failed.clear()
        return apps, {key: CommitQueue(values) for key, values in children.items()}
