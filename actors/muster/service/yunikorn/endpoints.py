"""What each of YuniKorn's end points answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from muster.service.yunikorn import names
from muster.service.yunikorn.answers import TEXT, answer, answer_json, plain
from muster.service.yunikorn.objects import partitions, queues
from muster.service.yunikorn.objects.applications import application, completed
from muster.service.yunikorn.objects.health import health as health_of
from muster.service.yunikorn.objects.metrics import metrics as metrics_of
from muster.service.yunikorn.objects.nodes import (
    node as node_of,
    nodes as nodes_of,
    utilizations as utilizations_of,
)
from muster.service.yunikorn.objects.rules import rules as rules_of
from muster.service.yunikorn.objects.users import groups as groups_of, users as users_of
from muster.service.yunikorn.wrong import NoEndpoint, Wrong
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from starlette.responses import Response

    from muster.service.yunikorn.asked import Asked
    from muster.service.yunikorn.objects.forms import Made, Seen
    from muster_core.structures.steps import Steps
    from muster_core.view.tree.application import ViewApp

_ACTIVE: Final = "active"
_STATES: Final = (_ACTIVE, "completed", "rejected")
_STATUSES: Final = (
    "new",
    "accepted",
    "starting",
    "running",
    "completing",
    "failing",
    "resuming",
)


async def _told(asked: Asked, read: Callable[[Seen], Steps[Any]]) -> Response:
    """Return the response with what is read from the state."""
    return await answer_json(asked.request, await asked.look(read))


async def clusters(asked: Asked) -> Response:
    """Answer with the cluster."""

    def read(seen: Seen) -> Steps[list[Made]]:
        yield
        return partitions.clusters(seen)

    return await _told(asked, read)


async def all_partitions(asked: Asked) -> Response:
    """Answer with the partition."""
    return await _told(asked, partitions.partitions)


# Queues


async def tree(asked: Asked) -> Response:
    """Answer with all queues."""

    def read(seen: Seen) -> Steps[Made]:
        names.check_partition(seen, asked.names["p"])
        return (yield from queues.tree(seen))

    return await _told(asked, read)


async def queue(asked: Asked) -> Response:
    """Answer with one queue, and with those below it if that is asked for."""
    has_subtree = "subtree" in asked.request.query_params

    def read(seen: Seen) -> Steps[Made]:
        names.check_partition(seen, asked.names["p"])
        entry = names.queue_of(seen, asked.names["q"])
        if has_subtree:
            return (yield from queues.subtree(seen, entry))
        return queues.single(seen, entry)

    return await _told(asked, read)


# Applications


async def applications_of_queue(asked: Asked) -> Response:
    """Answer with the live applications of a leaf."""
    # REST-9
    written = asked.names["q"]
    path = _path_first(written)
    state = asked.names.get("state")

    def read(seen: Seen) -> Steps[list[Made]]:
        names.check_partition(seen, asked.names["p"])
        entry = seen.machine.registry.queues.get(path or names.path_of_queue(written))
        if entry is None:
            if "/" in written:
                raise NoEndpoint
            raise Wrong(404, "Queue not found")
        if state is not None and state.lower() != _ACTIVE:
            raise Wrong(400, f"the state must be {_ACTIVE}, and {state[:100]!r} is not")
        status = _status(asked) if state is not None else None
        leaf = seen.view.queues.get(entry.key)
        apps = list(leaf.apps.values()) if isinstance(leaf, LeafView) else []
        return (yield from _applications(seen, apps, status))

    return await _told(asked, read)


def _path_first(written: str) -> str | None:
    """Check the form of a queue's name; return its path, or None if it is not below the root."""
    try:
        return names.path_of_queue(written)
    except Wrong as wrong:
        if wrong.status == 400:
            raise
        return None


def _applications(seen: Seen, apps: list[ViewApp], status: str | None) -> Steps[list[Made]]:
    made: list[Made] = []
    for app in apps:
        if status is None or app.state.value.lower() == status:
            one = yield from application(seen, app)
            made.append(one)
    yield
    return made


def _status(asked: Asked) -> str | None:
    """Return the state of live applications that are wanted; None for all.

    Raises:
        Wrong: 400 if there is no such state.
    """
    written = asked.request.query_params.get("status")
    if not written:
        return None
    if written.lower() not in _STATUSES:
        right = ", ".join(_STATUSES)
        raise Wrong(400, f"status: {written[:100]!r} is none of {right}")
    return written.lower()


