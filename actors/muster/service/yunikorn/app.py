"""YuniKorn's end points: what each answers, their paths, and a port of their own with the web UI."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast, final

import attrs
import trio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route, compile_path
from starlette.staticfiles import StaticFiles

from muster.config_files import MAX_FILE_BYTES, parse_configuration
from muster.service.access import WHO, Role
from muster.service.ledger.reconciliation import note_queues, report_reasons
from muster.service.payloads import Problem, body_of
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
from muster.service.yunikorn.objects.values import JsonObject, YuniKornState
from muster.service.yunikorn.protocol import (
    TEXT,
    YAML,
    EventLines,
    NoEndpoint,
    Streams,
    YuniKornError,
    answer,
    answer_json,
    answer_wrong,
    batch,
    plain,
    wrong_response,
)
from muster_core.config.model import Configuration
from muster_core.errors import ConfigError, MusterError, Problem as ConfigProblem
from muster_core.structures.steps import Steps
from muster_core.view.tree.application import ViewApp
from muster_core.view.tree.leaf import LeafView

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from muster.service.state import Service


T = TypeVar("T")


@final
@attrs.frozen(eq=False)
class YuniKornRequest:
    """A request.

    Attributes:
        service: The service.
        streams: The streams of events that are open.
        http: The request as Starlette has it.
        names: The parts of the path that are names, decoded once.
    """

    service: Service
    streams: Streams
    http: Request
    names: Mapping[str, str]

    async def read_state(self, read: Callable[[YuniKornState], Steps[T]]) -> T:
        """Read the state between two batches.

        Args:
            read: Reads it in steps.

        Raises:
            YuniKornError: What ``read`` raises.
            ClosedSchedulerError: If the scheduler is closed.
        """
        service = self.service

        def reading(context: ReadContext) -> Steps[T]:
            machine, ledger, cluster = context.machine, context.ledger, service.options.cluster
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

    async def handler(request: YuniKornRequest) -> Response:
        def read_object(state: YuniKornState) -> Steps[object]:
            yield
            if checks and "p" in request.names:
                protocol.check_partition(state, request.names["p"])
            found = read(request, state)
            if not isinstance(found, Generator):
                return found
            return (yield from cast("Steps[object]", found))

        return await answer_json(request.http, await request.read_state(read_object))

    return handler


def _only(of: Callable[[YuniKornState], object], *, checks: bool = True) -> Handler:
    """Return the handler that answers with what only the state decides."""
    return from_state(lambda _, state: of(state), checks=checks)


clusters: Final = _only(partitions.clusters)
all_partitions: Final = _only(partitions.partitions)
tree: Final = _only(partitions.tree)
nodes: Final = _only(nodes_of)
utilizations: Final = _only(utilizations_of)
rules: Final = _only(lambda state: partitions.rules(state.machine.configuration))
all_users: Final = _only(users_of, checks=False)
all_groups: Final = _only(groups_of, checks=False)
health: Final = _only(health_of)
history_of_apps: Final = from_state(
    lambda request, state: partitions.history(state, request.now_us, containers=False)
)
history_of_containers: Final = from_state(
    lambda request, state: partitions.history(state, request.now_us, containers=True)
)


# Queues


@from_state
def queue(request: YuniKornRequest, state: YuniKornState) -> Steps[JsonObject] | JsonObject:
    """Answer with one queue, and with those below it if that is asked for."""
    entry = protocol.queue_of(state, request.names["q"])
    if "subtree" in request.http.query_params:
        return partitions.subtree(state, entry)
    return partitions.single(state, entry)


# Applications


async def applications_of_queue(request: YuniKornRequest) -> Response:
    """Answer with the live applications of a leaf."""
    # REST-9
    written = request.names["q"]
    path = _path_first(written)
    wanted_state = request.names.get("state")

    @from_state
    def answer_with(request: YuniKornRequest, state: YuniKornState) -> Steps[list[JsonObject]]:
        entry = state.machine.registry.queues.get(path or protocol.path_of_queue(written))
        if entry is None:
            if "/" in written:
                raise NoEndpoint
            raise YuniKornError(404, "Queue not found")
        if wanted_state is not None and wanted_state.lower() != _ACTIVE:
            raise YuniKornError(
                400, f"the state must be {_ACTIVE}, and {wanted_state[:100]!r} is not"
            )
        status = _status(request) if wanted_state is not None else None
        leaf = state.view.queues.get(entry.key)
        apps = list(leaf.apps.values()) if isinstance(leaf, LeafView) else []
        return _applications(state, apps, status)

    return await answer_with(request)


def _path_first(written: str) -> str | None:
    """Check the form of a queue's name; return its path, or None if it is not below the root."""
    try:
        return protocol.path_of_queue(written)
    except YuniKornError as wrong:
        if wrong.status == 400:
            raise
        return None


