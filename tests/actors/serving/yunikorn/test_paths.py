"""Paths, names, methods and errors, as YuniKorn's clients know them, and the port of its own with
the web UI.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator

import httpx
import pytest

from tests.actors.serving.served import Served

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: "a/b#c"
          - name: plain
          - name: "50"
"""
_P = "/ws/v1/partition/default"
_EVENTS = [
    {"op": "add_app", "app": "x", "queue": "root.a/b#c", "user": "o@x.y"},
    {"op": "add_app", "app": "y", "queue": "root.plain", "user": "joe"},
    {"op": "add_ask", "app": "y", "ask": "k", "resources": {"vcore": 1}},
    {"op": "add_node", "node": "n/1", "capacity": {"vcore": 4}},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("paths")
    with Served(folder, config=CONFIG) as served:
        assert served.client.post("/api/v1/events", json=_EVENTS).status_code == 200
        yield served


def _error_of(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the message of an error, whose fields are all as they must be."""
    made = answer.json()
    assert answer.headers["content-type"] == "application/json; charset=UTF-8"
    message = made["message"]
    assert made == {
        "status_code": answer.status_code,
        "message": message,
        "description": message,
        "StatusCode": answer.status_code,
        "Message": message,
        "Description": message,
    }
    return answer.status_code, message


# REST-3
@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/ws/v1/partition/other/queues", "Partition not found"),
        ("/ws/v1/partition/Default/queues", "Partition not found"),
        ("/ws/v1/partition/other/nodes", "Partition not found"),
        ("/ws/v1/partition/other/placementrules", "Partition not found"),
        ("/ws/v1/partition/other/applications/active", "Partition not found"),
        ("/ws/v1/partition/other/applications/nonsense", "Partition not found"),
        ("/ws/v1/partition/other/queue/root..x", "Partition not found"),
        ("/ws/v1/partition/other/queue/root.none/applications", "Partition not found"),
        (f"{_P}/queue/root.none", "Queue not found"),
        (f"{_P}/queue/plain", "Queue not found"),
        (f"{_P}/queue/root.none/applications", "Queue not found"),
        (f"{_P}/queue/root.none/applications/nonsense", "Queue not found"),
        (f"{_P}/queue/root.none/application/y", "Queue not found"),
        (f"{_P}/queue/root.plain/application/x", "Application not found"),
        (f"{_P}/application/Y", "Application not found"),
        (f"{_P}/node/none", "Node not found"),
        (f"{_P}/usage/user/nobody", "User not found"),
        (f"{_P}/usage/group/nobody", "Group not found"),
    ],
)
def test_what_is_unknown_is_404(served: Served, path: str, message: str) -> None:
    assert _error_of(served.client.get(path)) == (404, message)


# REST-3
@pytest.mark.parametrize(
    "path",
    [
        f"{_P}/queue/root.b%20c",
        f"{_P}/queue/root..b",
        f"{_P}/queue/root.%25zz",
        "/ws/v1/partition/other/queue/root..x/applications",
        f"{_P}/queue/root.plain/applications/completed",
        f"{_P}/queue/root.plain/applications/active?status=nonsense",
        f"{_P}/applications/nonsense",
        f"{_P}/applications/active?status=completed",
        f"{_P}/usage/user/1bad",
        f"{_P}/usage/group/a%40b",
        "/ws/v1/events/batch?count=0",
        "/ws/v1/events/batch?count=many",
        "/ws/v1/events/batch?count=-1",
        "/ws/v1/events/batch?start=x",
        "/ws/v1/events/batch?start=-1",
        "/ws/v1/events/stream?count=x",
    ],
)
def test_what_can_never_be_is_400(served: Served, path: str) -> None:
    status, message = _error_of(served.client.get(path))
    assert status == 400
    assert message


@pytest.mark.parametrize("name", ["1+of%252Fus", "1%20of%2Fus"])
def test_a_user_who_is_there_has_any_name(served: Served, name: str) -> None:
    event = {"op": "add_app", "app": "z", "queue": "root.plain", "user": "1 of/us"}
    served.client.post("/api/v1/events", json=[event])

    answer = served.client.get(f"{_P}/usage/user/{name}")

    served.client.post("/api/v1/events", json=[{"op": "remove_app", "app": "z"}])
    assert answer.json()["userName"] == "1 of/us"


def test_users_and_groups_that_can_never_be_are_refused_as_such(served: Served) -> None:
    assert _error_of(served.client.get(f"{_P}/usage/user/1"))[1] == "Invalid user name"
    assert _error_of(served.client.get(f"{_P}/usage/group/1"))[1] == "Invalid group name"


# REST-2
@pytest.mark.parametrize(
    "written",
    [
        "root.a%252Fb%2523c",
        "ROOT.A%252Fb%2523C",
        "root.a%2Fb%23c",
        "root%2Ea%252Fb%2523c",
    ],
)
def test_the_name_of_a_queue_is_decoded_twice(served: Served, written: str) -> None:
    answer = served.client.get(f"{_P}/queue/{written}")
    assert answer.json()["queuename"] == "root.a/b#c"
    (app,) = served.client.get(f"{_P}/queue/{written}/applications").json()
    assert app["applicationID"] == "x"


# REST-2
def test_a_queue_with_a_slash_is_found_as_the_ui_writes_it(served: Served) -> None:
    (app,) = served.client.get(f"{_P}/queue/root.a/b%23c/applications").json()
    assert app["applicationID"] == "x"
    other = served.client.get(f"{_P}/queue/root.a/x/applications")
    assert (other.status_code, other.text) == (404, "404 page not found\n")


# REST-2
def test_names_of_users_are_decoded_twice_and_partitions_are_not_looked_at(served: Served) -> None:
    path = "/ws/v1/partition/anything/usage/user/o%2540x.y"
    assert served.client.get(path).json()["userName"] == "o@x.y"
    names = [one["userName"] for one in served.client.get(f"{_P}/usage/users").json()]
    assert names == ["joe", "o@x.y"]


# REST-2
def test_nodes_are_decoded_once(served: Served) -> None:
    assert served.client.get(f"{_P}/node/n%2F1").json()["nodeID"] == "n/1"
    assert served.client.get(f"{_P}/node/n%252F1").status_code == 404


# REST-1
@pytest.mark.parametrize(
    "path",
    [
        "/ws/v1/nonsense",
        "/ws/v1",
        "/ws/v2/clusters",
        "/ws/v1/partition//queues",
        f"{_P}/queue/",
        "/debug/pprof/heap",
        f"{_P}/queue/root/applications/active/more",
    ],
)
def test_a_path_of_no_end_point_is_not_found(served: Served, path: str) -> None:
    answer = served.client.get(path)
    assert answer.status_code == 404
    if path != "/ws/v1":
        assert answer.headers["content-type"].startswith("text/plain")
        assert answer.text == "404 page not found\n"


# REST-1
@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/ws/v1/clusters", "GET"),
        ("HEAD", "/ws/v1/clusters", "GET"),
        ("DELETE", f"{_P}/queue/root", "GET"),
        ("OPTIONS", f"{_P}/nodes", "GET"),
        ("GET", "/ws/v1/validate-conf", "POST"),
        ("PUT", "/ws/v1/config", "GET"),
    ],
)
def test_a_wrong_method_is_405(served: Served, method: str, path: str, allow: str) -> None:
    answer = served.client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allow)


# REST-1
def test_one_slash_too_many_is_reported(served: Served) -> None:
    for path in ("/ws/v1/clusters", f"{_P}/queue/root.a%252Fb%2523c"):
        answer = served.client.get(f"{path}/?x=1")
        assert (answer.status_code, answer.headers["location"]) == (301, f"{path}?x=1")
    assert served.client.get("/ws/v1/nonsense/").status_code == 404


# REST-23
def test_the_old_paths_of_the_dump_and_the_stacks_say_where_they_are(served: Served) -> None:
    for name in ("fullstatedump", "stack"):
        answer = served.client.get(f"/ws/v1/{name}")
        assert (answer.status_code, answer.headers["location"]) == (301, f"/debug/{name}")
    answer = served.client.get("/debug/stack")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "muster" in answer.text


# REST-9
def test_states_of_applications_are_written_in_any_case(served: Served) -> None:
    def ids(path: str) -> list[str]:
        return [app["applicationID"] for app in served.client.get(path).json()]

    assert ids(f"{_P}/applications/ACTIVE") == ["x", "y"]
    assert ids(f"{_P}/applications/Active?status=New") == ["x"]
    assert ids(f"{_P}/applications/active?status=STARTING") == ["y"]
    assert ids(f"{_P}/applications/active?status=resuming") == []
    assert ids(f"{_P}/applications/rejected") == []
    assert ids(f"{_P}/applications/completed") == []
    assert ids(f"{_P}/queue/root/applications") == []
    assert ids(f"{_P}/queue/root.plain/applications/active?status=starting") == ["y"]
    assert ids(f"{_P}/queue/root.plain/applications/ACTIVE?status=new") == []


# REST-1
def test_long_answers_are_compressed_if_the_client_allows_it(served: Served) -> None:
    path = f"{_P}/queues"
    plain = served.client.get(path, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert len(plain.content) >= 1_400
    for written in ("gzip", "deflate, gzip;q=0.5", "*"):
        with served.client.stream("GET", path, headers={"Accept-Encoding": written}) as answer:
            assert answer.headers["content-encoding"] == "gzip"
            assert gzip.decompress(b"".join(answer.iter_raw())) == plain.content
    for written in ("gzip;q=0", "deflate", "gzip;q=x"):
        answer = served.client.get(path, headers={"Accept-Encoding": written})
        assert "content-encoding" not in answer.headers
    short = served.client.get("/ws/v1/clusters", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in short.headers


# REST-1
def test_whole_numbers_have_no_fraction(served: Served) -> None:
    def refuse(written: str) -> float:
        raise AssertionError(written)

    for path in (f"{_P}/queues", f"{_P}/nodes", f"{_P}/applications/active", "/ws/v1/clusters"):
        json.loads(served.client.get(path).text, parse_float=refuse)
    weights = served.client.get("/ws/v1/partitions").json()[0]["nodeSortingPolicy"]
    assert weights["resourceWeights"] == {"memory": 1.0, "vcore": 1.0}


# REST-1
def test_other_web_sites_may_read_only_with_the_option(
    served: Served, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert not [name for name in served.client.get("/ws/v1/clusters").headers if "allow" in name]
    with Served(tmp_path_factory.mktemp("cors"), "--cors") as other:
        origin = {"Origin": "http://elsewhere.example"}
        answer = other.client.get("/ws/v1/clusters", headers=origin)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "*"
        assert answer.headers["access-control-allow-methods"] == "GET, OPTIONS"
        headers = "X-Requested-With,Content-Type,Accept,Origin"
        assert answer.headers["access-control-allow-headers"] == headers
        answer = other.client.options("/ws/v1/validate-conf", headers=origin)
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-methods"] == "OPTIONS, POST"
        assert "access-control-allow-origin" not in other.client.get("/readyz").headers
        assert other.client.get("/api/v1/nodes", headers=origin).status_code == 403


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("site")
    built = folder / "ui"
    (built / "assets").mkdir(parents=True)
    (built / "index.html").write_text("<title>ui</title>", encoding="utf-8")
    (built / "assets" / "main.js").write_text("1", encoding="utf-8")
    arguments = ("--yunikorn-listen", "127.0.0.1:0", "--yunikorn-ui", str(built))
    with Served(folder, *arguments) as served:
        lines = [line for line in served.lines if "listening on" in line]
        url = lines[-1].rpartition("listening on ")[2].split()[0]
        assert len(lines) == 2
        with Served.client_of(url) as client:
            yield client


# REST-25
def test_it_serves_the_built_folder(client: httpx.Client) -> None:
    policy = "default-src 'self'; style-src 'self' 'unsafe-inline'; script-src-attr 'unsafe-inline'"
    answer = client.get("/")
    assert (answer.status_code, answer.text) == (200, "<title>ui</title>")
    assert answer.headers["content-security-policy"] == policy
    script = client.get("/assets/main.js")
    assert "javascript" in script.headers["content-type"]
    assert client.get("/missing.js").status_code == 404
    assert client.get("/%2e%2e/queues.yaml").status_code == 404


# REST-25
def test_it_serves_the_end_points(client: httpx.Client) -> None:
    assert client.get("/ws/v1/partitions").json()[0]["name"] == "default"
    assert client.get("/api/v1/nodes").status_code == 404
    assert client.get("/ws/v1/nonsense").text == "404 page not found\n"


# REST-25
def test_it_checks_under_which_name_it_is_asked(client: httpx.Client) -> None:
    answer = client.get("/ws/v1/partitions", headers={"Host": "elsewhere.example"})
    assert answer.status_code == 421


# REST-25
def test_with_tokens_it_needs_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tokens")
    tokens = folder / "tokens"
    tokens.write_text("", encoding="utf-8")
    tokens.chmod(0o600)
    with Served(folder, "--tokens", str(tokens)) as served:
        answer = served.client.get("/ws/v1/partitions")
        assert answer.status_code == 401
        assert answer.json()["StatusCode"] == 401
        assert "www-authenticate" in answer.headers
