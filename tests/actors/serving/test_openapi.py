"""The OpenAPI document agrees with the routes and with every answer; every path, for every role."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs
import httpx
import pytest
import schemathesis
from starlette.routing import BaseRoute, Mount, Route
from typing_extensions import override

from muster.service.access import Role
from muster.service.endpoints.openapi import document_of, operation_id_of, path_of
from muster.service.page.site import ALL_PAGES
from muster.service.payloads import PROBLEM_JSON
from muster.service.serve import ENDPOINTS, make_app
from muster.service.state import Service
from muster.service.yunikorn.app import PATHS, YuniKorn, make_site
from tests.actors.serving.served import CONFIG, PATIENCE_S, Served
from tests.actors.serving.test_access import SECRETS, bearer, line_of

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


def described_routes(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (method.upper(), path) for path, methods in document["paths"].items() for method in methods
    }


# STREAM-9


def test_every_route_is_described_and_the_other_way_round() -> None:
    ours = {one for one in routes() if not one[1].startswith(("/ws/", "/debug/"))}
    of_page = {(one.method, one.path.replace(":path}", "}")) for one in ALL_PAGES}

    assert described_routes(document_of(ENDPOINTS, secured=True)) == ours - of_page
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


TOKEN = "token-of-a-test"
FOLDER = Path(__file__).parent

SOMETHING = (
    {"op": "add_node", "node": "node-1", "capacity": {"vcore": 5, "memory": "1Gi"}},
    {"op": "add_app", "app": "etl", "queue": "root.dev", "user": "u"},
    {"op": "add_gang", "gang": "default/train", "min_member": 2},
    {"op": "add_ask", "app": "etl", "ask": "load", "resources": {"vcore": 1}, "count": 9},
    {"op": "add_ask", "app": "etl", "ask": "t", "resources": {"vcore": 1}, "gang": "train"},
    {
        "op": "add_ask",
        "app": "etl",
        "ask": "of-pod",
        "resources": {"vcore": 9},
        "env": {"POD_NAMESPACE": "etl", "POD_NAME": "load-0", "POD_UID": "1"},
    },
)
"""So that the examples of the document name something."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    tokens = tmp_path / "tokens"
    digest = sha256(TOKEN.encode()).hexdigest()
    tokens.write_text(f"root admin root - {digest}\n", encoding="utf-8")
    tokens.chmod(0o600)
    arguments = ("--state", str(tmp_path / "state"), "--tokens", str(tokens))
    with Served(tmp_path, *arguments, config=CONFIG) as running:
        running.client.headers["authorization"] = f"Bearer {TOKEN}"
        answer = running.client.post("/api/v1/events", json=SOMETHING)
        assert answer.status_code == 200, answer.text
        assert all(one["ok"] for one in answer.json()), answer.text
        yield running


def run_schemathesis(served: Served, folder: Path, *arguments: str) -> str:
    """Run the command against a service; return its output."""
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file"]
    command += [str(FOLDER / "schemathesis.toml"), "run", f"{served.urls[0]}/openapi.json"]
    command += ["-H", f"Authorization: Bearer {TOKEN}", "--generation-database", "none"]
    command += ["--no-color", "--continue-on-failure", *arguments]
    command += ["--suppress-health-check", "filter_too_much,too_slow"]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# STREAM-9


def test_it_finds_nothing(served: Served, tmp_path: Path) -> None:
    output = run_schemathesis(
        served,
        tmp_path,
        "--checks",
        "all",
        "--phases",
        "examples,coverage,fuzzing",
        "--max-examples",
        "10",
        "--seed",
        "1",
    )

    assert "No issues found" in output or "passed" in output
    assert served.client.get("/healthz", timeout=PATIENCE_S).status_code == 200
    assert not [line for line in served.lines if "Traceback" in line]


GONE: Final = "secret-of-somebody-who-left"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "NONSENSE")
UI: Final = "/{path}"
LEAST: Final = {
    **{(one.method, one.path): one.role for one in ENDPOINTS},
    **{(one.method, one.path): one.role for one in ALL_PAGES},
}
OF_PAGE: Final = {one.path for one in ALL_PAGES}