def _applications(
    state: YuniKornState, apps: list[ViewApp], status: str | None
) -> Steps[list[JsonObject]]:
    made: list[JsonObject] = []
    for app in apps:
        if status is None or app.state.value.lower() == status:
            one = yield from application(state, app)
            made.append(one)
    yield
    return made


def _status(request: YuniKornRequest) -> str | None:
    """Return the state of live applications that are wanted; None for all.

    Raises:
        YuniKornError: 400 if there is no such state.
    """
    written = request.http.query_params.get("status")
    if not written:
        return None
    if written.lower() not in _STATUSES:
        right = ", ".join(_STATUSES)
        raise YuniKornError(400, f"status: {written[:100]!r} is none of {right}")
    return written.lower()


@from_state
def applications(
    request: YuniKornRequest, state: YuniKornState
) -> Steps[list[JsonObject]] | list[JsonObject]:
    """Answer with the applications of the partition that are live, completed, or rejected."""
    wanted_state = request.names["state"].lower()
    if wanted_state not in _STATES:
        right = ", ".join(_STATES)
        raise YuniKornError(400, f"the state {wanted_state[:100]!r} is none of {right}")
    if wanted_state == _ACTIVE:
        return _applications(state, list(state.view.apps.values()), _status(request))
    if wanted_state == "completed":
        return [completed(state, entry) for entry in state.ledger.completed.values()]
    return []


@from_state
def one_application(request: YuniKornRequest, state: YuniKornState) -> Steps[JsonObject]:
    """Answer with one live application, of the partition or of a queue."""
    written = request.names.get("q")
    entry = None if written is None else protocol.queue_of(state, written)
    key = state.machine.registry.locate(request.names["a"])
    app = None if key is None else state.view.apps.get(key)
    if app is None or (entry is not None and app.identity.leaf != entry.key):
        raise YuniKornError(404, "Application not found")
    return application(state, app)


@from_state
def one_node(request: YuniKornRequest, state: YuniKornState) -> JsonObject:
    """Answer with one node."""
    found = state.view.nodes.nodes.get(request.names["n"])
    if found is None:
        raise YuniKornError(404, "Node not found")
    return node_of(state, found)


# Users and groups


async def users(request: YuniKornRequest) -> Response:
    """Answer with one user."""
    user = protocol.decoded_twice(request.names["u"])
    for one in await request.read_state(users_of):
        if one["userName"] == user:
            return await answer_json(request.http, one)
    protocol.check_user(user)
    raise YuniKornError(404, "User not found")


async def groups(request: YuniKornRequest) -> Response:
    """Answer with one group."""
    group = protocol.decoded_twice(request.names["g"])
    for one in await request.read_state(groups_of):
        if one["groupName"] == group:
            return await answer_json(request.http, one)
    protocol.check_group(group)
    raise YuniKornError(404, "Group not found")


async def metrics(request: YuniKornRequest) -> Response:
    """Answer with the metrics."""
    text = await request.read_state(metrics_of)
    media = "text/plain; version=0.0.4; charset=utf-8"
    return await answer(request.http, text.encode(), media=media)


