"""What each of YuniKorn's end points answers: objects, events, configuration and dumps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar, cast, final

import attrs
import trio
from starlette.responses import Response

from muster.config_files import MAX_FILE_BYTES, parse_configuration
from muster.service.ledger.reconciliation import note_queues, tell_reasons
from muster.service.payloads import body_of
from muster.service.queries.reader import ReadContext, read_state
from muster.service.yunikorn import protocol
from muster.service.yunikorn.objects import partitions, settings
from muster.service.yunikorn.objects.applications import (
    application,
    completed,
    node as node_of,
    nodes as nodes_of,
    utilizations as utilizations_of,
)
from muster.service.yunikorn.objects.diagnostics import (
    everything,
    health as health_of,
    metrics as metrics_of,
    stacks,
)
from muster.service.yunikorn.objects.partitions import groups as groups_of, users as users_of
from muster.service.yunikorn.objects.values import Made, YuniKornState
from muster.service.yunikorn.protocol import (
    TEXT,
    YAML,
    EventLines,
    NoEndpoint,
    Streams,
    YuniKornError,
    answer,
    answer_json,
    batch,
    plain,
)
from muster_core.config.model import Configuration
from muster_core.errors import ConfigError, Problem
from muster_core.structures.steps import Steps
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from starlette.requests import Request

    from muster.service.state import Service


T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class YuniKornRequest:
    """A request.

    Attributes:
        service: The service.
        streams: The streams of events that are open.
        request: The request.
        names: The parts of the path that are names, decoded once.
    """

    service: Service
    streams: Streams
    request: Request
    names: Mapping[str, str]

    async def look(self, read: Callable[[YuniKornState], Steps[T]]) -> T:
        """Read the state between two batches.

        Args:
            read: Reads it in steps.

        Raises:
            Wrong: What ``read`` raises.
            ClosedSchedulerError: If the scheduler is closed.
        """
        service = self.service

        def reading(looking: ReadContext) -> Steps[T]:
            machine, ledger, cluster = looking.machine, looking.ledger, service.options.cluster
            return read(
                YuniKornState(machine, ledger, service.origin_us, service.started_us, cluster)
            )

        return (await read_state(service, reading)).value

    @property
    def now_us(self) -> int:
        """The present instant, in microseconds since the origin."""
        return self.service.now_us()


_ACTIVE: Final = "active"
_STATES: Final = (_ACTIVE, "completed", "rejected")
_STATUSES: Final = ("new", "accepted", "starting", "running", "completing", "failing", "resuming")


Handler = Callable[[YuniKornRequest], Awaitable["Response"]]


def from_state(
    read: Callable[[YuniKornRequest, YuniKornState], object], *, checks: bool = True
) -> Handler:
    """Return the handler that answers with what is read from the state, at once or in steps.

    Args:
        read: Reads it.
        checks: Whether the partition in the path has to be the one that there is.
    """

    async def handler(asked: YuniKornRequest) -> Response:
        def look(seen: YuniKornState) -> Steps[object]:
            yield
            if checks and "p" in asked.names:
                protocol.check_partition(seen, asked.names["p"])
            found = read(asked, seen)
            if not isinstance(found, Generator):
                return found
            return (yield from cast("Steps[object]", found))

        return await answer_json(asked.request, await asked.look(look))

    return handler


def _only(of: Callable[[YuniKornState], object], *, checks: bool = True) -> Handler:
    """Return the handler that answers with what only the state decides."""
    return from_state(lambda _, seen: of(seen), checks=checks)


clusters: Final = _only(partitions.clusters)
all_partitions: Final = _only(partitions.partitions)
tree: Final = _only(partitions.tree)
nodes: Final = _only(nodes_of)
utilizations: Final = _only(utilizations_of)
rules: Final = _only(lambda seen: partitions.rules(seen.machine.configuration))
all_users: Final = _only(users_of, checks=False)
all_groups: Final = _only(groups_of, checks=False)
health: Final = _only(health_of)
history_of_apps: Final = from_state(
    lambda asked, seen: partitions.history(seen, asked.now_us, containers=False)
)
history_of_containers: Final = from_state(
    lambda asked, seen: partitions.history(seen, asked.now_us, containers=True)
)


# Queues


@from_state
def queue(asked: YuniKornRequest, seen: YuniKornState) -> Steps[Made] | Made:
    """Answer with one queue, and with those below it if that is asked for."""
    entry = protocol.queue_of(seen, asked.names["q"])
    if "subtree" in asked.request.query_params:
        return partitions.subtree(seen, entry)
    return partitions.single(seen, entry)


# Applications


async def applications_of_queue(asked: YuniKornRequest) -> Response:
    """Answer with the live applications of a leaf."""
    # REST-9
    written = asked.names["q"]
    path = _path_first(written)
    state = asked.names.get("state")

    @from_state
    def answer_with(asked: YuniKornRequest, seen: YuniKornState) -> Steps[list[Made]]:
        entry = seen.machine.registry.queues.get(path or protocol.path_of_queue(written))
        if entry is None:
            if "/" in written:
                raise NoEndpoint
            raise YuniKornError(404, "Queue not found")
        if state is not None and state.lower() != _ACTIVE:
            raise YuniKornError(400, f"the state must be {_ACTIVE}, and {state[:100]!r} is not")
        status = _status(asked) if state is not None else None
        leaf = seen.view.queues.get(entry.key)
        apps = list(leaf.apps.values()) if isinstance(leaf, LeafView) else []
        return _applications(seen, apps, status)

    return await answer_with(asked)


def _path_first(written: str) -> str | None:
    """Check the form of a queue's name; return its path, or None if it is not below the root."""
    try:
        return protocol.path_of_queue(written)
    except YuniKornError as wrong:
        if wrong.status == 400:
            raise
        return None


