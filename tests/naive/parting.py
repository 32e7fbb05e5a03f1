"""Where the ways from the root to two asks part, and by which key one goes before the other."""

from __future__ import annotations

from typing import Final, final

import attrs

from muster_core.config.model import SortPolicy
from tests.naive import order
from tests.naive.picture import Picture
from tests.naive.state import App, Ask, lineage

Keys = dict[str, object]

NUMBERS: Final = frozenset({"queue.priority", "currentPriority", "priority"})
"""The keys that say the same to everybody; of others each has its own wording."""


@final
@attrs.frozen
class Parting:
    """Where two ways part.

    Attributes:
        at: The path of the queue, or the name of the application.
        own: The child that leads to the ask: the path of a queue, or a name.
        other: The child that leads to the ask that goes first.
        key: The first key of the order in which these differ.
        values: That key of both, where it is a whole number by itself.
    """

    at: str
    own: str
    other: str
    key: str
    values: tuple[int, int] | None = None


def parting(picture: Picture, ask: Ask, first: Ask) -> Parting | None:
    """Say where the way to an ask parts from that to the first; None if they are the same."""
    if ask is first:
        return None
    if ask.app is first.app:
        keys = _ask_keys(picture, ask), _ask_keys(picture, first)
        return _at(ask.app.name, (ask.name, first.name), keys)
    if ask.app.queue == first.app.queue:
        keys = _app_keys(picture, ask.app), _app_keys(picture, first.app)
        return _at(ask.app.queue, (ask.app.name, first.app.name), keys)
    own, other = _split(ask.app.queue, first.app.queue)
    at = own.rpartition(".")[0]
    keys = _queue_keys(picture, at, own), _queue_keys(picture, at, other)
    return _at(at, (own, other), keys)


def _split(path: str, other: str) -> tuple[str, str]:
    """Give the queues right below the one where two paths meet."""
    ways = zip(reversed(lineage(path)), reversed(lineage(other)), strict=False)
    return next((mine, theirs) for mine, theirs in ways if mine != theirs)


def _at(at: str, names: tuple[str, str], keys: tuple[Keys, Keys]) -> Parting:
    own, other = keys
    key = next(name for name in own if own[name] != other[name])
    values = None
    if key in NUMBERS:
        values = (int(str(own[key])), int(str(other[key])))
    return Parting(at, *names, key, values)


def _queue_keys(picture: Picture, parent: str, path: str) -> Keys:
    queue = picture.world.queues[path]
    keys: Keys = {}
    if picture.world.queues[parent].settings.sort_by_priority:
        keys["queue.priority"] = queue.settings.queue_priority
        keys["currentPriority"] = picture.queue_priority(path)
    keys["share"] = picture.fair_share(path)
    keys["pending"] = picture.pending_share(path)
    keys["path"] = path
    return keys


def _app_keys(picture: Picture, app: App) -> Keys:
    settings = picture.world.queues[app.queue].settings
    keys: Keys = {}
    if settings.sort_by_priority:
        keys["priority"] = picture.app_priority(app)
    if settings.sort_policy is SortPolicy.FAIR:
        keys["usage"] = picture.usage(app)
    keys["creation"] = app.creation
    return keys


def _ask_keys(picture: Picture, ask: Ask) -> Keys:
    return {
        "priority": ask.priority,
        "creation": order.ask_creation(picture, ask),
        "gang": ask.gang or "",
        "submission": ask.creation,
        "number": ask.number,
    }
