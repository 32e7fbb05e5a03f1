"""A directory of names, and what it says in short."""

from __future__ import annotations

from itertools import count

import pytest

from muster_core.admission.registry import Registry
from muster_core.admission.routes import Route, StartApp, StartQueue, TellApp, TellQueue
from muster_core.config import default_configuration
from muster_core.config.model import Configuration
from muster_core.errors import RefusedError
from muster_core.events import (
    AddApp,
    AddAsk,
    AddPriorityClass,
    Configure,
    FailBind,
    Release,
    RemoveApp,
    RemoveAsk,
)
from muster_core.owners.asks import Origin

Admissible = (
    AddApp | AddAsk | AddPriorityClass | Configure | FailBind | Release | RemoveApp | RemoveAsk
)


class Names:
    """A directory with a counter of events."""

    def __init__(self, config: Configuration | None = None) -> None:
        self.registry = Registry(config or default_configuration())
        self._seq = count(1)

    def enter(self, event: Admissible) -> list[Route]:
        routes = self.registry.handle(event, Origin(next(self._seq)))
        self.registry.check()
        return routes

    def refused(self, event: Admissible) -> str:
        """Check that an event is refused and changes nothing; give the message."""
        before = self.picture()
        with pytest.raises(RefusedError) as refusal:
            self.registry.handle(event, Origin(next(self._seq)))
        assert self.picture() == before
        self.registry.check()
        return str(refusal.value)

    def picture(self) -> object:
        queues = {
            path: (entry.key, entry.config, entry.dynamic, entry.draining, entry.apps)
            for path, entry in self.registry.queues.items()
        }
        return queues, self.registry.apps(), self.registry.completed.seen()

    def add_app(self, name: str, path: str, **fields: str) -> list[Route]:
        return self.enter(AddApp(name, path, **fields))  # type: ignore[arg-type]

    def draining(self) -> list[str]:
        return [path for path, entry in self.registry.queues.items() if entry.draining]

    def paths(self) -> list[str]:
        return sorted(self.registry.queues)


def short(routes: list[Route]) -> list[str]:
    """Give routes in short: ``+2 root.a``, ``2 Retire``, ``app 5 Enlist``."""
    lines: list[str] = []
    for route in routes:
        match route:
            case StartQueue():
                lines.append(f"+{route.key} {route.config.path}")
            case TellQueue():
                lines.append(f"{route.key} {type(route.message).__name__}")
            case StartApp():
                lines.append(f"+app {route.identity.key}")
            case TellApp():
                lines.append(f"app {route.key} {type(route.message).__name__}")
    return lines
