"""Explanations in the API: why an ask is not running, when it starts, and what would help."""

from __future__ import annotations

from typing import Any, Final, final

import attrs
from starlette.responses import Response

from muster.explain import AT_ONCE
from muster.explain._output import explanation_map, forecast_map, passed_map, reason_map
from muster.service.access import Role
from muster.service.api.answers import UnknownItem, single_answer
from muster.service.api.lists import app_of, ended_item, unknown_ask
from muster.service.endpoints import schemas
from muster.service.endpoints.routes import Answer, ApiRequest, Endpoint, json_response
from muster.service.endpoints.schemas import FLAG, Column, Table, in_path, query, row_of
from muster.service.queries.asks import ENDED, AskRow, row_of_ask
from muster.service.queries.reader import ReadContext, in_seconds, read_state
from muster.service.queries.simulations import forecast_start, search_remedies
from muster_core.reasons import UNKNOWN_START, Code, Explanation
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps


@final
@attrs.frozen(eq=False)
class WhyRow:
    """An ask, and why it is not running.

    Attributes:
        row: The ask.
        explanation: Why it is not running; None if it is bound.
        now_us: The present instant, in microseconds since the origin.
    """

    row: AskRow
    explanation: Explanation | None
    now_us: int

    def of_map(self, name: str) -> object:
        """Return a part of the explanation as ``muster explain`` gives it."""
        return explanation_map(self.explanation)[name]


_REASON: Final = {
    "type": "object",
    "properties": {
        "code": schemas.word(Code),
        "message": schemas.TEXT,
        "facts": {"type": "object"},
        "rules": schemas.TEXTS,
    },
}
_SHORTFALL: Final = {
    "type": "object",
    "properties": {"message": schemas.TEXT, "facts": {"type": "object"}},
}
_KEY: Final = {
    "type": "object",
    "properties": {
        "name": schemas.TEXT,
        "own": schemas.TEXT,
        "other": schemas.TEXT,
        "decides": schemas.BOOLEAN,
    },
}
_LEVEL: Final = {
    "type": "object",
    "properties": {
        "at": schemas.TEXT,
        "own": schemas.TEXT,
        "other": schemas.TEXT,
        "keys": {"type": "array", "items": _KEY},
    },
}
_START: Final = {"anyOf": [schemas.SECONDS, {"type": "string", "enum": [UNKNOWN_START]}]}
_ON_NODES: Final = {
    "type": "array",
    "items": {"type": "object", "properties": {"ask": schemas.TEXT, "node": schemas.TEXT}},
}
_RESERVED: Final = {
    "type": "object",
    "properties": {
        "scope": schemas.TEXT,
        "start": schemas.maybe(schemas.SECONDS),
        "places": _ON_NODES,
        "waits_for": _ON_NODES,
    },
}
_PASSED: Final = {
    "type": "object",
    "properties": {
        "ask": schemas.TEXT,
        "others": schemas.NUMBER,
        "start": schemas.maybe(schemas.SECONDS),
        "ends": schemas.maybe(schemas.SECONDS),
    },
}
_REMEDY: Final = {
    "type": "object",
    "properties": {
        "kind": schemas.TEXT,
        "text": schemas.TEXT,
        "starts": {
            "anyOf": [schemas.SECONDS, {"type": "string", "enum": [AT_ONCE, UNKNOWN_START]}]
        },
        "applicable": schemas.BOOLEAN,
        "node": schemas.maybe(schemas.TEXT),
        "smallest": schemas.maybe({"type": "object", "additionalProperties": schemas.NUMBER}),
        "evicted": schemas.TEXTS,
        "events": {"type": "array", "items": {"type": "object"}},
    },
}

