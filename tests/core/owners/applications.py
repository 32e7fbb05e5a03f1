"""An application and what a coordinator would tell it, for the tests of its machine."""

from __future__ import annotations

from itertools import count

from muster_core.decisions import Decision, Kind
from muster_core.events import AddAsk
from muster_core.owners.app_messages import (
    AddAsks,
    AppReport,
    AppRequest,
    Close,
    CommitApp,
    DecisionMade,
    Pending,
    ReleaseAsk,
    SpoilBinds,
    UndoBind,
    WithdrawAsk,
)
from muster_core.owners.application import ApplicationMachine
from muster_core.owners.asks import Allocation, Ask, Origin
from muster_core.values.application_states import AppState
from tests.core.building import allocation, identity


class Application:
    """An application and what a coordinator would tell it."""

    def __init__(self, *, skip_starting: bool = False) -> None:
        self.machine = ApplicationMachine(identity(skip_starting=skip_starting))
        self.asks: dict[str, Ask] = {}
        self.was_bound: dict[str, bool] = {}
        self._seq = count(10)
        self._epochs = count(1)
        self._binds = count(1)

    def origin(self) -> Origin:
        return Origin(next(self._seq), index=3, line=4)

    def close(self) -> AppReport:
        report = self.machine.handle(Close(next(self._epochs)))
        assert report is not None
        for action in report.actions:
            if isinstance(action, Pending):
                self.asks.update((ask.name, ask) for ask in action.asks)
                self.was_bound.update((ask.name, action.was_bound) for ask in action.asks)
        self.machine.check()
        return report

    def tell(self, *requests: AppRequest) -> AppReport:
        for request in requests:
            assert self.machine.handle(request) is None
        return self.close()

    def add(self, event: AddAsk) -> AppReport:
        return self.tell(AddAsks(self.origin(), event, event.priority or 0))

    def commit(
        self, *binds: str, failed: tuple[str, ...] = (), node: str = "n"
    ) -> list[Allocation]:
        held = [allocation(self.asks[ask], node, next(self._binds)) for ask in binds]
        assert self.machine.handle(CommitApp(tuple(held), failed)) is None
        self.machine.check()
        return held

    def withdraw(self, ask: str) -> AppReport:
        return self.tell(WithdrawAsk(self.origin(), ask))

    def release(self, ask: str) -> AppReport:
        return self.tell(ReleaseAsk(self.origin(), ask))

    def undo(self, ask: str) -> AppReport:
        return self.tell(UndoBind(self.origin(), ask))

    def spoil(self, ask: str, times: int = 1) -> AppReport:
        return self.tell(SpoilBinds(self.origin(), ask, times))

    def state(self) -> AppState:
        return self.machine.snapshot().state

    def refused(self, request: AppRequest) -> str:
        """Check that a request is refused and changes nothing; give the message."""
        before = (self.machine.snapshot(), self.machine.values())
        report = self.tell(request)
        (say,) = report.actions
        assert isinstance(say, DecisionMade)
        assert say.decision.kind is Kind.REJECTED
        assert (say.decision.index, say.decision.line) == (3, 4)
        assert (self.machine.snapshot(), self.machine.values(), report.credits) == (*before, 1)
        return say.decision.message or ""


def said(report: AppReport) -> list[Decision]:
    says = [action for action in report.actions if isinstance(action, DecisionMade)]
    return [say.decision for say in sorted(says, key=lambda say: say.order)]


def told(report: AppReport) -> list[str]:
    """Give what is said in short: ``released x n completed``, ``Accepted``."""
    return [
        decision.state
        or " ".join(filter(None, (decision.kind, decision.ask, decision.node, decision.reason)))
        for decision in said(report)
    ]