async def to_dump(request: YuniKornRequest) -> Response:
    """Answer with where the state dump is."""
    return _redirect(request, "/debug/fullstatedump")


async def to_stack(request: YuniKornRequest) -> Response:
    """Answer with where the stacks are."""
    return _redirect(request, "/debug/stack")


def _redirect(request: YuniKornRequest, path: str) -> Response:
    del request
    return plain("", 301, {"Location": path, "Content-Type": TEXT})


MOST: Final = 10_000
"""How many events an answer has at most."""


# REST-16
async def events(request: YuniKornRequest) -> Response:
    """Answer with some of the events."""
    start, count = _number(request, "start", 0), _number(request, "count", MOST)
    if not count:
        raise YuniKornError(400, "count: must be above 0")
    ledger = request.service.ledger

    def read(state: YuniKornState) -> Steps[None]:
        yield
        if ledger.book.queues_changed:
            note_queues(ledger, state.machine)
        yield from report_reasons(ledger, state.machine)

    await request.read_state(read)
    ring = ledger.ring
    found = None
    if ring.lowest <= start <= ring.highest:
        found = ring.since(start, min(count, MOST))
    return await answer_json(request.http, batch(ring, found, request.service.origin_us))


async def event_stream(request: YuniKornRequest) -> Response:
    """Answer with the latest events, and each that follows."""
    service = request.service
    count = _number(request, "count", 0)
    host = request.http.headers.get("host", "")
    return EventLines(request.streams, service.ledger.ring, service.origin_us, host, count)


def _number(request: YuniKornRequest, name: str, default: int) -> int:
    """Return a number of the query.

    Raises:
        YuniKornError: 400 if it is none.
    """
    written = request.http.query_params.get(name)
    if written is None:
        return default
    if not (written.isascii() and written.isdecimal()) or len(written) > 20:
        raise YuniKornError(400, f"{name}: {written[:100]!r} is not a whole number from 0 on")
    return int(written)


# REST-22
async def configuration(request: YuniKornRequest) -> Response:
    """Answer with the configuration in force: YAML, or JSON if exactly that is accepted."""
    text = await _text(request)
    if request.http.headers.get("accept") == "application/json":
        return await answer_json(request.http, await trio.to_thread.run_sync(settings.as_map, text))
    body = await trio.to_thread.run_sync(settings.as_yaml, text)
    return await answer(request.http, body.encode(), media=YAML)


async def _text(request: YuniKornRequest) -> str:
    """Return the text of the configuration in force."""

    def read(state: YuniKornState) -> Steps[Configuration]:
        yield
        return state.machine.configuration

    config = await request.read_state(read)
    options = request.service.options

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
async def validation(request: YuniKornRequest) -> Response:
    """Answer whether a configuration would be taken; nothing changes."""
    body = await body_of(request.http)
    partition = request.service.options.partition

    def check() -> JsonObject:
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

    return await answer_json(request.http, await trio.to_thread.run_sync(check))


def _problem_text(problem: ConfigProblem) -> str:
    """Return what is wrong with a configuration, and in which line; it has no file."""
    place = "" if problem.line is None else f"line {problem.line}: "
    return place + str(attrs.evolve(problem, line=None))


# REST-23
async def dump(request: YuniKornRequest) -> Response:
    """Answer with everything."""
    now_us = request.now_us

    def read(state: YuniKornState) -> Steps[JsonObject]:
        return everything(state, now_us)

    made = await request.read_state(read)
    text = await _text(request)
    made["logLevel"] = "INFO"
    made["config"] = await trio.to_thread.run_sync(settings.as_map, text)
    made["eventStreams"] = request.streams.as_maps()
    return await answer_json(request.http, made)


async def stack(request: YuniKornRequest) -> Response:
    """Answer with what each thread does."""
    return await answer(request.http, stacks().encode(), media=TEXT)