@attrs.frozen
class Place:
    """A path on one of the two ports.

    Attributes:
        site: Whether it is on the port of YuniKorn's end points.
        path: The path, with names in braces.
        methods: The methods that it takes.
        others: The methods that another path takes, which has longer names.
    """

    site: bool
    path: str
    methods: tuple[str, ...]
    others: frozenset[str] = frozenset()

    @property
    def sample(self) -> str:
        """A path of this form."""
        if self.path.startswith("/static/"):
            return "/static/page.css"
        return re.sub(r"\{[^}]*\}", "" if self.path == UI else "x", self.path)

    @property
    def is_of_page(self) -> bool:
        return not self.site and self.path in OF_PAGE

    @property
    def is_yunikorns(self) -> bool:
        return self.path.startswith(("/ws/", "/debug/"))

    def role(self, method: str) -> Role:
        """Return the least role that may use it."""
        if self.is_yunikorns:
            return Role.READER
        if self.site:
            return Role.ANYONE  # The files of YuniKorn's web UI, which are public.
        return LEAST["GET" if method == "HEAD" else method, self.path]

    @override
    def __str__(self) -> str:
        """Return its name for the list of tests."""
        return f"{'site' if self.site else 'service'} {self.path}"


def nobody() -> NoReturn:
    raise AssertionError


def places(site: bool, routes: Sequence[BaseRoute]) -> Iterator[Place]:
    """Yield all paths of an application; fail for a route of an unknown kind."""
    for route in routes:
        if isinstance(route, Mount):
            assert (site, route.path) == (True, "")
            yield Place(site, UI, ("GET", "HEAD"))
            continue
        assert isinstance(route, Route), route
        if isinstance(route.endpoint, YuniKorn):
            assert route.methods is None, "they are for each path"
            beginning = route.path.removesuffix("{path:path}")
            for path, (method, _) in PATHS.items():
                if path.startswith(beginning):
                    yield Place(site, path, (method,))
        else:
            assert route.methods, route
            place = Place(site, route.path, tuple(sorted(route.methods)))
            also = [
                one.methods or ()
                for one in routes
                if isinstance(one, Route) and one.path_regex.match(place.sample)
            ]
            yield attrs.evolve(place, others=frozenset().union(*also) - route.methods)


PLACES: Final = (
    *places(False, make_app(nobody).routes),
    *places(True, make_site(nobody, Path(__file__).parent).routes),
)


@attrs.frozen
class Ports:
    """Clients of both ports of a service."""

    served: Served
    site: httpx.Client

    def ask(self, place: Place, method: str, headers: dict[str, str]) -> httpx.Response:
        """Send a request, and do not read a stream to its end."""
        client = self.site if place.site else self.served.client
        request = client.build_request(method, place.sample, headers=headers)
        response = client.send(request, stream=True, follow_redirects=False)
        if response.status_code >= 400:
            response.read()
        response.close()
        return response


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    folder = tmp_path_factory.mktemp("every")
    tokens, built = folder / "tokens", folder / "ui"
    built.mkdir()
    (built / "index.html").write_text("<title>ui</title>", encoding="utf-8")
    lines = [line_of(role, secret) for role, secret in SECRETS.items()]
    tokens.write_text("\n".join([*lines, line_of(Role.ADMIN, GONE, "gone")]), encoding="utf-8")
    listen = ("--yunikorn-listen", "127.0.0.1:0", "--yunikorn-ui", str(built))
    with Served(folder, "--tokens", str(tokens), *listen) as served:
        (url,) = (
            line.rpartition("listening on ")[2]
            for line in served.lines
            if "listening on" in line and served.urls[0] not in line
        )
        with Served.client_of(url) as site:
            found = Ports(served, site)
            before = [found.ask(one, one.methods[0], bearer(GONE)).status_code for one in PLACES]
            assert not {401, 403} & {*before}
            tokens.write_text("\n".join(lines), encoding="utf-8")
            served.process.send_signal(signal.SIGHUP)
            served.line("tokens: read again: in force")
            yield found


