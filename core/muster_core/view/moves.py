"""How asks get to nodes and away from them: the steps that all decisions are made of.

Each step keeps the view right, takes note of what the owners are to be told, and says
what goes into the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from muster_core.decisions import Decision, Kind, Reason
from muster_core.gang_messages import CommitGang, MemberKey
from muster_core.gangs.states import GangTrigger
from muster_core.lifecycle import Trigger, next_state
from muster_core.messages import Allocation, Ask, CommitApp, CommitQueue, Values
from muster_core.snapshots import AskPlace
from muster_core.totals import add_to, take_from
from muster_core.view.gangs import Hold
from muster_core.view.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from muster_core.nodes import Node
    from muster_core.view.apps import ViewApp
    from muster_core.view.gangs import ViewGang
    from muster_core.view.queues import LeafView
    from muster_core.view.state import ViewState


@final
class Moves:
    """Moves asks.

    Args:
        state: The view.
    """

    def __init__(self, state: ViewState) -> None:
        self._state = state
        #: What the rounds did in this batch, as far as they have to know.
        self.memory = Memory()
        #: Whether a bind failed in this round.
        self.failed = False
        #: The applications of which an ask was tried in this round and is pending still.
        self._tried: dict[int, ViewApp] = {}
        #: The applications whose place in their leaf may be another one.
        self._unlisted: dict[int, ViewApp] = {}
        #: What this batch decided, for the owners.
        self._bound: dict[int, list[Allocation]] = {}
        self._failed: dict[int, list[str]] = {}
        #: The members of gangs that were moved, by application, with what they held at first.
        self._members: dict[int, dict[str, Allocation | None]] = {}
        self._satisfied: set[str] = set()

    # What was tried

    def start_round(self) -> None:
        """Let everything be untried."""
        for app in self._tried.values():
            app.start_round()
            self._unlisted[app.identity.key] = app
        self._tried.clear()
        self.failed = False
        self.list_apps()

    def tried(self, app: ViewApp, ask: Ask, bit: int) -> None:
        """Take note that a pending ask was tried in this round."""
        app.tried(ask, bit)
        self._tried[app.identity.key] = app
        self._unlisted[app.identity.key] = app

    def list_apps(self) -> None:
        """Bring the places of the applications up to date of which something has changed."""
        self._unlisted.update(self._state.book.refresh())
        for app in self._unlisted.values():
            self._state.list_app(app)
        self._unlisted.clear()

    # Plain asks

    def fail(self, leaf: LeafView, app: ViewApp, ask: Ask, bit: int, node: Node) -> Decision:
        """Give up an assignment whose bind fails: the ask stays pending, tried in this round."""
        self._spend_failure(app, ask)
        self.tried(app, ask, bit)
        return say(Kind.RELEASED, leaf, app, ask, node.name, Reason.BIND_FAILED)

    def bind(
        self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node, now_us: int
    ) -> Iterator[Decision]:
        """Bind a pending ask."""
        state = self._state
        state.shapes.release(state.remove_pending(app, ask))
        self._use(leaf, app, ask, node)
        self.memory.note(app.identity.key, ask.name, None, (True, node.name))
        return self._enter_bound(leaf, app, ask, node, now_us)

    def _spend_failure(self, app: ViewApp, ask: Ask) -> None:
        app.spoilt[ask.name] -= 1
        if not app.spoilt[ask.name]:
            del app.spoilt[ask.name]
        self._failed.setdefault(app.identity.key, []).append(ask.name)
        self.failed = True

    def _enter_bound(
        self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node, now_us: int
    ) -> Iterator[Decision]:
        allocation = Allocation(ask, node.name, self._next_number())
        app.bound[ask.name] = (allocation, node)
        if ask.gang is not None:
            self._state.gangs[ask.gang].bound += 1
            self._touch(app, ask, None)
        self._bound.setdefault(app.identity.key, []).append(allocation)
        self._state.timers.bound(app, allocation, now_us)
        self._unlisted[app.identity.key] = app
        yield say(Kind.BOUND, leaf, app, ask, node.name)
        before = app.state
        after = next_state(before, Trigger.ASK_BOUND, skip_starting=app.identity.skip_starting)
        if after is not before:
            self._state.enter(app, leaf, after, now_us)
            yield Decision(
                Kind.APP_STATE, app=app.identity.name, queue=leaf.config.path, state=after.value
            )

    def _use(self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node) -> None:
        add_to(app.allocated, ask.resources)
        self._state.nodes.take(node, ask.resources, app.identity.key)
        for queue in leaf.upward():
            take_from(queue.pending, ask.resources)
            add_to(queue.allocated, ask.resources)

    def _next_number(self) -> int:
        self._state.numbers += 1
        return self._state.numbers

    # Members of gangs

    def hold(self, leaf: LeafView, app: ViewApp, ask: Ask, node: Node) -> None:
        """Let a pending member wait on a node."""
        self._state.remove_pending(app, ask)
        self._take(leaf, app, Allocation(ask, node.name, self._next_number()), node)

    def take_again(self, hold: Hold) -> None:
        """Let a member wait as it did before it was let go."""
        self._state.remove_pending(hold.app, hold.allocation.ask)
        self._take(self._state.leaf_of(hold.app), hold.app, hold.allocation, hold.node)

    def _take(self, leaf: LeafView, app: ViewApp, allocation: Allocation, node: Node) -> None:
        ask = allocation.ask
        self._touch(app, ask, None)
        self._use(leaf, app, ask, node)
        self._state.begin_wait(app, allocation, node)
        self.memory.note(app.identity.key, ask.name, None, (False, node.name))
        self._unlisted[app.identity.key] = app

    def let_go(self, hold: Hold) -> None:
        """Let a waiting member be pending again."""
        app, ask, node = hold.app, hold.allocation.ask, hold.node
        self._touch(app, ask, hold.allocation)
        self._state.end_wait(app, ask)
        take_from(app.allocated, ask.resources)
        self._state.nodes.give_back(node, ask.resources, app.identity.key)
        for queue in self._state.leaf_of(app).upward():
            take_from(queue.allocated, ask.resources)
            add_to(queue.pending, ask.resources)
        bit = self._state.shapes.find(ask.shape)
        assert bit is not None, "the shape of a waiting ask is not in the table"
        self._state.add_pending(app, ask, bit)
        self.memory.note(app.identity.key, ask.name, (False, node.name), None)
        self._unlisted[app.identity.key] = app

    def release(self, hold: Hold, reason: Reason) -> Decision:
        """Let a waiting member be pending again, and say so."""
        self.let_go(hold)
        leaf = self._state.leaf_of(hold.app)
        return say(Kind.RELEASED, leaf, hold.app, hold.allocation.ask, hold.node.name, reason)

    def bind_all(self, gangs: list[ViewGang], holds: list[Hold], now_us: int) -> Iterator[Decision]:
        """Bind waiting members in one step, and let their gangs be satisfied.

        Args:
            gangs: The gangs that become satisfied.
            holds: Who is bound, in order.
            now_us: The instant of the batch, in microseconds.
        """
        for gang in gangs:
            self._state.book.touch(gang.name).trigger(GangTrigger.GROUP_BOUND)
            self._satisfied.add(gang.name)
            yield Decision(Kind.GANG_SATISFIED, gang=gang.name)
        for hold in holds:
            yield from self._bind_hold(hold, now_us)

    def _bind_hold(self, hold: Hold, now_us: int) -> Iterator[Decision]:
        app, ask, node = hold.app, hold.allocation.ask, hold.node
        leaf = self._state.leaf_of(app)
        if app.spoilt.get(ask.name):
            yield self.release(hold, Reason.BIND_FAILED)
            self._spend_failure(app, ask)
            bit = self._state.shapes.find(ask.shape)
            assert bit is not None, "the shape of a pending ask is not in the table"
            self.tried(app, ask, bit)
            return
        self._touch(app, ask, hold.allocation)
        self._state.end_wait(app, ask)
        self._state.release_shape(ask)
        self.memory.note(app.identity.key, ask.name, (False, node.name), (True, node.name))
        yield from self._enter_bound(leaf, app, ask, node, now_us)

    def _touch(self, app: ViewApp, ask: Ask, held: Allocation | None) -> None:
        self._members.setdefault(app.identity.key, {}).setdefault(ask.name, held)

    # For the owners

    def commits(
        self, now_us: int
    ) -> tuple[dict[int, CommitApp], dict[int, CommitQueue], dict[int, CommitGang]]:
        """Give what the batch decided, for each owner concerned, once."""
        keys = sorted(self._bound.keys() | self._failed.keys() | self._members.keys())
        apps = {key: self._commit_app(key) for key in keys}
        queues = self._commit_queues(sorted(self._bound.keys() | self._members.keys()))
        gangs = self._commit_gangs(now_us)
        self._bound.clear()
        self._failed.clear()
        self._members.clear()
        self._satisfied.clear()
        return apps, queues, gangs

    def _commit_app(self, key: int) -> CommitApp:
        app = self._state.apps[key]
        released: list[str] = []
        waiting: list[Allocation] = []
        for name, before in self._members.get(key, {}).items():
            now = app.waiting[name][0] if name in app.waiting else None
            if now is before or (now is not None and now == before):
                continue
            if before is not None and name not in app.bound:
                released.append(name)
            if now is not None:
                waiting.append(now)
        return CommitApp(
            bound=tuple(self._bound.get(key, ())),
            failed=tuple(self._failed.get(key, ())),
            released=tuple(released),
            waiting=tuple(sorted(waiting, key=lambda allocation: allocation.number)),
        )

    def _commit_queues(self, keys: Iterable[int]) -> dict[int, CommitQueue]:
        children: dict[int, dict[int, Values]] = {}
        for key in keys:
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
        return {key: CommitQueue(values) for key, values in children.items()}

    def commit_cycles(self) -> dict[int, CommitGang]:
        """Give the cycles that owners do not know of, between two batches."""
        gangs = self._state.gangs
        changed = sorted(self._state.book.changed_cycles() & gangs.keys())
        return {
            gangs[name].key: CommitGang(
                moves=(),
                satisfied=False,
                cycle_valid=gangs[name].cycle_valid,
                since_us=gangs[name].since_us,
            )
            for name in changed
        }

    def _commit_gangs(self, now_us: int) -> dict[int, CommitGang]:
        state = self._state
        concerned = self._satisfied | state.book.set_waits(now_us)
        moves: dict[str, list[tuple[int, MemberKey, AskPlace]]] = {}
        for key, names in self._members.items():
            app = state.apps[key]
            for name, before in names.items():
                gang_name, number, place = _place_of(app, name)
                if place is AskPlace.PENDING and before is None:
                    continue
                if before is not None and before.number == number:
                    continue  # It was tried what would be if it were let go.
                member = MemberKey(key, app.identity.name, name)
                moves.setdefault(gang_name, []).append((number, member, place))
        concerned |= moves.keys() | state.book.changed_cycles()
        commits: dict[int, CommitGang] = {}
        for gang in (state.gangs[name] for name in sorted(concerned & state.gangs.keys())):
            moved = sorted(moves.get(gang.name, ()), key=lambda move: move[0])
            commits[gang.key] = CommitGang(
                moves=tuple((member, place) for _, member, place in moved),
                satisfied=gang.name in self._satisfied,
                cycle_valid=gang.cycle_valid,
                since_us=gang.since_us,
            )
        return commits


def _place_of(app: ViewApp, name: str) -> tuple[str, int, AskPlace]:
    """Give the gang of a member, its number and its place."""
    if name in app.pending:
        ask, number, place = app.pending[name], 0, AskPlace.PENDING
    else:
        waits = name in app.waiting
        allocation, _ = app.waiting[name] if waits else app.bound[name]
        ask, number = allocation.ask, allocation.number
        place = AskPlace.WAITING if waits else AskPlace.BOUND
    assert ask.gang is not None, "what is no member of a gang was moved as one"
    return ask.gang, number, place


def say(
    kind: Kind, leaf: LeafView, app: ViewApp, ask: Ask, node: str, reason: Reason | None = None
) -> Decision:
    """Make a decision about an ask."""
    return Decision(
        kind,
        app=app.identity.name,
        ask=ask.name,
        node=node,
        queue=leaf.config.path,
        gang=ask.gang,
        reason=reason,
    )