# LISTS-10
# What a search finds comes afterwards, without the state; see ``Found``.
WHY: Final = Table[WhyRow](
    (
        Column("app", schemas.TEXT, "its application", lambda one: one.row.app.identity.name),
        Column("ask", schemas.TEXT, "its name", lambda one: one.row.ask.name),
        Column(
            "queue", schemas.TEXT, "the path of its queue", lambda one: one.row.app.identity.path
        ),
        Column("place", schemas.word(AskPlace), "its place", lambda one: one.row.place.value),
        Column(
            "node",
            schemas.maybe(schemas.TEXT),
            "the node that it holds",
            lambda one: None if one.row.allocation is None else one.row.allocation.node,
        ),
        Column(
            "since",
            schemas.maybe(schemas.SECONDS),
            "since when it counts as pending, in seconds; null if it is bound",
            lambda one: in_seconds(one.row.since_us()),
        ),
        Column(
            "bound",
            schemas.maybe(schemas.SECONDS),
            "when it was bound, in seconds; null if it is not, or if that is not kept",
            lambda one: None if one.row.told is None else in_seconds(one.row.told.bound_us),
        ),
        Column(
            "ends_at",
            schemas.maybe(schemas.SECONDS),
            "when it is expected to end, in seconds; null if it is not bound, or nobody knows",
            lambda one: in_seconds(one.row.ends_at_us(one.now_us)),
        ),
        Column(
            "passed",
            {"type": "array", "items": _PASSED},
            "the reservations that it did not delay when it got the node that it holds: the first "
            "ask of the party, how many others it has, the start (in seconds; null for an end that "
            "nobody knew), and when it was expected to end, which was by the start (null if it "
            "fits beside the party)",
            lambda one: [passed_map(passed) for passed in one.row.passed()],
        ),
        Column(
            "shortfalls",
            {"type": "array", "items": _SHORTFALL},
            "what there is too little of for it, or for the gang with which it starts, even if "
            "nothing else ran: it cannot start before that changes",
            lambda one: one.of_map("shortfalls"),
        ),
        Column(
            "reasons",
            {"type": "array", "items": _REASON},
            "all reasons, the dominant one first",
            lambda one: one.of_map("reasons"),
        ),
        Column(
            "first",
            schemas.maybe(schemas.TEXT),
            "the ask that the next round would try first, as `app/ask`",
            lambda one: one.of_map("first"),
        ),
        Column(
            "levels",
            {"type": "array", "items": _LEVEL},
            "how the two are compared, from the root; empty if it does not compete",
            lambda one: one.of_map("levels"),
        ),
        Column(
            "position",
            schemas.maybe(schemas.NUMBER),
            "its place, from 1, if all pending asks were taken in order and none was placed; null "
            "if it is not pending",
            lambda one: one.of_map("position"),
        ),
        Column(
            "reserved",
            schemas.maybe(_RESERVED),
            "what is reserved for its party: the path of the queue with `backfill`, the start (in "
            "seconds; null for an end that nobody knows), the node of each member, and the asks "
            "with whose end it starts; null for nothing",
            lambda one: one.of_map("reserved"),
        ),
        Column(
            "fits_now",
            schemas.maybe(schemas.BOOLEAN),
            "whether its party alone fits as things are; null if no forecast was made",
            lambda _: None,
        ),
        Column(
            "fits_at",
            schemas.maybe(_START),
            "when its party alone would fit, in seconds, or `unknown`: with an end that nobody "
            "knows; null for never, or if no forecast was made",
            lambda _: None,
        ),
        Column(
            "held_back_later",
            schemas.maybe(_REASON),
            "the reason for which it is held back when it would fit alone; null if it is not, or "
            "if no forecast was made",
            lambda _: None,
        ),
        Column(
            "starts_at",
            schemas.maybe(schemas.SECONDS),
            "when it is bound in a copy of the state that runs on without further events, in "
            "seconds; null for never, or if no forecast was made",
            lambda _: None,
        ),
        Column(
            "stopped_at",
            schemas.maybe(schemas.SECONDS),
            "the instant at which the copy was stopped before it was bound, in seconds, because "
            "the state is large; null if it ran to its end",
            lambda _: None,
        ),
        Column(
            "foretold",
            schemas.maybe(schemas.NUMBER),
            "the number of the batch after which the copy was made; null if there is no forecast",
            lambda _: None,
        ),
        Column(
            "foretold_us",
            schemas.maybe(schemas.NUMBER),
            "when that was, in microseconds since the origin",
            lambda _: None,
        ),
        Column(
            "remedies",
            schemas.maybe({"type": "array", "items": _REMEDY}),
            "changes each of which alone lets it start: at once, at an instant (in seconds) if "
            "nothing more comes, or when others end of which no end is known. Each has the events "
            "that make it; it has none and is not applicable if a machine must be added or enlarged "
            "first. Null if none was searched for",
            lambda _: None,
        ),
        Column(
            "searched",
            schemas.maybe(schemas.NUMBER),
            "the number of the batch after which the state was searched",
            lambda _: None,
        ),
        Column(
            "searched_us",
            schemas.maybe(schemas.NUMBER),
            "when that was, in microseconds since the origin",
            lambda _: None,
        ),
        Column(
            "trials",
            schemas.maybe(schemas.NUMBER),
            "how many trials the search made; null if there was none, or it was ended",
            lambda _: None,
        ),
        Column(
            "exhausted",
            schemas.maybe(schemas.BOOLEAN),
            "whether the search ended early, because the state is large or its time was over",
            lambda _: None,
        ),
    )
)
"""The fields of an answer to why an ask is not running."""


