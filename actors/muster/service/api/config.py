"""The configuration: ``GET`` and ``PUT /api/v1/config``, and the preview of a new one."""

from __future__ import annotations

from threading import Event as Flag
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from muster.service.access import Role
from muster.service.endpoints.routes import JSON, Answer, ApiRequest, Body, Endpoint, json_response
from muster.service.endpoints.schemas import (
    BOOLEAN,
    FLAG,
    OBJECT,
    TEXT,
    TEXT_KIND,
    ParameterKind,
    Schema,
    about,
    array,
    header,
    query,
    record,
    shape,
)
from muster.service.input.configuration import (
    YAML,
    YAMLS,
    ConfigurationView,
    changed_problem,
    configuration_view,
    difference_of,
    in_force,
    put_in_force,
    read_configuration,
    warnings_of,
)
from muster.service.input.dry_runs import (
    DAY,
    HistoryStart,
    compare_history,
    history_start,
    in_thread,
    try_events,
)
from muster.service.payloads import Problem, body_of, media_of
from muster_core.config.model import Configuration
from muster_core.events import Configure

if TYPE_CHECKING:
    from muster.service.state import Service


# INPUT-15
async def preview_configuration(
    service: Service, request: Request, new: Configuration, since: HistoryStart | None
) -> dict[str, Any]:
    """Return what a configuration would lead to now, and what it would have changed.

    Args:
        service: The service.
        request: The request, whose body was read; the look back ends when its client goes away.
        new: The configuration.
        since: How far to look back; None for a day if there is a state directory.

    Raises:
        Problem: 409 if it cannot replace the one in force, or history cannot be read.
    """
    directory = service.options.state
    if directory is None and since is not None:
        message = "since: nothing is kept: the service was started without --state"
        raise Problem(409, message, parameter="since")
    tried = await try_events(service, service.intake.dry_runs, [Configure(new)], None)
    if tried.errors:
        raise Problem(409, tried.errors[0])
    found: dict[str, Any] = {"decisions": tried.decisions, "compared": None}
    if directory is None or (since is not None and since.back_us == 0):
        return found
    began, now_us = since or DAY, service.unix_us(service.now_us())

    def work(gone: Flag) -> dict[str, Any]:
        return compare_history(directory, began, now_us, new, gone)

    async def compare() -> dict[str, Any]:
        return await in_thread(request, work)

    return found | {"compared": await service.intake.comparisons.run(compare)}


_PROBLEMS: Final[Schema] = array(
    record(
        line={"type": ["integer", "null"], "description": "the line, from 1"},
        path=about(TEXT, "the path of the field; empty for the whole"),
        message=TEXT,
    )
)

_DOCUMENT: Final[Schema] = record(partitions=array(OBJECT))

# ACCESS-41
_MAYBE: Final[Schema] = {"type": ["string", "null"]}
_ORIGIN: Final[Schema] = {
    "type": "object",
    "description": "where the configuration in force is from",
    **record(
        kind={
            "enum": ["file", "applied", "default"],
            "description": "the file of --config, a client, or nobody",
        },
        since=about(_MAYBE, "when it was read or applied"),
        file=about(_MAYBE, "the file of --config"),
        differs=about(
            BOOLEAN,
            "whether the file said something else when it was read last: it "
            "replaces this configuration when it changes and is read again",
        ),
    ),
}

_IN_FORCE: Final[Schema] = record(
    **_DOCUMENT["properties"],
    checksum=about(TEXT, "identifies what it says; also the entity tag"),
    warnings=_PROBLEMS,
    origin=_ORIGIN,
)

_FIELDS: Final[Schema] = array(record(field=TEXT, before={}, after={}))
_QUEUE: Final = record(queue=TEXT, change={"enum": ["added", "removed", "changed"]}, fields=_FIELDS)

_CHANGED: Final[Schema] = {
    **shape(
        applied=about(BOOLEAN, "false in a dry run"),
        batch={"type": ["integer", "null"], "description": "the batch with which it came"},
        partition=TEXT,
        checksum=about(TEXT, "that of the new configuration"),
        warnings=_PROBLEMS,
        difference=record(partition=_FIELDS, queues=array(_QUEUE)),
        origin=about(_ORIGIN, "of the new one, if it was applied"),
        decisions={
            "type": ["array", "null"],
            "items": OBJECT,
            "description": "of a dry run: the decisions that would follow",
        },
        compared={
            "type": ["object", "null"],
            "description": "of a dry run: what it would have changed, as muster compare says it, "
            "from since until until",
        },
    ),
    "required": ["applied", "batch", "partition", "checksum", "warnings", "difference"],
}

