"""A service without its tasks: what is kept, and what every list of it said after each batch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from pathlib import Path
from typing import final

from muster.service.ask_index import AskIndex
from muster.service.endpoints.schemas import row_of
from muster.service.input.leases import Leases
from muster.service.ledger.ledger import Ledger
from muster.service.ledger.reconciliation import note_queues
from muster.service.queries.apps import APPS, GANGS, AppFilter, GangRow, row_of_app, select_apps
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.asks import ASKS
from muster.service.queries.nodes import NODES, NodeRow
from muster.service.queries.queues import QUEUES, QueueRow
from muster.service.queries.reader import ReadContext
from muster.store import StateReader
from muster_core.coordinator.coordinator import CoordinatorMachine
from muster_core.events import Event
from muster_core.structures.steps import all_at_once
from tests.actors.kept import Keeper, batches
from tests.naive.harness import Step

Shown = dict[str, list[object]]
"""The rows of every list."""


def shown(looking: ReadContext) -> Shown:
    """Return the rows of every list, with all their fields."""
    view, machine = looking.view, looking.machine
    apps = all_at_once(select_apps(looking, AppFilter(), None, 10**9))
    asks = all_at_once(select_asks(looking, AskFilter(), None, 10**9))
    queues, gangs, nodes = machine.registry.queues, view.gangs, view.nodes.nodes
    return {
        "queues": [
            row_of(QUEUES.picked(None, single=True), QueueRow.of(looking, queues[path]))
            for path in sorted(queues)
        ],
        "apps": [row_of(APPS.picked(None, single=True), row_of_app(looking, app)) for app in apps],
        "asks": [row_of(ASKS.picked(None, single=True), ask) for ask in asks],
        "gangs": [
            row_of(GANGS.picked(None, single=True), GangRow(looking, gangs[name]))
            for name in sorted(gangs)
        ],
        "nodes": [
            row_of(NODES.picked(None, single=True), NodeRow(looking, nodes[name]))
            for name in sorted(nodes)
        ],
        "state": [machine.configuration, machine.batches, looking.now_us, *_heard(looking.ledger)],
    }


def _heard(ledger: Ledger) -> Sequence[object]:
    history, counts = ledger.book.history, ledger.book.counts
    ran = [history.apps, history.containers, list(history.points)]
    samples = [
        ledger.samples(ledger.at_us, 0, hourly=False),
        ledger.samples(ledger.at_us, 0, hourly=True),
    ]
    known = [[*ledger.book.completed], [*ledger.book.refused], [*ledger.book.lives.kept]]
    used = ledger.accounts().since(0, ledger.at_us)
    return [ledger.batch, ledger.at_us, ledger.seq, *known, used, ran, deepcopy((counts, samples))]


@final
class Live:
    """Lets in batches and keeps them; its ledger hears of each, as that of a service does.

    Args:
        directory: The state directory.
        checkpoints: After how many batches of events each checkpoint is taken.

    Attributes:
        shown: What every list said after the last batch of each instant.
    """

    def __init__(self, directory: Path, checkpoints: Collection[int] = ()) -> None:
        self.keeper = Keeper(directory)
        self.shown: dict[int, Shown] = {}
        self.ledger, self._roll = Ledger(), AskIndex()
        all_at_once(self.ledger.load(()))
        self._index = self._runs = 0
        self._checkpoints = checkpoints
        self._reader = StateReader(directory)

    def run(self, at_us: int, events: Sequence[Event]) -> None:
        """Let in a batch, after the timers before it."""
        self.keeper.run(at_us, events)
        for batch in self._reader.batches(after=self.ledger.batch):
            said = (batch.number, batch.at_us, self._index, batch.events, batch.decisions)
            all_at_once(self.ledger.hear(*said))
            self._roll.hear(batch.events)
            self._index += batch.event_count
        note_queues(self.ledger, self.machine)
        self.shown[at_us] = shown(ReadContext(self.machine, self.ledger, self._roll))
        self._runs += 1
        if self._runs in self._checkpoints:
            self.keeper.checkpoint()
            self.keeper.companion([Leases().save(), *all_at_once(self.ledger.save())])

    @property
    def machine(self) -> CoordinatorMachine:
        """The machine."""
        return self.keeper.scheduler.machine

    def play(self, steps: Sequence[Step]) -> None:
        """Let in the batches of a scenario."""
        for at_us, events in batches(steps):
            self.run(at_us, events)

    def close(self) -> Path:
        """Close the directory and return it."""
        self._reader.close()
        return self.keeper.close()
