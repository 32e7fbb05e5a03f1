"""The work of a crash run: gangs and single asks, some urgent, drawn from a seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, final

import attrs

Way = Literal["call", "command", "deaf"]

QUEUES: Final = """
partitions:
  - name: default
    queues:
      - name: root
        queues:
          - {name: batch}
          - {name: web, properties: {preemption.delay: 0s}}
"""

_WAYS: Final[tuple[Way, ...]] = ("call", "command", "call", "command", "deaf")

URGENT: Final = "urgent"
"""The priority class that preempts others."""


@final
@attrs.frozen
class Plan:
    """The plan of one crash run, in a file, since the service is started again and again.

    Attributes:
        seed: Where all is drawn from.
        tasks: The number of asks.
        over_s: Over how many seconds they are submitted.
        address: The address of Ray's head.
        python: The Python of the agent.
        folder: Where the files of everything are.
        detached: Whether runs outlive the service.
    """

    seed: int
    tasks: int
    over_s: float
    address: str
    python: str
    folder: str
    detached: bool

    def save(self, file: Path) -> None:
        """Write it to a file."""
        file.write_text(json.dumps(attrs.asdict(self)), encoding="utf-8")

    @staticmethod
    def load(file: Path) -> Plan:
        """Read it from a file."""
        return Plan(**json.loads(file.read_text(encoding="utf-8")))

    @property
    def store(self) -> Path:
        """The state directory."""
        return Path(self.folder, "state")

    @property
    def runs(self) -> Path:
        """The folder where runs write."""
        return Path(self.folder, "runs")

    @property
    def bound(self) -> Path:
        """The file with the bound members and their nodes."""
        return Path(self.folder, "bound")

    @property
    def submitted(self) -> Path:
        """The file with the submitted units."""
        return Path(self.folder, "submitted")


@final
@attrs.frozen
class Unit:
    """A gang, or a single ask: an application of its own.

    Attributes:
        app: Its name.
        size: The number of asks.
        vcore: How many cores each takes.
        seconds: How long each works.
        way: How it works; ``deaf`` is a command that ignores SIGTERM.
        is_urgent: Whether it preempts others.
        at_s: When it is submitted, in seconds from the start.
    """

    app: str
    size: int
    vcore: int
    seconds: float
    way: Way
    is_urgent: bool
    at_s: float

    def asks(self) -> list[str]:
        """Return the names of its asks."""
        return [f"m-{n}" for n in range(self.size)]

    def events(self) -> Iterator[dict[str, Any]]:
        """Return the events of the unit, which are submitted together."""
        options: dict[str, Any] = {}
        if self.size > 1:
            yield {"op": "add_gang", "gang": self.app, "min_member": self.size}
            options["gang"] = self.app
        if self.is_urgent:
            options["priority_class"] = URGENT
        yield {
            "op": "add_app",
            "app": self.app,
            "queue": "root.web" if self.is_urgent else "root.batch",
        }
        for ask in self.asks():
            amounts = {"vcore": self.vcore}
            yield {"op": "add_ask", "app": self.app, "ask": ask, "resources": amounts, **options}


def units_of(plan: Plan) -> list[Unit]:
    """Draw the units of work."""
    draw = random.Random(plan.seed)
    units: list[Unit] = []
    left = plan.tasks
    while left > 0:
        size = min(left, draw.choice((1, 1, 1, 1, 2, 2, 3, 4)))
        units.append(
            Unit(
                app=f"{'gang' if size > 1 else 'alone'}-{len(units)}",
                size=size,
                vcore=draw.choice((1, 1, 1, 2)) if size < 3 else 1,
                seconds=round(draw.uniform(0.1, 1.0) ** 2 * 2, 3),
                way=draw.choice(_WAYS),
                is_urgent=size == 1 and draw.random() < 0.15,
                at_s=(plan.tasks - left) / plan.tasks * plan.over_s,
            )
        )
        left -= size
    return units