SINCE: Final = ParameterKind(
    {"type": "string", "examples": ["7d", "12h", "2026-01-31T18:30:00Z"]}, history_start
)


async def _get(request: ApiRequest) -> Response:
    found = await in_force(request.service)
    headers = {"ETag": found.etag, "Vary": "Accept"}
    known = request.maybe("If-None-Match", str)
    if known is not None and _names(known, found):
        return Response(status_code=304, headers=headers)
    if _wants_yaml(request):
        return Response(found.as_yaml(), headers=headers, media_type=YAML)
    origin = request.service.config_origin(found.configuration)
    return json_response({**found.as_map(), "origin": origin.as_map()}, headers=headers)


def _wants_yaml(request: ApiRequest) -> bool:
    accepted = request.http.headers.get("accept", "")
    for one in accepted.split(","):
        media = one.partition(";")[0].strip().lower()
        if media in {JSON, "*/*", "application/*"}:
            return False
        if media in YAMLS:
            return True
    return False


def _names(tags: str, found: ConfigurationView) -> bool:
    """Return whether some entity tags name a configuration."""
    written = {tag.strip().removeprefix("W/").strip('"') for tag in tags.split(",")}
    return found.checksum in written or "*" in written


async def _put(request: ApiRequest) -> Response:
    service, http = request.service, request.http
    media_of(http, {JSON, *YAMLS}, YAML)
    body = await body_of(http)
    new = read_configuration(body, service.options.partition)
    before, tags = await in_force(service), request.maybe("If-Match", str)
    # INPUT-14
    if tags is not None and not _names(tags, before):
        raise changed_problem()
    after = configuration_view(new)
    answer: dict[str, Any] = {
        "applied": False,
        "batch": None,
        "partition": new.partition,
        "checksum": after.checksum,
        "warnings": warnings_of(new),
        "difference": difference_of(before.configuration, new),
    }
    if request.value("dry_run", bool):
        since = request.maybe("since", HistoryStart)
        return json_response(answer | await preview_configuration(service, http, new, since))
    if request.values["since"] is not None:
        raise Problem(400, "since: only a dry run looks back: add dry_run=true", parameter="since")
    entered = await put_in_force(service, new, None if tags is None else before.configuration)
    # ACCESS-42
    origin = service.config_origin(new)
    answer |= {"applied": True, "batch": entered.batch, "origin": origin.as_map()}
    return json_response(answer, headers={"ETag": after.etag})


# INPUT-9
ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/config",
        "The configuration in force, as JSON or YAML.",
        Role.READER,
        _get,
        parameters=(header("If-None-Match", TEXT_KIND, "entity tags that the client knows"),),
        answers={
            200: Answer("The configuration; it can be sent back as it is.", _IN_FORCE),
            304: Answer("The client knows it."),
        },
        tag="configuration",
    ),
    Endpoint(
        "PUT",
        "/api/v1/config",
        "Put a new configuration in force, or try it.",
        Role.ADMIN,
        _put,
        parameters=(
            query("dry_run", FLAG, "only answer what it would change", default=False),
            query(
                "since",
                SINCE,
                "with dry_run: how far to look back for what it would have changed, as a duration "
                "or a date; the default is a day, and 0 is not at all",
            ),
            header("If-Match", TEXT_KIND, "the entity tag of the configuration that it replaces"),
        ),
        body=Body(
            "A configuration file in YAML or JSON; it may be in a ConfigMap.",
            {JSON: _DOCUMENT, YAML: TEXT},
        ),
        answers={
            200: Answer("The difference.", _CHANGED),
            400: Answer("The request is wrong."),
            409: Answer("It cannot replace the one in force."),
            412: Answer("The one in force is not the one that the client has seen."),
            413: Answer("The body is too long."),
            415: Answer("The body is of another media type."),
            422: Answer("It is refused; `problems` says why, with lines and paths."),
        },
        tag="configuration",
    ),
)
