"""Explanations in the API: why an ask is not running, when it starts, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
from starlette.responses import Response

from muster.explain import AT_ONCE
from muster.explain._output import explanation_map, forecast_map, passed_map, reason_map
from muster.service.access import Role
from muster.service.api.lists import UnknownItem, app_of, ended_item, single_answer, unknown_ask
from muster.service.api.pods import WITHOUT_ASK, PodWithoutAsk, asks_of_pod, ended_pod_item
from muster.service.endpoints.routes import Answer, ApiRequest, Endpoint, json_response
from muster.service.endpoints.schemas import (
    AMOUNTS,
    BOOLEAN,
    FLAG,
    NUMBER,
    OBJECT,
    SECONDS,
    TEXT,
    TEXTS,
    Column,
    Table,
    array,
    in_path,
    in_seconds,
    instant,
    maybe,
    maybe_number,
    maybe_text,
    query,
    row_of,
    shape,
    text,
    word,
)
from muster.service.queries.asks import ASKS, ENDED, AskRow, pod_column, row_of_ask
from muster.service.queries.reader import ReadContext, read_state
from muster.service.queries.simulations import forecast_start, search_remedies
from muster_core.reasons import UNKNOWN_START, Code
from muster_core.snapshots import AskPlace
from muster_core.structures.steps import Steps

_REASON: Final = shape(code=word(Code), message=TEXT, facts=OBJECT, rules=TEXTS)
_SHORTFALL: Final = shape(message=TEXT, facts=OBJECT)
_KEY: Final = shape(name=TEXT, own=TEXT, other=TEXT, decides=BOOLEAN)
_LEVEL: Final = shape(at=TEXT, own=TEXT, other=TEXT, keys=array(_KEY))
_START: Final = {"anyOf": [SECONDS, word([UNKNOWN_START])]}
_ON_NODES: Final = array(shape(ask=TEXT, node=TEXT))
_RESERVED: Final = shape(scope=TEXT, start=maybe(SECONDS), places=_ON_NODES, waits_for=_ON_NODES)
_PASSED: Final = shape(ask=TEXT, others=NUMBER, start=maybe(SECONDS), ends=maybe(SECONDS))
_REMEDY: Final = shape(
    kind=TEXT,
    text=TEXT,
    starts={"anyOf": [SECONDS, word([AT_ONCE, UNKNOWN_START])]},
    applicable=BOOLEAN,
    node=maybe(TEXT),
    smallest=maybe(AMOUNTS),
    evicted=TEXTS,
    events=array(OBJECT),
)

# LISTS-10
WHY: Final = Table[Mapping[str, object]](
    text("app", "its application"),
    text("ask", "its name"),
    pod_column(lambda _: None),
    Column(
        "also",
        TEXTS,
        "other asks, as `app/ask`, that may be meant: those of the pod `namespace/pod` that the "
        "request names as well; absent if there is none",
        if_any=True,
    ),
    text("queue", "the path of its queue"),
    Column("place", word(AskPlace), "its place"),
    maybe_text("node", "the node that it holds"),
    instant("since", "since when it counts as pending, in seconds; null if it is bound"),
    instant("bound", "when it was bound, in seconds; null if it is not, or if that is not kept"),
    instant(
        "ends_at",
        "when it is expected to end, in seconds; null if it is not bound, or nobody knows",
    ),
    instant(
        "gone_at",
        "when it is gone, in seconds: if it is not bound by then, or because it has run for as "
        "long as it may; null if it has no such limit",
    ),
    Column(
        "passed",
        array(_PASSED),
        "the reservations that it did not delay when it got the node that it holds: the first "
        "ask of the party, how many others it has, the start (in seconds; null for an end that "
        "nobody knew), and when it was expected to end, which was by the start (null if it "
        "fits beside the party)",
    ),
    Column(
        "shortfalls",
        array(_SHORTFALL),
        "what there is too little of for it, or for the gang with which it starts, even if "
        "nothing else ran: it cannot start before that changes",
    ),
    Column("reasons", array(_REASON), "all reasons, the dominant one first"),
    maybe_text("first", "the ask that the next round would try first, as `app/ask`"),
    Column(
        "levels",
        array(_LEVEL),
        "how the two are compared, from the root; empty if it does not compete",
    ),
    maybe_number(
        "position",
        "its place, from 1, if all pending asks were taken in order and none was placed; null "
        "if it is not pending",
    ),
    Column(
        "reserved",
        maybe(_RESERVED),
        "what is reserved for its party: the path of the queue with `backfill`, the start (in "
        "seconds; null for an end that nobody knows), the node of each member, and the asks "
        "with whose end it starts; null for nothing",
    ),
    Column(
        "fits_now",
        maybe(BOOLEAN),
        "whether its party alone fits as things are; null if no forecast was made",
    ),
    Column(
        "fits_at",
        maybe(_START),
        "when its party alone would fit, in seconds, or `unknown`: with an end that nobody "
        "knows; null for never, or if no forecast was made",
    ),
    Column(
        "held_back_later",
        maybe(_REASON),
        "the reason for which it is held back when it would fit alone; null if it is not, or "
        "if no forecast was made",
    ),
    instant(
        "starts_at",
        "when it is bound in a copy of the state that runs on without further events, in "
        "seconds; null for never, or if no forecast was made",
    ),
    instant(
        "stopped_at",
        "the instant at which the copy was stopped before it was bound, in seconds, because "
        "the state is large; null if it ran to its end",
    ),
    maybe_number(
        "foretold",
        "the number of the batch after which the copy was made; null if there is no forecast",
    ),
    maybe_number("foretold_us", "when that was, in microseconds since the origin"),
    Column(
        "remedies",
        maybe(array(_REMEDY)),
        "changes each of which alone lets it start: at once, at an instant (in seconds) if "
        "nothing more comes, or when others end of which no end is known. Each has the events "
        "that make it; it has none and is not applicable if a machine must be added or enlarged "
        "first. Null if none was searched for",
    ),
    maybe_number("searched", "the number of the batch after which the state was searched"),
    maybe_number("searched_us", "when that was, in microseconds since the origin"),
    maybe_number(
        "trials", "how many trials the search made; null if there was none, or it was ended"
    ),
    Column(
        "exhausted",
        maybe(BOOLEAN),
        "whether the search ended early, because the state is large or its time was over",
    ),
)
"""The fields of an answer to why an ask is not running; each is null until it is known."""

_OF_ASK: Final = ASKS.picked(
    ("app", "ask", "pod", "queue", "place", "node", "since", "bound"), single=True
)


# POD-6, POD-7
def _matching_asks(context: ReadContext, first: str, second: str) -> Steps[list[AskRow]]:
    """Return the asks that ``first/second`` may mean: an ask of an application, or of a pod."""
    yield
    app = app_of(context, first)
    row = None if app is None else row_of_ask(context, app, second)
    if row is not None and row.pod is None:
        return [row]  # without a backend that has pods, there is nothing else to match
    of_pod = yield from asks_of_pod(context, first, second)
    others = [one for one in of_pod if row is None or one.ask is not row.ask]
    return others if row is None else [row, *others]


def _name_of(row: AskRow) -> str:
    return f"{row.app.identity.name}/{row.ask.name}"


async def _item_without_ask(
    request: ApiRequest, first: str, second: str
) -> Mapping[str, object] | None:
    """Return the item for names without an ask: a pod without one, or an ask that has ended."""
    pod = PodWithoutAsk.of(request.service, first, second)
    if pod is not None:
        return pod.item()
    over = await ended_item(request, first, second)
    return over or await ended_pod_item(request, first, second)


async def _why(request: ApiRequest) -> Response:
    first, second = request.value("app", str), request.value("ask", str)

    def read(context: ReadContext) -> Steps[tuple[bool, dict[str, Any]] | UnknownItem]:
        rows = yield from _matching_asks(context, first, second)
        if not rows:
            return unknown_ask(context, first, second)
        row = rows[0]
        yield from context.view.explainer.prepare()
        explanation = yield from context.machine.explain_fully(row.app.identity.name, row.ask.name)
        known = {
            **row_of(_OF_ASK, row),
            "ends_at": in_seconds(row.ends_at_us(request.service.now_us())),
            "gone_at": in_seconds(row.gone_at_us()),
            "passed": [passed_map(passed) for passed in row.passed()],
            **explanation_map(explanation),
        }
        if len(rows) > 1:
            known["also"] = [*map(_name_of, rows[1:])]
        return explanation is not None, {
            one.name: known.get(one.name)
            for one in WHY.columns
            if one.name in known or not one.if_any
        }

    found = await read_state(request.service, read)
    if isinstance(found.value, UnknownItem):
        over = await _item_without_ask(request, first, second)
        if over is None:
            raise await found.value.problem("ask", f"{first}/{second}")
        return json_response({**found.heading(request.service), "item": over})
    waits, item = found.value
    app_name, name = item["app"], item["ask"]
    if waits and request.value("forecast", bool):
        forecast = await forecast_start(request.service, app_name, name)
        later = forecast.held_back_later
        item |= {"foretold": forecast.foretold, "foretold_us": forecast.foretold_us}
        item |= forecast_map(forecast.forecast)
        item["held_back_later"] = None if later is None else reason_map(later)
    if waits and request.value("remedies", bool):
        item |= attrs.asdict(await search_remedies(request.service, app_name, name), recurse=False)
    return json_response({**found.heading(request.service), "item": item})


ENDPOINTS: Final = (
    Endpoint(
        "GET",
        "/api/v1/asks/{app}/{ask}/why",
        "Why an ask is not running, and what would help; of one that has ended, how it ended.",
        Role.READER,
        _why,
        (
            in_path("app", "The name of its application; or the namespace of its pod."),
            in_path("ask", "Its name; or that of its pod."),
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
            200: single_answer(WHY, ENDED, WITHOUT_ASK),
            404: Answer("There is no such ask.", media="application/problem+json"),
            503: Answer(
                "Other searches or forecasts are under way, or the state is too large.",
                media="application/problem+json",
            ),
        },
    ),
)
"""The end point that explains."""