def check_refused(
    place: Place, method: str, response: httpx.Response, status: int, *, at_door: bool = False
) -> None:
    """Check that a request was refused, in the form of its end points or as a page."""
    assert response.status_code == status, method
    if place.is_of_page and not at_door:
        assert response.headers["content-type"] == "text/html; charset=utf-8"
        assert response.headers["content-security-policy"].startswith("default-src 'none'; ")
        return
    if status == 401:
        assert response.headers["www-authenticate"].startswith('Bearer realm="muster"')
    if not place.is_yunikorns:
        assert response.headers["content-type"] == PROBLEM_JSON
    elif method != "HEAD":
        found = response.json()
        assert found["status_code"] == found["StatusCode"] == status
        assert found["message"] == found["Message"] == found["description"]


# ACCESS-3, REST-25
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_every_path_for_every_role(ports: Ports, place: Place) -> None:
    without: list[dict[str, str]] = [
        {},
        bearer("secret-of-nobody"),
        bearer(GONE),
        {"Authorization": "Basic " + SECRETS[Role.ADMIN]},
    ]
    for method in place.methods:
        least = place.role(method)
        for headers in without:
            response = ports.ask(place, method, headers)
            if least is Role.ANYONE:
                # The form to log in is empty here.
                most = 401 if place.is_of_page and method == "POST" else 400
                assert response.status_code < most, headers
            else:
                check_refused(place, method, response, 401)
        for role, secret in SECRETS.items():
            response = ports.ask(place, method, bearer(secret))
            if not role.may(least):
                check_refused(place, method, response, 403)
            else:
                assert response.status_code not in {401, 403}, role
                assert response.status_code < 500, role


# REST-1, ACCESS-9
@pytest.mark.parametrize("place", PLACES, ids=str)
def test_other_methods_are_refused_whoever_asks(ports: Ports, place: Place) -> None:
    for method in {*METHODS} - {*place.methods} - place.others:
        for headers in ({}, bearer(SECRETS[Role.ADMIN])):
            response = ports.ask(place, method, headers)
            assert response.status_code == 405, method
            assert {*response.headers["allow"].split(", ")} == {*place.methods}


# REST-1, REST-25
@pytest.mark.parametrize("site", [False, True])
@pytest.mark.parametrize("path", ["/nowhere", "/api/v2/x", "/ws/v1/x", "/debug/x", "/ws", "/ws/v1"])
def test_where_there_is_nothing(ports: Ports, site: bool, path: str) -> None:
    for method in ("GET", "POST"):
        for headers in ({}, bearer(SECRETS[Role.ADMIN])):
            is_file = site and not path.startswith(("/ws/", "/debug/"))
            response = ports.ask(Place(site, path, ()), method, headers)
            assert response.status_code == (405 if is_file and method == "POST" else 404)
            is_text = site or path.startswith(("/ws/", "/debug/"))
            media = "text/plain; charset=utf-8" if is_text else PROBLEM_JSON
            assert response.headers["content-type"] == media


def test_all_paths_are_there() -> None:
    paths = {(place.site, place.path) for place in PLACES}

    assert {"/healthz", "/readyz", "/metrics", "/openapi.json"} < {path for _, path in paths}
    for site in (False, True):
        assert {path for of, path in paths if of is site and path.startswith("/ws")} == {
            path for path in PATHS if path.startswith("/ws")
        }
        assert (site, "/debug/stack") in paths


# REST-3
@pytest.mark.parametrize("place", [one for one in PLACES if one.path != UI], ids=str)
def test_what_is_refused_at_the_door_has_the_form_of_the_path(ports: Ports, place: Place) -> None:
    method = place.methods[0]
    elsewhere = ports.ask(place, method, {"Host": "elsewhere.example"})
    check_refused(place, method, elsewhere, 421, at_door=True)
    other_site = ports.ask(place, method, {"Origin": "http://elsewhere.example"})
    check_refused(place, method, other_site, 403, at_door=True)