async def _why(asked: ApiRequest) -> Response:
    app_name, name = asked.value("app", str), asked.value("ask", str)

    def read(looking: ReadContext) -> Steps[tuple[bool, dict[str, Any]] | UnknownItem]:
        yield
        app = app_of(looking, app_name)
        row = None if app is None else row_of_ask(looking, app, name)
        if row is None:
            return unknown_ask(looking, app_name, name)
        yield from looking.view.explainer.prepare()
        explanation = yield from looking.machine.explain_fully(app_name, name)
        return explanation is not None, dict(
            row_of(WHY.columns, WhyRow(row, explanation, asked.service.now_us()))
        )

    found = await read_state(asked.service, read)
    if isinstance(found.value, UnknownItem):
        over = await ended_item(asked, app_name, name)
        if over is None:
            raise await found.value.problem("ask", f"{app_name}/{name}")
        return json_response({**found.heading(asked.service), "item": over})
    waits, item = found.value
    if waits and asked.value("forecast", bool):
        foretold = await forecast_start(asked.service, app_name, name)
        later = foretold.held_back_later
        item |= {"foretold": foretold.foretold, "foretold_us": foretold.foretold_us}
        item |= forecast_map(foretold.forecast)
        item["held_back_later"] = None if later is None else reason_map(later)
    if waits and asked.value("remedies", bool):
        item |= attrs.asdict(await search_remedies(asked.service, app_name, name), recurse=False)
    return json_response({**found.heading(asked.service), "item": item})


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/asks/{app}/{ask}/why",
        "Why an ask is not running, and what would help; of one that has ended, how it ended.",
        Role.READER,
        _why,
        (
            in_path("app", "The name of its application."),
            in_path("ask", "Its name."),
            query(
                "forecast",
                FLAG,
                "Whether to find out when it starts, on a copy of the state and for ten seconds "
                "at most.",
                default=False,
            ),
            query(
                "remedies",
                FLAG,
                "Whether to search for changes that would help, for ten seconds at most.",
                default=False,
            ),
        ),
        answers={
            200: single_answer(WHY, ENDED),
            404: Answer("There is no such ask.", media="application/problem+json"),
            503: Answer(
                "Other searches or forecasts are under way, or the state is too large.",
                media="application/problem+json",
            ),
        },
    ),
)
"""The end point that explains."""
