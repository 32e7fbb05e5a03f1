"""Pods of Kubernetes in the API: asks that stand for pods, found by the names of these.

An ask has an application and a name; users of Kubernetes know a namespace and a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, final

import attrs
from starlette.responses import Response

from muster._pod_identity import PodCode, PodFilter
from muster.service.access import Role
from muster.service.api.lists import (
    answer_asks,
    answer_page,
    ask_filters,
    behind_cursor,
    field_names,
    fields_of,
    item_of_life,
    list_endpoint,
    parts_of,
    single_answer,
)
from muster.service.endpoints.routes import (
    Answer,
    ApiRequest,
    Endpoint,
    json_response,
    not_found,
)
from muster.service.endpoints.schemas import (
    OBJECT,
    TEXT,
    TEXT_KIND,
    TEXTS,
    Column,
    Table,
    array,
    in_path,
    query,
    record,
    row_of,
    word,
)
from muster.service.queries.ask_search import AskFilter, select_asks
from muster.service.queries.asks import ASKS, ENDED, AskRow, ended_pod
from muster.service.queries.reader import ReadContext, read_state
from muster_core.structures.steps import Steps

if TYPE_CHECKING:
    from muster.service.state import Service


_MOST: Final = 16
"""How many asks that stand for pods of the same name are found."""


# POD-5
def asks_of_pod(context: ReadContext, namespace: str, name: str) -> Steps[list[AskRow]]:
    """Return the asks that stand for a pod, the latest first; in a cluster there is one at most."""
    wanted = AskFilter(pod=PodFilter(namespace, name))
    found = yield from select_asks(context, wanted, None, _MOST)
    return found[::-1]


# Pods without an ask

PLACE: Final = "none"
"""The place of a pod that has no ask, beside those of asks."""

_RULES: Final[Mapping[str, list[str]]] = {
    PodCode.NOT_SUPPORTED: ["POD-11"],
    PodCode.NOT_QUEUED: ["POD-12"],
    PodCode.SCHEDULING_GATED: ["POD-15"],
    PodCode.OTHER_SCHEDULER: ["POD-30"],
}


@final
@attrs.frozen
class PodWithoutAsk:
    """A pod that has no ask.

    Attributes:
        namespace: Its namespace.
        name: Its name.
        reasons: Why it has none: codes and sentences.
    """

    namespace: str
    name: str
    reasons: Sequence[tuple[str, str]]

    # POD-9
    @classmethod
    def of(cls, service: Service, namespace: str, name: str) -> PodWithoutAsk | None:
        """Return a pod that has no ask, if the backend knows why; or None."""
        backend = service.backend
        reasons = None if backend is None else backend.pod_reasons(namespace, name)
        return cls(namespace, name, reasons) if reasons else None

    # POD-31
    @classmethod
    def all(cls, service: Service) -> list[PodWithoutAsk]:
        """Return the pods that wait for this scheduler and have no ask, by namespace and name."""
        backend = service.backend
        found: list[PodWithoutAsk] = []
        for full_name, reasons in () if backend is None else backend.pods_without_ask().items():
            namespace, _, name = full_name.partition("/")
            found.append(cls(namespace, name, reasons))
        return sorted(found, key=lambda one: one.place)

    @classmethod
    def counts(cls, service: Service) -> Mapping[str, int]:
        """Return how many pods have no ask for each reason."""
        return Counter(one.reasons[0][0] for one in cls.all(service))

    @property
    def place(self) -> tuple[str, str]:
        """Its place in the list."""
        return self.namespace, self.name

    def reasons_line(self) -> str:
        """Return why it has no ask, on one line."""
        return "; ".join(f"{code}: {sentence}" for code, sentence in self.reasons)

    def item(self) -> Mapping[str, object]:
        """Return it as a single item."""
        return row_of(WITHOUT_ASK.columns, self)

    def names(self) -> dict[str, str]:
        """Return its namespace and its name."""
        return {"namespace": self.namespace, "name": self.name}

    def reason_maps(self) -> list[dict[str, object]]:
        """Return why it has no ask, in the form of the reasons of asks."""
        return [
            {"code": code, "message": sentence, "facts": {}, "rules": _RULES.get(code, [])}
            for code, sentence in self.reasons
        ]


WITHOUT_ASK: Final = Table[PodWithoutAsk](
    Column("pod", record(namespace=TEXT, name=TEXT), "the pod", PodWithoutAsk.names),
    Column("place", {"const": PLACE}, "that it has no ask", lambda _: PLACE),
    Column(
        "reasons",
        array(record(code=word(PodCode), message=TEXT, facts=OBJECT, rules=TEXTS)),
        "why it has none",
        PodWithoutAsk.reason_maps,
    ),
)
"""The fields of an answer to why a pod that has no ask is not running."""


# End points

_WITHOUT: Final = "pods-without-ask"
"""The name of the list of these."""


# POD-4
async def _pods(request: ApiRequest) -> Response:
    return await answer_asks(request, "pods", PodFilter(request.maybe("namespace", str)))


# POD-31
async def _list_without_ask(request: ApiRequest) -> Response:
    namespace, behind = request.maybe("namespace", str), parts_of(request, "after") or ("", "")

    def select(_: ReadContext, most: int) -> Steps[Sequence[PodWithoutAsk]]:
        yield
        found = [one for one in PodWithoutAsk.all(request.service) if one.place > behind]
        return [one for one in found if namespace in {None, one.namespace}][:most]

    return await answer_page(
        request, WITHOUT_ASK, _WITHOUT, select, lambda _, one: one, lambda one: one.place
    )


# POD-5, POD-10
async def ended_pod_item(
    request: ApiRequest, namespace: str, name: str
) -> Mapping[str, object] | None:
    """Return the last ask that stood for a pod as a single item, or None."""
    return item_of_life(request, await ended_pod(request.service, PodFilter(namespace, name)))


async def _pod(request: ApiRequest) -> Response:
    namespace, name = request.value("namespace", str), request.value("pod", str)
    columns = ASKS.picked(field_names(request), single=True)

    def read(context: ReadContext) -> Steps[Mapping[str, object] | None]:
        rows = yield from asks_of_pod(context, namespace, name)
        return row_of(columns, rows[0]) if rows else None

    found = await read_state(request.service, read)
    item = found.value or await ended_pod_item(request, namespace, name)
    if item is None:
        pod = PodWithoutAsk.of(request.service, namespace, name)
        raise not_found(
            "pod",
            f"{namespace}/{name}",
            "" if pod is None else f": it has no ask; {pod.reasons_line()}",
        )
    return json_response({**found.heading(request.service), "item": item})


ENDPOINTS: Final = (
    list_endpoint(
        "/api/v1/pods",
        "Asks that stand for pods of Kubernetes, in the order of the list of asks.",
        _pods,
        ASKS,
        query("namespace", TEXT_KIND, "Those that stand for pods of this namespace."),
        *ask_filters("pods"),
        also=(ENDED,),
    ),
    list_endpoint(
        f"/api/v1/{_WITHOUT}",
        "Pods of Kubernetes that wait for Muster and have no ask, by namespace and name.",
        _list_without_ask,
        WITHOUT_ASK,
        query("namespace", TEXT_KIND, "Those of this namespace."),
        behind_cursor(_WITHOUT, str, str),
    ),
    Endpoint(
        "GET",
        "/api/v1/pods/{namespace}/{pod}",
        "The ask that stands for a pod of Kubernetes.",
        Role.READER,
        _pod,
        (
            in_path("namespace", "The namespace of the pod."),
            in_path("pod", "Its name."),
            fields_of(ASKS, ENDED, single=True),
        ),
        answers={
            200: single_answer(ASKS, ENDED),
            404: Answer("No ask stands for this pod.", media="application/problem+json"),
        },
    ),
)
"""The list of pods, and single ones."""
