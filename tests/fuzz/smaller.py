"""Making a scenario small that shows a difference: what is not needed for it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs

from muster_core.config.model import Configuration, QueueConfig
from muster_core.errors import EventError
from muster_core.events import AddApp, AddAsk, AddGang, AddNode, Configure
from tests.naive.config_strategies import settings_of
from tests.naive.harness import Step, What

Fails = Callable[[Sequence[Step]], bool]

_SHAPED: Final = (AddApp, AddAsk, AddNode)
_NEEDED: Final = frozenset({"app", "ask", "queue", "resources", "node", "capacity", "says", "gang"})
_OPTIONAL: Final = frozenset({"gang", "node"})


def smallest(scenario: Sequence[Step], fails: Fails) -> list[Step]:
    """Give a scenario that still fails, and of which no single part can be left out.

    Args:
        scenario: A scenario that fails.
        fails: Says whether a scenario does.
    """
    steps = list(scenario)
    while True:
        shorter = _simpler(_shorter(steps, fails), fails)
        if shorter == steps:
            return steps
        steps = shorter


def _shorter(steps: list[Step], fails: Fails) -> list[Step]:
    """Leave out runs of steps, the long ones first."""
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps):
            without = steps[:at] + steps[at + size :]
            if fails(without):
                steps = without
            else:
                at += size
        size //= 2
    return steps


def _simpler(steps: list[Step], fails: Fails) -> list[Step]:
    """Make single steps say less."""
    for at in range(len(steps)):
        for _ in range(100):
            step = steps[at]
            tries = (
                [*steps[:at], Step(step.at_us, what), *steps[at + 1 :]] for what in _less(step)
            )
            found = next((one for one in tries if fails(one)), None)
            if found is None:
                break
            steps = found
    return steps


def _less(step: Step) -> Iterator[What]:
    """Give what a step could say instead that is simpler, one thing at a time."""
    what = step.what
    if isinstance(what, Configure):
        for config in _less_of(what.config):
            yield attrs.evolve(what, config=config)
    elif isinstance(what, _SHAPED):
        for field in attrs.fields(type(what)):
            needed = field.name in _NEEDED and not (
                isinstance(what, AddAsk) and field.name in _OPTIONAL
            )
            default = _default(field)
            if not needed and getattr(what, field.name) != default:
                with suppress(EventError):  # An ask that wants nothing else needs its devices.
                    yield _evolved(what, field.name, default)
    elif isinstance(what, AddGang):
        for name in ("total", "wait_us", "mode", "groups", "topology"):
            if getattr(what.says, name) is not None:
                yield attrs.evolve(what, says=attrs.evolve(what.says, **{name: None}))


def _evolved(what: AddApp | AddAsk | AddNode, name: str, value: Any) -> What:  # noqa: ANN401 - of any field
    return attrs.evolve(what, **{name: value})


def _default(field: attrs.Attribute[Any]) -> object:
    made = getattr(field.default, "factory", None)
    return field.default if made is None else made()


def _less_of(config: Configuration) -> Iterator[Configuration]:
    plain = Configuration(config.partition, config.root)
    for field in attrs.fields(Configuration):
        if getattr(config, field.name) != getattr(plain, field.name):
            yield attrs.evolve(config, **{field.name: getattr(plain, field.name)})
    for root in _less_of_queue(config.root):
        yield attrs.evolve(config, root=_resolved(root))


def _less_of_queue(queue: QueueConfig) -> Iterator[QueueConfig]:
    for at, child in enumerate(queue.children):
        rest = (queue.children[:at], queue.children[at + 1 :])
        yield attrs.evolve(queue, children=(*rest[0], *rest[1]))
        for less in _less_of_queue(child):
            yield attrs.evolve(queue, children=(*rest[0], less, *rest[1]))
    for at in range(len(queue.own_properties)):
        own = queue.own_properties
        yield attrs.evolve(queue, own_properties=own[:at] + own[at + 1 :])
    plain = QueueConfig(queue.name, queue.path, queue.is_parent)
    for name in ("guaranteed", "max", "max_applications", "template", "submit_acl", "limits"):
        if getattr(queue, name) != getattr(plain, name):
            yield attrs.evolve(queue, **{name: getattr(plain, name)})


def _resolved(root: QueueConfig) -> QueueConfig:
    """Give a tree the settings that its properties say."""

    def again(queue: QueueConfig, above: QueueConfig | None) -> QueueConfig:
        settings = settings_of(
            dict(queue.own_properties), queue.path, None if above is None else above.settings
        )
        queue = attrs.evolve(queue, settings=settings)
        return attrs.evolve(queue, children=tuple(again(one, queue) for one in queue.children))

    return again(root, None)