async def applications(asked: Asked) -> Response:
    """Answer with the applications of the partition that are live, completed, or rejected."""
    state = asked.names["state"].lower()

    def read(seen: Seen) -> Steps[list[Made]]:
        names.check_partition(seen, asked.names["p"])
        if state not in _STATES:
            right = ", ".join(_STATES)
            raise Wrong(400, f"the state {state[:100]!r} is none of {right}")
        if state == _ACTIVE:
            apps = list(seen.view.apps.values())
            return (yield from _applications(seen, apps, _status(asked)))
        yield
        if state == "completed":
            return [completed(seen, entry) for entry in seen.ledger.completed.values()]
        return []

    return await _told(asked, read)


async def one_application(asked: Asked) -> Response:
    """Answer with one live application, of the partition or of a queue."""
    written = asked.names.get("q")

    def read(seen: Seen) -> Steps[Made]:
        names.check_partition(seen, asked.names["p"])
        entry = None if written is None else names.queue_of(seen, written)
        key = seen.machine.registry.locate(asked.names["a"])
        app = None if key is None else seen.view.apps.get(key)
        if app is None or (entry is not None and app.identity.leaf != entry.key):
            raise Wrong(404, "Application not found")
        return (yield from application(seen, app))

    return await _told(asked, read)


# Nodes


async def nodes(asked: Asked) -> Response:
    """Answer with all nodes."""

    def read(seen: Seen) -> Steps[list[Made]]:
        names.check_partition(seen, asked.names["p"])
        return (yield from nodes_of(seen))

    return await _told(asked, read)


async def one_node(asked: Asked) -> Response:
    """Answer with one node."""

    def read(seen: Seen) -> Steps[Made]:
        yield
        names.check_partition(seen, asked.names["p"])
        found = seen.view.nodes.nodes.get(asked.names["n"])
        if found is None:
            raise Wrong(404, "Node not found")
        return node_of(seen, found)

    return await _told(asked, read)


async def utilizations(asked: Asked) -> Response:
    """Answer with how many nodes are used how much."""
    return await _told(asked, utilizations_of)


# The rest


async def rules(asked: Asked) -> Response:
    """Answer with the placement rules."""

    def read(seen: Seen) -> Steps[list[Made]]:
        yield
        names.check_partition(seen, asked.names["p"])
        return rules_of(seen.machine.configuration)

    return await _told(asked, read)


async def users(asked: Asked) -> Response:
    """Answer with what users have, or one of them."""
    written = asked.names.get("u")
    if written is None:
        return await _told(asked, users_of)
    user = names.twice(written)
    for one in await asked.look(users_of):
        if one["userName"] == user:
            return await answer_json(asked.request, one)
    names.check_user(user)
    raise Wrong(404, "User not found")


async def groups(asked: Asked) -> Response:
    """Answer with what groups have, or one of them."""
    written = asked.names.get("g")
    if written is None:
        return await _told(asked, groups_of)
    group = names.twice(written)
    for one in await asked.look(groups_of):
        if one["groupName"] == group:
            return await answer_json(asked.request, one)
    names.check_group(group)
    raise Wrong(404, "Group not found")


async def health(asked: Asked) -> Response:
    """Answer with the checks of the state."""
    return await _told(asked, health_of)


async def history_of_apps(asked: Asked) -> Response:
    """Answer with how many applications ran."""
    return await _history(asked, containers=False)


async def history_of_containers(asked: Asked) -> Response:
    """Answer with how many asks held a node."""
    return await _history(asked, containers=True)


async def _history(asked: Asked, *, containers: bool) -> Response:
    now_us = asked.now_us

    def read(seen: Seen) -> Steps[list[Made]]:
        yield
        return partitions.history(seen, now_us, containers=containers)

    return await _told(asked, read)


async def metrics(asked: Asked) -> Response:
    """Answer with the metrics."""
    text = await asked.look(metrics_of)
    media = "text/plain; version=0.0.4; charset=utf-8"
    return await answer(asked.request, text.encode(), media=media)


async def to_dump(asked: Asked) -> Response:
    """Answer with where the state dump is."""
    return _moved(asked, "/debug/fullstatedump")


async def to_stack(asked: Asked) -> Response:
    """Answer with where the stacks are."""
    return _moved(asked, "/debug/stack")


def _moved(asked: Asked, path: str) -> Response:
    del asked
    return plain("", 301, {"Location": path, "Content-Type": TEXT})