def _applications(
    seen: YuniKornState, apps: list[ViewApp], status: str | None
) -> Steps[list[Made]]:
    made: list[Made] = []
    for app in apps:
        if status is None or app.state.value.lower() == status:
            one = yield from application(seen, app)
            made.append(one)
    yield
    return made


def _status(asked: YuniKornRequest) -> str | None:
    """Return the state of live applications that are wanted; None for all.

    Raises:
        Wrong: 400 if there is no such state.
    """
    written = asked.request.query_params.get("status")
    if not written:
        return None
    if written.lower() not in _STATUSES:
        right = ", ".join(_STATUSES)
        raise YuniKornError(400, f"status: {written[:100]!r} is none of {right}")
    return written.lower()


@from_state
def applications(asked: YuniKornRequest, seen: YuniKornState) -> Steps[list[Made]] | list[Made]:
    """Answer with the applications of the partition that are live, completed, or rejected."""
    state = asked.names["state"].lower()
    if state not in _STATES:
        right = ", ".join(_STATES)
        raise YuniKornError(400, f"the state {state[:100]!r} is none of {right}")
    if state == _ACTIVE:
        return _applications(seen, list(seen.view.apps.values()), _status(asked))
    if state == "completed":
        return [completed(seen, entry) for entry in seen.ledger.completed.values()]
    return []


@from_state
def one_application(asked: YuniKornRequest, seen: YuniKornState) -> Steps[Made]:
    """Answer with one live application, of the partition or of a queue."""
    written = asked.names.get("q")
    entry = None if written is None else protocol.queue_of(seen, written)
    key = seen.machine.registry.locate(asked.names["a"])
    app = None if key is None else seen.view.apps.get(key)
    if app is None or (entry is not None and app.identity.leaf != entry.key):
        raise YuniKornError(404, "Application not found")
    return application(seen, app)


@from_state
def one_node(asked: YuniKornRequest, seen: YuniKornState) -> Made:
    """Answer with one node."""
    found = seen.view.nodes.nodes.get(asked.names["n"])
    if found is None:
        raise YuniKornError(404, "Node not found")
    return node_of(seen, found)


# Users and groups


async def users(asked: YuniKornRequest) -> Response:
    """Answer with one user."""
    user = protocol.twice(asked.names["u"])
    for one in await asked.look(users_of):
        if one["userName"] == user:
            return await answer_json(asked.request, one)
    protocol.check_user(user)
    raise YuniKornError(404, "User not found")


async def groups(asked: YuniKornRequest) -> Response:
    """Answer with one group."""
    group = protocol.twice(asked.names["g"])
    for one in await asked.look(groups_of):
        if one["groupName"] == group:
            return await answer_json(asked.request, one)
    protocol.check_group(group)
    raise YuniKornError(404, "Group not found")


async def metrics(asked: YuniKornRequest) -> Response:
    """Answer with the metrics."""
    text = await asked.look(metrics_of)
    media = "text/plain; version=0.0.4; charset=utf-8"
    return await answer(asked.request, text.encode(), media=media)


async def to_dump(asked: YuniKornRequest) -> Response:
    """Answer with where the state dump is."""
    return _moved(asked, "/debug/fullstatedump")


