"""What the tests of the view share: a small tree, and decisions in short."""

from __future__ import annotations

from muster_core.config.model import Configuration
from muster_core.decisions import Decision, Kind
from tests.core.building import configuration, queue
from tests.core.tree import Tree


def props(**properties: str) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in properties.items()}


BLOCKING = props(application_sort_blocking="enabled")


def tree(*nodes: str, config: Configuration | None = None, **capacity: int) -> Tree:
    made = Tree(config or configuration(queue("a"), queue("b")))
    made.add_nodes(*nodes, **(capacity or {"vcore": 10}))
    return made


def told(decisions: list[Decision]) -> list[str]:
    """Give decisions in short: ``bound p/x n``, ``p Starting``, ``root.a 5``."""
    lines: list[str] = []
    for one in decisions:
        if one.kind is Kind.APP_STATE:
            lines.append(f"{one.app} {one.state}")
        elif one.kind is Kind.QUEUE_PRIORITY:
            lines.append(f"{one.queue} {one.priority}")
        else:
            lines.append(" ".join(filter(None, (one.kind, f"{one.app}/{one.ask}", one.node))))
    return lines