_LOG: Final = logging.getLogger("muster.service")

_P: Final = "/ws/v1/partition/{p}"

PATHS: Final[Mapping[str, tuple[str, Handler]]] = {
    "/ws/v1/clusters": ("GET", clusters),
    "/ws/v1/partitions": ("GET", all_partitions),
    f"{_P}/queues": ("GET", tree),
    f"{_P}/queue/{{q}}": ("GET", queue),
    f"{_P}/queue/{{q}}/applications": ("GET", applications_of_queue),
    f"{_P}/queue/{{q}}/applications/{{state}}": ("GET", applications_of_queue),
    f"{_P}/queue/{{q}}/application/{{a}}": ("GET", one_application),
    f"{_P}/application/{{a}}": ("GET", one_application),
    f"{_P}/applications/{{state}}": ("GET", applications),
    f"{_P}/nodes": ("GET", nodes),
    f"{_P}/node/{{n}}": ("GET", one_node),
    f"{_P}/placementrules": ("GET", rules),
    f"{_P}/usage/users": ("GET", all_users),
    f"{_P}/usage/user/{{u}}": ("GET", users),
    f"{_P}/usage/groups": ("GET", all_groups),
    f"{_P}/usage/group/{{g}}": ("GET", groups),
    "/ws/v1/scheduler/healthcheck": ("GET", health),
    "/ws/v1/scheduler/node-utilizations": ("GET", utilizations),
    "/ws/v1/history/apps": ("GET", history_of_apps),
    "/ws/v1/history/containers": ("GET", history_of_containers),
    "/ws/v1/events/batch": ("GET", events),
    "/ws/v1/events/stream": ("GET", event_stream),
    "/ws/v1/config": ("GET", configuration),
    "/ws/v1/validate-conf": ("POST", validation),
    "/ws/v1/metrics": ("GET", metrics),
    "/ws/v1/fullstatedump": ("GET", to_dump),
    "/ws/v1/stack": ("GET", to_stack),
    "/debug/fullstatedump": ("GET", dump),
    "/debug/stack": ("GET", stack),
}
"""All end points: their paths, their methods, and what they answer."""

NOT_THERE: Final = "404 page not found\n"
"""The answer for a path of no end point."""

_ORIGIN: Final = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Headers": "X-Requested-With,Content-Type,Accept,Origin",
}


_ROUTES: Final = (
    *((compile_path(path)[0], method, handler) for path, (method, handler) in PATHS.items()),
    # The web UI writes a queue as it is, though its name may have slashes.
    (
        re.compile("/ws/v1/partition/(?P<p>[^/]+)/queue/(?P<q>[^/]+(/[^/]+)+)/applications$"),
        "GET",
        applications_of_queue,
    ),
)


def find(path: str) -> tuple[str, Handler, dict[str, str]] | None:
    """Return the method, the handler and the names of a path that is not decoded, or None."""
    for pattern, method, handler in _ROUTES:
        found = pattern.match(path)
        if found is not None:
            names = found.groupdict().items()
            return method, handler, {name: protocol.decoded_name(part) for name, part in names}
    return None


