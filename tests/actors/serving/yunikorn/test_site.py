"""The port of its own, with YuniKorn's web UI."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.actors.serving.served import Served


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
