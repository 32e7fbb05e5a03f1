"""The OpenAPI document agrees with the routes, and is one."""

from __future__ import annotations

import re
from typing import Any

import pytest
import schemathesis
from starlette.routing import Route

from muster.service.endpoints.openapi import document_of, operation_id_of, path_of
from muster.service.page.site import ALL_PAGES
from muster.service.payloads import PROBLEM_JSON
from muster.service.serve import ENDPOINTS, make_app
from muster.service.state import Service

_HEALTH = {"get_healthz", "get_readyz"}
"""What these say, they say in a form of their own."""


def no_service() -> Service:
    msg = "nobody asks"
    raise AssertionError(msg)


def routes() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for route in make_app(no_service).routes:
        assert isinstance(route, Route)
        path = re.sub(r":\w+\}", "}", route.path)
        found |= {(method, path) for method in route.methods or () if method != "HEAD"}
    return found


def described(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }


# STREAM-9


def test_every_route_is_described_and_the_other_way_round() -> None:
    ours = {one for one in routes() if not one[1].startswith(("/ws/", "/debug/"))}
    of_page = {(one.method, one.path.replace(":path}", "}")) for one in ALL_PAGES}

    assert described(document_of(ENDPOINTS, secured=True)) == ours - of_page
    assert of_page < ours


@pytest.mark.parametrize("secured", [True, False])
def test_it_is_an_openapi_document(secured: bool) -> None:
    schema = schemathesis.openapi.from_dict(document_of(ENDPOINTS, secured=secured))

    schema.validate()  # raises if it is none


def test_operations_have_names_of_their_own() -> None:
    names = [operation_id_of(one) for one in ENDPOINTS]

    assert len({*names}) == len(names)
    assert "get_decisions" in names
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)


def test_the_parameters_of_a_path_are_described() -> None:
    for one in ENDPOINTS:
        named = {match[1] for match in re.finditer(r"\{(\w+)\}", path_of(one))}
        assert named == {each.name for each in one.parameters if each.where == "path"}, one.path


def test_only_services_with_tokens_ask_for_them() -> None:
    for secured in (True, False):
        document = document_of(ENDPOINTS, secured=secured)
        assert ("securitySchemes" in document["components"]) == secured
        for methods in document["paths"].values():
            for operation in methods.values():
                needs = secured and operation["x-muster-role"] != "anyone"
                assert ("security" in operation) == ("401" in operation["responses"]) == needs


def test_refusals_are_problems() -> None:
    document = document_of(ENDPOINTS, secured=True)
    for methods in document["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400 and operation["operationId"] not in _HEALTH:
                    assert [*response["content"]] == [PROBLEM_JSON], operation["operationId"]
