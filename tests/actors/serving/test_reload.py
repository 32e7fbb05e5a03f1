"""Files are read again at SIGHUP, or when they have changed; what is refused changes nothing."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Thread
from typing import Final
from urllib.parse import urlsplit

import httpx
import pytest

from tests.actors.serving.served import CONFIG, PATIENCE_S, Served, until
from tests.actors.serving.test_listening import Authority, authority

__all__ = ["authority"]

MORE: Final = CONFIG + "          - {name: more}\n"
WRONG: Final = CONFIG + "          - {name: prod}\n          - {name: x, colour: red}\n"


def line_of(name: str, role: str, secret: str) -> str:
    return f"{name} {role} - - {sha256(secret.encode()).hexdigest()}\n"


def can_add_to(served: Served, queue: str, name: str) -> bool:
    """Return whether an application can be added to a queue."""
    event = {"op": "add_app", "app": name, "queue": queue}
    headers = {"Authorization": "Bearer admin-secret"}
    (result,) = served.client.post("/api/v1/events", json=[event], headers=headers).json()
    return bool(result["ok"])


def reload(served: Served, pattern: str) -> None:
    served.process.send_signal(signal.SIGHUP)
    served.line(pattern)


def problems(served: Served) -> dict[str, list[str]]:
    response = served.client.get("/healthz")
    assert response.status_code == 200
    found: dict[str, list[str]] = response.json()["problems"]
    return found


# ACCESS-16: the configuration


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "queues.yaml"


def test_a_new_configuration_is_in_force(tmp_path: Path, config: Path) -> None:
    with Served(tmp_path, "--state", str(tmp_path / "state")) as served:
        assert not can_add_to(served, "root.more", "a")
        reload(served, "configuration: read again: nothing has changed")
        config.write_text(MORE, encoding="utf-8")
        reload(served, "configuration: read again: in force")
        assert can_add_to(served, "root.more", "a")
        assert problems(served) == {}


def test_a_wrong_configuration_changes_nothing(tmp_path: Path, config: Path) -> None:
    with Served(tmp_path) as served:
        config.write_text(WRONG, encoding="utf-8")
        reload(served, "error configuration: refused; the one before stays in force: .*prod")
        served.line("error configuration: refused; the one before stays in force: .*colour")
        found = problems(served)["configuration"]
        assert len(found) == 2
        assert any("colour" in one for one in found)
        assert can_add_to(served, "root.prod", "a")
        config.unlink()
        reload(served, "queues.yaml: cannot be read: No such file or directory")
        assert len(problems(served)["configuration"]) == 1
        config.write_text(MORE, encoding="utf-8")
        reload(served, "in force")
        assert problems(served) == {}


def test_a_configuration_that_cannot_replace_the_other(tmp_path: Path, config: Path) -> None:
    """It is right by itself, and refused because of what there is."""
    with Served(tmp_path) as served:
        assert can_add_to(served, "root.dev", "a")
        config.write_text(
            CONFIG.replace("{name: dev}", "{name: dev, queues: [{name: x}]}"), "utf-8"
        )
        reload(served, "error configuration: refused; the one before stays in force: ")
        (found,) = problems(served)["configuration"]
        assert "dev" in found
        assert can_add_to(served, "root.dev", "b")


# ACCESS-40, ACCESS-41: what was applied, and the file

APPLIED: Final = CONFIG + "          - {name: applied}\n"


def apply(served: Served, text: str) -> dict[str, object]:
    response = served.client.put(
        "/api/v1/config", content=text, headers={"Content-Type": "application/yaml"}
    )
    assert response.status_code == 200, response.text
    origin: dict[str, object] = response.json()["origin"]
    return origin


def origin(served: Served) -> dict[str, object]:
    found: dict[str, object] = served.client.get("/api/v1/config").json()["origin"]
    return found


def has_queue(served: Served, queue: str) -> bool:
    return served.client.get(f"/api/v1/queues/{queue}").status_code == 200


def test_what_was_applied_outlasts_a_restart_while_the_file_is_the_same(
    tmp_path: Path, config: Path
) -> None:
    state = ("--state", str(tmp_path / "state"))
    with Served(tmp_path, *state) as served:
        found = origin(served)
        assert (found["kind"], found["file"], found["differs"]) == ("file", str(config), False)
        applied = apply(served, APPLIED)
        assert (applied["kind"], applied["differs"]) == ("applied", True)
        assert origin(served) == applied
        reload(served, "configuration: read again: it has not changed; .* stays in force")
    for how in ("end", "kill"):
        with Served(tmp_path, *state) as served:
            lines = served.lines_with("configuration: ")
            assert any(
                re.search(
                    rf"warning configuration: {config} says what it said at .*: the configuration "
                    rf"applied at .* stays in force, and differs in root.applied. .*"
                    rf"muster config apply {config}",
                    line,
                )
                for line in lines
            ), lines
            assert has_queue(served, "root.applied")
            assert origin(served) == applied
            if how == "kill":
                served.kill()


def test_a_file_that_has_changed_replaces_what_was_applied(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with Served(tmp_path, "--state", str(folder)) as served:
        apply(served, APPLIED)
    with Served(tmp_path, "--state", str(folder), config=MORE) as served:
        text = " ".join(served.lines_with("configuration: "))
        assert "has changed, and replaces the configuration applied at 20" in text
        assert "in root.more, root.applied" in text
        assert f"muster config apply {folder / 'replaced-configuration.yaml'}" in text
        assert (has_queue(served, "root.more"), has_queue(served, "root.applied")) == (True, False)
        assert origin(served)["kind"] == "file"
        # What was replaced can be put in force again.
        replaced = folder / "replaced-configuration.yaml"
        assert replaced.stat().st_mode & 0o077 == 0
        apply(served, replaced.read_text("utf-8"))
        assert has_queue(served, "root.applied")


def test_a_file_that_is_read_again_replaces_what_was_applied(tmp_path: Path, config: Path) -> None:
    with Served(tmp_path) as served:
        apply(served, APPLIED)
        config.write_text(MORE, encoding="utf-8")
        reload(served, f"warning configuration: {config} has changed, and replaces .*root.applied$")
        served.line("configuration: read again: in force; it changed root.more, root.applied$")
        assert (has_queue(served, "root.more"), has_queue(served, "root.applied")) == (True, False)


def test_a_file_that_changed_while_nothing_was_applied(tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"))
    with Served(tmp_path, *state):
        pass
    with Served(tmp_path, *state, config=MORE) as served:
        (line,) = served.lines_with("configuration: ")
        assert line.endswith("queues.yaml: in force; it changed root.more")
        assert has_queue(served, "root.more")


def test_a_configuration_that_is_not_from_a_file(tmp_path: Path) -> None:
    with Served(tmp_path, config=None) as served:
        assert origin(served) == {"kind": "default", "since": None, "file": None, "differs": False}
        applied = apply(served, APPLIED)
        assert (applied["kind"], applied["file"], applied["differs"]) == ("applied", None, False)
        # It can be sent back as it is.
        whole = served.client.get("/api/v1/config").text
        response = served.client.put("/api/v1/config", content=whole)
        assert response.json()["difference"] == {"partition": [], "queues": []}


# ACCESS-42
def test_apply_warns_of_the_file(tmp_path: Path, config: Path) -> None:
    new = tmp_path / "new.yaml"
    new.write_text(APPLIED, encoding="utf-8")
    with Served(tmp_path) as served:
        page = served.client.get("/config").text
        assert "In force as read from" in page
        assert "says something else" not in page
        assert f"What you apply holds until <code>{config}</code> changes" in page
        command = [sys.executable, "-m", "muster", "config", "apply", str(new)]
        done = subprocess.run(
            [*command, "--server", served.urls[0]], capture_output=True, text=True, check=True
        )
        assert f"the service was started with {config}, which says something else" in " ".join(
            done.stderr.split()
        )
        page = served.client.get("/config").text
        assert "In force as applied" in page
        assert f"<code>{config}</code> says something else" in page


# ACCESS-4: tokens


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(
        line_of("admin", "admin", "admin-secret") + line_of("old", "reader", "old-secret"), "utf-8"
    )
    return path


def status_of(client: httpx.Client, secret: str) -> int:
    headers = {"Authorization": f"Bearer {secret}"}
    return client.get("/api/v1/decisions", headers=headers).status_code


def test_a_token_that_is_taken_back(tmp_path: Path, tokens: Path) -> None:
    with Served(tmp_path, "--tokens", str(tokens)) as served:
        assert status_of(served.client, "old-secret") == 200
        assert status_of(served.client, "new-secret") == 401
        parts: list[bytes] = []
        thread = Thread(target=follow, args=(served.urls[0], "old-secret", parts))
        other: list[bytes] = []
        staying = Thread(target=follow, args=(served.urls[0], "admin-secret", other))
        thread.start()
        staying.start()
        until(lambda: bool(parts and other))
        tokens.write_text(
            line_of("admin", "admin", "admin-secret") + line_of("new", "reader", "new-secret"),
            encoding="utf-8",
        )
        reload(served, "tokens: read again: in force: 2, answers under way that were ended: 1")
        # On a connection that is open, and on a stream.
        assert status_of(served.client, "old-secret") == 401
        assert status_of(served.client, "new-secret") == 200
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert staying.is_alive()
    staying.join(PATIENCE_S)


def follow(url: str, secret: str, parts: list[bytes]) -> None:
    headers = {"Accept": "text/event-stream", "Authorization": f"Bearer {secret}"}
    with (
        Served.client_of(url) as client,
        client.stream("GET", "/api/v1/decisions", headers=headers) as response,
        suppress(httpx.RemoteProtocolError),
    ):
        parts.extend(response.iter_raw())


def test_another_role(tmp_path: Path, tokens: Path) -> None:
    with Served(tmp_path, "--tokens", str(tokens)) as served:
        tokens.write_text(line_of("admin", "reader", "admin-secret"), "utf-8")
        reload(served, "tokens: read again: in force: 1$")
        headers = {"Authorization": "Bearer admin-secret"}
        response = served.client.post("/api/v1/events", json=[], headers=headers)
        assert response.status_code == 403


def test_wrong_tokens_change_nothing(tmp_path: Path, tokens: Path) -> None:
    with Served(tmp_path, "--tokens", str(tokens)) as served:
        tokens.write_text("nonsense", encoding="utf-8")
        reload(
            served, "error tokens: refused; the one before stays in force: .*tokens:1: has 1 words"
        )
        assert status_of(served.client, "old-secret") == 200
        assert list(problems(served)) == ["tokens"]


# ACCESS-16: without a signal


def test_files_are_watched(tmp_path: Path, config: Path, tokens: Path) -> None:
    with Served(tmp_path, "--tokens", str(tokens), "--watch") as served:
        config.write_text(MORE, encoding="utf-8")
        served.line("configuration: read again: in force")
        assert can_add_to(served, "root.more", "a")
        new = tokens.with_name("new")
        new.write_text(line_of("admin", "admin", "admin-secret"), encoding="utf-8")
        new.replace(tokens)
        served.line("tokens: read again: in force: 1$")
        assert status_of(served.client, "old-secret") == 401
        config.write_text(WRONG, encoding="utf-8")
        served.line("error configuration: refused")
        config.write_text(CONFIG, encoding="utf-8")
        served.line("configuration: read again: in force")
        assert problems(served) == {}


# ACCESS-14: the certificate


def certificate_of(url: str, root: str) -> object:
    """Return the number of the certificate that a server shows."""
    parts = urlsplit(url)
    content = ssl.get_server_certificate((str(parts.hostname), int(parts.port or 0)), ca_certs=root)
    return ssl.PEM_cert_to_DER_cert(content)


@pytest.fixture
def secure(tmp_path: Path, authority: Authority) -> Iterator[Served]:
    with Served(tmp_path, *authority.arguments, verify=authority.root) as served:
        yield served


def test_a_new_certificate(secure: Served, authority: Authority) -> None:
    before = certificate_of(secure.urls[0], authority.root)
    authority.issue()
    reload(secure, "certificate: read again: new connections get it")
    assert certificate_of(secure.urls[0], authority.root) != before
    (authority.folder / "key.pem").write_text("nonsense", encoding="utf-8")
    reload(secure, "error certificate: refused; the one before stays in force: TLS: ")
    assert secure.client.get("/healthz").json()["problems"].keys() == {"certificate"}
    authority.issue()