async def to_stack(asked: YuniKornRequest) -> Response:
    """Answer with where the stacks are."""
    return _moved(asked, "/debug/stack")


def _moved(asked: YuniKornRequest, path: str) -> Response:
    del asked
    return plain("", 301, {"Location": path, "Content-Type": TEXT})


MOST: Final = 10_000
"""How many events an answer has at most."""


# REST-16
async def events(asked: YuniKornRequest) -> Response:
    """Answer with some of the events."""
    start, count = _number(asked, "start", 0), _number(asked, "count", MOST)
    if not count:
        raise YuniKornError(400, "count: must be above 0")
    ledger = asked.service.ledger

    def read(seen: YuniKornState) -> Steps[None]:
        yield
        if ledger.book.queues_changed:
            note_queues(ledger, seen.machine)
        yield from tell_reasons(ledger, seen.machine)

    await asked.look(read)
    ring = ledger.ring
    found = None
    if ring.lowest <= start <= ring.highest:
        found = ring.since(start, min(count, MOST))
    return await answer_json(asked.request, batch(ring, found, asked.service.origin_us))


async def event_stream(asked: YuniKornRequest) -> Response:
    """Answer with the latest events, and each that follows."""
    service = asked.service
    count = _number(asked, "count", 0)
    host = asked.request.headers.get("host", "")
    return EventLines(asked.streams, service.ledger.ring, service.origin_us, host, count)


def _number(asked: YuniKornRequest, name: str, default: int) -> int:
    """Return a number of the query.

    Raises:
        Wrong: 400 if it is none.
    """
    written = asked.request.query_params.get(name)
    if written is None:
        return default
    if not (written.isascii() and written.isdecimal()) or len(written) > 20:
        raise YuniKornError(400, f"{name}: {written[:100]!r} is not a whole number from 0 on")
    return int(written)


# REST-22
async def configuration(asked: YuniKornRequest) -> Response:
    """Answer with the configuration in force: YAML, or JSON if exactly that is accepted."""
    text = await _text(asked)
    if asked.request.headers.get("accept") == "application/json":
        return await answer_json(
            asked.request, await trio.to_thread.run_sync(settings.as_map, text)
        )
    body = await trio.to_thread.run_sync(settings.as_yaml, text)
    return await answer(asked.request, body.encode(), media=YAML)


async def _text(asked: YuniKornRequest) -> str:
    """Return the text of the configuration in force."""

    def read(seen: YuniKornState) -> Steps[Configuration]:
        yield
        return seen.machine.configuration

    config = await asked.look(read)
    options = asked.service.options

    def find() -> str:
        file = None
        if options.config is not None:
            try:
                with options.config.open("rb") as stream:
                    file = stream.read(MAX_FILE_BYTES + 1)
            except OSError:
                file = None  # It is gone, or may not be read any more.
        return settings.text_of(config, file, options.partition)

    return await trio.to_thread.run_sync(find)


# REST-22
async def validation(asked: YuniKornRequest) -> Response:
    """Answer whether a configuration would be taken; nothing changes."""
    body = await body_of(asked.request)
    partition = asked.service.options.partition

    def check() -> Made:
        try:
            if body.strip():
                parse_configuration(body, partition=partition)
        except ConfigError as error:
            reason = "\n".join(_problem_text(problem) for problem in error.problems)
            return {"allowed": False, "reason": reason}
        text = body.decode("utf-8", "surrogateescape")
        return {
            "allowed": True,
            "checksum": settings.checksum(text),
            "checksumMatch": settings.has_its_checksum(text),
        }

    return await answer_json(asked.request, await trio.to_thread.run_sync(check))


def _problem_text(problem: Problem) -> str:
    """Return what is wrong with a configuration, and in which line; it has no file."""
    place = "" if problem.line is None else f"line {problem.line}: "
    return place + str(attrs.evolve(problem, line=None))


# REST-23
async def dump(asked: YuniKornRequest) -> Response:
    """Answer with everything."""
    now_us = asked.now_us

    def read(seen: YuniKornState) -> Steps[Made]:
        return everything(seen, now_us)

    made = await asked.look(read)
    text = await _text(asked)
    made["logLevel"] = "INFO"
    made["config"] = await trio.to_thread.run_sync(settings.as_map, text)
    made["eventStreams"] = asked.streams.as_maps()
    return await answer_json(asked.request, made)


async def stack(asked: YuniKornRequest) -> Response:
    """Answer with what each thread does."""
    return await answer(asked.request, stacks().encode(), media=TEXT)