@final
class YuniKorn:
    """The ASGI application of all these end points.

    Args:
        service: Returns the running service.
    """

    def __init__(self, service: Callable[[], Service]) -> None:
        self._service = service
        self._streams: Streams | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive, send)
        response = await self._response(request)
        await response(scope, receive, send)

    # REST-1
    async def _response(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode("latin-1")
        found = find(path)
        if found is None:
            return _unknown_path(request, path)
        method, handler, parts = found
        service = self._service()
        allows_others = service.options.cors
        if request.method == "OPTIONS" and allows_others:
            response = plain("")
        elif request.method != method:
            response = plain("Method Not Allowed\n", 405, {"Allow": method})
        else:
            if self._streams is None:
                self._streams = Streams(service.usage.streams)
            response = await _respond(
                YuniKornRequest(service, self._streams, request, parts), handler
            )
        if allows_others:
            response.headers.update(_ORIGIN)
            methods = "GET, OPTIONS" if method == "GET" else f"OPTIONS, {method}"
            response.headers["Access-Control-Allow-Methods"] = methods
        return response


def _unknown_path(request: Request, path: str) -> Response:
    """Return the response for a path of no end point; one with a slash too many is redirected."""
    without = path.removesuffix("/")
    if without != path and find(without) is not None:
        query = request.scope["query_string"].decode("latin-1")
        return plain("", 301, {"Location": f"{without}?{query}" if query else without})
    return plain(NOT_THERE, 404)


async def _respond(request: YuniKornRequest, handler: Handler) -> Response:
    """Return the response of an end point, whatever happens."""
    http = request.http
    try:
        who = http.scope[WHO] = request.service.access.who(http)
        if who.role < Role.READER:
            raise YuniKornError(403, "this needs a token of a reader")
        return await handler(request)
    except YuniKornError as wrong:
        if isinstance(wrong.__cause__, Problem):
            request.service.usage.refusals.note(wrong.__cause__)
        return await answer_wrong(http, wrong)
    except NoEndpoint:
        return plain(NOT_THERE, 404)
    except Problem as problem:
        request.service.usage.refusals.note(problem)
        refused = YuniKornError(problem.status, problem.detail, headers=problem.headers)
        return await answer_wrong(http, refused)
    except MusterError as error:
        return await answer_wrong(http, YuniKornError(500, str(error)))
    except Exception:  # noqa: BLE001 - a bug in one answer must not end the service
        # The client gets no internals; the log has the traceback.
        _LOG.exception("%s %s", http.method, http.url.path)
        return await answer_wrong(http, YuniKornError(500, "the service has a bug here"))


# The style sheet of the UI is switched on by an inline event handler.
POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src-attr 'unsafe-inline'"
)


def routes(service: Callable[[], Service]) -> list[BaseRoute]:
    """Return the routes of YuniKorn's end points.

    Args:
        service: Returns the running service.
    """
    app = YuniKorn(service)
    return [Route("/ws/{path:path}", app), Route("/debug/{path:path}", app)]


# REST-1
def may_come_from_anywhere(scope: Scope) -> bool:
    """Return whether other web sites may send a request, if they may read these end points."""
    path: str = scope["path"]
    return path.startswith("/ws/")


# REST-3
def refusal(scope: Scope, problem: Problem) -> Response:
    """Return the response to a request that does not come to an end point.

    Args:
        scope: The request.
        problem: Why.
    """
    path: str = scope["path"]
    if not path.startswith(("/ws/", "/debug/")):
        return problem.response()
    return wrong_response(YuniKornError(problem.status, problem.detail, headers=problem.headers))


# REST-25
def make_site(service: Callable[[], Service], folder: Path | None) -> Starlette:
    """Return the application of the port of its own.

    Args:
        service: Returns the running service.
        folder: The folder with the built web UI, or None.
    """
    found = routes(service)
    if folder is not None:
        files = StaticFiles(directory=folder, html=True)
        found.append(Mount("/", _with_policy(files)))
    return Starlette(routes=found, exception_handlers={HTTPException: _site_error})


async def _site_error(request: Request, error: Exception) -> Response:
    """Return the response for a path where there is nothing, or a method that is none there."""
    del request
    assert isinstance(error, HTTPException), f"{error!r} is handled here"
    text = NOT_THERE if error.status_code == 404 else f"{error.detail}\n"
    return plain(text, error.status_code, error.headers)


def _with_policy(app: ASGIApp) -> ASGIApp:
    """Return an application whose answers say what the browser may do."""

    async def with_policy(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_policy(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message["headers"], (b"content-security-policy", POLICY.encode())]
                message = {**message, "headers": headers}
            await send(message)

        await app(scope, receive, send_with_policy)

    return with_policy
